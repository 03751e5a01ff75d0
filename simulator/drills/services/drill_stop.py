"""The drill stop of a workspace: while it is pulled, every drill has ended and none begins, virtual or live."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import OuterRef, Subquery

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.words import instant
from fabric.models import Workspace
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import drills_abort
from simulator.drills.models.tables import LIVE, OPEN_STATUSES, Drill, DrillStop

DRILL_STOP_COLUMNS = ("pulled_by", "pulled_at", "reason")
"""Columns, in the order of ``DrillStopView``."""


@dataclass(frozen=True, slots=True)
class DrillStopView:
    """Person who pulled it, instant (microseconds since the epoch, the database's clock) and reason."""

    pulled_by: str
    pulled_at: int
    reason: str

    @property
    def said(self) -> str:
        """Return the facts in a sentence."""
        return f"{self.pulled_by} stopped all drills on {instant(self.pulled_at)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Frame:
    """State of drills for every page of the console."""

    drill_stop: DrillStopView | None = None
    """The pulled drill stop; None if it rests."""
    going: str = ""
    """The open batch that is next; empty for none."""
    live: str = ""
    """The open batch of live drills that is next; empty for none."""


def find_drill_stop(actor: Actor) -> DrillStopView | None:
    """Return the workspace's drill stop; None if it rests, so that drills may start."""
    return _pulled_drill_stop(actor.workspace_id)


def drills_frame(actor: Actor) -> Frame:
    """Return the drill stop and the open batches, by one statement with an index look-up for each."""
    pulled = DrillStop.objects.filter(workspace=OuterRef("id"))
    going = Drill.objects.filter(status__in=OPEN_STATUSES, workspace=OuterRef("id")).order_by("batch").values("batch")
    asked = {f"its_{name}": Subquery(pulled.values(name)[:1]) for name in DRILL_STOP_COLUMNS}
    asked |= {"going": Subquery(going[:1]), "live": Subquery(going.filter(mode=LIVE)[:1])}
    rows = Workspace.objects.filter(id=actor.workspace_id).annotate(**asked)
    *drill_stop, batch, live = rows.values_list(*asked).first() or (None, None, None, None, None)
    return Frame(None if drill_stop[0] is None else DrillStopView(*drill_stop), batch or "", live or "")


def may_pull(actor: Actor) -> bool:
    """Return True if the actor may pull and release it."""
    return actor.may(Right.OPERATE)


def pull_drill_stop(*, actor: Actor, reason: str) -> int:
    """End every open drill of the workspace, and refuse new ones until the release; return the number of ended
    drills.

    Their processes end running ones within a second. Raises Refused: forbidden, invalid (no reason), conflict (pulled
    already).
    """
    why = _reason(actor, reason, "stop drills", "stopping drills")
    with transaction.atomic():
        serialise_requests(actor.workspace_id)
        if (seen := _pulled_drill_stop(actor.workspace_id)) is not None:
            raise Refused(f"drills are stopped already: {seen.said}", code="conflict", field="drill_stop")
        DrillStop.objects.create(
            workspace_id=actor.workspace_id, pulled_by=actor.name, pulled_at=database_us(), reason=why
        )
        ended = drills_abort(Drill.objects.filter(workspace_id=actor.workspace_id), by=actor.name, why=why)
        audit_record(actor=actor, act=Act.DRILL_STOP_PULLED, subject=actor.workspace_id, drills=ended, reason=why)
    return ended


def release_drill_stop(*, actor: Actor, reason: str) -> None:
    """Allow new drills; ended ones stay ended. Raises Refused: forbidden, invalid (no reason), conflict (not
    pulled).
    """
    why = _reason(actor, reason, "allow drills again", "allowing drills again")
    with transaction.atomic():
        serialise_requests(actor.workspace_id)
        if not DrillStop.objects.filter(workspace_id=actor.workspace_id).delete()[0]:
            raise Refused("drills are not stopped: they can start", code="conflict", field="drill_stop")
        audit_record(actor=actor, act=Act.DRILL_STOP_RELEASED, subject=actor.workspace_id, reason=why)


def check_drill_stop(workspace_id: str) -> None:
    """Raise Refused conflict while the drill stop is pulled.

    Called before drills are inserted, in their transaction, so that a simultaneous pull waits for it.
    """
    serialise_requests(workspace_id)
    if (seen := _pulled_drill_stop(workspace_id)) is not None:
        message = f"{seen.said.removesuffix('.')}; no drill starts until the owner or an operator allows drills again"
        raise Refused(message, code="conflict", field="drill_stop")


def serialise_requests(workspace_id: str) -> None:
    """Serialise requests of drills and pulls of the drill stop until their transactions end. SQLite has one writer
    anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 11))", [f"drills {workspace_id}"])


def _pulled_drill_stop(workspace_id: str) -> DrillStopView | None:
    row = DrillStop.objects.filter(workspace_id=workspace_id).values_list(*DRILL_STOP_COLUMNS).first()
    return DrillStopView(*row) if row else None


def _reason(actor: Actor, reason: str, do: str, doing: str) -> str:
    right_wanted(actor, Right.OPERATE, do)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        message = f"{doing} needs a reason, which is kept with the drills and in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    return why
