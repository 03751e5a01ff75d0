"""In some fabrics of the swarm single stages differ: their deadlines, counts, detectors, waits, retries and cells."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fabric.core.flow import Stage
from fabric.core.taxonomy import FailureType, Tier

JSON = Any
ENDS = ("abort", "escalate", "surface", "terminate", "halt")


def differing(tree: JSON, number: int) -> None:
    """Lets up to three stages differ, each in up to three things."""
    rng = Random(f"stages {number}")  # noqa: S311 - of its own, so that fabrics without them stay as they were
    if rng.random() >= 0.4:
        return
    stages: dict[str, JSON] = {}
    for stage in rng.sample(list(Stage), rng.randrange(1, 4)):
        own: JSON = {}
        for draw in rng.sample(DRAWS, rng.randrange(1, 4)):
            draw(own, stage, tree, rng)
        stages[stage] = own
    tree["policy"]["stages"] = stages


def _tau(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["tau"] = rng.choice((0.0, 0.5, 0.9, 1.0))


def _deadlines(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    call_s = rng.choice((1.0, 3.0))
    own["deadlines"] = {tier: {"call_s": call_s, "stage_s": call_s * rng.choice((2, 8))} for tier in Tier}


def _counts(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    limits = {
        "turns": rng.choice((1, 2, 4)),
        "calls_per_turn": rng.choice((1, 2)),
        "corrections_per_step": rng.choice((1, 2)),
    }
    if stage is Stage.FAN_OUT:
        limits["hops"] = rng.choice((1, 2))
    own["limits"] = limits


def _loops(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    threshold = rng.choice((2, 3))
    own["loop_detector"] = {
        "identical_threshold": threshold,
        "identical_window": threshold + rng.randrange(4),
        "consecutive_threshold": rng.choice((2, 4)),
        "period_window": rng.choice((4, 6)),
        "ag2_threshold": rng.choice((2, 3)),
    }


def _progress(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["progress"] = {"supervisor_turns" if stage is Stage.PLAN else "agent_turns": rng.choice((2, 3))}


def _retries(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["retry"] = {"stage_retries": rng.choice((1, 2))}
    if "retry_layers" not in tree["policy"]:
        own["retry"] |= {"base_s": rng.choice((0.1, 2.0)), "cap_s": rng.choice((0.5, 10.0))}


def _cells(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    table: dict[str, JSON] = {}
    for failure in rng.sample(list(FailureType), 3):
        first: JSON = {"reaction": rng.choice(("inject", "replan", "wait_for_breaker")), "times": rng.choice((1, 2))}
        ladder = {"rungs": [*([first] if rng.random() < 0.6 else []), {"reaction": rng.choice(ENDS)}]}
        table[failure] = dict.fromkeys(Tier, ladder)
    own["decision_table"] = table


DRAWS: list[Callable[[JSON, Stage, JSON, Random], None]] = [
    _tau,
    _deadlines,
    _counts,
    _loops,
    _progress,
    _retries,
    _cells,
]
