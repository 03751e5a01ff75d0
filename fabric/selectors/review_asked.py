"""Who may answer which questions: the one rule (``core.eligibility``), for a question that was read and as a condition on rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from django.db.models import F, Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from fabric.core.actor import Actor
from fabric.core.eligibility import (
    ALONE,
    PROGRAM,
    REVIEWER,
    Asked,
    Person,
    is_asked,
    is_screened,
    problem,
    wanted,
    why_people,
)
from fabric.core.reach import AT, everywhere, place_of
from fabric.core.taxonomy import Tier
from fabric.runtime.batch_parts import names_text
from fabric.selectors.reach import at_place

if TYPE_CHECKING:
    from fabric.selectors.escalations import EscalationView


def asked_of(item: EscalationView) -> Asked:
    """A question, as far as it says who may answer."""
    return Asked(
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


def person_of(actor: Actor) -> Person:
    """Whoever acts, with the roles that they came with; a program is marked as one, and so is who is alone."""
    marks = {PROGRAM} if actor.kind == "service" else {ALONE} if actor.alone else set()
    return Person(name=actor.name, roles=actor.roles | marks)


def may_answer(item: EscalationView, actor: Actor) -> bool:
    """Whether somebody is among those who may answer, whatever the verb."""
    return is_asked(asked_of(item), person_of(actor.at(item.fabric_name)))


def why_not(item: EscalationView, actor: Actor, verb: str = "approve", *, caps: bool = False) -> str:
    """Why somebody may not give that answer, one sentence; empty when they may."""
    return problem(asked_of(item), person_of(actor.at(item.fabric_name)), verb, caps=caps)


def who_is_asked(item: EscalationView) -> str:
    """The roles and user names of those who may answer, in words."""
    return ", ".join(wanted(asked_of(item)))


def asks(actor: Actor) -> Q:
    """The questions that somebody may answer, whatever the verb."""
    program, held = actor.kind == "service", actor.held or actor.roles
    everybodys = _asks(everywhere(held) | {actor.name} | ({REVIEWER} if program else set()))
    found = reduce(or_, (_asks(roles) & at for roles, at in _places(held)), everybodys)
    return found & _for_program(actor) if program else found


def _asks(names: Collection[str]) -> Q:
    first = reduce(or_, (_named("asked", name) for name in sorted(names)))
    return first | (Q(onward=True) & reduce(or_, (_named("onward_to", name) for name in sorted(names))))


def _places(held: Collection[str]) -> Iterator[tuple[frozenset[str], Q]]:
    """The roles that hold at one place alone, by place, with the questions of its fabrics."""
    for place in sorted({place_of(word) for word in held} - {""}):
        roles = frozenset(word.partition(AT)[0] for word in held if place_of(word) == place)
        yield roles, at_place("run__fabric__name", place)


def _for_program(actor: Actor) -> Q:
    """The kinds of questions that an owner named for a program, without those for people (``why_people``)."""
    words = (role.split(":") for role in actor.held or actor.roles if role.startswith(f"{PROGRAM}:"))
    kinds = [Q(run__fabric__name=fabric, item=item) for _, fabric, item in words]
    people = Q(run__tier=Tier.HIGH_STAKES) | Q(approvals__gt=1) | ~Q(required_role__in=("", REVIEWER))
    return reduce(or_, kinds, Q(pk__in=[])) & ~people


def lets_pass(actor: Actor) -> Q:
    """The questions that are not somebody's own, and that they have not agreed to already: of those they may do more than reject."""
    own = _named("barred", actor.name)
    if actor.alone:
        own &= Q(approvals__gt=1)
    return ~own & ~_named("agreed", actor.name) & ~Q(proposed_by=actor.name)


def _named(column: str, name: str) -> Q:
    # By position, not LIKE: that is blind to case on SQLite, and to what stands for anything on both.
    return Q(GreaterThan(StrIndex(F(column), Value(names_text([name]))), 0))
