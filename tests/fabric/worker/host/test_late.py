"""A host stood still, so its timers fire late: it looks at its inbox before it believes that no input came."""

import pytest

from fabric.core.state.run import Run
from fabric.runtime.arrivals import LATE_US
from fabric.runtime.hosting.timers import LateTimers, Timers
from fabric.runtime.ports.journal import StoreUnavailable
from tests.fabric.worker.host.clocks import Standing
from tests.fabric.worker.host.scenes import Site, Watched, cancel, overloaded_once, policy, settled

HOUR_US = 3_600_000_000


class Looked(Watched):
    """Counts the looks at the inbox; fails as often as it is told to."""

    def __init__(self):
        super().__init__()
        self.looks = self.away = 0

    def inbox(self, incarnation):
        self.looks += 1
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        return super().inbox(incarnation)


@pytest.fixture
def site():
    made = Site(Looked())
    made.clock = Standing()
    made.spec = policy(retry={"base_s": 60.0, "cap_s": 60.0})
    yield made
    made.close()


def waiting(site):
    """A host with one run whose next attempt is an hour or less ahead: the run, and the instant."""
    agents = site.agents(overloaded_once)
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    site.store.until_written(lambda batch, fate: any(row.kind == "retry_scheduled" for row in batch.rows))
    settled(host)
    site.store.looks = 0
    due_at = host.owned[run_id].wake_at
    assert due_at is not None
    return host, agents, run_id, due_at


@pytest.mark.parametrize(("late_us", "looks"), [(0, 0), (LATE_US, 0), (LATE_US + 1, 1)])
def test_only_a_timer_that_is_more_than_a_second_late_looks_at_the_inbox(site, late_us, looks):
    host, agents, run_id, due_at = waiting(site)
    site.clock.at = due_at + late_us
    host.loop.put(("look",))
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert agents.asked(run_id).count("plan.0.e0.r0.t1") == 2
    assert site.store.looks == looks


def test_what_was_said_before_a_late_timer_fires_is_heard_first(site):
    host, agents, run_id, due_at = waiting(site)
    assert site.store.put_input(run_id, "cancel", cancel())
    site.clock.at = due_at + 5 * LATE_US
    host.loop.put(("look",))
    site.until_released(run_id)
    assert site.outcome(run_id) == "cancelled"
    assert len(agents.asked(run_id)) == 1


def test_a_late_timer_waits_for_as_long_as_the_inbox_cannot_be_read(site):
    host, agents, run_id, due_at = waiting(site)
    site.store.away = 2
    site.clock.at = due_at + 5 * LATE_US
    for _ in range(2):
        host.offer()
        settled(host)
        assert len(agents.asked(run_id)) == 1
    host.offer()
    site.until_released(run_id)
    assert (site.store.looks, site.outcome(run_id)) == (3, "completed")


def test_a_look_that_began_before_the_timer_fired_is_not_enough():
    timers = Timers()
    late = LateTimers(timers)
    assert late.holds(0, Run("run"), 2 * LATE_US)
    late.note_look(2 * LATE_US - 1)
    assert timers.next_at() is None
    late.note_look(2 * LATE_US)
    assert list(timers.due(HOUR_US)) == [(0, "run")]
    assert not late.holds(0, Run("run"), 3 * LATE_US)
    late.note_look(4 * LATE_US)
    assert late.holds(0, Run("run"), 4 * LATE_US), "the next one that is late waits for a look of its own"
