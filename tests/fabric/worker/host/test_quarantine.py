"""A host puts away a run that it may not drive."""

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.values.flow import FORMAT
from fabric.core.values.frozen import replace
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM
from tests.fabric.stores.journal_worlds import REVISION
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched, decision, doubtful, settled

ODD = b"no input of any version"
LATER = b'{"kind": "an input of a later version", "version": 1}'


@pytest.fixture
def site():
    made = Site(Watched())
    yield made
    made.close()


def until_quarantined(site, run_id):
    site.store.until_written(
        lambda batch, fate: (
            batch.run_id == run_id and any(row.kind == "run_quarantined" for row in split_rows(batch.rows))
        )
    )


def answer(site, host, run_id, verb):
    fact = site.facts(run_id, "review_opened")[-1]
    given = DecisionMade(
        input_id="decision",
        review_id=fact["review_id"],
        verb=verb,
        actor="bob",
        digest=fact["digest"],
        message="so it is",
    )
    assert site.store.put_input(run_id, "decision", INBOX.dump_json(given), wakes=2)
    host.offer(run_id)


def test_a_run_whose_revision_cannot_be_loaded_is_quarantined_at_the_sixth_claim_and_tried_again_when_a_person_says_so(
    site,
):
    site.faults[REVISION] = "the revision is of a later version"
    agents = site.agents()
    host = site.host(agents, hold_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    until_quarantined(site, run_id)
    settled(host)
    assert host.counters.claimed == 6
    assert host.counters.quarantined == 1
    assert site.store.read_standing(run_id)[0] is None
    assert site.store.columns(run_id).state == "quarantined"
    host.offer(run_id)
    settled(host)
    assert host.counters.claimed == 6  # Its input still waits; no worker claims it for that.
    site.faults.clear()
    answer(site, host, run_id, "approve")
    while site.outcome(run_id) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(run_id) == "completed"
    assert agents.ledger != []


def test_a_run_whose_journal_is_damaged_is_quarantined_at_once_and_can_be_rejected(site):
    agents = site.agents()
    agents.holds = lambda asked: asked.agent == "planner"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    agents.next()
    host.stop(0.0)
    rows = site.store.tables.runs[run_id].stored
    rows[1] = replace(rows[1], header=rows[1].header.replace(b"1", b"2", 1))
    host = site.host(agents)
    host.offer(run_id)
    until_quarantined(site, run_id)
    settled(host)
    assert host.counters.quarantined == 1
    before = site.store.columns(run_id)
    assert (before.state, before.stage) == ("quarantined", "plan")
    assert "its journal is damaged: event 4" in before.reason
    answer(site, host, run_id, "reject")
    site.store.until_written(lambda batch, fate: any(row.kind == "run_ended" for row in split_rows(batch.rows)))
    assert site.outcome(run_id) == "aborted"
    assert host.owned == {}


def test_unreadable_input_does_not_have_a_quarantined_run_claimed_again_and_again(site):
    site.faults[REVISION] = "the revision is of a later version"
    host = site.host(site.agents(), hold_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    until_quarantined(site, run_id)
    settled(host)
    assert site.store.put_input(run_id, "odd", ODD, wakes=2)
    host.offer(run_id)
    site.store.until_written(lambda batch, fate: batch.run_id == run_id and "odd" in batch.consumed)
    settled(host)
    claimed = host.counters.claimed
    host.offer(run_id)
    settled(host)
    assert host.counters.claimed == claimed
    assert site.facts(run_id, "input_ignored")[-1]["reason"] == "it cannot be read"


def test_what_a_newer_program_reads_is_left_to_it_and_wakes_no_worker_here(site):
    site.faults[REVISION] = "the revision is of a later version"
    host = site.host(site.agents(), hold_s=0.01)
    run_id = site.create()
    host.offer(run_id)
    until_quarantined(site, run_id)
    settled(host)
    assert site.store.put_input(run_id, "later", LATER, wakes=2)
    host.offer(run_id)
    left = site.store.until_written(lambda batch, fate: batch.run_id == run_id and batch.format > FORMAT)
    assert (left.consumed, left.rows) == ((), ())
    settled(host)
    claimed = host.counters.claimed
    host.offer(run_id)
    settled(host)
    assert host.counters.claimed == claimed


def test_an_answer_to_another_review_waits_until_the_run_goes_on(site):
    agents = site.agents(doubtful)
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    while site.store.read_standing(run_id)[0] is not None or not site.store.reviews:
        site.released.get(timeout=WAIT_S)
    first = replace(decision(site, run_id), input_id="first")
    host.stop(0.0)
    rows = site.store.tables.runs[run_id].stored
    whole, rows[3] = rows[3], replace(rows[3], header=rows[3].header.replace(b"1", b"2", 1))
    assert site.store.put_input(run_id, first.input_id, INBOX.dump_json(first))
    host = site.host(agents)
    host.offer(run_id)
    until_quarantined(site, run_id)
    settled(host)
    rows[3] = whole
    answer(site, host, run_id, "approve")
    while site.outcome(run_id) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(run_id) == "completed"


def test_a_suspect_that_gets_on_makes_room_for_the_next_one_at_once(site):
    def holds(asked):
        return asked.agent == "planner"

    runs = [site.create() for _ in range(2)]
    dead, agents = site.agents(), site.agents()
    dead.holds = agents.holds = holds
    host = site.host(dead)
    host.offer()
    assert {dead.next().request.run_id for _ in runs} == set(runs)
    site.store.retire(host.lease.name)
    for run_id in runs:
        site.store.tables.runs[run_id].claims = SUSPECT_FROM
    host = site.host(agents)
    host.offer()
    first = agents.next()
    settled(host)
    assert [one.request.run_id for one in agents.ledger] == runs[:1], "the other waits until this one has got on"
    first.answer()
    second = agents.next()
    assert second.request.run_id == runs[1]
    second.answer()
    site.until_released(*runs)
    assert [site.outcome(run_id) for run_id in runs] == ["completed", "completed"]
