"""Reads and writes scenarios as TOML. All mistakes are reported at once, with file, line and path."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import tomli_w
from pydantic import ValidationError

from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from simulator.faults.catalogue import STRUCK, FaultRefused
from simulator.scenarios.spec.recorded import write_recorded
from simulator.scenarios.spec.scenario import (
    Scalar,
    Scenario,
    SteadyProbe,
    SteadyState,
    WrittenDisturbance,
    list_written,
    parameter_problems,
    references,
    resolve_disturbance,
    steady_probe,
)
from simulator.texts.problems import Path, Problem, Unreadable, dotted_path, list_problems, nearest, shorten_value
from simulator.texts.toml import Lines, NoToml, toml_read


def read_file(path: pathlib.Path) -> Scenario:
    """Return the scenario in a file. Raises Unreadable, and OSError if the file cannot be opened."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Unreadable([f"{path.name}: is no UTF-8 (byte {error.start + 1}); save it as UTF-8"]) from None
    return parse_scenario(text, origin=path.name)


def parse_scenario(text: str, *, origin: str = "") -> Scenario:
    """Return the scenario in a text. Raises Unreadable with a sentence for each mistake. ``origin``: file name in
    them.
    """
    tree = _tree(text, origin)
    lines = Lines(text)

    def describe_problem(problem: Problem) -> str:
        where = [origin, f"line {lines.line(problem.path)}", dotted_path(problem.path)]
        return f"{', '.join(part for part in where if part)}: {problem.sentence}"

    try:
        return read_scenario(tree)
    except FaultRefused as error:
        placed = sorted(error.problems, key=lambda problem: lines.line(problem.path))
        raise Unreadable(map(describe_problem, placed)) from None


def _tree(text: str, origin: str) -> dict[str, JSON]:
    try:
        return toml_read(text)
    except NoToml as error:
        where = ", ".join(part for part in (origin, error.place) if part)
        raise Unreadable([f"{where or 'the scenario'}: {error.sentence}"]) from None


def read_scenario(tree: Mapping[str, JSON]) -> Scenario:
    """Return the scenario in a tree. Raises Refused with a problem for each mistake."""
    problems: list[Problem] = []
    parts: dict[str, Any] = dict(tree)
    if parts.get("recorded"):
        parts.setdefault("disturbance", [])
    _take(parts, "disturbance", _disturbances, problems)
    _take(parts, "steady_state", _steady_state, problems)
    _take(parts, "expect", partial(_probes, at=("expect",), header="[[expect]]"), problems)
    if parts.get("failure") == "none":
        del parts["failure"]
    parameters = parts.get("parameters", {})
    if isinstance(parameters, dict):
        given: tuple[WrittenDisturbance, ...] = parts.get("disturbance", ())
        problems += parameter_problems(parameters, given)
        wrong = {problem.path[1] for problem in problems if problem.path[:1] == ("parameters",)}
        parts["parameters"] = {
            name: value for name, value in parameters.items() if isinstance(value, bool | int | float | str)
        }
        told = {problem.path for problem in problems}
        found = _find_mistakes(given, parts["parameters"], wrong)
        problems += [problem for problem in found if problem.path not in told]
    try:
        made = Scenario.model_validate(parts)
    except ValidationError as error:
        raise FaultRefused([*problems, *_plain(list_problems(error, Scenario), problems)]) from None
    if problems:
        raise FaultRefused(problems)
    return made


def _find_mistakes(
    given: tuple[WrittenDisturbance, ...], parameters: Mapping[str, Scalar], wrong: set[str | int]
) -> list[Problem]:
    """Return the mistakes in the disturbances, without those of their parameters."""
    found: list[Problem] = []
    for number, one in enumerate(given):
        if wrong & set(references(one)) - set(parameters):
            continue
        try:
            resolve_disturbance(one, parameters, ("disturbance", number))
        except FaultRefused as error:
            found += error.problems
    return found


def _plain(found: list[Problem], known: list[Problem]) -> Iterator[Problem]:
    """Yield the problems, without those about parts that were reported already."""
    told = {problem.path[0] for problem in known if problem.path}
    for problem in found:
        if problem.path[0] not in told:
            yield problem


def _take(
    parts: dict[str, Any], name: str, take: Callable[[JSON, list[Problem]], JSON], problems: list[Problem]
) -> None:
    if name in parts:
        taken = take(parts.pop(name), problems)
        if taken is not None:
            parts[name] = taken


def _tables(value: JSON, at: Path, header: str, problems: list[Problem]) -> Iterator[tuple[Path, dict[str, JSON]]]:
    if not isinstance(value, list):
        problems.append(Problem(at, f"{shorten_value(value)} is no list of tables; write {header} above each"))
        return
    for number, one in enumerate(value):
        if isinstance(one, dict):
            yield (*at, number), one
        else:
            problems.append(Problem((*at, number), f"{shorten_value(one)} is no table"))


def _disturbances(value: JSON, problems: list[Problem]) -> tuple[WrittenDisturbance, ...] | None:
    found = []
    for at, one in _tables(value, ("disturbance",), "[[disturbance]]", problems):
        values = dict(one)
        fault = values.pop("fault", None)
        if fault is None:
            problems.append(Problem((*at, "fault"), f"is missing; {nearest('', STRUCK)}"))
        elif not isinstance(fault, str):
            problems.append(Problem((*at, "fault"), f"{shorten_value(fault)} is no text; write it in quotes"))
        found.append(WrittenDisturbance(fault=fault if isinstance(fault, str) else "", values=values))
    shapeless = any(problem.path[:1] == ("disturbance",) and len(problem.path) < 3 for problem in problems)
    return None if shapeless else tuple(found)


def _probes(value: JSON, problems: list[Problem], *, at: Path, header: str) -> tuple[SteadyProbe, ...] | None:
    """Return the probes in a list of tables; None if one is wrong."""
    found: list[SteadyProbe] = []
    before = len(problems)
    for path, one in _tables(value, at, header, problems):
        try:
            found.append(steady_probe(one, path))
        except FaultRefused as error:
            problems += error.problems
    return tuple(found) if len(problems) == before else None


def _steady_state(value: JSON, problems: list[Problem]) -> SteadyState | JSON:
    if not isinstance(value, dict):
        return value
    before = len(problems)
    at, header = ("steady_state", "probes"), "[[steady_state.probes]]"
    found = _probes(value.get("probes", []), problems, at=at, header=header)
    plain = {key: one for key, one in value.items() if key != "probes"}
    try:
        made = SteadyState.model_validate({**plain, "probes": found or ()})
    except ValidationError as error:
        problems += list_problems(error, SteadyState, ("steady_state",))
    return made if len(problems) == before else None


# -- out ---------------------------------------------------------------------------------------------------------------


def dump(scenario: Scenario) -> str:
    """Return the scenario as TOML, from which ``read`` reads an equal one.

    Raises ValueError for a tolerance with null in it, which TOML lacks.
    """
    top: dict[str, JSON] = {"name": scenario.name, "title": scenario.title, "description": scenario.description}
    if scenario.failure is not None:
        top["failure"] = str(scenario.failure)
    if scenario.tiers != tuple(Tier):
        top["tiers"] = [str(tier) for tier in scenario.tiers]
    top["seed"] = scenario.seed
    if scenario.tags:
        top["tags"] = list(scenario.tags)
    if scenario.contributions:
        top["contributions"] = dict(scenario.contributions)
    documents = [one.model_dump(exclude_defaults=True) for one in scenario.workload.documents]
    top["workload"] = {"request": scenario.workload.request, **({"documents": documents} if documents else {})}
    if scenario.parameters:
        top["parameters"] = dict(scenario.parameters)
    if scenario.disturbance or not scenario.recorded:
        top["disturbance"] = [{"fault": one.fault, **one.values} for one in scenario.disturbance]
    if scenario.recorded:
        top["recorded"] = write_recorded(scenario.recorded)
    if scenario.expect:
        top["expect"] = list_written(scenario.expect)
    top["steady_state"] = {
        "title": scenario.steady_state.title,
        "probes": list_written(scenario.steady_state.probes),
    }
    if limits := scenario.abort.model_dump(exclude_none=True):
        top["abort"] = limits
    try:
        return tomli_w.dumps(top, indent=2)
    except TypeError:
        raise ValueError("the scenario has a null, which cannot be written as TOML; leave the field out") from None
