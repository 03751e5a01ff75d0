"""At which fabric an address is: who calls acts there with the roles that hold there, and what they do not see is not there.

The one place that knows it: pages and the API ask here after ``access`` and ``callers`` have found out who calls. Lists are at no fabric, and a
fabric that a body names is looked at by the service. Whose roles are the same everywhere costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from fabric.core.actor import Actor
from fabric.models import ChangeRequest, Escalation, Notification, Run
from fabric.selectors.errors import Refused
from simulator.drills.models import Drill, Schedule

Names = Mapping[str, Any]
"""The parts of an address, by name."""
Finder = Callable[[Actor, Names], QuerySet[Any, str]]


def _run(actor: Actor, names: Names) -> QuerySet[Any, str]:
    places = {actor.workspace_id, actor.drills_id}
    return Run.objects.filter(id=str(names["run_id"]), workspace_id__in=places).values_list("fabric__name", flat=True)


def _of(model: type[Model], name: str, key: str, path: str) -> Finder:
    """Finds the fabric of a row of the workspace. ``name``: of its id in an address; ``key``: its column; ``path``: to the fabric's name."""

    def find(actor: Actor, names: Names) -> QuerySet[Any, str]:
        rows = model._default_manager.filter(**{key: names[name]}, workspace_id=actor.workspace_id)
        return rows.values_list(path, flat=True)

    return find


def _notification(actor: Actor, names: Names) -> QuerySet[Any, str]:
    rows = Notification.objects.filter(id=names["notification_id"], workspace_id=actor.workspace_id)
    change = Subquery(ChangeRequest.objects.filter(id=OuterRef("change")).values("name")[:1])
    return rows.values_list(Coalesce("run__fabric__name", change), flat=True)


FABRIC_OF: Mapping[str, Finder] = {
    "run_id": _run,
    "escalation_id": _of(Escalation, "escalation_id", "id", "run__fabric__name"),
    "change_id": _of(ChangeRequest, "change_id", "id", "name"),
    "drill_id": _of(Drill, "drill_id", "id", "fabric__name"),
    "batch": _of(Drill, "batch", "batch", "fabric__name"),
    "schedule_id": _of(Schedule, "schedule_id", "id", "fabric__name"),
    "notification_id": _notification,
}
"""By what names it in an address: the fabric that a thing belongs to."""

WORKSPACES = frozenset(
    {"member_id", "invitation_id", "token", "model_id", "card", "scenario_name", "scope", "hold_id", "record_id"}
)
"""What belongs to the workspace and to no fabric; a circuit breaker is moved by who may at all."""
OTHER_NAMES = frozenset(
    {"token-revoke", "api-token-revoke", "api-member-roles", "api-member-remove", "run-pause", "run-resume"}
    | {"run-cancel", "run-terminate"}
)
"""Routes whose ``name`` is no fabric's."""


def placed(actor: Actor, route: str, names: Names) -> Actor:
    """The same at the fabric that an address is about. Refused not_found for one that is not there for them."""
    if not actor.placed:
        return actor
    fabric = _fabric(actor, route, names)
    if fabric is None:
        return actor
    if not actor.sees(fabric):
        raise Refused("there is no such thing here: look at what there is for you", code="not_found", field="fabric")
    return actor.at(fabric)


def _fabric(actor: Actor, route: str, names: Names) -> str | None:
    if "name" in names and route not in OTHER_NAMES:
        return str(names["name"])
    known = next((name for name in FABRIC_OF if name in names), None)
    return None if known is None else FABRIC_OF[known](actor, names).first()
