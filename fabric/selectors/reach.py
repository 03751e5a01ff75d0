"""What of a workspace somebody sees: the one condition that every list, search, export, socket and stream puts on its rows.

Whoever has a role in the whole workspace sees all of it, and the condition is the workspace's alone. Whose roles hold at some fabrics, or whose
token is confined to some, sees these and what belongs to them; the rest is not there for them (``fabric.core.reach``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_

from django.db.models import Model, Q

from fabric.core.actor import Actor
from fabric.core.reach import ALL, AT, DRAFT_OF, place_of
from fabric.core.roles import Right, has
from fabric.models import ChangeRequest, Run

PATHS: Mapping[str, str] = {
    "Fabric": "name",
    "Revision": "fabric__name",
    "Run": "fabric__name",
    "Escalation": "run__fabric__name",
    "Draft": "name",
    "FabricEditor": "fabric",
    "ChangeRequest": "name",
    "Drill": "fabric__name",
    "Schedule": "fabric__name",
}
"""By the name of a model: where its rows have the name of their fabric. ``Notification`` has none of its own: it is its run's, or its change's."""


def seen_by(actor: Actor, model: type[Model]) -> Q:
    """The rows of a model that are there for somebody."""
    return Q(workspace_id=actor.workspace_id) & within(actor, model)


def within(actor: Actor, model: type[Model]) -> Q:
    """The same without the workspace, for who asks for that in another way."""
    if not actor.narrow:
        return Q()
    if model.__name__ == "Notification":
        runs, changes = (one.objects.filter(seen_by(actor, one)).values("id") for one in (Run, ChangeRequest))
        return Q(run_id__in=runs) | Q(change__in=changes)
    path = PATHS[model.__name__]
    found = _at_one(path, actor.fabrics) if actor.fabrics else Q()
    return found if actor.reach is None else found & _at_one(path, actor.reach)


def read_by(actor: Actor, model: type[Model]) -> Q:
    """Of the rows of a model that are there for somebody, those whose contents they may read: what a search looks for words in."""
    held = actor.held or actor.roles
    if actor.kind == "system" or has(held, Right.CONTENTS):
        return Q()
    places = {place_of(word) for word in held if has({word.partition(AT)[0]}, Right.CONTENTS)} - {""}
    return reduce(or_, (at_place(PATHS[model.__name__], place) for place in sorted(places)), Q(pk__in=[]))


def at_place(path: str, place: str) -> Q:
    """The rows of the fabrics at a place, with those of drafts that were drilled. ``path``: where they have the name of theirs."""
    if place.endswith(ALL):
        return Q(**{f"{path}__startswith": place[:-1]})
    return Q(**{path: place}) | Q(**{f"{path}__startswith": f"{place}{DRAFT_OF}"})


def _at_one(path: str, places: Collection[str]) -> Q:
    return reduce(or_, (at_place(path, place) for place in places))
