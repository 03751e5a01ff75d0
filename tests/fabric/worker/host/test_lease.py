"""A process that stood still past its own lease sends nothing of what it had ready."""

import pytest

from tests.fabric.worker.host.clocks import LEASE_S, Beating, Stopwatch, until_new_term
from tests.fabric.worker.host.scenes import WAIT_S, Site, reported, settled


@pytest.fixture
def site():
    made = Site(Beating())
    made.elapsed = Stopwatch()
    yield made
    made.close()


def planning(site, **config):
    """A host whose only run waits for its planner."""
    agents = site.agents()
    agents.holds = lambda request: request.agent == "planner"
    host = site.host(agents, lease_s=LEASE_S, **config)
    run_id = site.create()
    host.offer(run_id)
    return host, agents, run_id, agents.next()


def test_what_committed_after_the_lease_was_over_is_not_sent_and_not_charged(site):
    host, agents, run_id, parked = planning(site)
    site.store.claim_open.clear()  # No worker takes it anew before it was looked at.
    site.elapsed.s += LEASE_S
    parked.answer()
    site.until_released(run_id)
    assert agents.asked(run_id) == [parked.request.command_id]
    interrupted = site.facts(run_id, "attempt_interrupted")
    assert len(interrupted) == host.counters.uncovered == 4
    assert {fact.get("charged_usd_micros", 0) for fact in interrupted} == {0}
    assert site.store.read_standing(run_id)[0] is None
    site.store.claim_open.set()


def test_what_was_not_sent_goes_out_from_the_next_owner_once(site):
    host, agents, run_id, parked = planning(site)
    site.elapsed.s += LEASE_S
    parked.answer()
    site.until_released(run_id)
    host.stop(0.0)
    heir = site.host(agents, lease_s=LEASE_S)
    heir.offer(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    asked = [one.key for one in agents.ledger]
    assert len(asked) == len(set(asked))
    assert all(one.intended for one in agents.ledger)


def test_a_run_that_another_took_meanwhile_is_let_go_of_without_a_word(site):
    host, agents, run_id, parked = planning(site)
    site.elapsed.s += LEASE_S
    site.store.retire(host.lease.name)
    (claimed,) = site.claim()
    parked.answer()
    site.until_released(run_id)
    assert agents.asked(run_id) == [parked.request.command_id]
    assert host.counters.stale_refused == 1
    assert site.store.read_standing(run_id)[1] == claimed.fence


def test_after_an_outage_longer_than_the_lease_an_answer_in_memory_is_not_lost(site):
    """A commit in the new term is surely this process's, so its run goes on here."""
    host, agents, run_id, parked = planning(site)
    site.elapsed.s += LEASE_S
    until_new_term(site, host)
    parked.answer()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert host.counters.uncovered == 0
    assert host.counters.claimed == 1
    asked = [one.key for one in agents.ledger]
    assert len(asked) == len(set(asked))


def test_what_was_begun_to_be_written_before_the_lease_was_over_is_not_of_the_new_term(site):
    """Between its commit and the beat that came after it another worker may have taken the run."""
    host, agents, run_id, parked = planning(site)
    while not site.store.begun.empty():
        site.store.begun.get()
    site.store.claim_open.clear()
    site.store.open.clear()
    parked.answer()
    site.store.begun.get(timeout=WAIT_S)
    site.elapsed.s += LEASE_S
    until_new_term(site, host)
    site.store.open.set()
    site.until_released(run_id)
    assert agents.asked(run_id) == [parked.request.command_id]
    assert host.counters.uncovered == 4
    site.store.claim_open.set()


def test_nothing_is_claimed_that_could_not_be_sent(site):
    """Or a run would be claimed and given back unsent, again and again at once, and put away as what kills its owners."""
    agents = site.agents()
    host = site.host(agents, lease_s=LEASE_S)
    settled(host)  # It has asked for what was there when it began.
    site.store.claiming.clear()
    site.elapsed.s += LEASE_S
    run_id = site.create()
    host.offer(run_id)
    for _ in range(3):
        reported(host)
    assert not site.store.claiming.is_set()
    until_new_term(site, host)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert (host.counters.claimed, host.counters.uncovered, host.counters.quarantined) == (1, 0, 0)
