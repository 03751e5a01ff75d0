"""Reverts the effects of a live drill: ends its runs, closes its breakers, and prevents further runs.

A run is found by its start key, which names the drill, so that none is lost with the process that drove it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Fabric, Run
from fabric.models.runs.run import LIVE
from fabric.selectors.models.breakers import breakers_open
from fabric.services.actors import system_actor
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import drilled_withdraw
from fabric.services.models.breakers import breaker_reset
from fabric.services.runs.control import run_terminate
from simulator.drills.models.tables import Drill
from simulator.drills.runs.left_behind import REPORT, list_left_behind
from simulator.drills.runs.names import start_key

REASON, NOTHING = "drill ended", "nothing was left to put back"
WITHIN_S = 30.0
"""Seconds in which a terminated run ends: a worker takes the input at once, or after a dead worker's lease."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class PutBack:
    """Success and report of a reversion."""

    done: bool
    said: str
    closed: int = 0
    """Number of closed circuit breakers."""


def acting_in(workspace_id: str) -> Actor:
    """Return the actor of drills in their workspace: the installation itself, which may move breakers there."""
    return system_actor(workspace_id)


def put_back(
    workspace_id: str, drill_id: str, *, within_s: float = WITHIN_S, meanwhile: Callable[[], object] = bool
) -> PutBack:
    """Revert a drill's effects in the workspace of drills, and check the result. Repetition is harmless.

    ``meanwhile``: called repeatedly while it waits for a run.
    """
    actor = acting_in(workspace_id)
    runs = Run.objects.filter(workspace_id=workspace_id, start_key__startswith=start_key(drill_id, ""))
    live = list(runs.filter(LIVE).values_list("id", flat=True))
    wrong = [said for one in live if (said := _terminate_run(actor, one))]
    still = _list_unfinished(live, within_s, meanwhile)
    wrong += [f"run {one} was told to end, and had not within {within_s:g} s" for one in still]
    names = _names(runs)
    closed = _close_breakers(actor, names)
    for name in names:
        drilled_withdraw(actor=actor, name=name)
    done = [f"run {one} was ended" for one in live if one not in still]
    done += [f"{closed} circuit breaker{'s were' if closed != 1 else ' was'} closed"] if closed else []
    return PutBack(not wrong, "; ".join(wrong or done) or NOTHING, closed)


def _terminate_run(actor: Actor, run_id: str) -> str:
    """Terminate a run; return the obstacle, empty for none."""
    try:
        run_terminate(store=wiring.store(), nudge=wiring.nudge(), actor=actor, run_id=run_id, reason=REASON)
    except Refused as refusal:
        return "" if refusal.code == "conflict" else refusal.message  # It has ended meanwhile.
    return ""


def _list_unfinished(run_ids: Sequence[str], within_s: float, meanwhile: Callable[[], object]) -> list[str]:
    """Return the runs that have not ended after a time, or none as soon as all have."""
    give_up = time.monotonic() + within_s
    while True:
        ended = {str(state) for state in TERMINAL}
        states = dict(Run.objects.filter(id__in=run_ids).values_list("id", "state"))
        still = [one for one in run_ids if states.get(one) not in ended]
        if not still or time.monotonic() >= give_up:
            return still
        meanwhile()
        time.sleep(LOOK_S)


def _names(runs: QuerySet[Run]) -> list[str]:
    """Return the names of the drill's own fabrics."""
    ids = set(runs.values_list("fabric_id", flat=True))
    return list(Fabric.objects.filter(id__in=ids, published__isnull=False).values_list("name", flat=True))


def _close_breakers(actor: Actor, names: Sequence[str]) -> int:
    """Close the open breakers of these fabrics; return their number.

    A breaker that changes at this moment was moved by a call of a run that has ended since.
    """
    closed = 0
    for one in breakers_open(actor, now=0) if names else ():
        if set(one.fabrics) & set(names):
            try:
                breaker_reset(actor=actor, scope=one.scope, kind=one.kind, generation=one.generation, reason=REASON)
            except Refused:
                continue
            closed += 1
    return closed


# -- what was left -----------------------------------------------------------------------------------------------------


def put_back_what_was_left(meanwhile: Callable[[], object] = bool, *, within_s: float = WITHIN_S) -> int:
    """Revert the effects of ended drills, such as stopped or interrupted ones; return their number.

    Each result is stored with its drill.
    """
    left = list_left_behind()
    for workspace, drill_id in left:
        meanwhile()
        store_report(drill_id, put_back(workspace, drill_id, within_s=within_s, meanwhile=meanwhile))
    return len(left)


def store_report(drill_id: str, came: PutBack) -> None:
    """Store the report of a reversion with its drill. Remaining effects make its verdict an error."""
    one = Drill.objects.get(id=drill_id)
    one.body = json.dumps({**json.loads(one.body), REPORT: {"done": came.done, "said": came.said}})
    changed = ["body"]
    if not came.done:
        one.verdict, one.why = "error", f"{one.why}; {came.said}" if one.why else came.said
        changed += ["verdict", "why"]
    one.save(update_fields=changed)


def is_resting(state: str) -> bool:
    """Return True if a run in that state is at rest: it has ended, or waits for a person."""
    return state == RunState.WAITING or state in {str(one) for one in TERMINAL}
