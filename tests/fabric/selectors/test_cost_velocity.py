"""What a run's page says of a rate that was too fast, of the alert, the other model and the new cap."""

from __future__ import annotations

import pytest

from fabric.core.envelope import fact_json
from fabric.core.policy import FlowPolicy
from fabric.core.taxonomy import Tier
from fabric.selectors.display import EVENT_DISPLAY
from fabric.selectors.run_margins import margins_of, spend_rate
from fabric.selectors.run_story import RunStory
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import call, say
from tests.fabric.core.spenders import CHEAP, spender


def told(world) -> dict[str, str]:
    return {event.fact.kind: EVENT_DISPLAY[event.fact.kind].summary(fact_json(event)) for event in world.events}


def story_of(world) -> RunStory:
    story = RunStory("run-1")
    for event in world.events:
        story.add(event)
    return story


def test_the_margin_stands_as_it_was_when_it_tripped():
    world = ran(*spender())
    story = story_of(world)
    [margin] = [m for m in margins_of(story.run, world.spec, story.at, story.tripped) if m.row == "cost_velocity"]
    assert (margin.name, margin.observed, margin.limit, margin.unit) == (
        "spend rate",
        6_300,
        6_000,
        "usd_micros_a_minute",
    )
    assert margin.fired.ended
    assert margin.fired.told.startswith("$0.0063 in 60 s, $0.006 allowed")


def test_the_events_say_it_in_words():
    words = told(ran(*spender(cheaper="thrifty"), tier=Tier.BATCH, prices=CHEAP))
    assert words["alert_raised"].startswith(
        "cost velocity, and the answer is cheaper model: the run spent $0.0063 in a minute"
    )
    assert words["model_changed"] == "thrifty answers for worker in place of small (cheaper model)"
    fabric, script = spender(cheaper="thrifty")
    thought = say(
        "", call(q="first"), input_tokens=860, own={"protocol": "chat", "parts": {"reasoning_content": "Hm."}}
    )
    told_apart = told(ran(fabric, {**script, "worker": [thought, *script["worker"]]}, tier=Tier.BATCH, prices=CHEAP))
    assert told_apart["model_changed"].endswith(
        "(cheaper model); the reasoning of 1 earlier answer is left out, since only the model that gave it understands it"
    )
    capped = ran(*spender(), tier=Tier.HIGH_STAKES).decide(cap_usd_micros=1_000_000).go()
    assert told(capped)["cap_raised"] == "bob raised it from $0.06 to $1.00"


def test_a_rate_that_is_not_judged_has_no_margin():
    off = FlowPolicy.model_validate({"budget": {"run_usd_micros": 100}, "cost_velocity": {"factor": 0}})
    assert spend_rate(story_of(ran(*spender())).run, off, 5) is None


@pytest.mark.parametrize("kind", ["alert_raised", "model_changed", "cap_raised"])
def test_they_are_shown(kind):
    assert EVENT_DISPLAY[kind].importance >= 2
