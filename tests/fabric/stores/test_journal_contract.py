"""Every journal store keeps its contract (fabric/runtime/ports/journal.py): all three are asked."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.events.envelope import verify_chain
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import origin_from
from fabric.runtime.ports.journal import BatchFate, Document, Head, InputWithdrawn
from fabric.stores.errors import RunMissing, StartStopped
from tests.fabric.stores.journal_worlds import Journal, new_run

LEASE_S = 3600.0
ROUNDS = 40


def an_act():
    """An audit line of its own."""
    return AuditEntry(entry_id=uuid4().hex, actor="ana", act=Act.DECISION_HASTENED, subject="run")


def owned(world, *, name="host-1", runs=1, **changed):
    """Runs that ``name`` owns, with the journal of each."""
    world.store.register(name, lease_s=LEASE_S)
    for _ in range(runs):
        world.store.create(new_run(**changed))
    return [Journal(run.run_id, run.fence) for run in world.store.claim(name, limit=1000, queues=["default"])]


# -- create ------------------------------------------------------------------------------------------------------------


def test_a_run_is_created_with_its_first_input_its_documents_and_its_labels(world):
    origin = origin_from("PDF", b"file", "Grüße, 世界", ("no text on page 4",)).as_json()
    documents = (Document("b.md", "second"), Document("a.md", "Grüße, 世界", origin))
    labels = (("site", "Grüße, 世界"), ("team", "ops"))
    run = new_run(tier=Tier.HIGH_STAKES, seed=2**62, documents=documents, labels=labels, trace_context="b\n01\n\n")
    assert world.store.create(run) == (run.run_id, True)
    world.store.register("host-1", lease_s=LEASE_S)
    (claimed,) = world.store.claim("host-1", limit=5, queues=["default"])
    assert (claimed.run_id, claimed.fence, claimed.revision_id, claimed.trace_id) == (
        run.run_id,
        1,
        run.revision_id,
        run.trace_id,
    )
    assert claimed.trace_context == "b\n01\n\n"
    assert (claimed.seed, claimed.tier, claimed.rows, claimed.taken_over) == (2**62, Tier.HIGH_STAKES, (), False)
    assert [(item.run_id, item.input_id, item.body) for item in claimed.inbox] == [
        (run.run_id, "start", run.input_body)
    ]
    assert world.store.documents(run.run_id) == documents
    assert world.labels(run.run_id) == labels
    assert world.state(run.run_id) == ("queued", 0)


def test_the_same_start_key_is_the_same_run(world):
    first = new_run(start_key="order-17")
    assert world.store.create(first) == (first.run_id, True)
    assert world.store.create(new_run(start_key="order-17")) == (first.run_id, False)
    other = new_run(start_key="order-17", workspace_id="workspace-2")
    assert world.store.create(other) == (other.run_id, True)


def test_runs_without_a_start_key_are_all_different(world):
    runs = [new_run() for _ in range(3)]
    assert [world.store.create(run) for run in runs] == [(run.run_id, True) for run in runs]
    assert world.store.create(runs[0]) == (runs[0].run_id, False)


def test_many_at_once_with_one_start_key_make_one_run(world):
    runs = [new_run(start_key="once") for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(world.store.create, runs))
    assert sum(created for _, created in made) == 1
    assert len({run_id for run_id, _ in made}) == 1


STOP = """
INSERT INTO fabric_start_stop (id, workspace_id, fabric_id, stopped_by, stopped_at, reason, until_at, running, left_by)
VALUES ('stop-1', 'workspace-1', {fabric}, 'ana', 1, 'Why.', {until}, 'finish', 'ana')
"""


@pytest.mark.parametrize("fabric", ["NULL", "'fabric-1'"])
def test_while_new_runs_are_stopped_a_run_is_not_inserted_but_found(world, fabric):
    if not hasattr(world, "ask"):
        return  # No one stops runs in memory: the simulator's world has no operators.
    first = new_run(start_key="order-17")
    world.store.create(first)
    world.ask(STOP.format(fabric=fabric, until="NULL"))
    with pytest.raises(StartStopped):
        world.store.create(new_run(), audit=an_act())
    assert world.store.create(new_run(start_key="order-17")) == (first.run_id, False)
    assert world.acts() == []
    world.ask("UPDATE fabric_start_stop SET until_at = 1")
    assert world.store.create(run := new_run()) == (run.run_id, True)


# -- inbox -------------------------------------------------------------------------------------------------------------


def test_an_input_is_there_once(world):
    (journal,) = owned(world)
    assert world.store.put_input(journal.run_id, "decision-1", b"first")
    assert not world.store.put_input(journal.run_id, "decision-1", b"second")
    assert [(item.input_id, item.body) for item in world.store.inbox("host-1")] == [
        ("start", b'{"request":{}}'),
        ("decision-1", b"first"),
    ]


def test_an_act_is_told_with_its_input_or_not_at_all(world):
    (journal,) = owned(world)
    act = AuditEntry(entry_id="act-1", actor="ana", via="token:t", act=Act.CANCEL_SENT, subject=journal.run_id)
    assert world.store.put_input(journal.run_id, "cancel", b"first", audit=act)
    assert not world.store.put_input(journal.run_id, "cancel", b"second", audit=replace(act, entry_id="act-2"))
    with pytest.raises(RunMissing):
        world.store.put_input("nowhere", "cancel", b"", audit=replace(act, entry_id="act-3"))
    assert world.acts() == [("act-1", "ana", "token:t", "cancel_sent", journal.run_id, b"{}")]


def test_a_run_is_inserted_together_with_its_line_of_the_audit_stream_and_once(world):
    run = new_run(start_key="order-1")
    act = AuditEntry(entry_id="act-1", actor="ana", via="", act=Act.RUN_STARTED, subject=run.run_id)
    assert world.store.create(run, audit=act) == (run.run_id, True)
    again = replace(new_run(start_key="order-1"), workspace_id=run.workspace_id)
    assert world.store.create(again, audit=replace(act, entry_id="act-2")) == (run.run_id, False)
    assert world.acts() == [("act-1", "ana", "", "run_started", run.run_id, b"{}")]


def test_an_input_for_a_run_that_is_not_there_is_refused_with_its_name(world):
    with pytest.raises(RunMissing, match="no run 'nowhere'"):
        world.store.put_input("nowhere", "decision-1", b"")


def test_an_input_is_consumed_exactly_once(world):
    (journal,) = owned(world)
    assert world.store.write([journal.batch(consumed=("start",))]) == [BatchFate.COMMITTED]
    assert world.store.inbox("host-1") == []
    again = journal.rival(1)
    assert world.store.write([again.batch(consumed=("start",))]) == [BatchFate.INPUT_GONE]
    assert not world.store.put_input(journal.run_id, "start", b"again")
    assert len(world.store.journal(journal.run_id)) == 1


def test_a_withdrawn_input_refuses_the_batch_and_only_that_one(world):
    first, second = owned(world, runs=2)
    world.store.put_input(first.run_id, "decision-1", b"")
    assert world.store.withdraw_input(first.run_id, "decision-1") is InputWithdrawn.GONE
    assert world.store.withdraw_input(first.run_id, "decision-1") is InputWithdrawn.UNKNOWN
    batches = [first.batch(consumed=("start", "decision-1")), second.batch(consumed=("start",))]
    assert world.store.write(batches) == [BatchFate.INPUT_GONE, BatchFate.COMMITTED]
    assert world.store.journal(first.run_id) == []
    assert {(item.run_id, item.input_id) for item in world.store.inbox("host-1")} == {(first.run_id, "start")}


def test_the_id_of_a_withdrawn_input_is_not_free_for_another(world):
    """An owner that was told of the first, and takes it at its time, must not take the second for it."""
    (journal,) = owned(world)
    world.store.put_input(journal.run_id, "decision-1", b"first", delay_s=30)
    assert world.store.withdraw_input(journal.run_id, "decision-1", audit=an_act()) is InputWithdrawn.GONE
    assert world.store.put_input(journal.run_id, "decision-1", b"second", delay_s=30) is False
    world.pass_time(31)
    assert [item.input_id for item in world.store.inbox("host-1")] == ["start"]
    assert world.store.write([journal.batch(consumed=("decision-1",))]) == [BatchFate.INPUT_GONE]
    assert world.store.withdraw_input(journal.run_id, "decision-1", audit=an_act()) is InputWithdrawn.UNKNOWN
    assert len(world.acts()) == 1, "what changed nothing is not told"


def test_of_taking_back_and_taking_exactly_one_is_first(world):
    (journal,) = owned(world)
    other = world.another()
    for number in range(ROUNDS):
        name, both = f"decision-{number}", Barrier(2)
        world.store.put_input(journal.run_id, name, b"")
        batch = journal.batch(0, consumed=(name,))

        def take_back(name=name, both=both):
            both.wait(60)
            return other.withdraw_input(journal.run_id, name)

        def take(batch=batch, both=both):
            both.wait(60)
            return world.store.write([batch])

        with ThreadPoolExecutor(2) as pool:
            back, (fate,) = (done.result() for done in (pool.submit(take_back), pool.submit(take)))
        assert (back, fate) in {
            (InputWithdrawn.GONE, BatchFate.INPUT_GONE),
            (InputWithdrawn.TOO_LATE, BatchFate.COMMITTED),
        }


def test_an_input_is_hastened_while_its_time_is_yet_to_come(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    world.store.put_input(journal.run_id, "decision-1", b"", delay_s=60)
    assert world.store.hasten_input(journal.run_id, "decision-1", audit=an_act()) is True
    assert world.store.hasten_input(journal.run_id, "decision-1", audit=an_act()) is False
    assert world.store.hasten_input(journal.run_id, "nothing", audit=an_act()) is False
    assert world.store.next_due_s() <= 0
    (claimed,) = world.store.claim("host-1", limit=5, queues=["default"])
    assert [item.input_id for item in claimed.inbox] == ["decision-1"]
    assert [act[3] for act in world.acts()] == [Act.DECISION_HASTENED.value]


def test_what_was_withdrawn_or_consumed_is_not_hastened(world):
    (journal,) = owned(world)
    for name in ("decision-1", "decision-2"):
        world.store.put_input(journal.run_id, name, b"", delay_s=60)
    world.store.withdraw_input(journal.run_id, "decision-1")
    world.store.write([journal.batch(consumed=("decision-2",))])
    for name in ("decision-1", "decision-2"):
        assert world.store.hasten_input(journal.run_id, name, audit=an_act()) is False
    assert world.acts() == []


def test_a_consumed_input_cannot_be_withdrawn(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",))])
    assert world.store.withdraw_input(journal.run_id, "start") is InputWithdrawn.TOO_LATE


def test_a_delayed_input_is_seen_when_its_time_has_come(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    world.store.put_input(journal.run_id, "decision-1", b"", delay_s=60)
    assert world.store.claim("host-1", limit=5, queues=["default"]) == []
    assert 50 < world.store.next_due_s() <= 60
    world.pass_time(61)
    assert world.store.next_due_s() <= 0
    (claimed,) = world.store.claim("host-1", limit=5, queues=["default"])
    assert [item.input_id for item in claimed.inbox] == ["decision-1"]


def test_an_owner_sees_only_its_own_visible_inputs(world):
    (journal,) = owned(world)
    (other,) = owned(world, name="host-2")
    world.store.put_input(journal.run_id, "later", b"", delay_s=90)
    world.store.put_input(journal.run_id, "now", b"")
    assert [item.input_id for item in world.store.inbox("host-1")] == ["start", "now"]
    assert [item.run_id for item in world.store.inbox("host-2")] == [other.run_id]


# -- reads -------------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back_byte_for_byte(world):
    (journal,) = owned(world)
    contents = [None, b"{}", '{"text":"Grüße, 世界 \\u0000"}'.encode(), b'"' + b"x" * 300_000 + b'"']
    world.store.write([journal.batch(content=contents[0])])
    for content in contents[1:]:
        world.store.write([journal.batch(content=content)])
    read = world.store.journal(journal.run_id)
    assert [row.payload for row in read] == contents
    names = ("seq", "kind", "version", "header", "payload", "payload_hash", "hash")
    assert [[getattr(row, name) for name in names] for row in read] == [
        [getattr(row, name) for name in names] for row in journal.written
    ]
    assert all(type(row.header) is bytes and type(row.hash) is bytes for row in read)
    chain = [(row.seq, row.kind, row.version, row.header, row.payload_hash, row.hash) for row in read]
    assert verify_chain(chain, ZERO_HASH) is None


def test_a_journal_is_read_in_pages(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(10)])
    assert [row.seq for row in world.store.journal(journal.run_id, limit=4)] == [1, 2, 3, 4]
    assert [row.seq for row in world.store.journal(journal.run_id, after=4, limit=4)] == [5, 6, 7, 8]
    assert [row.seq for row in world.store.journal(journal.run_id, after=8)] == [9, 10]
    assert world.store.journal(journal.run_id, after=10) == []
    assert world.store.journal("nowhere") == []


def test_heads_tell_where_runs_stand(world):
    first, second = owned(world, runs=2)
    world.store.write([first.batch(2)])
    assert world.store.heads([first.run_id, second.run_id, "nowhere"]) == {
        first.run_id: Head(1, 2, first.head),
        second.run_id: Head(1, 0, ZERO_HASH),
    }


def test_two_stores_on_one_database_see_each_other(world):
    (journal,) = owned(world)
    other = world.another()
    other.put_input(journal.run_id, "decision-1", b"")
    assert [item.input_id for item in world.store.inbox("host-1")] == ["start", "decision-1"]
    world.store.write([journal.batch(consumed=("start",))])
    assert len(other.journal(journal.run_id)) == 1


def test_a_new_run_is_due_now(world):
    assert world.store.next_due_s() is None
    world.store.create(new_run())
    assert world.store.next_due_s() <= 0
