"""Places and lifts legal holds: neither retention nor people can remove data under a hold."""

from __future__ import annotations

import time

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.models import Fabric, Hold, Member, Run, Workspace
from fabric.selectors.audit.holds import ABOUT, FABRIC, PERSON, RUN, HoldView, fabric_is_held, hold_view
from fabric.selectors.audit.lookup import audit_wanted
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted

REASON_CHARS_MAX = 1_000
NAME_CHARS_MAX = 200


def hold_place(*, actor: Actor, about: str, name: str, reason: str) -> HoldView:
    """Place a hold on a run (by id), a fabric or a person (by name) of the actor's workspace.

    Raises Refused: forbidden (also without a fresh sign-in), invalid (about, no reason), not_found, conflict (a hold
    exists already).
    """
    audit_wanted(actor)
    fresh_wanted(actor, "place a legal hold", by_token=True)
    if about not in ABOUT:
        message = f"{about[:40]!r} cannot have a legal hold; choose one of {', '.join(ABOUT)}"
        raise Refused(message, code="invalid", field="about")
    why, named = _reason(reason, "placing"), clean_text(name)[0].strip()[:NAME_CHARS_MAX]
    if not _is_there(actor, about, named):
        raise Refused(
            f"there is no {about} {named[:80]!r} in this workspace; check its name", code="not_found", field="name"
        )
    row = Hold(
        workspace_id=actor.workspace_id,
        about=about,
        name=named,
        reason=why,
        placed_by=actor.name,
        placed_at=time.time_ns() // 1_000,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit_record(actor=actor, act=Act.HOLD_PLACED, subject=named, about=about, hold=row.id, reason=why)
    except IntegrityError:
        message = f"the {about} {named[:80]} has a legal hold already; lift that one, or leave it"
        raise Refused(message, code="conflict", field="name") from None
    return hold_view(row)


def hold_lift(*, actor: Actor, hold_id: str, reason: str) -> HoldView:
    """Lift a hold. Retention then removes the data of the hold when it is due.

    Raises Refused: forbidden (also without a fresh sign-in), invalid (no reason), not_found, conflict (it was
    lifted).
    """
    audit_wanted(actor)
    fresh_wanted(actor, "lift a legal hold", by_token=True)
    why = _reason(reason, "lifting")
    mine = Hold.objects.filter(workspace_id=actor.workspace_id, id=clean_text(hold_id)[0][:64])
    with transaction.atomic():
        lifted = {"lifted_by": actor.name, "lifted_at": time.time_ns() // 1_000, "lifted_because": why}
        done = mine.filter(lifted_at__isnull=True).update(**lifted)
        row = mine.first()
        if row is None:
            raise Refused(f"there is no hold {hold_id[:64]!r} in this workspace", code="not_found", field="hold")
        if not done:
            raise Refused(f"{row.lifted_by} lifted this hold before", code="conflict", field="hold")
        # Retention looks at nothing before this again, and now it has to.
        Workspace.objects.filter(id=actor.workspace_id).update(erased_until=0)
        audit_record(actor=actor, act=Act.HOLD_LIFTED, subject=row.name, about=row.about, hold=row.id, reason=why)
    return hold_view(row)


def unheld_wanted(actor: Actor, fabric: str, doing: str) -> None:
    """Raise Refused conflict if a legal hold is on the fabric. ``doing``: the refused act as it follows "cannot be",
    such as ``deleted``.
    """
    if fabric_is_held(actor.workspace_id, fabric):
        message = f"a legal hold is on fabric {fabric}, so nothing of it can be {doing}: ask a member with the right to audit to lift it"
        raise Refused(message, code="conflict", field="hold")


def _reason(reason: str, doing: str) -> str:
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        message = f"{doing} a hold needs a reason: say why, it is kept in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    return why


def _is_there(actor: Actor, about: str, name: str) -> bool:
    within = {"workspace_id": actor.workspace_id}
    if about == RUN:
        inside = [actor.workspace_id, *([actor.drills_id] if actor.drills_id else [])]
        return Run.objects.filter(id=name, workspace_id__in=inside).exists()
    if about == FABRIC:
        return Fabric.objects.filter(name=name, **within).exists()
    assert about == PERSON
    return Member.objects.filter(name=name, **within).exists()
