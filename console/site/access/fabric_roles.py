"""Finds the fabric of an address, and binds the actor to their roles at that fabric.

1. Pages and the API call it after ``access`` and ``callers`` have identified the actor.
2. A fabric that the actor does not see answers 404.
3. Lists belong to no fabric. A fabric named in a body is checked by the service.
4. An actor whose roles are equal everywhere costs no look-up.
5. Members who see the workspace of the drills may read its runs under the addresses of runs, but not decide in them.
   Pages, the API and the sockets all ask this module for the actor on a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import ChangeRequest, ChatRoute, Notification, Review, Run, StartStop
from fabric.selectors.errors import Refused
from fabric.services.actors import actor_inside_drills
from fabric.services.rights import right_wanted
from simulator.drills.models.tables import Drill, Schedule
from simulator.drills.selectors.runs import drill_of_run_id

Names = Mapping[str, Any]
"""The parts of an address, by name."""
Finder = Callable[[Actor, Names], QuerySet[Any, str]]


def _run(actor: Actor, names: Names) -> QuerySet[Any, str]:
    places = {actor.workspace_id, actor.drills_id}
    return Run.objects.filter(id=str(names["run_id"]), workspace_id__in=places).values_list("fabric__name", flat=True)


def _find_fabric_by(model: type[Model], name: str, key: str, path: str) -> Finder:
    """Return a finder of a row's fabric.

    ``name``: the id's name in an address. ``key``: its column. ``path``: the way to the fabric's name.
    """

    def find(actor: Actor, names: Names) -> QuerySet[Any, str]:
        rows = model._default_manager.filter(**{key: names[name]}, workspace_id=actor.workspace_id)
        return rows.values_list(path, flat=True)

    return find


def _channel(actor: Actor, names: Names) -> QuerySet[Any, str]:
    """Find the fabric of a channel; a member's own has none."""
    rows = ChatRoute.objects.filter(id=names["channel_id"], workspace_id=actor.workspace_id).exclude(fabric="")
    return rows.values_list("fabric", flat=True)


def _notification(actor: Actor, names: Names) -> QuerySet[Any, str]:
    rows = Notification.objects.filter(id=names["notification_id"], workspace_id=actor.workspace_id)
    change = Subquery(ChangeRequest.objects.filter(id=OuterRef("change")).values("name")[:1])
    return rows.values_list(Coalesce("run__fabric__name", change), flat=True)


FABRIC_OF: Mapping[str, Finder] = {
    "run_id": _run,
    "review_id": _find_fabric_by(Review, "review_id", "id", "run__fabric__name"),
    "change_id": _find_fabric_by(ChangeRequest, "change_id", "id", "name"),
    "drill_id": _find_fabric_by(Drill, "drill_id", "id", "fabric__name"),
    "batch": _find_fabric_by(Drill, "batch", "batch", "fabric__name"),
    "schedule_id": _find_fabric_by(Schedule, "schedule_id", "id", "fabric__name"),
    "stop_id": _find_fabric_by(StartStop, "stop_id", "id", "fabric__name"),
    "channel_id": _channel,
    "notification_id": _notification,
}
"""Finder of the fabric of an object, by the object's name in an address."""

WORKSPACES = frozenset(
    {"member_id", "invitation_id", "token", "model_id", "card", "scenario_name", "scope", "hold_id", "record_id"}
    | {"job_id", "view_id"}
)
"""Names of objects that belong to the workspace and to no fabric. A breaker is moved by any operator."""
OTHER_NAMES = frozenset(
    {"token-revoke", "api-token-revoke", "api-member-roles", "api-member-remove", "run-pause", "run-resume"}
    | {"run-cancel", "run-terminate"}
)
"""Routes whose ``name`` is not a fabric's."""


def place_actor(actor: Actor, route: str, names: Names) -> Actor:
    """Return the actor at the fabric of an address. Raises Refused not_found for a fabric that they do not see."""
    if not actor.placed:
        return actor
    fabric = _fabric(actor, route, names)
    if fabric is None:
        return actor
    if not actor.sees(fabric):
        raise Refused("not found, or not visible to you", code="not_found", field="fabric")
    return actor.place_at(fabric)


def _fabric(actor: Actor, route: str, names: Names) -> str | None:
    if "name" in names and route not in OTHER_NAMES:
        return str(names["name"])
    known = next((name for name in FABRIC_OF if name in names), None)
    return None if known is None else FABRIC_OF[known](actor, names).first()


CHANGES: Mapping[str, bool] = {
    f"{door}run-{name}": live
    for door in ("", "api-")
    for name, live in {
        "cancel": True,
        "terminate": True,
        "pause": False,
        "resume": False,
        "say": False,
        "context": False,
        "fork": False,
        "scenario": False,
        "labels": False,
    }.items()
}
"""Routes that change a run or derive from it, by name. True: an operator may use them on the run of a live drill."""


def actor_on(actor: Actor, route: str, run_id: str) -> Actor:
    """Return the actor on a run at an address. On a run of their workspace's drills, it is a viewer there.

    It costs one index look-up if the workspace has had drills, else none. Raises Refused conflict or forbidden if the
    address would change such a run.
    """
    inside = actor_inside_drills(actor, run_id)
    if inside is None:
        return actor
    if route not in CHANGES:
        return inside
    _may_change(actor, inside, route, run_id)
    return replace(inside, roles=actor.roles)


def _may_change(actor: Actor, inside: Actor, route: str, run_id: str) -> None:
    found = drill_of_run_id(inside.workspace_id, run_id)
    if found is None or found.virtual:
        message = (
            "this is the run of a drill in simulated time: it has ended, and nothing can be changed; drill it again"
        )
        raise Refused(message, code="conflict", field="run")
    if not CHANGES[route]:
        message = "this is the run of a live drill: it can be cancelled or terminated, and its drill stopped; drill it again for another"
        raise Refused(message, code="conflict", field="run")
    right_wanted(actor, Right.OPERATE, "end the run of a live drill")
