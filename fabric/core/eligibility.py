"""Who may answer a question: one rule, asked when an answer is sent and again when its run takes it (reliability.md 2 "Decisions").

Those asked are named by the question: a role, a user, or whoever the fabric lists as ``reviewers``; once a question was passed on, whoever it was
passed on to as well. What somebody started or wrote is not theirs to approve; where two people are asked for, one person counts once.

A program answers for a reviewer alone, and only the kinds of question of the fabrics that an owner named (``decides:FABRIC:KIND`` among its roles).
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core.frozen import value
from fabric.core.roles import Role
from fabric.core.taxonomy import Tier

REVIEWER = Role.REVIEWER.value
RELEASES = Role.SAFETY.value
"""The role that lets an output pass which a gate held back, whoever else is asked."""
CAPS = Role.FINANCE.value
"""The role that names a run's new caps."""
STOPS = frozenset({"reject", "decline"})
"""The verbs that are nobody's own and let nothing pass: stopping what one started asks for no second person."""
PROGRAM = "decides"
"""Among the roles of a program when it is judged: it is no person. No member is given it."""
ALONE = "alone"
"""Among the roles of the one person who may sign in to a workspace, when they are judged. No member is given it."""
KINDS_OF_PROGRAMS = ("pre_action", "post_stage", "failure")
"""Kinds of question that a program may answer. What a run left undone, what is quarantined and what a child asks is for people."""
EDIT = "edit"
"""The verb that puts something else in the place of what is asked about: nobody has agreed to that yet."""


@value(kw_only=True)
class Asked:
    """A question, as far as it says who may answer."""

    required_role: str
    """A role, or a user's name. ``reviewer``: those that the fabric names, and where it names none whoever has the role."""
    reviewers: tuple[str, ...] = ()
    """User names and roles that the fabric lists."""
    onward: bool = False
    """Whether it was passed on."""
    onward_to: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    """Who may do no more than reject: whoever started the run or caused that. One who is alone in the workspace may, where one person is enough."""
    approvals: int = 1
    """How many people have to agree."""
    approved: tuple[str, ...] = ()
    """Who has approved exactly this already."""
    proposed_by: str = ""
    """Who wrote what is asked about, where that is for somebody else to let pass. They may write it anew."""
    releases: bool = False
    """Whether an approval lets pass what a gate held back."""
    screened: bool = False
    """Whether it is about a call that follows a result with instructions, which is made as it stands or edited."""
    fabric: str = ""
    """The fabric's name..."""
    item: str = ""
    """...and the kind of question, by which a program may answer it; empty: none may."""
    for_people: str = ""
    """Why no program answers it, whoever named one; empty: one may."""


@value(kw_only=True)
class Person:
    """Somebody, and the roles that they hold at this moment."""

    name: str
    roles: frozenset[str]
    member: bool = True
    """False: not, or no longer, of the workspace."""


def wanted(asked: Asked) -> tuple[str, ...]:
    """The roles and user names of those who may answer, in the order in which they are said."""
    named = first_asked(asked.required_role, asked.reviewers)
    return tuple(dict.fromkeys((*named, *(asked.onward_to if asked.onward else ()))))


def first_asked(required_role: str, reviewers: Sequence[str]) -> tuple[str, ...]:
    """The roles and user names that a question is for until it is passed on."""
    return (tuple(reviewers) or (REVIEWER,)) if required_role in ("", REVIEWER) else (required_role,)


def asked_words(names: Sequence[str]) -> str:
    """Roles and user names of whom one answers, in words."""
    return " or ".join(names)


def program_word(fabric: str, item: str) -> str:
    """The word among a program's roles by which it answers a kind of question of a fabric."""
    return f"{PROGRAM}:{fabric}:{item}"


def is_screened(item: str, required_role: str) -> bool:
    """Whether a question is about a call that follows a result with instructions: no other question about a call is asked of that role."""
    return item == "pre_action" and required_role == RELEASES


def why_people(tier: str, approvals: int, required_role: str, *, releases: bool) -> str:
    """Why no program answers a question; empty: one may."""
    if tier == Tier.HIGH_STAKES:
        return "in high-stakes people decide"
    if approvals > 1:
        return "two people have to agree"
    if releases or required_role not in ("", REVIEWER):
        return f"this is for {RELEASES if releases else required_role}"
    return ""


def _not_for_it(asked: Asked, program: Person) -> str:
    """Why a program may not answer; empty: it may."""
    if asked.for_people:
        return f"{program.name} is a program, and {asked.for_people}"
    if program_word(asked.fabric, asked.item) not in program.roles:
        return f"{program.name} is a program, and no owner has named this kind of question ({asked.item}) of this fabric for it"
    return ""


def is_asked(asked: Asked, person: Person) -> bool:
    """Whether somebody is among those who may answer, whatever the verb."""
    if PROGRAM in person.roles:
        own = {REVIEWER, person.name} | person.roles
        return person.member and not _not_for_it(asked, person) and not own.isdisjoint(wanted(asked))
    return person.member and not (person.roles | {person.name}).isdisjoint(wanted(asked))


def problem(asked: Asked, person: Person, verb: str, *, caps: bool = False) -> str:
    """Why a person may not give this answer, one sentence; empty when they may. ``caps``: new caps are named with it."""
    if not person.member:
        return f"{person.name} is no member of this workspace (any more)"
    if PROGRAM in person.roles and (not_for_it := _not_for_it(asked, person)):
        return not_for_it
    if not is_asked(asked, person):
        return f"{person.name} is not asked: this is for {', '.join(wanted(asked))}"
    if verb in STOPS:
        return ""
    alone = ALONE in person.roles and asked.approvals == 1
    if (person.name in asked.barred and not alone) or (person.name == asked.proposed_by and verb != EDIT):
        return f"{person.name} may reject this and not let it pass: it is their own, and somebody else has to agree"
    if person.name in asked.approved and verb != EDIT:
        return f"{person.name} has agreed to this already: it takes a second person"
    if asked.releases and verb == "approve" and RELEASES not in person.roles:
        return f"{person.name} may reject this and not approve it: letting an unsafe output pass is for {RELEASES}"
    if asked.screened and verb in ("approve", EDIT) and RELEASES not in person.roles:
        return f"{person.name} may decline or reject this and not let it pass: a call after a result with instructions is for {RELEASES}"
    if caps and CAPS not in person.roles:
        return f"{person.name} may answer this and not name a new cap: that is for {CAPS}"
    return ""
