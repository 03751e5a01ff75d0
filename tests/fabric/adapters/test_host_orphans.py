"""Runs that are a host's by their rows while it does not know of them."""

from queue import SimpleQueue

from fabric.adapters.orphans import Orphans
from fabric.runtime.ports import StoreUnavailable
from tests.fabric.adapters.host_scenes import WAIT_S, Site, Watched


class Deaf(Watched):
    """A store whose claims land while their answers are lost; or whose looks for orphans are told of."""

    def __init__(self):
        super().__init__()
        self.lose = 0
        self.looks = SimpleQueue()

    def claim(self, incarnation, **given):
        claims = super().claim(incarnation, **given)
        if claims and self.lose:
            self.lose -= 1
            raise StoreUnavailable("the answer is lost", unknown=True)
        return claims

    def owned_by(self, incarnation):
        found = super().owned_by(incarnation)
        self.looks.put(found)
        return found


def test_a_claim_that_landed_without_an_answer_is_found_by_the_second_look():
    """Its ticket may be spent before it lands, so nothing but the row says whose it is."""
    site = Site(Deaf())
    agents = site.agents()
    site.store.lose = 1
    host = site.host(agents, sweep_s=0.02, orphans_s=0.05)
    run_id = site.create()
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert (host.counters.claimed, site.store.standing(run_id)[1]) == (1, 2)
    site.close()


def test_a_run_that_is_driven_or_held_is_no_orphan():
    site = Site(Deaf())
    site.faults["broken"] = "the revision is of a later version"
    agents = site.agents()
    agents.holds = lambda request: True
    host = site.host(agents, sweep_s=0.02, orphans_s=0.02)
    driven, held = site.create(), site.create(revision_id="broken")
    parked = agents.next()
    looks = 0
    while looks < 4:
        looks += set(site.store.looks.get(timeout=WAIT_S)) == {driven, held}
    assert host.counters.claimed == 2
    parked.answer()
    site.close()


def test_an_orphan_must_be_unknown_on_two_looks_running():
    orphans, known = Orphans(), {"driven"}
    orphans.looked(["driven", "a", "b"], known.__contains__, 10)
    assert orphans.due(100) == ()
    orphans.looked(["driven", "b", "c"], known.__contains__, 20)
    assert (orphans.due(19), orphans.due(20)) == ((), ("b",))
    orphans.settled("b")
    orphans.looked(["a", "b"], known.__contains__, 30)
    assert orphans.due(100) == ()
    orphans.looked(["a"], known.__contains__, 40)
    orphans.clear()
    assert orphans.due(100) == ()
