"""Writes a scenario from four choices, and reads the choices back from its TOML where they say all of it.

The choices are the fault, the place where it strikes, how often, and the expectation. Everything else has the value
that most built-in scenarios have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import tomli_w

from fabric.core.values.flow import TERMINAL
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from simulator.faults.catalogue import STRUCK
from simulator.scenarios.spec.probes import Equal, OneOf, Tolerance, Within
from simulator.scenarios.spec.scenario import Scenario, SteadyProbe, references
from simulator.scenarios.spec.toml import read_scenario
from simulator.texts.toml import NoToml, toml_read

Part = Literal["what", "where", "when"]
PARTS: Mapping[str, Part] = {
    **dict.fromkeys(("agent", "role", "stage", "branch", "tool", "provider", "worker"), "where"),
    **dict.fromkeys(("times", "every", "from_call", "from_occurrence", "from_review"), "when"),
    **dict.fromkeys(("at_effect", "at_s", "from_s", "to_s"), "when"),
    **dict.fromkeys(("status", "retry_after_s", "delay_s", "bytes_per_s", "how", "briefs", "document", "score"), "what"),
    **dict.fromkeys(("calls", "cap_share", "input_tokens", "output_tokens", "branches", "still_s"), "what"),
    **dict.fromkeys(("apart_s", "after_due_s", "after_s", "skew_s"), "what"),
}  # fmt: skip
"""Choice to which each parameter of a fault belongs. Total over the faults of scenarios, by test."""
STEADY: Mapping[str, JSON] = {
    "title": "The run is answered, and no promise is broken",
    "probes": [{"probe": "state", "tolerance": "completed"}, {"probe": "violations", "tolerance": 0}],
}
ABORT: Mapping[str, JSON] = {"virtual_s": 400_000.0}
END_STATES = tuple(sorted(map(str, TERMINAL)))
"""States in which a run can end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChoices:
    """Choices of the form, as the texts of its fields."""

    name: str = ""
    title: str = ""
    description: str = ""
    fault: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the fault; a parameter without a text has its default."""
    settable: tuple[str, ...] = ()
    """Parameters of the fault that each drill may set; their values are defaults."""
    failure: str = ""
    """Row of the decision table that the run has to enter; empty: no decision is promised."""
    tiers: tuple[str, ...] = tuple(map(str, Tier))
    end: str = ""
    """State in which the disturbed run has to end; empty: it is not judged."""
    probes: tuple[tuple[str, str], ...] = ()
    """Further probes of the disturbed run, each with its tolerance."""


BEGINNING = ScenarioChoices(
    name="my-scenario",
    title="What goes wrong",
    description="What is made to happen, and what should hold.",
    fault="unavailable",
    values={"role": "finalizer", "times": "2"},
    failure="provider_failure",
)
"""Choices of a new scenario, which can be played at once."""


class Unsayable(ValueError):
    """A scenario of which the four choices cannot say all. Its text is one sentence that says why."""


def build_tree(choices: ScenarioChoices) -> dict[str, JSON]:
    """Return the choices as the tree of a scenario's TOML. Mistakes stay in it: ``read_scenario`` reports them."""
    expect: list[JSON] = [{"probe": "state", "tolerance": choices.end}] if choices.end else []
    expect += [{"probe": probe, "tolerance": read_value(text)} for probe, text in choices.probes]
    values = {key: convert_text(choices.fault, key, text) for key, text in choices.values.items() if text.strip()}
    defaults = {key: value for key, value in values.items() if key in choices.settable}
    values |= {key: _refer(key) for key in defaults}
    return {
        "name": choices.name,
        "title": choices.title,
        "description": choices.description,
        **({"failure": choices.failure} if choices.failure else {}),
        "tiers": list(choices.tiers),
        **({"parameters": defaults} if defaults else {}),
        "disturbance": [{"fault": choices.fault, **values}],
        **({"expect": expect} if expect else {}),
        "steady_state": dict(STEADY),
        "abort": dict(ABORT),
    }


def write_source(choices: ScenarioChoices) -> str:
    """Return the choices as TOML. Raises FaultRefused with a problem for each mistake."""
    tree = build_tree(choices)
    read_scenario(tree)
    steady, all_tiers = tree["steady_state"], choices.tiers == tuple(map(str, Tier))
    tables = [
        *([("[parameters]", tree["parameters"])] if "parameters" in tree else []),
        *(("[[disturbance]]", one) for one in tree["disturbance"]),
        *(("[[expect]]", one) for one in tree.get("expect", ())),
        ("[steady_state]", {"title": steady["title"]}),
        *(("[[steady_state.probes]]", one) for one in steady["probes"]),
        ("[abort]", tree["abort"]),
    ]
    plain = {key: value for key, value in tree.items() if isinstance(value, str) or (key == "tiers" and not all_tiers)}
    return tomli_w.dumps(plain) + "".join(f"\n{header}\n{tomli_w.dumps(table)}" for header, table in tables)


def read_choices(scenario: Scenario) -> ScenarioChoices:
    """Return the choices that say a scenario. Raises Unsayable."""
    for holds, why in LIMITS:
        if holds(scenario):
            raise Unsayable(f"The form cannot say this scenario: {why}.")
    (strike,) = scenario.disturbance
    first = scenario.expect[0] if scenario.expect else None
    end = first.tolerance.value if first and _is_end(first) and isinstance(first.tolerance, Equal) else ""
    rest = scenario.expect[1:] if end else scenario.expect
    choices = ScenarioChoices(
        name=scenario.name,
        title=scenario.title,
        description=scenario.description,
        fault=strike.fault,
        values={key: write_value(scenario.parameters.get(key, value)) for key, value in strike.values.items()},
        settable=tuple(key for key in strike.values if key in scenario.parameters),
        failure=str(scenario.failure or ""),
        tiers=tuple(map(str, scenario.tiers)),
        end=str(end),
        probes=tuple((one.probe, write_tolerance(one.tolerance)) for one in rest),
    )
    if read_scenario(build_tree(choices)) != scenario:
        raise Unsayable("The form cannot say this scenario: it would write one of its values in another way.")
    return choices


def _refer(key: str) -> str:
    return "${" + key + "}"


def _has_other_parameters(one: Scenario) -> bool:
    given = one.disturbance[0].values
    return any(given.get(key) != _refer(key) for key in one.parameters) or any(
        key not in one.parameters for key in references(one.disturbance[0])
    )


def _is_end(one: SteadyProbe) -> bool:
    return one.probe == "state" and isinstance(one.tolerance, Equal) and one.tolerance.value in END_STATES


def _has_other_steady_state(one: Scenario) -> bool:
    plain = [{"probe": each.probe, "tolerance": each.tolerance.write_value()} for each in one.steady_state.probes]
    return {"title": one.steady_state.title, "probes": plain} != STEADY


def _has_typed_tolerance(one: Scenario) -> bool:
    return any(not isinstance(each.tolerance, Equal | Within | OneOf) for each in one.expect)


LIMITS: tuple[tuple[Callable[[Scenario], bool], str], ...] = (
    (lambda one: bool(one.recorded), "it replays a recorded run"),
    (lambda one: len(one.disturbance) > 1, "it has more than one disturbance"),
    (_has_other_parameters, "a parameter has another name than the field that it sets"),
    (lambda one: one.workload != type(one.workload)(), "it has a test input of its own"),
    (_has_other_steady_state, "it has a steady state of its own"),
    (lambda one: one.abort.model_dump(exclude_none=True) != ABORT, "it has abort conditions of its own"),
    (lambda one: one.seed != 1, "it has a seed of its own"),
    (lambda one: bool(one.tags), "it has tags"),
    (lambda one: bool(one.contributions), "it has contributions"),
    (_has_typed_tolerance, "an expectation has a tolerance with a type"),
)
"""Parts of a scenario that the form leaves out, each with the words for a scenario that has it."""


# -- texts of fields ---------------------------------------------------------------------------------------------------


def convert_text(fault: str, key: str, text: str) -> JSON:
    """Return the text of a parameter as its type; the text itself if it is none, which ``read_scenario`` refuses."""
    kinds = parameter_kinds(fault, key)
    try:
        if "integer" in kinds:
            return int(text)
        if "number" in kinds:
            return float(text)
    except ValueError:
        pass
    return text


def parameter_kinds(fault: str, key: str) -> set[str]:
    """Return the JSON types of a fault's parameter; empty for an unknown one."""
    parameters = STRUCK[fault].parameters if fault in STRUCK else None
    found = parameters.model_json_schema()["properties"].get(key, {}) if parameters else {}
    return {str(one.get("type", "")) for one in (found, *found.get("anyOf", ()))} - {"", "null"}


def write_value(value: JSON) -> str:
    """Return a value as the text of a field."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_tolerance(tolerance: Tolerance) -> str:
    """Return a tolerance as the text of a field: ``completed``, ``0`` or ``[1, 5]``."""
    value = tolerance.write_value()
    plain = write_value(value)
    return plain if read_value(plain) == value else json.dumps(value, ensure_ascii=False)


def read_value(text: str) -> JSON:
    """Return the TOML value in a text, such as a number or a list; else the text itself."""
    try:
        found = toml_read(f"value = {text.strip()}")
    except NoToml:
        return text
    value = found.get("value")
    return value if len(found) == 1 and isinstance(value, bool | int | str | list) else text
