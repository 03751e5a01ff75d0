"""A host lets go of a run that it cannot load, step or write, and of all of them when its lease is lost."""

import threading
from typing import Any

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import INBOX, RunRequested
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.hosting.release import releasing_batch
from fabric.runtime.ports.batch_parts import FamilyCaps, Send, Snapshot
from fabric.runtime.ports.journal import ClaimedRun, Document, InputWithdrawn, StoreUnavailable
from fabric.worker.process.clock import SYSTEM_CLOCK
from tests.benchmarks.throughput.spec import SPEC
from tests.fabric.stores.journal_worlds import Journal, new_run
from tests.fabric.worker.host.clocks import LEASE_S, Beating, Stopwatch, until_new_term
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched, decision, doubtful, said, settled

ODD: Any = ()
"""No bytes at all, which no driver reads: what no store may hand out."""


@pytest.fixture
def site():
    made = Site(Watched())
    yield made
    made.close()


def test_a_damaged_journal_stops_no_other_run_and_nothing_is_done_on_its_word(site, caplog):
    agents = site.agents(doubtful)
    host = site.host(agents, hold_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    while site.store.read_standing(run_id)[0] is not None or not site.store.reviews:
        site.released.get(timeout=WAIT_S)
    rows = site.store.tables.runs[run_id].stored
    rows[3] = replace(rows[3], header=rows[3].header.replace(b"1", b"2", 1))
    spent, asked = site.store.columns(run_id).cost_usd_micros, len(agents.ledger)
    decided = decision(site, run_id)
    assert site.store.put_input(run_id, decided.input_id, INBOX.dump_json(decided))
    host.offer(run_id)
    site.store.until_written(lambda batch, fate: any(row.kind == "run_quarantined" for row in split_rows(batch.rows)))
    assert len(agents.ledger) == asked
    columns = site.store.columns(run_id)
    assert (columns.state, columns.cost_usd_micros) == ("quarantined", spent)
    assert f"its journal is damaged: event {rows[3].seq} " in columns.reason
    assert [row.kind for row in site.store.journal(run_id)[-2:]] == ["run_quarantined", "review_opened"]
    assert f"run {run_id} cannot go on: event {rows[3].seq} (" in caplog.text
    agents._answer = said
    other = site.create()
    host.offer(other)
    while site.outcome(other) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(other) == "completed"


def test_an_error_while_a_batch_is_written_waits_for_its_fate(site):
    agents = site.agents()
    host = site.host(agents, hold_s=0.01)
    site.store.open.clear()
    run_id = site.create()
    host.offer(run_id)
    (first,) = site.store.begun.get(timeout=WAIT_S)
    assert site.store.put_input(run_id, "odd", ODD)
    host.offer(run_id)
    settled(host)
    assert host.owned == {}
    site.store.claim_open.clear()  # No worker claims it before it was looked at.
    site.store.open.set()
    released = site.until_given_back(run_id)
    assert released.last_seq == first.new_seq  # Behind what had been under way, which stands.
    assert [row.kind for row in split_rows(first.rows)] == site.kinds(run_id)
    assert agents.ledger == []  # Its intent is there, its driver is gone.
    site.store.claim_open.set()


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_commit_that_comes_after_its_fate_was_asked_for_loses_no_run(site, before):
    """The connection is cut, the row says that nothing was written, and then it is: what is sent again is refused as another's."""
    agents = site.agents()
    host = site.host(agents, sweep_s=0.05)
    for _ in range(before):
        site.store.fail_next("landed")
    site.store.fail_next("late")
    run_id = site.create()
    host.offer(run_id)
    while site.outcome(run_id) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(run_id) == "completed"
    assert site.kinds(run_id).count("ownership_taken") == 1
    assert all(one.intended for one in agents.ledger)


def test_a_run_whose_every_write_is_refused_is_asked_for_once_a_sweep(site):
    """As one of whose journal the end is missing."""
    host = site.host(site.agents(), hold_s=0.01)
    first, second = site.create(), site.create()
    site.store.torn.add(first)
    host.offer(first)
    site.until_released(second)
    for _ in range(3):
        settled(host)
        host.offer(second)
    assert site.store.read_standing(first)[2] == 1
    assert first in host.hosting.orphans


def test_a_decision_taken_back_at_the_last_moment_loses_nothing_but_a_claim(site):
    agents = site.agents(doubtful)
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    site.until_released(run_id)
    before = site.store.journal(run_id)
    decided = decision(site, run_id)
    site.store.open.clear()
    assert site.store.put_input(run_id, decided.input_id, INBOX.dump_json(decided))
    while not site.store.begun.empty():
        site.store.begun.get()
    host.offer(run_id)
    site.store.begun.get(timeout=WAIT_S)
    assert site.store.withdraw_input(run_id, decided.input_id) is InputWithdrawn.GONE
    site.store.open.set()
    site.until_released(run_id)  # Refused: the input is gone.
    site.until_given_back(run_id)
    site.until_released(run_id)  # Read again, and it waits as before.
    assert site.store.journal(run_id) == before
    assert site.store.read_standing(run_id)[0] is None
    again = replace(decision(site, run_id), input_id="decision-again")  # The id of what was taken back is not free.
    assert site.store.put_input(run_id, again.input_id, INBOX.dump_json(again))
    host.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"


def test_a_lost_lease_lets_everything_go_and_it_is_claimed_again_under_the_new_name(site):
    agents = site.agents()
    agents.holds = lambda asked: asked.attempt == 1 and asked.agent == "planner"
    host = site.host(agents, beat_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    parked, name = agents.next(), host.lease.name
    site.store.retire(name)
    assert parked.ended.wait(WAIT_S)
    assert agents.aborted == [(run_id, parked.request.command_id, 1)]
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert host.lease.name == f"{name}-2"
    assert site.facts(run_id, "ownership_taken")[0]["incarnation"] == f"{name}-2"
    assert host.counters.claimed == 2


def test_an_outage_longer_than_the_lease_loses_no_answer():
    site = Site(Beating())
    site.elapsed = Stopwatch()
    agents = site.agents()
    agents.holds = lambda asked: asked.agent == "planner"
    host = site.host(agents, beat_s=0.01, lease_s=LEASE_S, sweep_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    parked, name = agents.next(), host.lease.name
    for call in ("beat", "inbox", "claim", "write"):
        site.store.fail_next("away", call=call, times=4)
    site.elapsed.s += LEASE_S
    until_new_term(site, host)  # The database is back for its beats, and away four times more for each of the others.
    parked.answer()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert host.counters.claimed == 1
    assert host.lease.name == name
    assert [one.request.attempt for one in agents.ledger] == [1] * 8
    site.close()


def test_a_database_that_is_away_ends_no_loop(site):
    agents = site.agents()
    for call in ("claim", "inbox"):
        site.store.fail_next("away", call=call, times=2)
    host = site.host(agents, sweep_s=0.01)
    run_id = site.create()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert host.counters.faults == 0


def test_nor_does_an_unforeseen_error(site, monkeypatch):
    agents = site.agents()
    host = site.host(agents, sweep_s=0.01)
    claim, raised = site.store.claim, threading.Event()

    def broken(*given, **named):
        raised.set()
        raise KeyError("a bug")

    monkeypatch.setattr(site.store, "claim", broken)
    assert raised.wait(WAIT_S)
    monkeypatch.setattr(site.store, "claim", claim)
    run_id = site.create()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert host.counters.faults >= 1


def reading(spec):
    """The fabric with agents whose prompts hold the documents."""
    agents = [agent.model_dump() | {"inline_document_chars": 100} for agent in spec.agents]
    return FabricSpec.model_validate(spec.model_dump() | {"agents": agents})


def test_documents_that_cannot_be_read_for_now_are_a_failed_attempt_not_a_wrong_configuration(site, monkeypatch):
    agents = site.agents()
    documents, times = site.store.documents, []

    def away_once(run_id):
        times.append(run_id)
        if len(times) == 1:
            raise StoreUnavailable("the database is away")
        return documents(run_id)

    monkeypatch.setattr(site.store, "documents", away_once)
    site.spec = reading(SPEC)
    host = site.host(agents)
    document = Document("notes.md", "The bridge is 40 metres long.")
    asked = RunRequested(
        input_id="start",
        request={"text": "How long?", "documents": [document.name], "document_bytes": [len(document.text)]},
        deadline_at=SYSTEM_CLOCK.now() + 86_400_000_000,
    )
    run_id = site.create(documents=(document,), input_body=INBOX.dump_json(asked))
    host.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    (failed,) = site.facts(run_id, "attempt_failed")
    assert failed["cause"] == "network"
    assert failed["message"] == "the call could not be prepared: the database is away"


def test_two_hosts_never_ask_the_same_attempt(site):
    agents = site.agents()
    agents.holds = lambda asked: asked.agent == "planner"
    runs = [site.create() for _ in range(20)]
    hosts = [site.host(agents, sweep_s=0.01, max_owned=3) for _ in range(2)]
    parked = [agents.next() for _ in range(6)]  # Three of each.
    agents.holds = lambda asked: False
    for one in parked:
        one.answer()
    site.until_released(*runs)
    keys = [one.key for one in agents.ledger]
    assert len(keys) == len(set(keys)) == 8 * 20
    assert all(host.counters.claimed >= 3 for host in hosts)


def test_what_is_given_back_brings_nothing_for_other_runs_again():
    (journal, child) = (Journal("run-1"), new_run(run_id="run-2"))
    taken = Snapshot(seq=1, digest="d", head=b"", state=b"")
    sends = (Send(run_id="run-3", input_id="answer", body=b""),)
    durable = journal.batch(children=(child,), caps=FamilyCaps(alive=1, spawned=1), sends=sends, snapshot=taken)
    batch = releasing_batch(ClaimedRun("run-1", 1, "r", "t", 7, Tier.BATCH, (), (), False), durable, 5)
    assert (batch.children, batch.sends, batch.snapshot, batch.rows) == ((), (), None, ())
    assert (batch.last_seq, batch.release, batch.wake_at) == (1, True, 5)
