"""Scenarios as TOML, in and out. What cannot be read is told with file, line and path, every mistake at once."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from fabric.core.taxonomy import Tier
from simulator.scenarios.catalogue import FAULTS, Refused
from simulator.scenarios.problems import JSON, Path, Problem, Unreadable, dotted, nearest, problems_of, shown
from simulator.scenarios.scenario import (
    Given,
    Scalar,
    Scenario,
    SteadyProbe,
    SteadyState,
    parameter_problems,
    references,
    resolved,
    steady_probe,
)
from simulator.scenarios.toml_reading import NoToml, toml_read
from simulator.scenarios.toml_text import Lines, pairs_written


def read_file(path: pathlib.Path) -> Scenario:
    """The scenario in a file. Raises Unreadable; OSError for a file that cannot be opened."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Unreadable([f"{path.name}: is no UTF-8 (byte {error.start + 1}); save it as UTF-8"]) from None
    return read(text, origin=path.name)


def read(text: str, *, origin: str = "") -> Scenario:
    """The scenario in a text. Raises Unreadable with a sentence for each mistake; ``origin`` (a file's name) goes before each."""
    tree = _tree(text, origin)
    lines = Lines(text)

    def told(problem: Problem) -> str:
        where = [origin, f"line {lines.line(problem.path)}", dotted(problem.path)]
        return f"{', '.join(part for part in where if part)}: {problem.sentence}"

    try:
        return scenario_of(tree)
    except Refused as error:
        placed = sorted(error.problems, key=lambda problem: lines.line(problem.path))
        raise Unreadable(map(told, placed)) from None


def _tree(text: str, origin: str) -> dict[str, JSON]:
    try:
        return toml_read(text)
    except NoToml as error:
        where = ", ".join(part for part in (origin, error.place) if part)
        raise Unreadable([f"{where or 'the scenario'}: {error.sentence}"]) from None


def scenario_of(tree: Mapping[str, JSON]) -> Scenario:
    """The scenario in a tree. Raises Refused with a problem for each mistake."""
    problems: list[Problem] = []
    parts: dict[str, Any] = dict(tree)
    _take(parts, "disturbance", _disturbances, problems)
    _take(parts, "steady_state", _steady_state, problems)
    if parts.get("failure") == "none":
        del parts["failure"]
    parameters = parts.get("parameters", {})
    if isinstance(parameters, dict):
        given: tuple[Given, ...] = parts.get("disturbance", ())
        problems += parameter_problems(parameters, given)
        wrong = {problem.path[1] for problem in problems if problem.path[:1] == ("parameters",)}
        parts["parameters"] = {
            name: value for name, value in parameters.items() if isinstance(value, bool | int | float | str)
        }
        problems += _unresolved(given, parts["parameters"], wrong)
    try:
        found = Scenario.model_validate(parts)
    except ValidationError as error:
        raise Refused([*problems, *_plain(problems_of(error, Scenario), problems)]) from None
    if problems:
        raise Refused(problems)
    return found


def _unresolved(given: tuple[Given, ...], parameters: Mapping[str, Scalar], wrong: set[str | int]) -> list[Problem]:
    """What is wrong with the disturbances, where it is not their parameter's own mistake."""
    found: list[Problem] = []
    for number, one in enumerate(given):
        if wrong & set(references(one)) - set(parameters):
            continue
        try:
            resolved(one, parameters, ("disturbance", number))
        except Refused as error:
            found += error.problems
    return found


def _plain(found: list[Problem], known: list[Problem]) -> Iterator[Problem]:
    """Without those about parts that were told already, and were left out because of it."""
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
        problems.append(Problem(at, f"{shown(value)} is no list of tables; write {header} above each"))
        return
    for number, one in enumerate(value):
        if isinstance(one, dict):
            yield (*at, number), one
        else:
            problems.append(Problem((*at, number), f"{shown(one)} is no table"))


def _disturbances(value: JSON, problems: list[Problem]) -> tuple[Given, ...] | None:
    found = []
    for at, one in _tables(value, ("disturbance",), "[[disturbance]]", problems):
        values = dict(one)
        fault = values.pop("fault", None)
        if fault is None:
            problems.append(Problem((*at, "fault"), f"is missing; {nearest('', FAULTS)}"))
        elif not isinstance(fault, str):
            problems.append(Problem((*at, "fault"), f"{shown(fault)} is no text; write it in quotes"))
        found.append(Given(fault=fault if isinstance(fault, str) else "", values=values))
    broken = any(problem.path[:1] == ("disturbance",) for problem in problems)
    return None if broken else tuple(found)


def _steady_state(value: JSON, problems: list[Problem]) -> SteadyState | JSON:
    if not isinstance(value, dict):
        return value
    found: list[SteadyProbe] = []
    before = len(problems)
    for at, one in _tables(value.get("probes", []), ("steady_state", "probes"), "[[steady_state.probes]]", problems):
        try:
            found.append(steady_probe(one, at))
        except Refused as error:
            problems += error.problems
    plain = {key: one for key, one in value.items() if key != "probes"}
    try:
        made = SteadyState.model_validate({**plain, "probes": tuple(found)})
    except ValidationError as error:
        problems += problems_of(error, SteadyState, ("steady_state",))
    return made if len(problems) == before else None


# -- out ---------------------------------------------------------------------------------------------------------------


def dump(scenario: Scenario) -> str:
    """The scenario as TOML: what ``read`` reads back as an equal one. ValueError for a tolerance with null in it, which TOML has not."""
    top: dict[str, JSON] = {"name": scenario.name, "title": scenario.title, "description": scenario.description}
    if scenario.failure is not None:
        top["failure"] = str(scenario.failure)
    if scenario.tiers != tuple(Tier):
        top["tiers"] = [str(tier) for tier in scenario.tiers]
    top["seed"] = scenario.seed
    if scenario.tags:
        top["tags"] = list(scenario.tags)
    blocks = [pairs_written(top)]
    if scenario.contributions:
        blocks.append(["[contributions]", *pairs_written(scenario.contributions)])
    blocks.append(["[workload]", *pairs_written({"request": scenario.workload.request})])
    blocks += [
        ["[[workload.documents]]", *pairs_written(one.model_dump(exclude_defaults=True))]
        for one in scenario.workload.documents
    ]
    if scenario.parameters:
        blocks.append(["[parameters]", *pairs_written(scenario.parameters)])
    blocks += [["[[disturbance]]", *pairs_written({"fault": one.fault, **one.values})] for one in scenario.disturbance]
    blocks.append(["[steady_state]", *pairs_written({"title": scenario.steady_state.title})])
    for one in scenario.steady_state.probes:
        pairs = {"probe": one.probe, "tolerance": one.tolerance.written()}
        blocks.append(["[[steady_state.probes]]", *pairs_written(pairs)])
    if limits := scenario.abort.model_dump(exclude_none=True):
        blocks.append(["[abort]", *pairs_written(limits)])
    return "\n".join("\n".join([*block, ""]) for block in blocks)
