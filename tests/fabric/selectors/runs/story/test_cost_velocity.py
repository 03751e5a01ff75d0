"""A run's page describes a rate that was too fast, the alert, the other model and the new cap."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import fact_json
from fabric.core.schema.limits import Unit
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.taxonomy import Tier
from fabric.selectors.runs.display import EVENT_DISPLAY
from fabric.selectors.runs.margins.table import list_margins, spend_rate
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import call, say
from tests.fabric.core.spenders import CHEAP, spender


def told(world) -> dict[str, str]:
    return {event.fact.kind: EVENT_DISPLAY[event.fact.kind].parts(fact_json(event)).sentence for event in world.events}


def story_of(world) -> RunStory:
    story = RunStory("run-1")
    for event in world.events:
        story.add(event)
    return story


def test_the_margin_stands_as_it_was_when_it_tripped():
    world = ran(*spender())
    story = story_of(world)
    [margin] = [m for m in list_margins(story.run, world.spec, story.at, story.tripped) if m.row == "cost_velocity"]
    assert (margin.name, margin.observed, margin.limit, margin.unit) == ("Spend rate", 6_300, 6_000, Unit.USD_A_MINUTE)
    assert margin.fired.ended
    assert margin.fired.trip_words.startswith("$0.0063 in 60 s, $0.006 allowed")


def test_the_events_say_it_in_words():
    words = told(ran(*spender(cheaper="thrifty"), tier=Tier.BATCH, prices=CHEAP))
    assert words["alert_raised"].startswith(
        "The cost velocity raised an alert (reaction: cheaper model): cost velocity, the run spent $0.0063 in a minute"
    )
    assert words["model_changed"] == "The engine put thrifty in place of small for worker: cheaper model"
    fabric, script = spender(cheaper="thrifty")
    thought = say(
        "", call(q="first"), input_tokens=860, own={"protocol": "chat", "parts": {"reasoning_content": "Hm."}}
    )
    told_apart = told(ran(fabric, {**script, "worker": [thought, *script["worker"]]}, tier=Tier.BATCH, prices=CHEAP))
    assert told_apart["model_changed"].endswith("for worker (without the reasoning of 1 earlier answer): cheaper model")
    capped = ran(*spender(), tier=Tier.HIGH_STAKES).decide(cap_usd_micros=1_000_000).go()
    assert told(capped)["cap_raised"] == "bob raised the run's cap from $0.06 to $1.00"


def test_a_rate_that_is_not_judged_has_no_margin():
    off = FlowPolicy.model_validate({"budget": {"run_usd_micros": 100}, "cost_velocity": {"factor": 0}})
    assert spend_rate(story_of(ran(*spender())).run, off, 5) is None


@pytest.mark.parametrize("kind", ["alert_raised", "model_changed", "cap_raised"])
def test_they_are_shown(kind):
    assert EVENT_DISPLAY[kind].importance >= 2
