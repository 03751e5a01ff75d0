"""Experiments of chaostoolkit, in and out, with a provider type of ours: ``{"type": "fabric-flow", "fault": ..., "arguments": {...}}`` is a disturbance, ``{"type":
"fabric-flow", "probe": ...}`` a probe.

Parameters are its configuration, what it has no place for goes into an extension of our name. What an experiment has that cannot be done here is left out, and
said: a sentence with its path for each. Values of secrets are neither kept nor told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simulator.scenarios.catalogue import Refused
from simulator.scenarios.problems import Path, Problem, Unreadable, shown
from simulator.scenarios.reading import scenario_of
from simulator.scenarios.scenario import Scenario
from simulator.scenarios.toml_reading import BYTES_MAX

JSON = Any
OURS = "fabric-flow"
VERSION = "1.0.0"
"""Of the specification of experiments."""
_IN_EXTENSION = ("name", "failure", "tiers", "seed", "workload", "abort")
_NO_SLUG = re.compile(r"[^a-z0-9]+")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an experiment came to. ``left_out``: what cannot be done here, a sentence each; without a scenario nothing is left of it."""

    scenario: Scenario | None
    left_out: tuple[str, ...]


# -- out ---------------------------------------------------------------------------------------------------------------


def experiment_of(scenario: Scenario) -> dict[str, JSON]:
    """The scenario as an experiment: what ``imported`` reads back as an equal one."""
    probes = [
        {
            "type": "probe",
            "name": one.probe,
            "tolerance": one.tolerance.written(),
            "provider": {"type": OURS, "probe": one.probe},
        }
        for one in scenario.steady_state.probes
    ]
    method = [
        {"type": "action", "name": one.fault, "provider": {"type": OURS, "fault": one.fault, "arguments": one.values}}
        for one in scenario.disturbance
    ]
    whole = scenario.model_dump(mode="json", exclude_none=True)
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


def imported(text: str, *, origin: str = "") -> Imported:
    """The scenario in an experiment. Raises Unreadable, a sentence for each mistake, for what is no experiment."""
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
        raise Unreadable([f"{where}{shown(tree)} is no experiment, which is an object"])
    reading = _Reading(tree)
    try:
        scenario = reading.scenario()
    except Refused as error:
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
"""What experiments have and scenarios have not."""
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
    """One experiment on its way in: the tree of a scenario, where its parts came from, and what is left out."""

    def __init__(self, tree: Mapping[str, JSON]) -> None:
        self._tree = tree
        self.left_out: list[Problem] = []
        self._wrong: list[Problem] = []
        self._methods: list[int] = []
        self._probes: list[int] = []
        self._extension = 0

    def scenario(self) -> Scenario | None:
        """The scenario. Raises Refused for mistakes; None where no disturbance is left."""
        made: dict[str, JSON] = self._extended()
        for key in _beside(self._tree, _TOP):
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
        if not made["disturbance"] and not self._wrong and "method" in self._tree:
            self._leave(("method",), f"has no action of provider type {OURS}, so nothing is left to run")
            return None
        made["parameters"] = self._configured(made["disturbance"])
        return self._read(made)

    def _read(self, made: dict[str, JSON]) -> Scenario:
        try:
            found = scenario_of(made)
        except Refused as error:
            told = {problem.path[0] for problem in self._wrong}
            placed = [Problem(self._came_from(problem.path), problem.sentence) for problem in error.problems]
            self._wrong += [problem for problem in placed if len(problem.path) > 1 or problem.path[0] not in told]
        if self._wrong:
            raise Refused(self._wrong)
        return found

    def _leave(self, path: Path, why: str) -> None:
        self.left_out.append(Problem(path, why))

    def _came_from(self, path: Path) -> Path:
        """Where in the experiment that stands which is at a path of the scenario."""
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

    def _listed(self, value: JSON, path: Path) -> Iterator[tuple[int, dict[str, JSON]]]:
        if not isinstance(value, list):
            self._wrong.append(Problem(path, f"{shown(value)} is no list"))
            return
        for number, one in enumerate(value):
            if isinstance(one, dict):
                yield number, one
            else:
                self._wrong.append(Problem((*path, number), f"{shown(one)} is no object"))

    def _extended(self) -> dict[str, JSON]:
        """What our extension says."""
        found: dict[str, JSON] = {}
        for number, one in self._listed(self._tree.get("extensions", []), ("extensions",)):
            if one.get("name") == OURS and isinstance(one.get("scenario"), dict):
                self._extension = number
                found = {key: value for key, value in one["scenario"].items() if key in _IN_EXTENSION}
                for key in _beside(one["scenario"], _IN_EXTENSION):
                    self._leave(("extensions", number, "scenario", key), "is not known here, and is left out")
            else:
                self._leave(("extensions", number), f"extension {shown(one.get('name'))} is not known here")
        return found

    def _ours(self, activity: Mapping[str, JSON], path: Path) -> dict[str, JSON] | None:
        """The provider of an activity, if it is ours; what else it has is left out."""
        if "ref" in activity:
            self._leave(path, f"refers to {shown(activity['ref'])}, which is asked before and after only")
            return None
        provider = activity.get("provider")
        kind = provider.get("type") if isinstance(provider, dict) else None
        if not isinstance(provider, dict) or kind != OURS:
            said = f"{shown(activity.get('name'))} is of provider type {shown(kind)}"
            self._leave((*path, "provider", "type"), f"{said}, which cannot be run here; only {OURS} can")
            return None
        for key in _beside(activity, _OF_ACTIVITY):
            self._leave((*path, key), NO_PLACE.get(key, "is not known here, and is left out"))
        for key in _beside(provider, _OF_PROVIDER):
            self._leave((*path, "provider", key), NO_PLACE.get(key, "is not known here, and is left out"))
        return provider

    def _steady_state(self) -> dict[str, JSON] | None:
        at = ("steady-state-hypothesis",)
        hypothesis = self._tree.get(at[0])
        if not isinstance(hypothesis, dict):
            if hypothesis is not None:
                self._wrong.append(Problem(at, f"{shown(hypothesis)} is no object"))
            return None
        for key in _beside(hypothesis, ("title", "probes")):
            self._leave((*at, key), NO_PLACE.get(key, "is not known here, and is left out"))
        probes = []
        for number, one in self._listed(hypothesis.get("probes", []), (*at, "probes")):
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
        for number, one in self._listed(self._tree["method"], ("method",)):
            provider = self._ours(one, ("method", number))
            if provider is None:
                continue
            if one.get("type") == "probe":
                self._leave(("method", number), "is a probe, and probes are asked before and after the method only")
                continue
            arguments = provider.get("arguments", {})
            if not isinstance(arguments, dict):
                at = ("method", number, "provider", "arguments")
                self._wrong.append(Problem(at, f"{shown(arguments)} is no object"))
                continue
            self._methods.append(number)
            named = {"fault": provider["fault"]} if "fault" in provider else {}
            found.append({**arguments, **named})
        return found

    def _rollbacks(self) -> None:
        for number, one in self._listed(self._tree.get("rollbacks", []), ("rollbacks",)):
            said = "every disturbance ends with its drill, so there is nothing to roll back"
            self._leave(("rollbacks", number), f"{shown(one.get('name'))} is left out: {said}")

    def _configured(self, disturbances: list[dict[str, JSON]]) -> dict[str, JSON]:
        configuration = self._tree.get("configuration", {})
        if not isinstance(configuration, dict):
            self._wrong.append(Problem(("configuration",), f"{shown(configuration)} is no object"))
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
                said = f"is not looked up here ({shown(value.get('type'))}), and has no default; give it a value"
                self._wrong.append(Problem(("configuration", name), said))
            else:
                found[name] = value
        return found


def _beside(tree: Mapping[str, JSON], known: Container[str]) -> list[str]:
    """Keys that are not known, in their order."""
    return [key for key in tree if key not in known]


def _slug(title: str) -> str:
    """A name made of a title."""
    slug = _NO_SLUG.sub("-", title.lower()).strip("-")[:80].strip("-")
    return slug if slug[:1].isalpha() else f"experiment-{slug}".strip("-")
