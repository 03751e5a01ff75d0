"""Imports and exports experiments of chaostoolkit, with a provider type of ours.

1. ``{"type": "fabric-flow", "fault": ..., "arguments": {...}}`` is a disturbance.
2. ``{"type": "fabric-flow", "probe": ...}`` is a probe.
3. Parameters are its configuration. Further facts go into an extension of our name.
4. Parts of an experiment that cannot be done here are left out, with a sentence and path for each.
5. Values of secrets are neither kept nor shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from fabric.core.values.units import JSON
from simulator.faults.catalogue import FaultRefused
from simulator.scenarios.spec.recorded import write_recorded
from simulator.scenarios.spec.scenario import Scenario, list_written
from simulator.scenarios.spec.toml import read_scenario
from simulator.texts.problems import Path, Problem, Unreadable, shorten_value
from simulator.texts.toml import BYTES_MAX

OURS = "fabric-flow"
VERSION = "1.0.0"
"""Version of the specification of experiments."""
_IN_EXTENSION = ("name", "failure", "tiers", "seed", "workload", "expect", "recorded", "abort")
_NO_SLUG = re.compile(r"[^a-z0-9]+")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported experiment. ``left_out``: a sentence for each unsupported part. No scenario: nothing is left."""

    scenario: Scenario | None
    left_out: tuple[str, ...]


# -- out ---------------------------------------------------------------------------------------------------------------


def build_experiment(scenario: Scenario) -> dict[str, JSON]:
    """Return the scenario as an experiment, from which ``imported`` reads an equal one."""
    probes = [
        {
            "type": "probe",
            "name": one.probe,
            "tolerance": one.tolerance.write_value(),
            "provider": {"type": OURS, "probe": one.probe},
        }
        for one in scenario.steady_state.probes
    ]
    method = [
        {"type": "action", "name": one.fault, "provider": {"type": OURS, "fault": one.fault, "arguments": one.values}}
        for one in scenario.disturbance
    ]
    whole = scenario.model_dump(mode="json", exclude_none=True, exclude={"expect", "recorded"})
    if scenario.recorded:
        whole["recorded"] = write_recorded(scenario.recorded)
    if scenario.expect:
        whole["expect"] = list_written(scenario.expect)
    experiment: dict[str, JSON] = {"version": VERSION, "title": scenario.title, "description": scenario.description}
    experiment["tags"] = list(scenario.tags)
    if scenario.contributions:
        experiment["contributions"] = dict(scenario.contributions)
    return {
        **experiment,
        "configuration": dict(scenario.parameters),
        "extensions": [{"name": OURS, "scenario": {key: whole[key] for key in _IN_EXTENSION if key in whole}}],
        "steady-state-hypothesis": {"title": scenario.steady_state.title, "probes": probes},
        "method": method,
        "rollbacks": [],
    }


# -- in ----------------------------------------------------------------------------------------------------------------


def import_experiment(text: str, *, origin: str = "") -> Imported:
    """Return the scenario in an experiment. Raises Unreadable, a sentence for each mistake."""
    where = f"{origin}, " if origin else ""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise Unreadable([f"{where}is longer than {BYTES_MAX} bytes; make it shorter"])
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        said = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise Unreadable([f"{where}line {error.lineno}, column {error.colno}: this is no JSON: {said}"]) from None
    except RecursionError:
        raise Unreadable([f"{where}is nested too deeply; make it flatter"]) from None
    except ValueError:
        raise Unreadable([f"{where}has a number with more digits than are read; make it shorter"]) from None
    if not isinstance(tree, dict):
        raise Unreadable([f"{where}{shorten_value(tree)} is no experiment, which is an object"])
    reading = _Reading(tree)
    try:
        scenario = reading.scenario()
    except FaultRefused as error:
        raise Unreadable([f"{where}{problem}" for problem in error.problems]) from None
    return Imported(scenario, tuple(f"{where}{problem}" for problem in reading.left_out))


NO_PLACE: Mapping[str, str] = {
    "controls": "controls are not applied here, and are left out",
    "secrets": "no secret is passed to anything here, and none is kept",
    "secret": "no secret is passed to anything here",
    "background": "disturbances stand from the beginning and do not wait for each other, so this changes nothing",
    "pauses": "nothing waits between disturbances; say from when on each strikes in its own arguments",
    "configuration": "every parameter is known everywhere, so this changes nothing",
}
"""Parts of experiments that scenarios lack, with the sentence about each."""
_TOP = frozenset(
    [
        "version",
        "title",
        "description",
        "tags",
        "contributions",
        "configuration",
        "extensions",
        "steady-state-hypothesis",
        "method",
        "rollbacks",
    ]
)
_OF_PROVIDER = ("type", "fault", "probe", "arguments")
_OF_ACTIVITY = frozenset({"type", "name", "provider", "tolerance"})


class _Reading:
    """An experiment during import: the tree of a scenario, the origins of its parts, and the parts left out."""

    def __init__(self, tree: Mapping[str, JSON]) -> None:
        self._tree = tree
        self.left_out: list[Problem] = []
        self._wrong: list[Problem] = []
        self._methods: list[int] = []
        self._probes: list[int] = []
        self._extension = 0

    def scenario(self) -> Scenario | None:
        """Return the scenario; None if no disturbance is left. Raises Refused for mistakes."""
        made: dict[str, JSON] = self._read_extension()
        for key in _unknown_keys(self._tree, _TOP):
            self._leave((key,), NO_PLACE.get(key, "is not known here, and is left out"))
        for key in ("title", "description", "tags", "contributions"):
            if key in self._tree:
                made[key] = self._tree[key]
        made.setdefault("name", _slug(str(self._tree.get("title", ""))))
        steady = self._steady_state()
        if steady is not None:
            made["steady_state"] = steady
        made["disturbance"] = self._disturbances()
        self._rollbacks()
        if not made["disturbance"] and not made.get("recorded") and not self._wrong and "method" in self._tree:
            self._leave(("method",), f"has no action of provider type {OURS}, so nothing is left to run")
            return None
        made["parameters"] = self._read_configuration(made["disturbance"])
        return self._read(made)

    def _read(self, made: dict[str, JSON]) -> Scenario:
        try:
            found = read_scenario(made)
        except FaultRefused as error:
            told = {problem.path[0] for problem in self._wrong}
            placed = [Problem(self._came_from(problem.path), problem.sentence) for problem in error.problems]
            self._wrong += [problem for problem in placed if len(problem.path) > 1 or problem.path[0] not in told]
        if self._wrong:
            raise FaultRefused(self._wrong)
        return found

    def _leave(self, path: Path, why: str) -> None:
        self.left_out.append(Problem(path, why))

    def _came_from(self, path: Path) -> Path:
        """Return the path in the experiment that belongs to a path of the scenario."""
        match path:
            case ("disturbance", int(number), "fault"):
                return ("method", self._methods[number], "provider", "fault")
            case ("disturbance", int(number), *rest):
                return ("method", self._methods[number], "provider", "arguments", *rest)
            case ("disturbance", *_):
                return ("method",)
            case ("steady_state", "probes", int(number), "tolerance", *rest):
                return ("steady-state-hypothesis", "probes", self._probes[number], "tolerance", *rest)
            case ("steady_state", "probes", int(number), *_):
                return ("steady-state-hypothesis", "probes", self._probes[number], "provider", "probe")
            case ("steady_state", *rest):
                return ("steady-state-hypothesis", *rest)
            case ("parameters", *rest):
                return ("configuration", *rest)
            case (str(key), *rest) if key in _IN_EXTENSION:
                return ("extensions", self._extension, "scenario", key, *rest)
        return path

    def _list_objects(self, value: JSON, path: Path) -> Iterator[tuple[int, dict[str, JSON]]]:
        if not isinstance(value, list):
            self._wrong.append(Problem(path, f"{shorten_value(value)} is no list"))
            return
        for number, one in enumerate(value):
            if isinstance(one, dict):
                yield number, one
            else:
                self._wrong.append(Problem((*path, number), f"{shorten_value(one)} is no object"))

    def _read_extension(self) -> dict[str, JSON]:
        """Return the contents of our extension."""
        found: dict[str, JSON] = {}
        for number, one in self._list_objects(self._tree.get("extensions", []), ("extensions",)):
            if one.get("name") == OURS and isinstance(one.get("scenario"), dict):
                self._extension = number
                found = {key: value for key, value in one["scenario"].items() if key in _IN_EXTENSION}
                for key in _unknown_keys(one["scenario"], _IN_EXTENSION):
                    self._leave(("extensions", number, "scenario", key), "is not known here, and is left out")
            else:
                self._leave(("extensions", number), f"extension {shorten_value(one.get('name'))} is not known here")
        return found

    def _ours(self, activity: Mapping[str, JSON], path: Path) -> dict[str, JSON] | None:
        """Return the provider of an activity, if it is ours; the activity's other parts are left out."""
        if "ref" in activity:
            self._leave(path, f"refers to {shorten_value(activity['ref'])}, which is asked before and after only")
            return None
        provider = activity.get("provider")
        kind = provider.get("type") if isinstance(provider, dict) else None
        if not isinstance(provider, dict) or kind != OURS:
            said = f"{shorten_value(activity.get('name'))} is of provider type {shorten_value(kind)}"
            self._leave((*path, "provider", "type"), f"{said}, which cannot be run here; only {OURS} can")
            return None
        for key in _unknown_keys(activity, _OF_ACTIVITY):
            self._leave((*path, key), NO_PLACE.get(key, "is not known here, and is left out"))
        for key in _unknown_keys(provider, _OF_PROVIDER):
            self._leave((*path, "provider", key), NO_PLACE.get(key, "is not known here, and is left out"))
        return provider

    def _steady_state(self) -> dict[str, JSON] | None:
        at = ("steady-state-hypothesis",)
        hypothesis = self._tree.get(at[0])
        if not isinstance(hypothesis, dict):
            if hypothesis is not None:
                self._wrong.append(Problem(at, f"{shorten_value(hypothesis)} is no object"))
            return None
        for key in _unknown_keys(hypothesis, ("title", "probes")):
            self._leave((*at, key), NO_PLACE.get(key, "is not known here, and is left out"))
        probes = []
        for number, one in self._list_objects(hypothesis.get("probes", []), (*at, "probes")):
            provider = self._ours(one, (*at, "probes", number))
            if provider is not None:
                self._probes.append(number)
                probes.append(
                    {"probe": provider.get("probe"), **({"tolerance": one["tolerance"]} if "tolerance" in one else {})}
                )
        return {**({"title": hypothesis["title"]} if "title" in hypothesis else {}), "probes": probes}

    def _disturbances(self) -> list[dict[str, JSON]]:
        if "method" not in self._tree:
            self._wrong.append(Problem(("method",), "is missing; give it a value"))
            return []
        found = []
        for number, one in self._list_objects(self._tree["method"], ("method",)):
            provider = self._ours(one, ("method", number))
            if provider is None:
                continue
            if one.get("type") == "probe":
                self._leave(("method", number), "is a probe, and probes are asked before and after the method only")
                continue
            arguments = provider.get("arguments", {})
            if not isinstance(arguments, dict):
                at = ("method", number, "provider", "arguments")
                self._wrong.append(Problem(at, f"{shorten_value(arguments)} is no object"))
                continue
            self._methods.append(number)
            named = {"fault": provider["fault"]} if "fault" in provider else {}
            found.append({**arguments, **named})
        return found

    def _rollbacks(self) -> None:
        for number, one in self._list_objects(self._tree.get("rollbacks", []), ("rollbacks",)):
            said = "every disturbance ends with its drill, so there is nothing to roll back"
            self._leave(("rollbacks", number), f"{shorten_value(one.get('name'))} is left out: {said}")

    def _read_configuration(self, disturbances: list[dict[str, JSON]]) -> dict[str, JSON]:
        configuration = self._tree.get("configuration", {})
        if not isinstance(configuration, dict):
            self._wrong.append(Problem(("configuration",), f"{shorten_value(configuration)} is no object"))
            return {}
        used = {
            name
            for one in disturbances
            for value in one.values()
            if isinstance(value, str)
            for name in _REFERENCE.findall(value)
        }
        found = {}
        for name, value in configuration.items():
            if name not in used:
                self._leave(("configuration", name), "no disturbance uses it, so it is left out")
            elif isinstance(value, dict) and "default" in value:
                found[name] = value["default"]
                self._leave(("configuration", name), "is not looked up here; its default is taken")
            elif isinstance(value, dict):
                said = (
                    f"is not looked up here ({shorten_value(value.get('type'))}), and has no default; give it a value"
                )
                self._wrong.append(Problem(("configuration", name), said))
            else:
                found[name] = value
        return found


def _unknown_keys(tree: Mapping[str, JSON], known: Container[str]) -> list[str]:
    """Return the unknown keys, in order."""
    return [key for key in tree if key not in known]


def _slug(title: str) -> str:
    """Return a name made of a title."""
    slug = _NO_SLUG.sub("-", title.lower()).strip("-")[:80].strip("-")
    return slug if slug[:1].isalpha() else f"experiment-{slug}".strip("-")
