"""A scenario played live on this installation, asked for and waited for by a command: each tier as it comes, told as one in virtual time is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from fabric.core.taxonomy import Tier
from fabric.services.workspaces import owner_actor
from simulator.drills.live_here import ended_here, verdict_here
from simulator.drills.models import LIVE
from simulator.drills.selectors import DrillView
from simulator.drills.stored_reports import journal
from simulator.library.asking import scenario_ask
from simulator.library.reports import Play
from simulator.scenarios.scenario import Scalar

JSON = Any
ABSENT: Mapping[str, JSON] = {"equipped": [], "steady": {}, "struck": {}, "lines": [], "aborted": ""}
"""What is told of one that did not come as far as that."""


def played_here(
    fabric: str,
    scenario: str,
    tiers: Sequence[Tier],
    *,
    parameters: Mapping[str, Scalar],
    seed: int | None,
    cap_s: int | None,
    cap_usd_micros: int | None,
    wake: Callable[[], None],
) -> Iterator[Play]:
    """Asks for it, and gives each tier as soon as it has ended. Whoever stops listening stops what is left. Raises Refused as ``scenario_ask`` does."""
    actor = owner_actor()
    asked = scenario_ask(
        actor=actor, fabric=fabric, scenario=scenario, tiers=tiers, parameters=parameters, seed=seed,
        mode=LIVE, cap_s=cap_s, cap_usd_micros=cap_usd_micros, wake=wake,
    )  # fmt: skip
    with closing(ended_here(actor, asked)) as ended:
        for seen in ended:
            yield play_of(seen)


def play_of(seen: DrillView) -> Play:
    """A stored drill of a scenario as the command tells it."""
    verdict, why = verdict_here(seen)
    return Play(
        tier=seen.tier,
        verdict=verdict,
        expected=seen.expected or "not known",
        observed=seen.observed or "not drilled",
        why=why,
        seed=seen.seed,
        equipped=" and ".join(seen.equipped),
        seconds=(seen.took or 0) / 1e6,
        body={name: seen.body.get(name, absent) for name, absent in ABSENT.items()},
        journal=partial(journal, seen),
    )
