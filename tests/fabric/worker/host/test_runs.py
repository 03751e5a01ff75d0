"""A host drives runs: what it commits and when, what it asks and when, how it waits."""

import json
import threading

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import INBOX
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.journal import Document
from tests.benchmarks.throughput.answers import STEPS
from tests.fabric.worker.host.scenes import (
    WAIT_S,
    Site,
    Watched,
    WatchedSqlite,
    cancel,
    decision,
    doubtful,
    overloaded_once,
    policy,
    said,
    settled,
)


@pytest.fixture(params=["memory", "sqlite"])
def site(request, tmp_path, sqlite_template):
    if request.param == "memory":
        store = Watched()
    else:
        path = tmp_path / "journal.sqlite3"
        path.write_bytes(sqlite_template.read_bytes())
        store = WatchedSqlite(path)
    made = Site(store)
    yield made
    made.close()


@pytest.fixture
def watched():
    made = Site(Watched())
    yield made
    made.close()


def test_a_run_completes_in_at_most_eight_commits(site):
    agents = site.agents()
    host = site.host(agents)
    before = site.store.commits
    run_id = site.create()
    host.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert len(agents.ledger) == STEPS
    assert all(asked.intended for asked in agents.ledger)
    # Creation, claim, and one for each turn in which something became ready: started, planned, merged, judged, finalized, ended.
    assert site.store.commits - before <= STEPS
    assert len(site.kinds(run_id)) <= 28
    assert (host.counters.claimed, host.counters.released, host.counters.refused, host.counters.faults) == (1, 1, 0, 0)
    assert host.owned == {}


def test_answers_that_came_in_one_turn_are_one_commit(watched):
    agents = watched.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = watched.host(agents)
    run_id = watched.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    while not watched.store.done.empty():
        watched.store.done.get()
    loop = parked[0].loop
    loop.call_soon_threadsafe(lambda: [one.go_on.set_result(None) for one in parked])
    watched.until_released(run_id)
    batch, _ = watched.store.done.get()[0]
    assert [row.kind for row in split_rows(batch.rows)].count("model_answered") == 4
    assert [row.kind for row in split_rows(batch.rows)][
        -1
    ] == "call_issued"  # What comes of all four together goes out with them.


def test_what_comes_while_a_batch_is_written_is_one_batch_after_it(watched):
    agents = watched.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = watched.host(agents)
    run_id = watched.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    while not watched.store.begun.empty():
        watched.store.begun.get()
    watched.store.open.clear()
    parked[0].answer()
    (first,) = watched.store.begun.get(timeout=WAIT_S)
    for one in parked[1:]:
        one.answer()
        assert one.ended.wait(WAIT_S)
    settled(host)
    watched.store.open.set()
    (second,) = watched.store.begun.get(timeout=WAIT_S)
    assert [row.kind for row in split_rows(first.rows)].count("model_answered") == 1
    assert [row.kind for row in split_rows(second.rows)].count("model_answered") == 3
    assert second.last_seq == first.new_seq
    watched.until_released(run_id)
    assert watched.outcome(run_id) == "completed"


def test_nothing_is_performed_before_its_intent_has_committed(watched):
    agents = watched.agents()
    host = watched.host(agents)
    permits = watched.store.permits = threading.Semaphore(0)
    run_id = watched.create()
    host.offer(run_id)
    issued = 0
    while watched.outcome(run_id) == "":
        batches = watched.store.begun.get(timeout=WAIT_S)
        settled(host)
        assert (
            len(agents.ledger) == issued
        )  # This commit is under way, and as long as it is, no run is asked what it intends.
        issued += [row.kind for batch in batches for row in split_rows(batch.rows)].count("call_issued")
        permits.release()
        watched.store.done.get(timeout=WAIT_S)
    watched.until_released(run_id)
    assert issued == len(agents.ledger) == STEPS
    assert all(asked.intended for asked in agents.ledger)


def test_a_fenced_run_is_let_go_without_another_write(watched):
    agents = watched.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = watched.host(agents)
    run_id = watched.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    watched.store.tables.incarnations[host.lease.name].lease_until = 0  # It stood still for longer than its lease.
    (taken,) = watched.claim()
    settled(host)
    while not watched.store.done.empty():
        watched.store.done.get()
    parked[0].answer()
    watched.until_released(run_id)
    assert [fate for _, fate in watched.store.done.get(timeout=WAIT_S)] == ["fenced"]
    for one in parked:
        assert one.ended.wait(WAIT_S)
    assert len(agents.aborted) == 3  # The other calls are let go of as well.
    settled(host)
    host.stop(5.0)
    assert watched.store.done.empty()
    assert watched.store.read_standing(run_id)[:2] == ("rival", taken.fence)
    assert len(watched.store.journal(run_id)) == len(taken.rows)
    assert (host.counters.refused, host.counters.faults, host.owned) == (1, 0, {})
    assert host.counters.stale_refused == 1
    assert watched.store.tables.incarnations[host.lease.name].refused_writes == 1


def test_a_cancelled_run_s_calls_are_aborted(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    assert site.store.put_input(run_id, "cancel", cancel())
    host.offer(run_id)
    site.until_released(run_id)
    for one in parked:
        assert one.ended.wait(WAIT_S)
    assert sorted(agents.aborted) == sorted((run_id, one.request.command_id, 1) for one in parked)
    assert site.outcome(run_id) == "cancelled"
    assert len(agents.ledger) == 5


def test_a_run_that_waits_for_a_person_is_released_and_goes_on_after_the_decision(site):
    agents = site.agents(doubtful)
    host = site.host(agents)
    before = threading.active_count()
    run_id = site.create()
    host.offer(run_id)
    site.until_released(run_id)
    assert host.owned == {}
    assert not host.calls._tasks
    assert threading.active_count() == before  # It holds nothing: no thread, no memory.
    assert "review_opened" in site.kinds(run_id)
    assert site.outcome(run_id) == ""
    asked = len(agents.ledger)
    decided = decision(site, run_id)
    assert site.store.put_input(run_id, decided.input_id, INBOX.dump_json(decided))
    host.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert len(agents.ledger) == asked + 1  # The finalizer; what was journaled is not asked again.
    assert host.counters.claimed == 2


def test_a_retry_is_sent_when_its_time_has_come(site):
    site.spec = policy(retry={"base_s": 0.05})
    agents = site.agents(overloaded_once)
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert [one.request.attempt for one in agents.ledger[:2]] == [1, 2]
    assert all(asked.intended for asked in agents.ledger)
    assert "attempt_failed" in site.kinds(run_id)


def test_no_more_runs_are_owned_than_allowed_and_the_next_is_claimed_when_one_ends(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "planner"
    host = site.host(agents, max_owned=2)
    runs = [site.create() for _ in range(6)]
    host.offer()
    for _ in range(3):
        two = [agents.next(), agents.next()]
        settled(host)
        assert len(host.owned) == 2
        assert agents.parked.empty()
        for one in two:
            one.answer()
    site.until_released(*runs)
    assert [site.outcome(run_id) for run_id in runs] == ["completed"] * 6


def test_no_more_calls_are_in_flight_than_allowed(site):
    agents = site.agents()
    agents.holds = lambda request: True
    host = site.host(agents, max_inflight_calls=2)
    runs = [site.create() for _ in range(4)]
    host.offer()
    answered = 0
    while answered < 4 * STEPS:
        agents.next().answer()
        answered += 1
    site.until_released(*runs)
    assert [site.outcome(run_id) for run_id in runs] == ["completed"] * 4
    assert host.calls.inflight_peak == 2


def test_offers_are_only_hints(site):
    agents = site.agents()
    host = site.host(agents)
    for hint in ("", "no such run", "no such run"):
        host.offer(hint)
    run_id = site.create()
    for _ in range(5):
        host.offer(run_id)
    site.until_released(run_id)
    host.offer(run_id)  # It has ended.
    settled(host)
    assert site.outcome(run_id) == "completed"
    assert host.counters.claimed == 1


def test_timers_of_runs_that_have_gone_do_not_pile_up(watched):
    agents = watched.agents()
    host = watched.host(agents)
    runs = [watched.create() for _ in range(150)]
    host.offer()
    watched.until_released(*runs)
    settled(host)
    host.offer()
    settled(host)
    assert len(host.hosting.timers) <= 256


def test_a_sweep_finds_runs_without_a_nudge(site):
    agents = site.agents()
    site.host(agents, sweep_s=0.05)
    run_id = site.create()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"


@pytest.mark.parametrize(
    ("quoted", "state"), [("stood at 1,250 crowns", "completed"), ("stood at 9,999 crowns", "failed")]
)
def test_a_claim_reads_the_documents_that_the_gates_hold_answers_against(site, quoted, state):
    """From the store, before the run is decided about; without them the gate could not judge at all."""
    site.spec = type(site.spec).model_validate(site.spec.model_dump() | {"gates": {"grounding": "quotes"}})
    words = json.dumps({"text": f'The balance "{quoted}" then.', "citations": []})
    agents = site.agents(lambda request: said(request, words if request.output == "summary" else ""))
    run_id = site.create(tier=Tier.INTERACTIVE, documents=(Document("ledger.md", "It stood at 1,250 crowns."),))
    site.host(agents).offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == state
    causes = {fact["cause"]["cause"] for fact in site.facts(run_id, "reaction_decided")}
    assert causes == (set() if state == "completed" else {"grounding"})


def test_documents_are_not_read_where_no_gate_asks_for_them(watched):
    read = []
    watched.store.documents = lambda run_id: read.append(run_id) or ()
    run_id = watched.create(documents=(Document("ledger.md", "It stood at 1,250 crowns."),))
    watched.host(watched.agents()).offer(run_id)
    watched.until_released(run_id)
    assert (watched.outcome(run_id), read) == ("completed", [])
