"""Finds scenarios, breakers, models and members by words of their names, and lists acts on found fabrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.urls import reverse

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.selectors.models.breakers import list_breaker_views
from fabric.selectors.overview.search import GROUP_MAX, FabricHit
from fabric.selectors.people import members_list
from fabric.services.models.catalogue import models_list
from simulator.drills.library.selectors import scenarios_list

CHARS_MIN = 3
"""Least length of a query: fewer characters match nearly everything."""
ACTED_ON_MAX = 3
"""With more fabrics found, the acts on them are left out."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A thing, or an act on one, that a query finds."""

    kind: str
    icon: str
    label: str
    address: str
    name: str = ""
    """A further name that a query may have; empty for none."""


def find_elsewhere(actor: Actor, query: str) -> tuple[Elsewhere, ...]:
    """Return the scenarios, breakers, models and members whose names contain all words, at most ``GROUP_MAX``."""
    words = query.lower().split()
    if len(query) < CHARS_MIN:
        return ()
    found = (one for one in _list_all(actor) if all(word in f"{one.label} {one.name}".lower() for word in words))
    return tuple(islice(found, GROUP_MAX))


def list_acts(actor: Actor, fabrics: Iterable[FabricHit]) -> tuple[Elsewhere, ...]:
    """Return what the actor may do with the fabrics that were found; nothing if they are many."""
    published = [one.name for one in fabrics if one.number is not None]
    if len(published) > ACTED_ON_MAX:
        return ()
    return tuple(
        Elsewhere("act", icon, f"{verb} {name}", address)
        for name in published
        for right, icon, verb, address in (
            (Right.RUN, "play", "Start a run of", f"{reverse('start')}?fabric={name}"),
            (Right.EDIT, "edit", "Edit", f"{reverse('fabric', args=[name])}#edit"),
            (Right.RUN, "drill", "Drill", f"{reverse('drills-coverage')}?fabric={name}"),
        )
        if actor.may(right)
    )


def _list_all(actor: Actor) -> Iterator[Elsewhere]:
    for scenario in scenarios_list(actor):
        address = reverse("scenario", args=[scenario.name])
        yield Elsewhere("scenario", "inject", scenario.title, address, scenario.name)
    for seen in list_breaker_views(actor):
        address = reverse("breaker", args=[seen.scope, seen.kind.partition(":")[2]])
        yield Elsewhere("breaker", "breaker", seen.name, address)
    for model in models_list(actor).models:
        yield Elsewhere("model", "coins", model.model or model.spec.name, f"{reverse('models')}#m-{model.id}")
    for member in members_list(actor):
        yield Elsewhere("member", "user2", member.name, reverse("member", args=[member.id]))
