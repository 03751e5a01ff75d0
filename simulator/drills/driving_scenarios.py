"""A stored drill that plays a scenario in virtual time: columns of its row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.words import words
from simulator.drills.driven import Driven
from simulator.drills.keeping import kept_of, names_of
from simulator.drills.models import Drill, Status
from simulator.drills.story import story_of
from simulator.scenarios.judging import Line
from simulator.scenarios.playing import Played, play_told
from simulator.scenarios.probes import Checked
from simulator.scenarios.reading import read

JSON = Any


def virtual_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """Plays the scenario as it was asked for. Raises ``Unreadable`` for one that this version cannot read, ``catalogue.Refused`` for one that does not fit the fabric."""
    told = play_told(
        spec,
        read(one.source, origin=one.scenario),
        Tier(one.tier),
        seed=one.seed,
        overrides=json.loads(one.parameters or "{}"),
        names=names_of(one),
    )
    title = f"{told.played.scenario.name} in {words(told.played.tier)}"
    kept = kept_of(one, title, told.spec, told.before, told.world)
    return replace(driven_of(told.played, story_of(told.world, told.before)), kept=kept)


def driven_of(played: Played, story: Mapping[str, JSON]) -> Driven:
    """The columns that say what came of it."""
    return Driven(
        status=status_of(played),
        verdict=played.verdict,
        expected=played.expected if played.during is not None else "",
        observed=played.observed,
        why=played.why,
        body={**body_of(played), "story": story},
    )


def status_of(played: Played) -> Status:
    """``aborted`` where it met one of its own abort conditions; ``failed`` where it says nothing about the fabric."""
    if played.aborted:
        return Status.ABORTED
    return Status.FAILED if played.verdict == "error" else Status.COMPLETED


def body_of(played: Played) -> Mapping[str, JSON]:
    """What else is told of it, JSON: the steady state at its moments, each decision, how often each fault struck."""
    steady: dict[str, JSON] = {"title": played.scenario.steady_state.title, "before": _checked(played.before)}
    if played.during is not None:
        steady["during"] = _checked(played.scenario.steady_state.check(played.during))
        steady["after"] = _checked(played.after)
    return {
        "equipped": [played.equipped] if played.equipped else [],
        "steady": steady,
        "struck": dict(played.struck),
        "lines": [_line(line) for line in played.lines],
        "aborted": played.why if played.aborted else "",
    }


def _checked(checked: Sequence[Checked]) -> list[JSON]:
    return [{"probe": one.probe, "output": one.output, "why_not": one.why_not} for one in checked]


def _line(line: Line) -> JSON:
    return {"seq": line.seq, "expected": line.expected, "observed": line.observed, "evidence": f"event {line.seq}"}
