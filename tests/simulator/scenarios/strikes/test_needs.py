"""Every shipped scenario in every sample: the fabric is equipped with what it lacks, every disturbance strikes, and no promise of the engine is broken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import default_table, samples
from simulator.faults.catalogue import STRUCK, build_parameters, fault_named
from simulator.scenarios.baseline.work import drive, scripted_models
from simulator.scenarios.play.handovers import is_about
from simulator.scenarios.play.player import observe
from simulator.scenarios.spec.collection import library
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import ARMED, NEEDS
from simulator.scenarios.strikes.handovers import explain_no_circle
from simulator.scenarios.strikes.injection import Injection
from simulator.scenarios.strikes.needs import CALLED, ROLES, equip_fabric
from tests.simulator.drills.drilled import drilled


@cache
def fabrics() -> dict[str, FabricSpec]:
    return {spec.name: scripted_models(spec) for spec in (default_table(), *samples())}


ENDS_BEFORE = {("checked-answer", "undoing-fails"), ("supplier-notes", "undoing-fails")}
"""Where the answer is withheld before anything is booked, so that there is nothing to undo."""


def played() -> Iterator[tuple[str, tuple[Tier, ...], tuple[Disturbance, ...]]]:
    """Yield each shipped scenario, and each fault that none of them has."""
    shipped = library().values()
    for scenario in shipped:
        yield scenario.name, scenario.tiers, scenario.disturbances()
    used = {one.fault for scenario in shipped for one in scenario.disturbance}
    for name in STRUCK:
        if name not in used:
            yield name, tuple(Tier), (disturbance(name, **VALUES.get(name, {})),)


@pytest.mark.parametrize("fabric", [spec.name for spec in (default_table(), *samples())])
def test_every_scenario_and_every_fault_strikes_in_every_fabric_and_breaks_nothing(fabric):
    unmet = set()
    for number, (name, tiers, disturbances) in enumerate(played()):
        spec, _ = equip_fabric(fabrics()[fabric], disturbances)
        injection = Injection(disturbances, spec)
        if is_about(disturbances) and explain_no_circle(spec, disturbances[0].parameters.peers):
            assert len(injection.absent()) == 1, "the message says that no agent hands over"
            continue
        assert injection.absent() == []
        world = drive(spec, tiers[number % len(tiers)], seed=1, disturbed=injection.disturb)
        assert world.watch.violations == [], name
        assert observe(world, injection).state in ("completed", "stopped", "failed", "aborted")
        if not all(injection.struck[one.fault.name] for one in disturbances):
            unmet.add((fabric, name))
    assert unmet <= ENDS_BEFORE


def disturbance(name: str, **values: Any) -> Disturbance:
    return Disturbance(fault_named(name), build_parameters(STRUCK[name], values))


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
        ([("unsure", {})], "a critic"),
        ([("bad_plan", {})], "a planner"),
        ([("tool_loop", {}), ("hang", {"role": "armed"})], "a tool that reads"),
        ([("tool_error", {})], "tool drill-lookup"),
        ([("tool_error", {"tool": "lookup"})], ""),
        ([("filtered", {"role": "finalizer"}), ("compensation_fails", {})], "a finalizer and tool drill-book"),
        ([("person_edits", {})], "tool drill-wire"),
        ([("hang", {}), ("crash", {"at_effect": 1}), ("person_silent", {})], ""),
    ],
)
def test_a_fabric_is_equipped_with_what_a_fault_needs_and_no_more(given, said):
    spec, what = equip_fabric(bare(), [disturbance(name, **values) for name, values in given])
    assert what == said
    assert (spec == bare()) == (not said)
    assert equip_fabric(spec, [disturbance(name, **values) for name, values in given])[1] == ""


def test_what_a_fabric_has_is_not_given_again():
    everything = [disturbance(name, **VALUES.get(name, {})) for name in STRUCK]
    spec, _ = equip_fabric(bare(), everything)
    assert equip_fabric(spec, everything) == (spec, "")


VALUES: dict[str, dict[str, Any]] = {"outage": {"to_s": 5}, "crash": {"at_effect": 1}}


def test_every_fault_that_needs_an_agent_or_a_tool_says_so():
    needs = {*ROLES, *ARMED, "handoff_cycle", "handoff_cycle_of_3"}
    # An agent that cites nothing answers, and one always does.
    assert set(NEEDS) - {"ungrounded"} == needs
    assert set(CALLED) == {name for name, fault in STRUCK.items() if fault.strike == "tool"} | {"person_edits"}
    assert not any(STRUCK[name].live for name in CALLED)


def test_a_tool_that_is_disturbed_is_called_once_by_who_has_it():
    spec = scripted_models(drilled())
    plain, struck = Injection([], spec), Injection([disturbance("tool_slow", delay_s=3.0)], spec)
    calls = [
        observe(drive(spec, Tier.INTERACTIVE, seed=1, disturbed=one.disturb), one).tool_calls for one in (plain, struck)
    ]
    assert calls == [0, 1]
