"""Limits the reach of an actor: one condition for the rows of every list, search, export, socket and stream.

A member with a role in the whole workspace sees all of it. A member with roles at some fabrics, or a token confined
to some, sees these and their parts; other fabrics do not exist for them (``fabric.core.people.roles``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_

from django.db.models import Model, Q

from fabric.core.people.actor import Actor
from fabric.core.people.roles import ALL, AT, DRAFT_OF, Right, has, read_place
from fabric.models import ChangeRequest, Run

PATHS: Mapping[str, str] = {
    "Fabric": "name",
    "Revision": "fabric__name",
    "Run": "fabric__name",
    "Review": "run__fabric__name",
    "Draft": "name",
    "FabricEditor": "fabric",
    "ChangeRequest": "name",
    "Drill": "fabric__name",
    "Schedule": "fabric__name",
    "StartStop": "fabric__name",
}
"""Path from each model's rows to the name of their fabric. ``Notification`` has none: it goes by its run or its
change.
"""


def match_visible(actor: Actor, model: type[Model]) -> Q:
    """Return the condition on a model's rows that an actor sees."""
    return Q(workspace_id=actor.workspace_id) & build_reach_condition(actor, model)


def build_reach_condition(actor: Actor, model: type[Model]) -> Q:
    """Return the condition without the workspace, for callers that check the workspace in another way."""
    if not actor.narrow:
        return Q()
    if model.__name__ == "Notification":
        runs, changes = (one.objects.filter(match_visible(actor, one)).values("id") for one in (Run, ChangeRequest))
        return Q(run_id__in=runs) | Q(change__in=changes)
    path = PATHS[model.__name__]
    found = _match_places(path, actor.fabrics) if actor.fabrics else Q()
    return found if actor.reach is None else found & _match_places(path, actor.reach)


def read_by(actor: Actor, model: type[Model]) -> Q:
    """Return the condition on a model's rows whose contents the actor may read, which a search needs."""
    held = actor.held or actor.roles
    if actor.kind == "system" or has(held, Right.CONTENTS):
        return Q()
    places = {read_place(word) for word in held if has({word.partition(AT)[0]}, Right.CONTENTS)} - {""}
    return reduce(or_, (match_place(PATHS[model.__name__], place) for place in sorted(places)), Q(pk__in=[]))


def match_place(path: str, place: str) -> Q:
    """Return the condition on rows of the fabrics at a place, with those of drilled drafts. ``path``: to the
    fabric's name.
    """
    if place.endswith(ALL):
        return Q(**{f"{path}__startswith": place[:-1]})
    return Q(**{path: place}) | Q(**{f"{path}__startswith": f"{place}{DRAFT_OF}"})


def _match_places(path: str, places: Collection[str]) -> Q:
    return reduce(or_, (match_place(path, place) for place in places))
