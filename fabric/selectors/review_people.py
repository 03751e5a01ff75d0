"""The people whom a question may be handed to."""

from __future__ import annotations

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.eligibility import Person, is_asked, wanted
from fabric.core.reach import roles_at
from fabric.core.roles import held_in
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.models import Member
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_asked import asked_of

PEOPLE_MAX = 500
"""Members that are looked through."""


def person_named(actor: Actor, name: str, fabric: str) -> Person | None:
    """A member of the actor's workspace who may sign in, with the roles that they hold now at a fabric; None: there is none of that name."""
    roles = _people(actor).filter(name=clean_text(name)[0]).values_list("roles", flat=True).first()
    return None if roles is None else Person(name=name, roles=roles_at(held_in(roles), fabric))


def people_asked(actor: Actor, item: EscalationView) -> tuple[str, ...]:
    """The others who may answer a question, by name: whom it may be handed to."""
    asked = asked_of(item)
    found = _people(actor).exclude(name=actor.name).order_by("name").values_list("name", "roles")[:PEOPLE_MAX]
    return tuple(
        name
        for name, roles in found
        if is_asked(asked, Person(name=name, roles=roles_at(held_in(roles), item.fabric_name)))
    )


def edit_problem(actor: Actor, item: EscalationView) -> str:
    """Why an edit would lead nowhere, one sentence: it waits for a second person's approval, and nobody else is asked. Empty: it leads on."""
    if item.tier != Tier.HIGH_STAKES and item.approvals < 2:
        return ""
    if any(name not in item.barred for name in people_asked(actor, item)):
        return ""
    whom = ", ".join(wanted(asked_of(item)))
    *others, last = (verb for verb in item.verbs if verb != "edit")
    return (
        f"an edit waits for a second person's approval here, and nobody but {actor.name} may give it: {', '.join(others)} or {last}, "
        f"or have somebody else made a member who is or has one of: {whom}"
    )


def _people(actor: Actor) -> QuerySet[Member]:
    return Member.objects.filter(
        workspace_id=actor.workspace_id, removed_at__isnull=True, service=False, user__is_active=True
    )
