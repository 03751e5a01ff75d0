"""Scenarios in words: each disturbance as a sentence with its parameters filled in, and what a drill of it can touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.taxonomy import Tier
from fabric.core.words import duration
from simulator.scenarios.catalogue import FAULTS, Port
from simulator.scenarios.parameters import (
    Asked,
    At,
    Branches,
    Calls,
    Crash,
    Occurrences,
    Outage,
    Parameters,
    Skew,
    Times,
    ToolCalls,
)
from simulator.scenarios.problems import Path
from simulator.scenarios.scenario import Disturbance, Given, Scalar, Scenario, references, resolved

JSON = Any
ROLES: Mapping[str, str] = {
    "planner": "the planner",
    "worker": "the first worker",
    "armed": "the first worker with tools",
    "aggregator": "the aggregator",
    "critic": "the critic",
    "finalizer": "the finalizer",
}
"""Total over ``Role``, by test."""
CHANCES: Mapping[Port, str] = {
    "model": "model call",
    "answer": "model call",
    "tool": "tool call",
    "service": "call of a service",
    "store": "write",
    "broker": "message",
    "process": "effect",
    "clock": "look at the clock",
    "person": "question",
}
"""What is counted at each port. Total, by test."""
AROUND_A_RUN = "around a run"
"""What a scenario enters that promises no decision."""

MEANS: Mapping[str, Callable[[Any], str]] = {
    "status": lambda value: f"HTTP {value}",
    "retry_after_s": lambda value: f"to come again after {duration(value)}",
    "delay_s": lambda value: f"{duration(value)} late",
    "billed": lambda value: "billed all the same" if value else "not billed",
    "bytes_per_s": lambda value: f"{value:g} bytes a second",
    "after_s": lambda value: f"after {duration(value)}",
    "period": lambda value: "one call" if value == 1 else f"{value} calls in turn",
    "peers": lambda value: "two in turn" if value == 2 else f"{value} in turn",
    "calls": lambda value: f"{value:,} calls at once",
    "briefs": lambda value: f"{value:,} agents",
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
"""What a parameter says that is not about which chances are taken. Total, with ``WHICH``, over the fields of all parameters, by test."""
WHICH = frozenset(
    {
        *(
            "times",
            "every",
            "from_call",
            "from_occurrence",
            "from_question",
            "agent",
            "role",
            "stage",
            "tool",
            "branch",
        ),
        *("provider", "from_s", "to_s", "branches", "at_s", "at_effect", "worker"),
    }
)
"""Parameters that say which chances are taken."""


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``13th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def disturbance_words(one: Disturbance) -> str:
    """``429 without Retry-After: each call of the finalizer, for as long as the run goes on``."""
    given = one.parameters
    said = [MEANS[name](value) for name, value in _beside(given)]
    return f"{one.fault.says}: {', '.join([_which(one), *said])}"


def _beside(given: Parameters) -> list[tuple[str, Any]]:
    """Parameters that are not about which chances are taken, and that say something."""
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
        return (
            f"at {given.at_s:g} s"
            if given.at_s is not None
            else f"at its {ordinal(given.at_effect or 1)} effect{times}"
        )
    if isinstance(given, At):
        return f"at {given.at_s:g} s"
    if isinstance(given, Skew):
        return f"worker {given.worker}"
    assert isinstance(given, Times)
    return f"{_counted(given, noun)}{_of(given)}{_end(given)}"


def _counted(given: Times, noun: str) -> str:
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
    return given.from_question if isinstance(given, Asked) else 1


def _of(given: Times) -> str:
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
    """A sentence for each disturbance. Raises ``catalogue.Refused`` for parameters that do not fit."""
    return [disturbance_words(one) for one in scenario.disturbances(overrides)]


def touched(scenario: Scenario) -> list[str]:
    """What a drill of it can touch, a line each."""
    ends = scenario.abort.virtual_s
    return [
        "virtual time: no call leaves the process, no money is spent ($0.00), and nothing that is real is read or written",
        f"two runs for each tier, and one more to compare them with: {', '.join(tier_words(one) for one in scenario.tiers)}",
        f"it stops after {duration(ends)} of virtual time at the latest" if ends else "it ends with its run",
    ]


def tier_words(tier: Tier) -> str:
    """``high-stakes``."""
    return str(tier).replace("_", "-")


def ports(scenario: Scenario) -> list[Port]:
    """Where it strikes, each once."""
    return list(dict.fromkeys(FAULTS[one.fault].port for one in scenario.disturbance))


# -- parameters --------------------------------------------------------------------------------------------------------


def field_of(scenario: Scenario, name: str) -> tuple[str, Mapping[str, JSON]]:
    """Where a scenario's parameter is used: the name of the fault's parameter that it is, and the JSON schema of that; empty: it is part of a text."""
    for given in scenario.disturbance:
        for key, value in given.values.items():
            if value == "${" + name + "}":
                schema = FAULTS[given.fault].parameters.model_json_schema()
                return key, _plain(schema["properties"].get(key, {}))
    return "", {}


def _plain(schema: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """A schema without its null."""
    some = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return {**schema, **some[0]} if some else schema


def used_by(scenario: Scenario, name: str) -> list[str]:
    """The faults that use a parameter."""
    return list(dict.fromkeys(one.fault for one in scenario.disturbance if name in references(one)))


def as_written(given: Given, scenario: Scenario, at: Path) -> str:
    """One disturbance in words, with the scenario's own parameters."""
    return disturbance_words(resolved(given, scenario.parameters, at))
