"""A run whose owners die one after the other is put away, and goes on when it is let go on: with real processes, one death a claim."""

import time

import pytest

from simulator.chaos import judge
from simulator.chaos.campaign import Campaign, Order
from simulator.chaos.failpoints import ticket
from simulator.chaos.installation import Plan, installed
from tests.chaos.test_chaos import PUT_AWAY
from tests.console.launch.processes import PATIENCE_S

CLAIMS = 5
"""Claims without progress that a run may have."""

pytestmark = pytest.mark.slow


def until(done):
    give_up = time.monotonic() + PATIENCE_S
    while not (found := done()):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    return found


def test_a_run_that_loses_every_owner_is_put_away_and_completes_when_it_is_let_go_on():
    plan = Plan()
    with installed(plan) as made:
        campaign = Campaign(Order(plan, 1.0, None, (), 1), made, lambda said: None)
        place = ticket(made.folder, "claim.after")
        place.touch()
        made.start("one")
        for death in range(1, CLAIMS + 1):
            until(lambda death=death: len(made.kills) == death)
            if death < CLAIMS:
                place.touch()
        (question,) = until(made.rows.asking)
        assert question.item == "quarantine"
        campaign.answer()
        until(lambda: set(made.rows.states().values()) == {"completed"})
        case = campaign.case()
    assert judge.asked(case) == {PUT_AWAY: 1}
    assert judge.put_away(case) == []
    assert judge.lost(case) == []
