"""The lever of a workspace: while it is pulled, every drill has ended and none is begun, virtual or live, whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import OuterRef, Subquery

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.core.words import instant
from fabric.models import Workspace
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills.batches import drills_abort
from simulator.drills.models import LIVE, OPEN_STATUSES, Drill, Lever

LEVER = ("pulled_by", "pulled_at", "reason")
"""Columns, in the order of ``LeverView``."""


@dataclass(frozen=True, slots=True)
class LeverView:
    """Who pulled it, when (microseconds since the epoch, the database's clock) and why."""

    pulled_by: str
    pulled_at: int
    reason: str

    @property
    def said(self) -> str:
        """The same in a sentence."""
        return f"{self.pulled_by} pulled the lever of drills on {instant(self.pulled_at)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page of the console has to know about drills."""

    lever: LeverView | None = None
    """None: it rests."""
    going: str = ""
    """The batch that waits or runs, the one in turn; empty: there is none."""
    live: str = ""
    """The same of live drills."""


def lever_of(actor: Actor) -> LeverView | None:
    """The workspace's lever; None: it rests, and drills may be asked for."""
    return _seen(actor.workspace_id)


def drills_frame(actor: Actor) -> Frame:
    """The lever, and whether drills go on: one statement, which looks into an index for each."""
    pulled = Lever.objects.filter(workspace=OuterRef("id"))
    going = Drill.objects.filter(status__in=OPEN_STATUSES, workspace=OuterRef("id")).order_by("batch").values("batch")
    asked = {f"its_{name}": Subquery(pulled.values(name)[:1]) for name in LEVER}
    asked |= {"going": Subquery(going[:1]), "live": Subquery(going.filter(mode=LIVE)[:1])}
    rows = Workspace.objects.filter(id=actor.workspace_id).annotate(**asked)
    *lever, batch, live = rows.values_list(*asked).first() or (None, None, None, None, None)
    return Frame(None if lever[0] is None else LeverView(*lever), batch or "", live or "")


def may_pull(actor: Actor) -> bool:
    """Whether somebody may pull and release it."""
    return actor.may(Right.OPERATE)


def lever_pull(*, actor: Actor, reason: str) -> int:
    """Ends every drill of the workspace that waits or runs, and refuses every new one until the lever is released. How many were ended.

    What runs is ended by who drives it, within a second. Raises Refused: forbidden, invalid (no reason), conflict (it is pulled already).
    """
    why = _reason(actor, reason, "pull", "pulling")
    with transaction.atomic():
        asking_held(actor.workspace_id)
        if (seen := _seen(actor.workspace_id)) is not None:
            raise Refused(f"the lever is pulled already: {seen.said}", code="conflict", field="lever")
        Lever.objects.create(workspace_id=actor.workspace_id, pulled_by=actor.name, pulled_at=database_us(), reason=why)
        ended = drills_abort(Drill.objects.filter(workspace_id=actor.workspace_id), by=actor.name, why=why)
        audit_record(actor=actor, act=Act.DRILL_LEVER_PULLED, subject=actor.workspace_id, drills=ended, reason=why)
    return ended


def lever_release(*, actor: Actor, reason: str) -> None:
    """Drills may be asked for again; what was ended stays so. Raises Refused: forbidden, invalid (no reason), conflict (it is not pulled)."""
    why = _reason(actor, reason, "release", "releasing")
    with transaction.atomic():
        asking_held(actor.workspace_id)
        if not Lever.objects.filter(workspace_id=actor.workspace_id).delete()[0]:
            raise Refused("the lever is not pulled: drills may be asked for", code="conflict", field="lever")
        audit_record(actor=actor, act=Act.DRILL_LEVER_RELEASED, subject=actor.workspace_id, reason=why)


def lever_rests(workspace_id: str) -> None:
    """Refused conflict while the lever is pulled. Called in the transaction that inserts drills, before it does: who pulls the lever meanwhile waits for it."""
    asking_held(workspace_id)
    if (seen := _seen(workspace_id)) is not None:
        message = f"{seen.said.removesuffix('.')}; no drill is begun until the owner or an operator releases it"
        raise Refused(message, code="conflict", field="lever")


def asking_held(workspace_id: str) -> None:
    """Those who ask for drills and who pulls the lever go one after the other, until their transactions end. SQLite has one writer anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 11))", [f"drills {workspace_id}"])


def _seen(workspace_id: str) -> LeverView | None:
    row = Lever.objects.filter(workspace_id=workspace_id).values_list(*LEVER).first()
    return LeverView(*row) if row else None


def _reason(actor: Actor, reason: str, do: str, doing: str) -> str:
    right_wanted(actor, Right.OPERATE, f"{do} the lever of drills")
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        message = f"{doing} the lever needs a reason: say why, it is kept with the drills and in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    return why
