"""The whole of a review's time in each tier: reminded at half, passed on at three quarters, rejected by the system when it is over."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import US, World, ran
from tests.fabric.core.scripts import scored

UNSURE = {"critic": scored(0.2)}
DUE_S = {Tier.INTERACTIVE: 300, Tier.BATCH: 86_400, Tier.HIGH_STAKES: 28_800}
SHARES = {"reminder": 0.5, "onward": 0.75}
ROOMY = {tier.value: {"call_s": 30, "stage_s": 500_000, "run_s": 500_000} for tier in Tier}
"""So that it is the review's own time that runs out, and not a clock that runs on in interactive."""


def parked(tier: Tier) -> World:
    world = ran(spec(deadlines=ROOMY), UNSURE, tier=tier)
    assert world.run.reviews
    return world


@pytest.mark.parametrize("tier", list(Tier))
def test_each_step_at_its_share_of_the_tiers_time_and_the_end_is_the_systems(tier):
    world = parked(tier)
    opened = next(event for event in world.events if event.fact.kind == "review_opened")
    due = (opened.fact.due_at - opened.at) / US
    assert due == DUE_S[tier]
    world.wait(due + 1)
    reminded = [
        (event.fact.step, (event.at - opened.at) / US) for event in world.events if event.fact.kind == "review_reminded"
    ]
    assert reminded == [(step, due * share) for step, share in SHARES.items()]
    (decided,) = [event for event in world.events if event.fact.kind == "review_decided"]
    assert (decided.at - opened.at) / US == due
    assert (decided.fact.verb, decided.fact.system, decided.fact.actor) == ("reject", True, "system")
    assert world.end.state is RunState.ABORTED


@pytest.mark.parametrize("tier", list(Tier))
def test_an_answer_after_it_was_passed_on_is_a_persons(tier):
    world = parked(tier)
    fact = world.review.fact
    world.wait((fact.due_at - world.events[-1].at) / US * 0.8).decide("reject", message="no")
    world.go()
    (decided,) = world.of(ev.ReviewDecided)
    assert not decided.system
    assert [one.step for one in world.of(ev.ReviewReminded)] == ["reminder", "onward"]
