"""Stopping a host: what is under way is let finish, everything is given back, and nothing is written after."""

import threading

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import CallFailed
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.journal import BatchFate
from tests.fabric.stores.journal_worlds import REVISION
from tests.fabric.worker.host.scenes import (
    WAIT_S,
    Site,
    Watched,
    WatchedSqlite,
    cancel,
    own_threads,
    policy,
    reported,
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
    assert own_threads() == []


def stopping(host, grace_s=WAIT_S):
    """Stops the host on another thread; returns when it has begun to."""
    thread = threading.Thread(target=host.stop, args=(grace_s,))
    thread.start()
    while not host.hosting.stopping:
        reported(host)
    return thread


def overloaded(request):
    """A provider that asks the planner to be left alone for half a minute."""
    if request.agent == "planner" and request.attempt == 1:
        return CallFailed(
            command_id=request.command_id,
            attempt=request.attempt,
            cause=Cause.SERVER_ERROR,
            message="the provider is overloaded",
            status=503,
            retry_after_s=30,
        )
    return said(request)


def flushed(site):
    """Forgets what was written until now."""
    while not site.store.done.empty():
        site.store.done.get()


def given_back(run_id):
    return lambda batch, fate: (
        batch.run_id == run_id and batch.release and not batch.rows and fate is BatchFate.COMMITTED
    )


def test_a_host_without_runs_stops_at_once_and_leaves_no_thread(site):
    host = site.host(site.agents())
    host.stop()
    assert own_threads() == []
    run_id = site.create()
    assert site.store.claim(host.lease.name, limit=10, queues=["default"]) == []  # It was retired.
    assert [claimed.run_id for claimed in site.claim()] == [run_id]


def test_a_call_that_is_out_is_let_finish_and_nothing_new_is_asked(site):
    site.spec = policy(retry={"base_s": 60.0})
    agents = site.agents(overloaded)
    agents.holds = lambda request: request.attempt == 1 and request.agent == "planner" and agents.ledger[1:] != []
    host = site.host(agents)
    waits = site.create()
    host.offer(waits)
    site.store.until_written(lambda batch, fate: any(row.kind == "retry_scheduled" for row in split_rows(batch.rows)))
    works = site.create()
    agents._answer = said
    host.offer(works)
    parked = agents.next()
    thread = stopping(host)
    site.store.until_written(given_back(waits))  # It waits for a retry only, so it goes first.
    assert thread.is_alive()
    parked.answer()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert "model_answered" in site.kinds(works)  # The answer that came in time is kept.
    assert agents.asked(works) == [parked.request.command_id]  # What it leads to is another worker's.
    assert agents.aborted == []
    claims = {claimed.run_id: claimed for claimed in site.claim()}
    assert sorted(claims) == sorted([waits, works])
    assert not claims[works].taken_over  # Given back, not taken away.
    assert not claims[waits].taken_over


def test_a_cancel_that_comes_while_it_stops_is_taken_in_and_waits_for_no_call(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    for _ in range(4):
        agents.next()
    thread = stopping(host)
    assert site.store.put_input(run_id, "cancel", cancel())
    host.offer(run_id)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert site.outcome(run_id) == "cancelled"
    assert len(agents.aborted) == 4


def test_calls_that_do_not_end_in_time_are_cut_and_one_batch_says_so(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    journal = site.store.journal(run_id)
    settled(host)
    flushed(site)
    host.stop(0.0)
    assert sorted(agents.aborted) == sorted((run_id, one.request.command_id, 1) for one in parked)
    (batch, fate), *more = site.store.done.get(timeout=WAIT_S)
    assert (fate, more, site.store.done.empty()) == ("committed", [], True)
    assert [row.kind for row in split_rows(batch.rows)] == ["attempt_interrupted"] * 4
    (claimed,) = site.claim()  # At once, and given back, not taken away.
    assert not claimed.taken_over
    assert list(claimed.rows)[: len(journal)] == journal
    assert len(claimed.rows) == len(journal) + 4
    assert all(fact["charged_usd_micros"] for fact in site.facts(run_id, "attempt_interrupted"))


def test_a_call_that_waits_its_turn_until_the_end_is_not_charged(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = site.host(agents, max_inflight_calls=1)
    run_id = site.create()
    host.offer(run_id)
    sent = agents.next().request.command_id
    settled(host)
    host.stop(0.0)
    cut = {fact["command_id"]: fact.get("charged_usd_micros", 0) for fact in site.facts(run_id, "attempt_interrupted")}
    assert len(cut) == 4
    assert cut.pop(sent) > 0
    assert set(cut.values()) == {0}


def test_what_is_being_written_at_the_end_is_no_hindrance(site):
    """The interruption goes out behind the batch that is under way, whose intent is not sent."""
    agents = site.agents()
    host = site.host(agents)
    site.store.open.clear()
    run_id = site.create()
    host.offer(run_id)
    (batch,) = site.store.begun.get(timeout=WAIT_S)
    thread = stopping(host, 0.0)
    assert host._ended.wait(WAIT_S)
    site.store.open.set()
    thread.join(WAIT_S)
    assert site.kinds(run_id) == [row.kind for row in split_rows(batch.rows)] + ["attempt_interrupted"]
    assert site.facts(run_id, "attempt_interrupted")[0].get("charged_usd_micros", 0) == 0
    assert agents.ledger == []
    (claimed,) = site.claim()
    assert not claimed.taken_over


def test_nothing_that_a_stopping_host_issues_is_left_unsent(site):
    """An intent that committed and was dropped would be charged at worst case by the next owner."""
    first, second = site.agents(), site.agents()
    first.holds = lambda request: True
    host = site.host(first)
    run_id = site.create()
    host.offer(run_id)
    parked = first.next()
    thread = stopping(host)
    parked.answer()
    thread.join(WAIT_S)
    site.host(second).offer()
    while site.outcome(run_id) == "":
        site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert site.facts(run_id, "attempt_interrupted") == []
    asked = [one.key for one in first.ledger + second.ledger]
    assert len(asked) == len(set(asked)) == len(site.facts(run_id, "call_issued"))


def test_another_host_goes_on_where_it_stopped(site):
    first, second = site.agents(), site.agents()
    first.holds = lambda request: request.agent == "worker"
    host = site.host(first)
    run_id = site.create()
    host.offer(run_id)
    for _ in range(4):
        first.next()
    host.stop(0.0)
    after = site.host(second)
    after.offer()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert second.asked(run_id)[:4] == first.asked(run_id)[1:]  # The four that were cut; the plan was journaled.
    assert {one.request.attempt for one in second.ledger[:4]} == {2}
    assert first.ledger[1].request.idempotency_key == second.ledger[0].request.idempotency_key


def test_a_batch_that_is_being_written_is_waited_for(site):
    agents = site.agents()
    host = site.host(agents)
    site.store.open.clear()
    run_id = site.create()
    host.offer(run_id)
    (batch,) = site.store.begun.get(timeout=WAIT_S)
    thread = stopping(host)
    assert thread.is_alive()
    site.store.open.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert site.kinds(run_id) == [*(row.kind for row in split_rows(batch.rows)), "model_answered"]
    assert (
        len(agents.ledger) == 1
    )  # What was intended before is sent; what follows from the answer is the next claimer's.
    (claimed,) = site.claim()
    assert not claimed.taken_over


class Busy:
    """No results at all; looking through them takes until it may go on."""

    def __init__(self, busy: threading.Event, go_on: threading.Event) -> None:
        self.busy, self.go_on = busy, go_on

    def __iter__(self):
        self.busy.set()
        assert self.go_on.wait(WAIT_S)
        return iter(())


def test_an_answer_that_came_before_the_end_is_journaled(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "worker"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    parked = [agents.next() for _ in range(4)]
    settled(host)
    command_id, reply = parked[0].request.command_id, said(parked[0].request)
    busy, go_on = threading.Event(), threading.Event()
    host.loop.put(("results", Busy(busy, go_on)))
    assert busy.wait(WAIT_S)  # The host is busy now,
    host.loop.put(("results", [((run_id, command_id, 1), reply)]))
    thread = threading.Thread(target=host.stop, args=(0.0,))
    thread.start()
    while (
        len(host.loop._messages) < 3
    ):  # and finds the answer, the wish to stop and the end of its patience all at once.
        pass
    go_on.set()
    thread.join(WAIT_S)
    answered = site.facts(run_id, "model_answered")
    assert [fact["command_id"] for fact in answered][1:] == [parked[0].request.command_id]


def test_nothing_is_claimed_while_it_stops(site):
    agents = site.agents()
    agents.holds = lambda request: True
    host = site.host(agents, sweep_s=0.01)
    run_id = site.create()
    parked = agents.next()
    thread = stopping(host)
    host.offer()
    late = site.create()
    host.offer(late)
    settled(host)
    settled(host)
    parked.answer()
    thread.join(WAIT_S)
    assert agents.asked(late) == []
    assert {claimed.run_id for claimed in site.claim()} == {run_id, late}


def test_a_run_that_is_held_after_an_error_is_free_as_well(site):
    site.faults[REVISION] = "the revision is of a later version"
    host = site.host(site.agents())
    run_id = site.create()
    host.offer(run_id)
    while site.store.claims.get(timeout=WAIT_S) != [run_id]:
        pass
    settled(host)
    host.stop()
    assert [claimed.run_id for claimed in site.claim()] == [run_id]


def test_it_stops_although_the_database_is_away():
    site = Site(Watched())
    agents = site.agents()
    agents.holds = lambda request: True
    host = site.host(agents)
    host.offer(site.create())
    agents.next()
    site.store.fail_next("away", call="retire")
    host.stop(0.0)
    assert own_threads() == []
