"""Every shipped scenario in every sample: the fabric is equipped with what it lacks, every disturbance strikes, and no promise of the engine is broken."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from simulator.drills.baseline import drive, scripted_models
from simulator.drills.chosen import default_table, samples
from simulator.drills.handing import why_not
from simulator.scenarios.catalogue import FAULTS, SEAM_PORTS, fault_named, parameters_of
from simulator.scenarios.handing import FAULT, is_about
from simulator.scenarios.injection import Injection
from simulator.scenarios.meeting import ARMED, CALLED, ROLES, equipped
from simulator.scenarios.observing import observe
from simulator.scenarios.scenario import Disturbance
from simulator.scenarios.shipped import library
from simulator.scenarios.strikes import NEEDS
from tests.simulator.drills.drilled import drilled


@cache
def fabrics() -> dict[str, FabricSpec]:
    return {spec.name: scripted_models(spec) for spec in (default_table(), *samples())}


ENDS_BEFORE = {("checked-answer", "undoing-fails"), ("supplier-notes", "undoing-fails")}
"""Where the answer is withheld before anything is booked, so that there is nothing to undo."""


@pytest.mark.parametrize("fabric", [spec.name for spec in (default_table(), *samples())])
def test_every_scenario_strikes_in_every_fabric_and_breaks_nothing(fabric):
    unmet = set()
    for number, scenario in enumerate(library().values()):
        disturbances = scenario.disturbances()
        spec, _ = equipped(fabrics()[fabric], disturbances)
        injection = Injection(disturbances, spec)
        if is_about(disturbances) and why_not(spec, scenario.disturbance[0].values["peers"]):
            assert len(injection.absent()) == 1, "it is said that nobody hands over"
            continue
        assert injection.absent() == []
        tier = scenario.tiers[number % len(scenario.tiers)]
        world = drive(spec, tier, seed=scenario.seed, disturbed=injection.disturbing)
        assert world.watch.violations == [], scenario.name
        assert observe(world, injection).state in ("completed", "stopped", "failed", "aborted")
        if not all(injection.struck[one.fault.name] for one in disturbances):
            unmet.add((fabric, scenario.name))
    assert unmet <= ENDS_BEFORE


def disturbance(name: str, **values: Any) -> Disturbance:
    return Disturbance(fault_named(name), parameters_of(FAULTS[name], values))


def bare() -> FabricSpec:
    """A fabric of workers alone, who have nothing."""
    tree = drilled().model_dump(mode="json")
    brief = {"agent": "one", "title": "All", "instructions": "Say what bears on it."}
    plan = {"goal": "Answer it.", "briefs": [brief], "exit_criteria": ["It is answered."]}
    tree["topology"] = {"workers": ["one"], "plan": plan}
    tree["agents"] = [{**agent, "tools": []} for agent in tree["agents"] if agent["name"] == "one"]
    return FabricSpec.model_validate({**tree, "tools": []})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("hang", {"role": "finalizer"})], "a finalizer"),
        ([("hang", {"role": "aggregator"}), ("hang", {"role": "aggregator"})], "an aggregator"),
        ([("low_confidence", {})], "a critic"),
        ([("malformed_plan", {})], "a planner"),
        ([("tool_loop", {}), ("hang", {"role": "armed"})], "a tool that reads"),
        ([("tool_error", {})], "tool drill-lookup"),
        ([("tool_error", {"tool": "lookup"})], ""),
        ([("unsafe", {"role": "finalizer"}), ("compensation_fails", {})], "a finalizer and tool drill-book"),
        ([("person_edits", {})], "tool drill-wire"),
        ([("hang", {}), ("crash", {"at_effect": 1}), ("person_silent", {})], ""),
    ],
)
def test_a_fabric_is_equipped_with_what_a_fault_needs_and_no_more(given, said):
    spec, what = equipped(bare(), [disturbance(name, **values) for name, values in given])
    assert what == said
    assert (spec == bare()) == (not said)
    assert equipped(spec, [disturbance(name, **values) for name, values in given])[1] == ""


def test_what_a_fabric_has_is_not_given_again():
    everything = [disturbance(name, **VALUES.get(name, {})) for name in FAULTS]
    spec, _ = equipped(bare(), everything)
    assert equipped(spec, everything) == (spec, "")


VALUES: dict[str, dict[str, Any]] = {"outage": {"to_s": 5}, "crash": {"at_effect": 1}}


def test_every_fault_that_needs_somebody_or_something_says_so():
    needs = {*ROLES, *ARMED, FAULT}
    # Who cites nothing answers, and that somebody always does.
    assert set(NEEDS) - {"ungrounded"} == needs
    assert set(CALLED) == {name for name, fault in FAULTS.items() if fault.port in ("tool", "service")} | {
        "person_edits"
    }
    assert all(FAULTS[name].port not in SEAM_PORTS for name in CALLED)


def test_a_tool_that_is_disturbed_is_called_once_by_who_has_it():
    spec = scripted_models(drilled())
    plain, struck = Injection([], spec), Injection([disturbance("tool_slow", delay_s=3.0)], spec)
    calls = [
        observe(drive(spec, Tier.INTERACTIVE, seed=1, disturbed=one.disturbing), one).tool_calls
        for one in (plain, struck)
    ]
    assert calls == [0, 1]
