"""Shows a scenario as a form of four choices: fault, place, how often, expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from console.pages.drills.remembered import pick_fabric
from console.pages.scenarios.words import PORT_WORDS, UNITS
from console.site.access.actors import find_actor
from console.site.sentences import sentence
from console.templatetags.marks import FAILURES, STATES
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.words import words
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list, revision_spec
from simulator.drills.library.form import END_STATES, PARTS, Part, ScenarioChoices, parameter_kinds, write_source
from simulator.drills.library.selectors import ScenarioView
from simulator.faults.catalogue import STRUCK, FaultRefused
from simulator.faults.fault import PORTS, Role, StageName
from simulator.scenarios.spec.probes import PROBES
from simulator.scenarios.spec.words import ROLES
from simulator.texts.problems import Problem

PROBE_ROWS = 3
"""Empty and filled rows for further probes, at least."""
TEXT_MAX = 2_000
"""Longest text of one field."""
AGENT, ROLE = "agent:", "role:"
"""Beginnings of the values of the field that picks whose calls are struck."""


EMPTY: Mapping[str, tuple[str, ...]] = {"times": ("empty: for the whole run",), "branch": ("empty: every branch",)}
"""Meaning of an empty field that has no default."""


class Choice(NamedTuple):
    """One option of a field."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class ChoiceField:
    """A parameter of the fault as a field of the form."""

    name: str
    label: str
    value: str
    choices: tuple[Choice, ...]
    """Its options; empty for a text."""
    hint: str
    unit: str
    number: bool
    errors: tuple[str, ...]
    settable: bool
    """True: each drill may set it."""

    @property
    def field(self) -> str:
        """Return its name in the form."""
        return f"v-{self.name}"


def read_post(data: QueryDict) -> ScenarioChoices:
    """Return the sent choices."""

    def text(name: str) -> str:
        return data.get(name, "").replace("\r\n", "\n")[:TEXT_MAX]

    fault = text("fault")
    parameters = STRUCK[fault].parameters if fault in STRUCK else None
    known = parameters.model_fields if parameters else {}
    values = {key: text(f"v-{key}") for key in known if text(f"v-{key}").strip()}
    who = text("v-who")
    for beginning, key in ((AGENT, "agent"), (ROLE, "role")):
        if who.startswith(beginning) and key in known:
            values[key] = who.removeprefix(beginning)
    settable = [key for key in values if data.get(f"s-{'who' if key in ('agent', 'role') else key}")]
    probes = zip(data.getlist("probe"), data.getlist("tolerance"), strict=False)
    return ScenarioChoices(
        name=text("name").strip(),
        title=text("title").strip(),
        description=text("description").strip(),
        fault=fault,
        values=values,
        settable=tuple(settable),
        failure=text("failure"),
        tiers=tuple(one[:40] for one in data.getlist("tier")[: len(Tier)]),
        end=text("end"),
        probes=tuple((probe[:80], tolerance[:TEXT_MAX]) for probe, tolerance in probes if probe or tolerance.strip()),
    )


def show_form(
    request: HttpRequest,
    seen: ScenarioView | None,
    choices: ScenarioChoices,
    problems: Sequence[Problem] = (),
    said: Sequence[str] = (),
    status: int = 200,
) -> HttpResponse:
    """Show the form. ``problems``: shown beside their fields; ``said``: sentences about the whole."""
    actor = find_actor(request.user)
    fabric = pick_fabric(request, actor, request.POST.get("of", request.GET.get("fabric", "")))
    spec = _read_spec(fabric.revision_id) if fabric else None
    if seen is not None:
        choices = replace(choices, name=seen.name)
    wrong, rest = _sort_problems(choices, problems)
    shown = {
        "view": seen,
        "choices": choices,
        "fabric": fabric,
        "offered": fabrics_list(actor),
        "faults": [(PORT_WORDS[port], [one for one in STRUCK.values() if one.port == port]) for port in PORTS],
        "says": STRUCK[choices.fault].says if choices.fault in STRUCK else "",
        "parts": {part: _fields(choices, part, spec, wrong) for part in get_args(Part)},
        "failures": [Choice("", "none: the run ends as if undisturbed"), *(Choice(str(one), FAILURES[one]) for one in FailureType)],
        "ends": [Choice("", "not judged"), *(Choice(one, STATES[RunState(one)][0].lower()) for one in END_STATES)],
        "tiers": [(tier, str(tier) in choices.tiers) for tier in Tier],
        "probes": _probe_rows(choices, wrong),
        "known_probes": PROBES.items(),
        "wrong": wrong,
        "problems": [sentence(one) for one in (*said, *rest)],
        "count": len(problems) + len(said),
    }  # fmt: skip
    return render(request, "scenarios/form.html", shown, status=status)


def try_source(choices: ScenarioChoices) -> tuple[str, tuple[Problem, ...]]:
    """Return the choices as TOML, or all their mistakes."""
    try:
        return write_source(choices), ()
    except FaultRefused as error:
        return "", tuple(error.problems)


def _read_spec(revision_id: str) -> FabricSpec | None:
    try:
        return revision_spec(revision_id)
    except (Refused, ValueError):  # Published by another version, which this one cannot read.
        return None


def _sort_problems(
    choices: ScenarioChoices, problems: Sequence[Problem]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the problems by field, and those of no field as sentences."""
    fields: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for one in problems:
        key = _field_of(choices, one)
        if key:
            fields[key] = (*fields.get(key, ()), sentence(one.sentence))
        else:
            rest.append(str(one))
    return fields, rest


def _field_of(choices: ScenarioChoices, problem: Problem) -> str:
    """Return the field that a problem is about; empty for none."""
    match problem.path:
        case ("disturbance", 0, "fault"):
            return "fault"
        case ("disturbance", 0, str(key)) | ("parameters", str(key)):
            return "v-who" if key in ("agent", "role") else f"v-{key}"
        case ("disturbance", 0):
            return "fault"
        case ("expect", int(n), *_):
            return "end" if choices.end and n == 0 else f"probe-{n - bool(choices.end)}"
        case ("name" | "title" | "description" | "failure" | "tiers" as key, *_):
            return key
    return ""


def _probe_rows(choices: ScenarioChoices, wrong: Mapping[str, tuple[str, ...]]) -> list[tuple[int, str, str, Any, str]]:
    """Return the rows of probes: number, probe, tolerance, errors and the id of the errors."""
    rows = [*choices.probes, *[("", "")] * max(1, PROBE_ROWS - len(choices.probes))]
    return [
        (n, probe, tolerance, wrong.get(f"probe-{n}", ()), f"e-probe-{n}") for n, (probe, tolerance) in enumerate(rows)
    ]


def _fields(
    choices: ScenarioChoices, part: Part, spec: FabricSpec | None, wrong: Mapping[str, tuple[str, ...]]
) -> list[ChoiceField]:
    """Return the fields of one choice that the picked fault has."""
    parameters = STRUCK[choices.fault].parameters if choices.fault in STRUCK else None
    if parameters is None:
        return []
    schemas = parameters.model_json_schema()["properties"]
    required = parameters.model_json_schema().get("required", ())
    names = [name for name in parameters.model_fields if PARTS[name] == part]
    found = [_build_who(choices, spec, wrong)] if "agent" in names else []
    for name in names:
        if name not in ("agent", "role"):
            plain = next((one for one in schemas[name].get("anyOf", ()) if one.get("type") != "null"), schemas[name])
            options = _options(name, plain, spec, choices.values.get(name, ""))
            found.append(_field(choices, name, plain, options, required=name in required, errors=wrong.get(f"v-{name}", ())))  # fmt: skip
    return found


def _build_who(choices: ScenarioChoices, spec: FabricSpec | None, wrong: Mapping[str, tuple[str, ...]]) -> ChoiceField:
    """Return the field that picks whose calls are struck: an agent by name, or by its role."""
    agent, role = choices.values.get("agent", ""), choices.values.get("role", "")
    agents = [Choice(f"{AGENT}{one.name}", f"{one.name}, asks {one.model}") for one in (spec.agents if spec else ())]
    options = [Choice("", "every agent"), *(Choice(f"{ROLE}{one}", ROLES[one]) for one in get_args(Role)), *agents]
    value = f"{AGENT}{agent}" if agent else f"{ROLE}{role}" if role else ""
    if value not in {one.value for one in options}:
        options.append(Choice(value, f"{agent or role}, which this fabric has not"))
    settable = bool({"agent", "role"} & set(choices.settable))
    errors = wrong.get("v-who", ())
    return ChoiceField("who", "Agent", value, tuple(options), "its model calls are struck", "", False, errors, settable)


def _options(name: str, schema: Mapping[str, Any], spec: FabricSpec | None, value: str) -> tuple[Choice, ...]:
    """Return the options of a field; empty for a text."""
    if name == "stage":
        return (Choice("", "any stage"), *(Choice(one, words(one)) for one in get_args(StageName)))
    named = {
        "tool": [one.name for one in spec.all_tools] if spec else [],
        "provider": sorted({one.provider for one in spec.models}) if spec else [],
    }
    if name in named:
        known = [*named[name], *([value] if value and value not in named[name] else [])]
        return (Choice("", f"any {name}"), *(Choice(one, one) for one in known))
    told = schema.get("enum", ())
    return (Choice("", "as by default"), *(Choice(str(one), words(str(one))) for one in told)) if told else ()


def _field(
    choices: ScenarioChoices,
    name: str,
    schema: Mapping[str, Any],
    options: tuple[Choice, ...],
    *,
    required: bool,
    errors: tuple[str, ...],
) -> ChoiceField:
    default = schema.get("default")
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    hint = ["required"] if required else [f"default {default}"] if default is not None else list(EMPTY.get(name, ()))
    hint += [f"{'at least' if 'minimum' in schema else 'over'} {least:g}"] if least is not None else []
    return ChoiceField(
        name=name,
        label=words(name.removesuffix("_s")).capitalize(),
        value=choices.values.get(name, ""),
        choices=options,
        hint=", ".join(hint),
        unit=next((unit for end, unit in UNITS.items() if name.endswith(end)), ""),
        number=bool(parameter_kinds(choices.fault, name) & {"integer", "number"}),
        errors=errors,
        settable=name in choices.settable,
    )
