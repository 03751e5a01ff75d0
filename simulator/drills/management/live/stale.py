"""Starts stored drills of all stale cells for a command, and yields each result.

Workers drill them. Without a living worker, the command's own process does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing

from fabric.core.people.actor import Actor
from fabric.models import new_id
from fabric.selectors.overview.frame_counts import workers_alive_count
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from simulator.drills.batches.batch import batch_steps
from simulator.drills.management.live.drills import build_cell, ended_here
from simulator.drills.services.drills import DrillsAsked, drill_ask
from simulator.drills.services.fleet import stale_ask
from simulator.scenarios.play.verdicts import Cell

REASON = "drill run --stale"


def drilled_stale(
    fabric: str, *, seed: int, wake: Callable[[], None], say: Callable[[str], None]
) -> Generator[tuple[str, Cell]]:
    """Start drills of the stale cells of a fabric, else of all, and yield each result with its fabric.

    ``say``: takes a line about what goes on. Nothing is stale: it says so, and yields none. Raises Refused as
    ``drill_ask`` does.
    """
    actor = owner_actor()
    for asked in _ask(actor, fabric, seed, wake, say):
        for name, one in asked.items():
            say(f"{name}: {len(one.drills)} stale cell{'s' if len(one.drills) != 1 else ''}")
            with closing(_ended(actor, one, say)) as ended:
                yield from ((name, cell) for cell in ended)


def _ask(
    actor: Actor, fabric: str, seed: int, wake: Callable[[], None], say: Callable[[str], None]
) -> Iterator[Mapping[str, DrillsAsked]]:
    """Yield the started drills, a bounded number of fabrics at a time."""
    try:
        if fabric:
            yield {fabric: drill_ask(actor=actor, fabric=fabric, cells="stale", seed=seed, reason=REASON, wake=wake)}
            return
        after, left = "", 1
        while left:
            found = stale_ask(actor=actor, seed=seed, after=after, reason=REASON, wake=wake)
            after, left = max(found.asked), found.left
            yield found.asked
    except Refused as refusal:
        if (refusal.code, refusal.field) != ("conflict", "cells"):
            raise
        say(refusal.message)


def _ended(actor: Actor, asked: DrillsAsked, say: Callable[[str], None]) -> Generator[Cell]:
    """Yield each drill at its end."""
    driven = None if workers_alive_count() else batch_steps(asked.batch, new_id())
    if driven is not None:
        say("no worker is alive: this process drills them")
    with closing(ended_here(actor, asked, lambda line: None, driven)) as ended:
        for seen in ended:
            yield build_cell(seen)
