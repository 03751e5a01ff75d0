"""Who may answer a question: one rule, asked when an answer is sent and again when its run takes it (reliability.md 2 "Decisions").

Those asked are named by the question: a role, a user, or whoever the fabric lists as ``reviewers``; once a question was passed on, whoever it was
passed on to as well. What somebody started or wrote is not theirs to approve; where two people are asked for, one person counts once.
"""

from __future__ import annotations

from fabric.core.frozen import value
from fabric.core.roles import Role

REVIEWER = Role.REVIEWER.value
RELEASES = Role.SAFETY.value
"""The role that lets an output pass which a gate held back, whoever else is asked."""
CAPS = Role.FINANCE.value
"""The role that names a run's new caps."""
STOPS = frozenset({"reject", "decline"})
"""The verbs that are nobody's own and let nothing pass: stopping what one started asks for no second person."""
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
    """Who may do no more than reject: whoever started the run, where that is nothing to decide alone; whoever wrote what is asked about."""
    approved: tuple[str, ...] = ()
    """Who has approved exactly this already."""
    proposed_by: str = ""
    """Who wrote what is asked about, where that is for somebody else to let pass. They may write it anew."""
    releases: bool = False
    """Whether an approval lets pass what a gate held back."""


@value(kw_only=True)
class Person:
    """Somebody, and the roles that they hold at this moment."""

    name: str
    roles: frozenset[str]
    member: bool = True
    """False: not, or no longer, of the workspace."""


def wanted(asked: Asked) -> tuple[str, ...]:
    """The roles and user names of those who may answer, in the order in which they are said."""
    named = (asked.reviewers or (REVIEWER,)) if asked.required_role in ("", REVIEWER) else (asked.required_role,)
    return tuple(dict.fromkeys((*named, *(asked.onward_to if asked.onward else ()))))


def is_asked(asked: Asked, person: Person) -> bool:
    """Whether a person is among those who may answer, whatever the verb."""
    return person.member and not (person.roles | {person.name}).isdisjoint(wanted(asked))


def problem(asked: Asked, person: Person, verb: str, *, caps: bool = False) -> str:
    """Why a person may not give this answer, one sentence; empty when they may. ``caps``: new caps are named with it."""
    if not person.member:
        return f"{person.name} is no member of this workspace (any more)"
    if not is_asked(asked, person):
        return f"{person.name} is not asked: this is for {', '.join(wanted(asked))}"
    if verb in STOPS:
        return ""
    if person.name in asked.barred or (person.name == asked.proposed_by and verb != EDIT):
        return f"{person.name} may reject this and not let it pass: it is their own, and somebody else has to agree"
    if person.name in asked.approved and verb != EDIT:
        return f"{person.name} has agreed to this already: it takes a second person"
    if asked.releases and verb == "approve" and RELEASES not in person.roles:
        return f"{person.name} may reject this and not approve it: letting an unsafe output pass is for {RELEASES}"
    if caps and CAPS not in person.roles:
        return f"{person.name} may answer this and not name a new cap: that is for {CAPS}"
    return ""
