"""Eligibility for reviews by the one rule (``core.eligibility``): for a review that was read, and as a condition on
rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_

from django.db.models import F, Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import (
    ALONE,
    PROGRAM,
    REVIEWER,
    Person,
    ReviewAsked,
    is_asked,
    is_screened,
    list_reviewers,
    problem,
    why_people,
)
from fabric.core.people.roles import AT, everywhere, read_place
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reach import match_place
from fabric.selectors.reviews.review_view import ReviewView


def build_review_rules(item: ReviewView) -> ReviewAsked:
    """Return a review's rules of eligibility."""
    return ReviewAsked(
        required_role=REVIEWER,
        reviewers=item.asked or (item.required_role or REVIEWER,),
        onward=item.onward,
        onward_to=item.onward_to,
        barred=item.barred,
        approvals=item.approvals,
        approved=item.agreed,
        proposed_by=item.proposed_by,
        releases=bool(item.given.get("releases")),
        screened=is_screened(item.item, item.required_role),
        fabric=item.fabric_name,
        item=item.item,
        for_people=why_people(item.tier, item.approvals, item.required_role, releases=bool(item.given.get("releases"))),
    )


def find_person(actor: Actor) -> Person:
    """Return the actor with its roles; a program is marked as one, and so is a sole member."""
    marks = {PROGRAM} if actor.kind == "service" else {ALONE} if actor.alone else set()
    return Person(name=actor.name, roles=actor.roles | marks)


def may_answer(item: ReviewView, actor: Actor) -> bool:
    """Return True if the actor is among those who may answer, with any verb."""
    return is_asked(build_review_rules(item), find_person(actor.place_at(item.fabric_name)))


def why_not(item: ReviewView, actor: Actor, verb: str = "approve", *, caps: bool = False) -> str:
    """Return the reason why the actor may not give that answer, in one sentence; empty if it may."""
    return problem(build_review_rules(item), find_person(actor.place_at(item.fabric_name)), verb, caps=caps)


def who_is_asked(item: ReviewView) -> str:
    """Return the roles and names of the people who may answer, in words."""
    return ", ".join(list_reviewers(build_review_rules(item)))


def asks(actor: Actor) -> Q:
    """Return the condition on reviews that the actor may answer, with any verb."""
    program, held = actor.kind == "service", actor.held or actor.roles
    anywhere = _asks(everywhere(held) | {actor.name} | ({REVIEWER} if program else set()))
    found = reduce(or_, (_asks(roles) & at for roles, at in _places(held)), anywhere)
    return found & _match_program(actor) if program else found


def _asks(names: Collection[str]) -> Q:
    first = reduce(or_, (_names_condition("asked", name) for name in sorted(names)))
    return first | (Q(onward=True) & reduce(or_, (_names_condition("onward_to", name) for name in sorted(names))))


def _places(held: Collection[str]) -> Iterator[tuple[frozenset[str], Q]]:
    """Yield the roles at one place alone, by place, with the condition on reviews of its fabrics."""
    for place in sorted({read_place(word) for word in held} - {""}):
        roles = frozenset(word.partition(AT)[0] for word in held if read_place(word) == place)
        yield roles, match_place("run__fabric__name", place)


def _match_program(actor: Actor) -> Q:
    """Return the condition on kinds of reviews that an owner gave a program, without those for people
    (``why_people``).
    """
    words = (role.split(":") for role in actor.held or actor.roles if role.startswith(f"{PROGRAM}:"))
    kinds = [Q(run__fabric__name=fabric, item=item) for _, fabric, item in words]
    people = Q(run__tier=Tier.HIGH_STAKES) | Q(approvals__gt=1) | ~Q(required_role__in=("", REVIEWER))
    return reduce(or_, kinds, Q(pk__in=[])) & ~people


def lets_pass(actor: Actor) -> Q:
    """Return the condition on reviews that the actor neither caused nor has approved already: it may do more than
    reject.
    """
    own = _names_condition("barred", actor.name)
    if actor.alone:
        own &= Q(approvals__gt=1)
    return ~own & ~_names_condition("agreed", actor.name) & ~Q(proposed_by=actor.name)


def _names_condition(column: str, name: str) -> Q:
    # By position, not LIKE: that is blind to case on SQLite, and to what stands for anything on both.
    return Q(GreaterThan(StrIndex(F(column), Value(names_text([name]))), 0))
