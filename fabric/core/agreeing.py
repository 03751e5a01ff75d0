"""When what people say is enough: whoever is asked and no other, two of them where the fabric asks for two, and an edit as a proposal of its own
(semantics.md 4 "Human waits").

Two approve exactly the same: what is asked about, by its digest, and what is named with the approval. Whoever names something else begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fabric.core import edits, eligibility
from fabric.core import events as ev
from fabric.core.eligibility import Asked, Person
from fabric.core.fingerprint import content_ref, digest, encode
from fabric.core.frozen import replace
from fabric.core.inputs import DecisionMade
from fabric.core.run import OpenQuestion
from fabric.core.taxonomy import Tier
from fabric.core.work import Work

JSON = Any
Enough = Literal["decides", "agrees", "proposes"]


def approvals(work: Work) -> int:
    """How many people have to agree in this run's tier."""
    return 2 if work.run.tier in work.compiled.spec.policy.humans.four_eyes else 1


def barred(work: Work) -> tuple[str, ...]:
    """Who may do no more than reject: whoever started the run, and whoever caused that they did."""
    return tuple(who for who in dict.fromkeys((work.run.requested_by, *work.run.caused_by)) if who)


def asked_of(question: OpenQuestion, work: Work | None = None) -> Asked:
    """Returns the part of a question that says who may answer it now. ``work``: None where no program may."""
    fact, named = question.fact, {"for_people": "people answer this"}
    if work is not None:
        why = eligibility.why_people(work.run.tier, fact.approvals, fact.required_role, releases=bool(fact.releases))
        named = {"for_people": why, "fabric": work.compiled.spec.name}
    return Asked(
        **named,
        item=fact.item,
        required_role=fact.required_role,
        reviewers=fact.reviewers,
        onward=question.onward,
        onward_to=fact.onward_to,
        barred=fact.barred,
        approvals=fact.approvals,
        approved=question.agreed,
        proposed_by=question.proposed_by,
        releases=bool(fact.releases) and not question.edited,
        screened=eligibility.is_screened(fact.item, fact.required_role),
    )


def not_theirs(question: OpenQuestion, given: DecisionMade, person: Person | None, work: Work | None = None) -> str:
    """Returns why somebody may not give this answer; empty: they may. ``person``: None where nobody knows what roles they have, so that they may not. ``work``: None where no program may answer."""
    if person is None or person.name != given.actor:
        return f"nobody knows what {given.actor} may decide here"
    caps = given.cap_usd_micros is not None or bool(given.caps)
    return eligibility.problem(asked_of(question, work), person, given.verb, caps=caps)


def enough(work: Work, question: OpenQuestion, given: DecisionMade) -> Enough:
    """What an answer amounts to. Rejecting and answering are one person's."""
    if given.verb == "edit":
        alone = question.fact.approvals == 1 and work.run.tier is not Tier.HIGH_STAKES
        return "decides" if alone else "proposes"
    if given.verb != "approve":
        return "decides"
    before = question.agreed if question.terms == _terms(given) else ()
    return "decides" if len(before) + 1 >= question.fact.approvals else "agrees"


def agree(work: Work, question: OpenQuestion, given: DecisionMade, person: Person) -> None:
    """Records the first of two approvals; the question stays open, and its time runs."""
    fact, terms = question.fact, _terms(given)
    agreed = (*(question.agreed if question.terms == terms else ()), given.actor)
    emitted = ev.EscalationApproved(
        escalation_id=fact.escalation_id,
        actor=given.actor,
        digest=fact.digest,
        agreed=agreed,
        roles=tuple(sorted(person.roles)),
        terms=terms,
    )
    work.emit(emitted, {"message": given.message} if given.message else None)


def propose(work: Work, question: OpenQuestion, given: DecisionMade, person: Person, more: Mapping[str, JSON]) -> None:
    """Puts an edit in place of what is asked about, with what else is other then. In high-stakes it is its editor's, elsewhere their word counts as one of two."""
    fact, own = question.fact, work.run.tier is Tier.HIGH_STAKES
    shown = edits.shown_with(work.ctx.contents.read(question.shown_ref), given, more)
    work.emit(
        ev.EscalationEdited(
            escalation_id=fact.escalation_id,
            actor=given.actor,
            digest=digest(fact.digest, content_ref(encode(shown)), work.run.seq + 1),
            before=fact.digest,
            agreed=() if own else (given.actor,),
            proposed_by=given.actor if own else "",
            roles=tuple(sorted(person.roles)),
        ),
        shown,
    )


def followed(work: Work, question: OpenQuestion, given: DecisionMade) -> DecisionMade:
    """What an answer comes to: who lets an edit pass has it done, as it was written."""
    if given.verb != "approve" or not question.edited:
        return given
    shown = work.ctx.contents.read(question.shown_ref)
    written = {"edited": shown["edited"], "actor": shown["edited_by"], "message": shown["edited_because"]}
    if question.fact.item == "pre_action":
        written["tool"] = shown["tool"]
    return replace(given, verb="edit", **written)


def _terms(given: DecisionMade) -> str:
    """What is named with an approval, as a digest; empty: nothing."""
    if given.cap_usd_micros is None and not given.caps and not given.model:
        return ""
    caps = sorted((one.scope, one.unit, one.cap) for one in given.caps)
    return content_ref(encode([given.cap_usd_micros, [list(one) for one in caps], given.model]))
