"""A run whose owners die one after the other is put away, and goes on when it is let go on: with real processes, one death a claim. And a starter that dies."""

import time

import pytest

from tests.chaos.campaign import Campaign, Order
from tests.chaos.faults.failpoints import DEATHS, ticket
from tests.chaos.installation import Plan, installed
from tests.chaos.judging import judge
from tests.chaos.test_chaos import PUT_AWAY
from tests.console.launch.started_processes import PATIENCE_S

CLAIMS = 5
"""Claims without progress that a run may have."""

pytestmark = pytest.mark.slow


def until(done):
    give_up = time.monotonic() + PATIENCE_S
    while not (found := done()):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    return found


class Deaths(list):
    """Kills as they are found out: there is another ticket for a place before another worker is born."""

    def __init__(self, place):
        self.place = place

    def append(self, kill):
        super().append(kill)
        if len(self) < CLAIMS:
            self.place.touch()


@pytest.fixture(scope="module")
def made():
    """One installation for all of the tests here."""
    with installed(Plan()) as made:
        yield made


def test_another_starter_takes_the_place_of_one_that_died_while_a_worker_lives(made):
    ticket(made.folder, "start.nudged").touch()
    made.start("asked for twice")
    until(lambda: "asked for twice" in made.runs)
    assert [said["place"] for said in made.said(DEATHS)] == ["start.nudged"]
    until(lambda: made.rows.read_states() == {made.runs["asked for twice"]: "completed"})


def test_a_run_that_loses_every_owner_is_put_away_and_completes_when_it_is_let_go_on(made):
    campaign = Campaign(Order(made.plan, 1.0, None, (), 1), made, lambda said: None)
    place = ticket(made.folder, "claim.after")
    made.kills = Deaths(place)
    place.touch()
    made.start("one")
    until(lambda: len(made.kills) == CLAIMS)
    (review,) = until(made.rows.asking)
    assert review.item == "quarantine"
    campaign.answer()
    until(lambda: set(made.rows.read_states().values()) == {"completed"})
    case = campaign.case()
    assert judge.asked(case) == {PUT_AWAY: 1}
    assert judge.put_away(case) == []
    assert judge.lost(case) == []
