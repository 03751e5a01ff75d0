"""What a live drill has done is put back, whatever became of it: its run is ended, the breakers that it opened are closed, and no further run of it can begin.

A run is found by its start key, which names the drill, so that none is lost with the process that drove it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.flow import TERMINAL, RunState
from fabric.models import Fabric, Run, Workspace
from fabric.models.runs import LIVE
from fabric.selectors.breakers import breakers_open
from fabric.services.breakers import breaker_reset
from fabric.services.control import run_terminate
from fabric.services.errors import Refused
from fabric.services.fabrics import drilled_withdraw
from fabric.services.workspaces import system_actor
from simulator.drills.models import LIVE as LIVE_MODE
from simulator.drills.models import OPEN_STATUSES, Drill
from simulator.drills.names import start_key

REASON, NOTHING = "drill ended", "nothing was left to put back"
WITHIN_S = 30.0
"""In this time a run that is told to end has ended: a worker takes the input at once, and one whose worker was killed is another's after its lease."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class PutBack:
    """Whether everything is as it was, and what was done for that."""

    done: bool
    said: str
    closed: int = 0
    """Circuit breakers that were closed."""


def acting_in(workspace_id: str) -> Actor:
    """Who acts for drills in their workspace: the installation itself, which may move breakers there."""
    return system_actor(workspace_id)


def put_back(
    workspace_id: str, drill_id: str, *, within_s: float = WITHIN_S, meanwhile: Callable[[], object] = bool
) -> PutBack:
    """Ends what a drill has left in the workspace of drills, and looks whether it has ended. Doing it twice is the same as once.

    ``meanwhile``: called again and again while a run is waited for.
    """
    actor = acting_in(workspace_id)
    runs = Run.objects.filter(workspace_id=workspace_id, start_key__startswith=start_key(drill_id, ""))
    live = list(runs.filter(LIVE).values_list("id", flat=True))
    wrong = [said for one in live if (said := _terminated(actor, one))]
    still = _going_on(live, within_s, meanwhile)
    wrong += [f"run {one} was told to end, and had not within {within_s:g} s" for one in still]
    names = _names(runs)
    closed = _closed(actor, names)
    for name in names:
        drilled_withdraw(actor=actor, name=name)
    done = [f"run {one} was ended" for one in live if one not in still]
    done += [f"{closed} circuit breaker{'s were' if closed != 1 else ' was'} closed"] if closed else []
    return PutBack(not wrong, "; ".join(wrong or done) or NOTHING, closed)


def _terminated(actor: Actor, run_id: str) -> str:
    """Tells a run to end; what stands in the way, empty: nothing."""
    try:
        run_terminate(store=wiring.store(), nudge=wiring.nudge(), actor=actor, run_id=run_id, reason=REASON)
    except Refused as refusal:
        return "" if refusal.code == "conflict" else refusal.message  # It has ended by itself meanwhile.
    return ""


def _going_on(run_ids: Sequence[str], within_s: float, meanwhile: Callable[[], object]) -> list[str]:
    """Those that have not ended, as soon as all have, or after so long."""
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
    """Fabrics of the drill's own that are still published."""
    ids = set(runs.values_list("fabric_id", flat=True))
    return list(Fabric.objects.filter(id__in=ids, published__isnull=False).values_list("name", flat=True))


def _closed(actor: Actor, names: Sequence[str]) -> int:
    """Closes what is open in front of these fabrics; how many. What changes at the same moment was moved by a call of a run that has ended since."""
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


def left_behind() -> list[tuple[str, str]]:
    """``(workspace, drill)`` of each live drill that has ended and whose run goes on. From the partial index of live runs."""
    found: dict[str, str] = {}
    for workspace in Workspace.objects.filter(drills_of__isnull=False).values_list("id", flat=True):
        keys = (
            Run.objects.filter(LIVE, workspace_id=workspace).exclude(start_key="").values_list("start_key", flat=True)
        )
        found |= {key.partition(":")[0]: workspace for key in keys}
    going_on = Drill.objects.filter(id__in=found, mode=LIVE_MODE).exclude(status__in=OPEN_STATUSES)
    return [(found[one], one) for one in going_on.order_by("id").values_list("id", flat=True)]


def put_back_what_was_left(meanwhile: Callable[[], object] = bool, *, within_s: float = WITHIN_S) -> int:
    """Puts back what ended drills have left, as one that was stopped or interrupted does; how many drills. What came of it stands with the drill."""
    left = left_behind()
    for workspace, drill_id in left:
        meanwhile()
        tell(drill_id, put_back(workspace, drill_id, within_s=within_s, meanwhile=meanwhile))
    return len(left)


def tell(drill_id: str, came: PutBack) -> None:
    """Says with a drill that has ended what was put back. What could not be makes its verdict an error."""
    one = Drill.objects.get(id=drill_id)
    one.body = json.dumps({**json.loads(one.body), "rollback": {"done": came.done, "said": came.said}})
    changed = ["body"]
    if not came.done:
        one.verdict, one.why = "error", f"{one.why}; {came.said}" if one.why else came.said
        changed += ["verdict", "why"]
    one.save(update_fields=changed)


def resting(state: str) -> bool:
    """Whether a run in that state does nothing more by itself: it has ended, or waits for a person."""
    return state == RunState.WAITING or state in {str(one) for one in TERMINAL}
