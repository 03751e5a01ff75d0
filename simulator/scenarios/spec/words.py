"""Describes scenarios in words: each disturbance as a sentence with its parameters, and its reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import TIERS, duration
from simulator.faults.catalogue import STRUCK
from simulator.faults.fault import (
    Asked,
    At,
    Branches,
    Calls,
    Crash,
    Occurrences,
    Outage,
    Parameters,
    Port,
    Skew,
    Times,
    ToolCalls,
)
from simulator.scenarios.spec.recorded import count_recorded
from simulator.scenarios.spec.scenario import (
    Disturbance,
    Scalar,
    Scenario,
    WrittenDisturbance,
    references,
    resolve_disturbance,
)
from simulator.texts.problems import Path

ROLES: Mapping[str, str] = {
    "planner": "the planner",
    "worker": "the first worker",
    "armed": "the first worker with tools",
    "aggregator": "the aggregator",
    "critic": "the critic",
    "finalizer": "the finalizer",
}
"""Words of each role. Total over ``Role``, by test."""
CHANCES: Mapping[Port, str] = {
    "model": "model call",
    "answer": "model call",
    "tool": "tool call",
    "service": "call of a service",
    "store": "write",
    "broker": "message",
    "worker": "effect",
    "clock": "look at the clock",
    "person": "review",
}
"""Unit that is counted at each port. Total, by test."""
INFRASTRUCTURE = "infrastructure"
"""Name of the row for scenarios that promise no decision."""

MEANS: Mapping[str, Callable[[Any], str]] = {
    "status": lambda value: f"HTTP {value}",
    "retry_after_s": lambda value: f"to come again after {duration(value)}",
    "delay_s": lambda value: f"{duration(value)} late",
    "bytes_per_s": lambda value: f"{value:g} bytes a second",
    "after_s": lambda value: f"after {duration(value)}",
    "calls": lambda value: f"{value:,} call{'s' if value != 1 else ''} at once",
    "briefs": lambda value: f"{value:,} agent{'s' if value != 1 else ''}",
    "cap_share": lambda value: f"{value * 100:g} % of the run's cap",
    "input_tokens": lambda value: f"{value:,} tokens read",
    "output_tokens": lambda value: f"{value:,} tokens written",
    "how": lambda value: value.replace("_", " "),
    "document": lambda value: f"it cites {value}",
    "score": lambda value: f"a score of {value:g}",
    "after_due_s": lambda value: f"{duration(value)} after it was due",
    "apart_s": lambda value: f"{duration(value)} apart" if value else "at the same moment",
    "still_s": lambda value: f"for {duration(value)}",
    "skew_s": lambda value: f"{value:+g} s",
}
"""Words of a parameter that does not choose chances. Total, with ``WHICH``, over the fields of all parameters, by
test.
"""
WHICH = frozenset(
    {
        *(
            "times",
            "every",
            "from_call",
            "from_occurrence",
            "from_review",
            "agent",
            "role",
            "stage",
            "tool",
            "branch",
        ),
        *("provider", "from_s", "to_s", "branches", "at_s", "at_effect", "worker"),
    }
)
"""Words of parameters that choose chances."""


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``13th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def disturbance_words(one: Disturbance) -> str:
    """Return ``The tool answers with an error: the 1st tool call``."""
    given = one.parameters
    said = [MEANS[name](value) for name, value in _further_parameters(given)]
    return f"{one.fault.says}: {', '.join([_which(one), *said])}"


def _further_parameters(given: Parameters) -> list[tuple[str, Any]]:
    """Return the set parameters that do not choose chances."""
    named = ((name, getattr(given, name)) for name in type(given).model_fields if name not in WHICH)
    return [(name, value) for name, value in named if value not in (None, "") and not (value == 0 and "tokens" in name)]


def _which(one: Disturbance) -> str:
    given, noun = one.parameters, CHANCES[one.fault.port]
    if isinstance(given, Outage):
        whose = f"provider {given.provider}" if given.provider else "every provider"
        return f"{whose}, from {given.from_s:g} s to {given.to_s:g} s"
    if isinstance(given, Branches):
        return "the first branch of each fan-out" if given.branches == 1 else f"the first {given.branches} branches"
    if isinstance(given, Crash):
        times = f", and the {given.times - 1} after it" if given.times > 1 else ""
        return f"at its {ordinal(given.at_effect)} effect{times}"
    if isinstance(given, At):
        return f"at {given.at_s:g} s"
    if isinstance(given, Skew):
        return f"worker {given.worker}"
    assert isinstance(given, Times)
    return f"{_describe_count(given, noun)}{_describe_target(given)}{_end(given)}"


def _describe_count(given: Times, noun: str) -> str:
    first = _first(given)
    if given.times == 1:
        return f"the {ordinal(first)} {noun}"
    each = f"each {noun}" if given.every == 1 else f"every {ordinal(given.every)} {noun}"
    return each if first == 1 else f"{each} from the {ordinal(first)} on"


def _first(given: Times) -> int:
    if isinstance(given, Calls | ToolCalls):
        return given.from_call
    if isinstance(given, Occurrences):
        return given.from_occurrence
    return given.from_review if isinstance(given, Asked) else 1


def _describe_target(given: Times) -> str:
    if isinstance(given, ToolCalls):
        return f" of {given.tool}" if given.tool else ""
    if not isinstance(given, Calls):
        return ""
    whose = f" of {given.agent or ROLES[given.role or 'worker']}" if given.agent or given.role else ""
    where = f" in {given.stage.replace('_', '-')}" if given.stage else ""
    return f"{whose}{where}{f' {given.branch}' if given.branch else ''}"


def _end(given: Times) -> str:
    if given.times is None:
        return ", for as long as the run goes on"
    return "" if given.times == 1 else f", {given.times} times"


def disturbances_words(scenario: Scenario, overrides: Mapping[str, Scalar] | None = None) -> list[str]:
    """Return a sentence for the recording, and one for each disturbance. Raises ``catalogue.FaultRefused`` for
    parameters that do not fit.
    """
    return [*recorded_words(scenario), *(disturbance_words(one) for one in scenario.disturbances(overrides))]


def recorded_words(scenario: Scenario) -> list[str]:
    """Return a sentence for the recorded parts of a captured run; empty without any."""
    return [f"The recorded run is replayed: {count_recorded(scenario.recorded)}"] if scenario.recorded else []


def describe_reach(scenario: Scenario) -> list[str]:
    """Return the reach of its drill, a line each."""
    ends = scenario.abort.virtual_s
    return [
        "simulated time: no call leaves the process, no money is spent ($0.00), and nothing that is real is read or written",
        f"two runs for each tier, and one more to compare them with: {', '.join(tier_words(one) for one in scenario.tiers)}",
        f"it stops after {duration(ends)} of simulated time at the latest" if ends else "it ends with its run",
    ]


def tier_words(tier: Tier) -> str:
    """Return a tier in words: ``high-stakes regulated``."""
    return TIERS[tier]


def ports(scenario: Scenario) -> list[Port]:
    """Return the ports at which it strikes, each once."""
    return list(dict.fromkeys(STRUCK[one.fault].port for one in scenario.disturbance))


# -- parameters ------------------------------------------------------------------------------------------------------


def find_field(scenario: Scenario, name: str) -> tuple[str, Mapping[str, JSON]]:
    """Return the fault's parameter that uses a scenario's parameter, and its JSON schema; empty inside a text."""
    for given in scenario.disturbance:
        for key, value in given.values.items():
            if value == "${" + name + "}":
                parameters = STRUCK[given.fault].parameters
                assert parameters is not None
                schema = parameters.model_json_schema()
                return key, _plain(schema["properties"].get(key, {}))
    return "", {}


def _plain(schema: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a schema without its null."""
    some = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return {**schema, **some[0]} if some else schema


def used_by(scenario: Scenario, name: str) -> list[str]:
    """Return the faults that use a parameter."""
    return list(dict.fromkeys(one.fault for one in scenario.disturbance if name in references(one)))


def as_written(given: WrittenDisturbance, scenario: Scenario, at: Path) -> str:
    """Return a disturbance in words, with the scenario's own parameters."""
    return disturbance_words(resolve_disturbance(given, scenario.parameters, at))
