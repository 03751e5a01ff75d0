"""Each reason of a deviation has its own headline, and "steady" stands only where a check afterwards failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import default_table
from simulator.scenarios.play.player import DecisionLine, judge_played, play
from simulator.scenarios.play.verdicts import HEADLINES, Deviation, deviate, split_reason
from simulator.scenarios.spec.collection import find_shipped
from simulator.scenarios.spec.probes import CheckedProbe, read_tolerance
from simulator.scenarios.spec.scenario import SteadyProbe

RETRY = "provider_failure: retry"
COMPLETES = (SteadyProbe(probe="state", tolerance=read_tolerance("completed", ("expect", 0, "tolerance"))),)
FAILED = CheckedProbe("state", "failed", "'failed' is not 'completed'")


def judged(kind):
    """The verdict about a played scenario in which one thing went wrong."""
    name = "worker-crashes" if kind in (Deviation.END, Deviation.DECIDED) else "endpoint-down"
    given = {"struck": {"unavailable": 1}, "usual": "completed", "after": (), "lines": (DecisionLine(5, RETRY, RETRY),)}
    scenario, state = find_shipped(name), "completed"
    match kind:
        case Deviation.DECISION:
            given["lines"] = (DecisionLine(5, RETRY, "provider_failure: surface"),)
        case Deviation.HANDOVERS:
            given["handed"] = deviate(Deviation.HANDOVERS, "it had 3 handovers, where 2 handovers was promised")
        case Deviation.END:
            given["lines"], state = (), "failed"
        case Deviation.ROW:
            given["lines"] = (DecisionLine(5, "unsafe_output: surface", "unsafe_output: surface"),)
        case Deviation.EXPECTATION:
            scenario, state = scenario.model_copy(update={"expect": COMPLETES}), "failed"
        case Deviation.STEADY:
            given["after"] = (FAILED,)
    seen = play(default_table(), find_shipped("provider-outage"), Tier.INTERACTIVE).during
    return judge_played(scenario, during=replace(seen, state=state), **given)


@pytest.mark.parametrize("kind", Deviation)
def test_a_deviation_names_the_promise_that_was_broken(kind):
    verdict, why = judged(kind)
    assert verdict == "deviated"
    assert why.startswith(f"{HEADLINES[kind]}: ")
    assert split_reason(why)[0] is kind
    assert ("steady" in why) == (kind is Deviation.STEADY)


def test_every_kind_has_one_headline_of_its_own():
    assert set(HEADLINES) == set(Deviation)
    assert len(set(HEADLINES.values())) == len(Deviation)
    assert split_reason("its gate asks for citations") == (None, "its gate asks for citations")
