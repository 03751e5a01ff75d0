"""Decides which people may answer a review (docs/specification/reviews.md). The rule applies when an answer is sent,
and again when its run takes it.

The review names its reviewers: a role, a user, or those that the fabric lists as ``reviewers``; once it was passed on,
the next ones too. People may not approve their own run or proposal. Where two people have to agree, each person counts
once.

A program answers only for a reviewer, and only the kinds of review of the fabrics that an owner named
(``decides:FABRIC:KIND`` among its roles).
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core.people.roles import Role
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Tier

REVIEWER = Role.REVIEWER.value
RELEASES = Role.SAFETY.value
"""Role that may release an output that a gate held back, whichever other reviewers there are."""
CAPS = Role.FINANCE.value
"""The role that names a run's new caps."""
STOPS = frozenset({"reject", "decline"})
"""Verbs that approve nothing, so that each reviewer may use them on their own run."""
SYSTEM = "system"
"""Name under which the engine itself answers, as when a review expires."""
PROGRAM = "decides"
"""Marks a program among the roles when it is judged. No member can have it."""
ALONE = "alone"
"""Marks the only person who may sign in to a workspace, among the roles when they are judged. No member can have it."""
KINDS_OF_PROGRAMS = ("pre_action", "post_stage", "failure")
"""Kinds of review that a program may answer. Remaining mutations, quarantined runs and reviews of children are for
people.
"""
EDIT = "edit"
"""Verb that replaces the content under review; the replacement has no agreement yet."""


@value(kw_only=True)
class ReviewAsked:
    """The parts of a review that decide who may answer it."""

    required_role: str
    """A role, or a user's name. ``reviewer``: those that the fabric names, or else all members with the role."""
    reviewers: tuple[str, ...] = ()
    """User names and roles that the fabric lists."""
    onward: bool = False
    """True if the review was passed on."""
    onward_to: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    """People who may only reject: the run's starter and the creators of the starter's credentials. The only person
    of a workspace may approve, where one agreement is enough.
    """
    approvals: int = 1
    """Number of people who have to agree."""
    approved: tuple[str, ...] = ()
    """People who have approved exactly this content."""
    proposed_by: str = ""
    """Author of the content, where another person has to approve it. The author may rewrite it."""
    releases: bool = False
    """True if an approval releases an output that a gate held back."""
    screened: bool = False
    """True if the review is about a call that follows a result with instructions."""
    fabric: str = ""
    """The fabric's name..."""
    item: str = ""
    """Kind of the review, by which a program may answer it; "": no program may."""
    for_people: str = ""
    """Reason why no program may answer it, even a named one; "": one may."""


@value(kw_only=True)
class Person:
    """A person or program, with its roles at this moment."""

    name: str
    roles: frozenset[str]
    member: bool = True
    """False: not, or no longer, of the workspace."""


def list_reviewers(asked: ReviewAsked) -> tuple[str, ...]:
    """Return the roles and user names of those who may answer, in the order for display."""
    named = first_asked(asked.required_role, asked.reviewers)
    return tuple(dict.fromkeys((*named, *(asked.onward_to if asked.onward else ()))))


def first_asked(required_role: str, reviewers: Sequence[str]) -> tuple[str, ...]:
    """Return the roles and user names of a review's reviewers before it is passed on."""
    return (tuple(reviewers) or (REVIEWER,)) if required_role in ("", REVIEWER) else (required_role,)


def asked_words(names: Sequence[str]) -> str:
    """Return roles and user names as words, one of whom answers."""
    return " or ".join(names)


def program_word(fabric: str, item: str) -> str:
    """Return the word among a program's roles that allows it to answer a kind of review of a fabric."""
    return f"{PROGRAM}:{fabric}:{item}"


def is_screened(item: str, required_role: str) -> bool:
    """Return True if a review is about a call that follows an instructing result. Only such a review of a call has this
    role.
    """
    return item == "pre_action" and required_role == RELEASES


def why_people(tier: str, approvals: int, required_role: str, *, releases: bool) -> str:
    """Return why no program answers a review; "" if one may."""
    if tier == Tier.HIGH_STAKES:
        return "in high-stakes people decide"
    if approvals > 1:
        return "two people have to agree"
    if releases or required_role not in ("", REVIEWER):
        return f"this is for {RELEASES if releases else required_role}"
    return ""


def _not_for_it(asked: ReviewAsked, program: Person) -> str:
    """Return why a program may not answer; "" if it may."""
    if asked.for_people:
        return f"{program.name} is a program, and {asked.for_people}"
    if program_word(asked.fabric, asked.item) not in program.roles:
        return f"{program.name} is a program, and no owner has named this kind of review ({asked.item}) of this fabric for it"
    return ""


def is_asked(asked: ReviewAsked, person: Person) -> bool:
    """Return True if a person is among the reviewers, for any verb."""
    if PROGRAM in person.roles:
        own = {REVIEWER, person.name} | person.roles
        return person.member and not _not_for_it(asked, person) and not own.isdisjoint(list_reviewers(asked))
    return person.member and not (person.roles | {person.name}).isdisjoint(list_reviewers(asked))


def problem(asked: ReviewAsked, person: Person, verb: str, *, caps: bool = False) -> str:
    """Return why a person may not give this answer, in one sentence; "" if they may. ``caps``: new caps are named
    with it.
    """
    if not person.member:
        return f"{person.name} is no member of this workspace (any more)"
    if PROGRAM in person.roles and (not_for_it := _not_for_it(asked, person)):
        return not_for_it
    if not is_asked(asked, person):
        return f"{person.name} is not asked: this is for {', '.join(list_reviewers(asked))}"
    if verb in STOPS:
        return ""
    alone = ALONE in person.roles and asked.approvals == 1
    if (person.name in asked.barred and not alone) or (person.name == asked.proposed_by and verb != EDIT):
        return f"{person.name} may only reject this: it is their own, so a second person must approve"
    if person.name in asked.approved and verb != EDIT:
        return f"{person.name} has agreed to this already: it takes a second person"
    if asked.releases and verb == "approve" and RELEASES not in person.roles:
        return f"{person.name} may reject this and not approve it: letting an unsafe output pass is for {RELEASES}"
    if asked.screened and verb in ("approve", EDIT) and RELEASES not in person.roles:
        return f"{person.name} may decline or reject this and not let it pass: a call after a result with instructions is for {RELEASES}"
    if caps and CAPS not in person.roles:
        return f"{person.name} may answer this and not name a new cap: that is for {CAPS}"
    return ""
