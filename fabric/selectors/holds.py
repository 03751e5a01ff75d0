"""Legal holds: which there are, and what they cover. Whatever removes something asks here first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.core.actor import Actor
from fabric.models import AuditLine, Hold, Run
from fabric.selectors.audit_list import audit_wanted

RUN, FABRIC, PERSON = "run", "fabric", "person"
ABOUT = (RUN, FABRIC, PERSON)
HOLDS_MAX = 500
"""Shown at most; the open ones first."""


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
        """Whether it still stands."""
        return self.lifted_at is None


def holds_list(actor: Actor) -> tuple[HoldView, ...]:
    """The holds of the actor's workspace: those that stand, then those that were lifted, the newest first. Refused forbidden."""
    audit_wanted(actor)
    rows = Hold.objects.filter(workspace_id=actor.workspace_id)
    stand = list(rows.filter(lifted_at__isnull=True).order_by("-placed_at", "id")[:HOLDS_MAX])
    lifted = list(rows.filter(lifted_at__isnull=False).order_by("-placed_at", "id")[:HOLDS_MAX])
    return tuple(hold_view(row) for row in (*stand, *lifted))


def hold_view(row: Hold) -> HoldView:
    """A row as it is shown."""
    named = {name: getattr(row, name) for name in HoldView.__dataclass_fields__}
    return HoldView(**named)


def standing() -> QuerySet[Hold]:
    """Holds that were not lifted."""
    return Hold.objects.filter(lifted_at__isnull=True)


def run_is_held() -> Exists:
    """A condition on runs: one that is held, by itself, by its fabric, or by the person who started it. Of a drill's run, by itself alone."""
    mine = Q(workspace_id=OuterRef("workspace_id"))
    by_fabric = mine & Q(about=FABRIC, name=OuterRef("fabric__name"))
    by_person = mine & Q(about=PERSON, name=OuterRef("created_by"))
    return Exists(standing().filter(Q(about=RUN, name=OuterRef("id")) | by_fabric | by_person))


def runs_held(run_ids: Collection[str]) -> bool:
    """Whether one of these runs is held."""
    return Run.objects.filter(run_is_held(), id__in=run_ids).exists()


def fabric_is_held(workspace_id: str, name: str) -> bool:
    """Whether a fabric is held."""
    return standing().filter(workspace_id=workspace_id, about=FABRIC, name=name).exists()


def fabric_ids_held() -> Q:
    """A condition on entries of memories: their fabric is held, or the run that wrote them is."""
    by_fabric = Exists(
        standing().filter(about=FABRIC, workspace_id=OuterRef("fabric__workspace_id"), name=OuterRef("fabric__name"))
    )
    by_run = Exists(Run.objects.filter(run_is_held(), id=OuterRef("run_id")))
    return Q(by_fabric) | Q(by_run)


def lines_held(workspace_id: str) -> Q:
    """A condition on a workspace's audit lines: they are by or about somebody or something that is held."""
    names: dict[str, list[str]] = {about: [] for about in ABOUT}
    for about, name in standing().filter(workspace_id=workspace_id).values_list("about", "name"):
        names[about].append(name)
    if not any(names.values()):
        return Q(pk__in=[])
    runs = Run.objects.filter(run_is_held(), workspace_id=workspace_id).values("id")
    people = Q(actor__in=names[PERSON]) | Q(subject__in=names[PERSON])
    return people | Q(subject__in=names[FABRIC]) | Q(subject__in=names[RUN]) | Q(subject__in=runs)


def lines_of(workspace_id: str) -> QuerySet[AuditLine]:
    """A workspace's audit lines that no hold covers."""
    return AuditLine.objects.filter(workspace_id=workspace_id).exclude(lines_held(workspace_id))
