"""Stops new runs of a fabric or of the workspace, and allows them again.

A start asks for stops in the statement that inserts the run (``JournalStore.create``), whichever way it came. Runs of
drills lie in a workspace of their own, so that no stop refuses them.
"""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.models import StartStop
from fabric.models.runs.stops import OPEN
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.runs.stops import RESUME, RunningRuns, StopView, stop_get
from fabric.services.actors import system_actor
from fabric.services.acts import SYSTEM, audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.worker.process.duties import database_us

STOP_REASON_CHARS_MAX = 500
STOP_S_MIN, STOP_S_MAX = 60, 30 * 86_400
"""Shortest and longest given time of a stop, in seconds."""


def may_stop_starts(actor: Actor, fabric: str = "") -> bool:
    """Return True if the actor may stop new runs of this fabric, or of the workspace, and allow them again."""
    return (actor.place_at(fabric) if fabric else actor).may(Right.STOP)


def stop_new_runs(
    *, actor: Actor, fabric: str, reason: str, running: RunningRuns | str = RunningRuns.FINISH, for_s: int | None = None
) -> StopView:
    """Refuse new runs of a fabric from now on; of the workspace for an empty name.

    ``running``: what workers do with the runs that were started before, waiting ones included. ``for_s``: seconds
    after which new runs are allowed by themselves; None: a person has to. Raises Refused: forbidden, not_found,
    invalid, conflict (they are stopped already).
    """
    here = actor.place_at(fabric) if fabric else actor
    right_wanted(here, Right.STOP, "stop new runs")
    why, then = _reason(reason), _running(running)
    if then is not RunningRuns.FINISH:
        right_wanted(here, Right.CONTROL, f"{then} runs")
    if for_s is not None and not STOP_S_MIN <= for_s <= STOP_S_MAX:
        message = "a stop has an end between one minute and 30 days from now; or leave it out"
        raise Refused(message, code="invalid", field="for_s")
    fabric_id = fabric_get(actor, fabric).id if fabric else None
    with transaction.atomic():
        _lock_starts(actor.workspace_id)
        now = database_us()
        same = StartStop.objects.filter(OPEN, workspace_id=actor.workspace_id, fabric=fabric_id)
        end_expired(same, now)
        if (standing := same.values_list("id", flat=True).first()) is not None:
            message = f"there is a stop already: {stop_get(actor, standing).said}"
            raise Refused(message, code="conflict", field="stop")
        made = StartStop.objects.create(
            workspace_id=actor.workspace_id,
            fabric_id=fabric_id,
            stopped_by=actor.name,
            stopped_at=now,
            reason=why,
            until_at=None if for_s is None else now + for_s * US,
            running=then,
            left="" if then is RunningRuns.FINISH else then,
            left_by=actor.name,
        )
        said = {"stop": made.id, "running": then.value, "until_at": made.until_at, "reason": why}
        audit_record(actor=actor, act=Act.NEW_RUNS_STOPPED, subject=fabric or actor.workspace_id, **said)
    return stop_get(actor, made.id)


def allow_new_runs(*, actor: Actor, stop_id: str, resume: bool = False) -> StopView:
    """Lift a stop. Workers pause and cancel no further run for it.

    ``resume``: let the runs go on that the stop paused, and only those; also possible after its end. Raises Refused:
    forbidden, not_found, conflict (it has ended, and leaves nothing to resume).
    """
    seen = stop_get(actor, stop_id)
    right_wanted(actor.place_at(seen.fabric) if seen.fabric else actor, Right.STOP, "allow new runs")
    left = RESUME if resume else ""
    with transaction.atomic():
        mine, now = StartStop.objects.filter(id=stop_id), database_us()
        end_expired(mine.filter(OPEN), now)
        lifted = mine.filter(OPEN).update(ended_at=now, ended_by=actor.name, left=left, left_by=actor.name)
        if not lifted:
            if not resume or not seen.resumable:
                message = f"the stop of {seen.what} has ended already, so it refuses no run"
                raise Refused(message, code="conflict", field="stop")
            mine.update(left=left, left_by=actor.name)
        about = {"stop": stop_id, "resume": resume}
        audit_record(actor=actor, act=Act.NEW_RUNS_ALLOWED, subject=seen.fabric or actor.workspace_id, **about)
    return stop_get(actor, stop_id)


def end_expired(rows: QuerySet[StartStop], now: int) -> int:
    """Record the end of stops whose given end has come, and return their number. ``now``: microseconds since the
    epoch on the database's clock.

    The runs that they paused stay paused: no one was there to look.
    """
    ended = 0
    for one in rows.filter(OPEN, until_at__lte=now).select_related("fabric"):
        mine = StartStop.objects.filter(OPEN, id=one.id)
        if mine.update(ended_at=F("until_at"), ended_by=SYSTEM, left=""):
            ended += 1
            actor, place = system_actor(one.workspace_id), one.fabric.name if one.fabric else one.workspace_id
            audit_record(actor=actor, act=Act.STOP_EXPIRED, subject=place, stop=one.id)
    return ended


def are_stops_due(now: int) -> bool:
    """Return True if the given end of a stop has come, or workers have something to do for one."""
    return StartStop.objects.filter(~Q(left="") | OPEN & Q(until_at__lte=now)).exists()


def _lock_starts(workspace_id: str) -> None:
    """Wait for starts that are being inserted, and let others wait, until the transaction ends. SQLite has one
    writer anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 12))", [f"starts {workspace_id}"])


def _reason(reason: str) -> str:
    why = " ".join(clean_text(reason)[0].split())[:STOP_REASON_CHARS_MAX]
    if not why:
        message = "stopping new runs needs a reason: say why, each member whose start is refused reads it"
        raise Refused(message, code="invalid", field="reason")
    return why


def _running(running: RunningRuns | str) -> RunningRuns:
    if running not in set(RunningRuns):
        known = ", ".join(RunningRuns)
        message = f"running runs cannot {str(running)[:40]!r}; there are: {known}"
        raise Refused(message, code="invalid", field="running")
    return RunningRuns(running)
