"""The run after a storm: one of its branches is the probe of a half-open breaker, the others are refused, and what then is done is their cell's."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.events.envelope import list_events
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import samples
from simulator.scenarios.play.player import PlayedScenario, play_told
from simulator.scenarios.spec.collection import find_shipped

SAMPLE = next(spec for spec in samples() if spec.name == "small-model")
ASKS = ({"reaction": "retry", "times": 2}, {"reaction": "escalate"})
WAITS = ({"reaction": "retry", "times": 2}, {"reaction": "wait_for_breaker", "times": 1}, {"reaction": "escalate"})


def stormed(*rungs: dict[str, Any]) -> PlayedScenario:
    """A storm of 429 in a high-stakes run of three branches, and the run after it. ``rungs``: of the provider's cell."""
    tree = SAMPLE.model_dump(mode="json", by_alias=True)
    tree["decision_table"] = {"provider_failure": {"high_stakes": {"rungs": list(rungs)}}}
    return play_told(FabricSpec.model_validate(tree), find_shipped("rate-limit-storm"), Tier.HIGH_STAKES)


def facts_after(told: PlayedScenario) -> list[Any]:
    assert told.world is not None
    after = told.world.watch.runs()[-1]
    return [event.fact for event in list_events(told.world.store.rows(after.id))]


def refused(facts: list[Any]) -> list[str]:
    """The branches whose call met another branch's probe."""
    met = [fact for fact in facts if fact.kind == "attempt_failed" and fact.trip is not None]
    assert {fact.trip.evidence.details["state"] for fact in met} == {"half_open"}
    return sorted(fact.command_id.split(".e")[0] for fact in met)


@pytest.mark.parametrize(
    ("rungs", "reaction", "state"), [(ASKS, "escalate", "aborted"), (WAITS, "wait_for_breaker", "completed")]
)
def test_one_branch_is_the_probe_and_the_others_do_what_their_cell_says(rungs, reaction, state):
    told = stormed(*rungs)
    facts = facts_after(told)
    assert refused(facts) == ["fan_out.1", "fan_out.2"], "exactly one holds the probe"
    assert [fact.reaction for fact in facts if fact.kind == "reaction_decided"] == [reaction] * 2
    assert facts[-1].state == state
    assert told.played.verdict == ("pass" if state == "completed" else "deviated")
    answered = [fact.command_id for fact in facts if fact.kind == "model_answered"]
    assert answered[0].startswith("fan_out.0"), "the probe is answered first"
