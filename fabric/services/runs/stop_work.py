"""Pauses, cancels or resumes the runs that were started before a stop of new runs.

Each run is moved by the service of the single act, in the name of the person who asked. A run's row is written after
its act; an act that is repeated because its worker died is recognised by the input that it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db.models import Exists, OuterRef

from fabric.core.events.inputs import INBOX, PauseRequested
from fabric.core.people.actor import Actor
from fabric.models import Inbox, Run, StartStop, StoppedRun
from fabric.models.runs.run import ASKED_FOR, LIVE
from fabric.models.runs.stops import TO_DO
from fabric.runtime.ports.journal import JournalStore, Nudge
from fabric.selectors.runs.lookup import PAUSE, count_holds
from fabric.selectors.runs.stops import RESUME, RunningRuns
from fabric.services.errors import Refused
from fabric.services.runs.control import run_cancel, run_pause, run_resume
from fabric.services.runs.stops import end_expired
from fabric.worker.process.duties import database_us

BATCH = 50
"""Runs that are read at once."""
BATCHES_MAX = 20
"""Batches of one stop in one go, so that a worker notices its end."""


def stops_carry_out(store: JournalStore, nudge: Nudge) -> int:
    """Record the given ends that have come, and move the runs of stops with work left. Return how many were moved."""
    end_expired(StartStop.objects.all(), database_us())
    return sum(_carry_out(one, store, nudge) for one in StartStop.objects.filter(TO_DO).order_by("stopped_at"))


def _carry_out(stop: StartStop, store: JournalStore, nudge: Nudge) -> int:
    moved = 0
    for _ in range(BATCHES_MAX):
        # It may have been lifted meanwhile: then nothing further is paused.
        if not StartStop.objects.filter(id=stop.id, left=stop.left).exists():
            return moved
        found = LISTS[stop.left](stop)
        for run_id in found:
            actor = Actor(name=stop.left_by, workspace_id=stop.workspace_id, kind="system", via=f"stop:{stop.id}")
            MOVES[stop.left](stop, run_id, {"store": store, "nudge": nudge, "actor": actor, "run_id": run_id})
        moved += len(found)
        if len(found) < BATCH:
            StartStop.objects.filter(id=stop.id, left=stop.left).update(left="")
            break
    return moved


def _list_running(stop: StartStop) -> list[str]:
    """Return the next runs that were started before the stop and that it has not come to. Child runs follow their
    parents.
    """
    seen = StoppedRun.objects.filter(stop_id=stop.id, run_id=OuterRef("id"))
    rows = Run.objects.filter(LIVE, ASKED_FOR, ~Exists(seen), workspace_id=stop.workspace_id)
    if stop.fabric_id:
        rows = rows.filter(fabric_id=stop.fabric_id)
    return list(rows.order_by("created_at", "id").values_list("id", flat=True)[:BATCH])


def _list_paused(stop: StartStop) -> list[str]:
    rows = StoppedRun.objects.filter(stop_id=stop.id, did=RunningRuns.PAUSE, resumed=False)
    return list(rows.order_by("run_id").values_list("run_id", flat=True)[:BATCH])


Ports = dict[str, object]


def _pause(stop: StartStop, run_id: str, ports: Ports) -> None:
    hold, why = 0, _why(stop)
    try:
        run_pause(**ports, reason=why)  # type: ignore[arg-type]
        pauses, resumptions = count_holds(ports["actor"], run_id)  # type: ignore[arg-type]
        if pauses > resumptions and _is_own(stop, run_id, pauses):
            hold = pauses
    except Refused as refusal:
        _pass_over(refusal)
    _note(stop, run_id, RunningRuns.PAUSE if hold else "", hold)


def _cancel(stop: StartStop, run_id: str, ports: Ports) -> None:
    did = ""
    try:
        if run_cancel(**ports, reason=_why(stop)):  # type: ignore[arg-type]
            did = RunningRuns.CANCEL
    except Refused as refusal:
        _pass_over(refusal)
    _note(stop, run_id, did, 0)


def _resume(stop: StartStop, run_id: str, ports: Ports) -> None:
    """Resume a run that still is in the pause of the stop. A later pause is another person's."""
    row = StoppedRun.objects.get(stop_id=stop.id, run_id=run_id)
    try:
        if count_holds(ports["actor"], run_id) == (row.hold, row.hold - 1):  # type: ignore[arg-type]
            run_resume(**ports)  # type: ignore[arg-type]
    except Refused as refusal:
        _pass_over(refusal)
    StoppedRun.objects.filter(stop_id=stop.id, run_id=run_id).update(resumed=True)


LISTS: Mapping[str, Callable[[StartStop], list[str]]] = {
    RunningRuns.PAUSE: _list_running,
    RunningRuns.CANCEL: _list_running,
    RESUME: _list_paused,
}
"""Lists the next runs, by what is left to do."""
MOVES: Mapping[str, Callable[[StartStop, str, Ports], None]] = {
    RunningRuns.PAUSE: _pause,
    RunningRuns.CANCEL: _cancel,
    RESUME: _resume,
}
"""Moves one run, by what is left to do."""


def _why(stop: StartStop) -> str:
    return f"new runs were stopped: {stop.reason}"


def _is_own(stop: StartStop, run_id: str, pause: int) -> bool:
    """Return True if the pause of this number is the stop's: a person may have paused the run before."""
    input_id = f"{PAUSE}{pause}"
    body = Inbox.objects.filter(run_id=run_id, input_id=input_id).values_list("body", flat=True).first()
    own = PauseRequested(input_id=input_id, actor=stop.left_by, reason=_why(stop))
    return body is not None and INBOX.validate_json(bytes(body)) == own


def _note(stop: StartStop, run_id: str, did: str, hold: int) -> None:
    StoppedRun.objects.get_or_create(stop_id=stop.id, run_id=run_id, defaults={"did": did, "hold": hold})


def _pass_over(refusal: Refused) -> None:
    """Pass over a run that has ended meanwhile. Raises Refused for anything that another look may mend."""
    if refusal.code not in ("conflict", "not_found"):
        raise refusal
