"""Runs that are a host's by their rows while it does not know of them."""

from queue import SimpleQueue

from fabric.runtime.hosting.release import Orphans
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM
from tests.fabric.worker.host.scenes import NEVER_S, WAIT_S, Site, Watched


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
    assert (host.counters.claimed, site.store.read_standing(run_id)[1]) == (1, 2)
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
    orphans.compare(["driven", "a", "b"], known.__contains__, 10)
    assert orphans.due(100) == ()
    orphans.compare(["driven", "b", "c"], known.__contains__, 20)
    assert (orphans.due(19), orphans.due(20)) == ((), ("b",))
    orphans.note_claimed("b")
    orphans.compare(["a", "b"], known.__contains__, 30)
    assert orphans.due(100) == ()
    orphans.compare(["a"], known.__contains__, 40)
    orphans.clear()
    assert orphans.due(100) == ()


def test_orphans_that_the_store_does_not_give_are_asked_for_together_with_the_next_look():
    orphans = Orphans()
    orphans.compare(["a"], {}.__contains__, 10)
    orphans.compare(["a", "b"], {}.__contains__, 20)
    assert orphans.due(20) == ("a",)
    orphans.note_not_given("a")
    assert orphans.due(20) == ()
    orphans.compare(["a", "b"], {}.__contains__, 30)
    assert orphans.due(30) == ("a", "b")
    for one in ("a", "b"):
        orphans.note_not_given(one)
    orphans.compare(["b"], {}.__contains__, 40)
    assert orphans.due(40) == ("b",), "the other is another worker's by now, or has ended"


class Unheard(Deaf):
    """Its claims land without an answer until each of its runs has to be alone; the second one's do so a look later than the first one's."""

    def __init__(self):
        super().__init__()
        self.waits: list[str] = []

    def owned_by(self, incarnation):
        if self.waits:
            run = self.tables.runs[self.waits.pop(0)]
            run.incarnation, run.claims = incarnation, SUSPECT_FROM
        return super().owned_by(incarnation)


def test_two_that_have_to_be_alone_and_were_found_one_after_the_other_are_driven_one_after_the_other():
    site = Site(Unheard())
    dead = "dead"
    site.store.register(dead, lease_s=NEVER_S)
    runs = [site.create(), site.create()]
    for run_id in runs:  # No other worker's: its lease lasts.
        site.store.tables.runs[run_id].incarnation = dead
    site.store.waits = list(runs)
    site.host(site.agents(), sweep_s=0.02, orphans_s=0.05)
    site.until_released(*runs)
    assert [site.outcome(run_id) for run_id in runs] == ["completed", "completed"]
    site.close()
