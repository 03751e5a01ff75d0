"""Legal holds and the rows that they cover. Every deletion checks here first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Fabric, Hold, Run
from fabric.selectors.audit.lookup import audit_wanted

RUN, FABRIC, PERSON = "run", "fabric", "person"
ABOUT = (RUN, FABRIC, PERSON)
HOLDS_MAX = 500
"""Largest number of shown holds; the open ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldView:
    """A hold. Instants are microseconds since the epoch, UTC."""

    id: str
    about: str
    name: str
    reason: str
    placed_by: str
    placed_at: int
    lifted_by: str
    lifted_at: int | None
    lifted_because: str

    @property
    def open(self) -> bool:
        """Return True until the hold is lifted."""
        return self.lifted_at is None


def holds_list(actor: Actor) -> tuple[HoldView, ...]:
    """Return the holds of the actor's workspace: open ones, then lifted ones, the newest first. Raises Refused
    forbidden.
    """
    audit_wanted(actor)
    rows = Hold.objects.filter(workspace_id=actor.workspace_id)
    stand = list(rows.filter(lifted_at__isnull=True).order_by("-placed_at", "id")[:HOLDS_MAX])
    lifted = list(rows.filter(lifted_at__isnull=False).order_by("-placed_at", "id")[:HOLDS_MAX])
    return tuple(hold_view(row) for row in (*stand, *lifted))


def hold_view(row: Hold) -> HoldView:
    """Return a row as a view."""
    named = {name: getattr(row, name) for name in HoldView.__dataclass_fields__}
    return HoldView(**named)


def open_holds() -> QuerySet[Hold]:
    """Return the holds that were not lifted."""
    return Hold.objects.filter(lifted_at__isnull=True)


def run_is_held() -> Exists:
    """Return a condition on runs under a hold: on the run, its fabric, or the person who started it. A drill's run
    counts only for its own hold.
    """
    mine = Q(workspace_id=OuterRef("workspace_id"))
    by_fabric = mine & Q(about=FABRIC, name=OuterRef("fabric__name"))
    by_person = mine & Q(about=PERSON, name=OuterRef("created_by"))
    return Exists(open_holds().filter(Q(about=RUN, name=OuterRef("id")) | by_fabric | by_person))


def runs_held(run_ids: Collection[str]) -> bool:
    """Return True if one of these runs is under a hold."""
    return Run.objects.filter(run_is_held(), id__in=run_ids).exists()


def fabric_is_held(workspace_id: str, name: str) -> bool:
    """Return True if a fabric is under a hold."""
    return open_holds().filter(workspace_id=workspace_id, about=FABRIC, name=name).exists()


def fabric_ids_held() -> Q:
    """Return a condition on entries of memories whose fabric or writing run is under a hold."""
    held = open_holds().filter(about=FABRIC, workspace_id=OuterRef("workspace_id"), name=OuterRef("name"))
    by_fabric = Exists(Fabric.objects.filter(Exists(held), id=OuterRef("fabric_id")))
    by_run = Exists(Run.objects.filter(run_is_held(), id=OuterRef("run_id")))
    return Q(by_fabric) | Q(by_run)


def lines_held(workspace_id: str) -> Q:
    """Return a condition on a workspace's audit lines that are by or about a person or thing under a hold."""
    names: dict[str, list[str]] = {about: [] for about in ABOUT}
    for about, name in open_holds().filter(workspace_id=workspace_id).values_list("about", "name"):
        names[about].append(name)
    if not any(names.values()):
        return Q(pk__in=[])
    runs = Run.objects.filter(run_is_held(), workspace_id=workspace_id).values("id")
    people = Q(actor__in=names[PERSON]) | Q(subject__in=names[PERSON])
    return people | Q(subject__in=names[FABRIC]) | Q(subject__in=names[RUN]) | Q(subject__in=runs)


def list_lines(workspace_id: str) -> QuerySet[AuditLine]:
    """Return a workspace's audit lines without a hold."""
    return AuditLine.objects.filter(workspace_id=workspace_id).exclude(lines_held(workspace_id))
