"""Every journal store keeps its contract about reservations and settlements that come with batches."""

import pytest

from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.runtime.ports.journal import BatchFate
from tests.fabric.stores.grant_worlds import FABRIC, reserving, settling
from tests.fabric.stores.journal_worlds import WORKSPACE, Journal, columns, new_run

COMMITTED, GONE = BatchFate.COMMITTED, BatchFate.GRANT_GONE


@pytest.fixture
def till(shared):
    """Two runs of one live host, which holds a grant of 400 out of a cap of 1,000."""
    shared.live("host-1")
    shared.cap(1_000)
    shared.grants.take("host-1", FABRIC, grant_id="grant-1", enough=400, chunk=400)
    return shared


def owned(shared, runs=1, **changed):
    store = shared.journal.store
    for _ in range(runs):
        store.create(new_run(**changed))
    claims = store.claim("host-1", limit=10, queues=["default"])
    return [Journal(claimed.run_id, claimed.fence) for claimed in claims]


def held(shared, grant_id="grant-1"):
    return [
        (one.command_id, one.usd_micros, one.settled, one.reason) for one in shared.grants.list_reservations(grant_id)
    ]


def write(shared, *batches):
    return shared.journal.store.write(batches)


def test_a_batch_brings_its_reservations(till):
    (run,) = owned(till)
    one = reserving("grant-1", 100, run=run.run_id)
    assert write(till, run.batch(reserved=(one,))) == [COMMITTED]
    assert held(till) == [("call-1", 100, None, "")]


def test_a_batch_settles_what_was_reserved_before_and_what_it_reserves_itself(till):
    (run,) = owned(till)
    first, second = (reserving("grant-1", 100, run=run.run_id, command=name) for name in ("a", "b"))
    assert write(till, run.batch(reserved=(first,))) == [COMMITTED]
    settled = settling(30, run=run.run_id, command="a"), settling(None, run=run.run_id, command="b")
    assert write(till, run.batch(reserved=(second,), settled=settled)) == [COMMITTED]
    assert held(till) == [("a", 100, 30, "answered"), ("b", 100, 100, "answered")]
    assert till.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert till.stands() == (130, 0, 0)


def test_a_batch_that_reserves_from_a_grant_that_is_not_open_drops_out_alone(till):
    first, second, third = owned(till, runs=3)
    till.grants.take("host-1", FABRIC, grant_id="grant-2", enough=100, chunk=100)
    till.grants.close("host-1", ["grant-2"])
    batches = (
        first.batch(reserved=(reserving("grant-2", 10, run=first.run_id),)),
        second.batch(reserved=(reserving("grant-1", 10, run=second.run_id),)),
        third.batch(reserved=(reserving("nobody's", 10, run=third.run_id),)),
    )
    assert write(till, *batches) == [GONE, COMMITTED, GONE]
    assert len(held(till)) == 1
    assert till.journal.store.journal(first.run_id) == []
    assert till.journal.store.heads([first.run_id])[first.run_id].last_seq == 0


def test_a_fenced_batch_reserves_and_settles_nothing(till):
    (run,) = owned(till)
    one = reserving("grant-1", 100, run=run.run_id)
    fenced = replace(run.batch(reserved=(one,)), fence=run.fence + 7)
    assert write(till, fenced) == [BatchFate.FENCED]
    assert held(till) == []
    gone = replace(fenced, reserved=(reserving("nobody's", 1, run=run.run_id),))
    assert write(till, gone) == [BatchFate.FENCED]


def test_an_input_that_is_gone_is_told_before_a_grant(till):
    (run,) = owned(till)
    both = run.batch(reserved=(reserving("nobody's", 1, run=run.run_id),), consumed=("never",))
    assert write(till, both) == [BatchFate.INPUT_GONE]


def test_a_claim_says_what_a_run_shares(till):
    store = till.journal.store
    store.create(new_run(session_key="s"))
    (claimed,) = store.claim("host-1", limit=1, queues=["default"])
    assert (claimed.workspace_id, claimed.session_key, claimed.capped) == (WORKSPACE, "s", False)
    assert claimed.fabric_id
    till.cap(5, f"workspace:{WORKSPACE}")
    store.create(new_run())
    (claimed,) = store.claim("host-1", limit=1, queues=["default"])
    assert (claimed.session_key, claimed.capped) == ("", True)


def test_batches_without_grants_cost_no_statement_more(till):
    """Beside others that have some, and alone."""
    store = till.journal.store
    first, second = owned(till, runs=2)
    before = store.statements
    write(till, first.batch(columns=columns(RunState.RUNNING)))
    plain = store.statements - before
    before = store.statements
    write(till, second.batch(reserved=(reserving("grant-1", 10, run=second.run_id),)))
    reserved = store.statements - before
    assert (reserved - plain) in (
        0,
        2,
    )  # One statement on a server; on a file a look and a row, in the same transaction.
