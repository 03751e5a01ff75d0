"""Decides which answers settle a review (docs/specification/reviews.md). Only entitled people answer, two agree where
the fabric requires it, and an edit is a proposal of its own.

Two people approve exactly one thing: the reviewed content, by its digest, and the terms named with the approval. A
person who names other terms starts the count anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.people import eligibility
from fabric.core.people.eligibility import Person, ReviewAsked
from fabric.core.reviews import edits
from fabric.core.state.run import OpenReview
from fabric.core.values.fingerprint import content_ref, digest, encode
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON

Enough = Literal["decides", "agrees", "proposes"]


def approvals(work: Work) -> int:
    """Return the number of people who have to agree in this run's tier."""
    return 2 if work.run.tier in work.compiled_fabric.spec.policy.humans.four_eyes else 1


def barred_people(work: Work) -> tuple[str, ...]:
    """Return the people who may only reject: the run's starter, and the creators of the starter's credentials."""
    return tuple(who for who in dict.fromkeys((work.run.requested_by, *work.run.caused_by)) if who)


def build_review_rules(review: OpenReview, work: Work | None = None) -> ReviewAsked:
    """Return the parts of a review that decide who may answer it now. ``work``: None where no program may."""
    fact, named = review.fact, {"for_people": "people answer this"}
    if work is not None:
        why = eligibility.why_people(work.run.tier, fact.approvals, fact.required_role, releases=bool(fact.releases))
        named = {"for_people": why, "fabric": work.compiled_fabric.spec.name}
    return ReviewAsked(
        **named,
        item=fact.item,
        required_role=fact.required_role,
        reviewers=fact.reviewers,
        onward=review.onward,
        onward_to=fact.onward_to,
        barred=fact.barred,
        approvals=fact.approvals,
        approved=review.agreed,
        proposed_by=review.proposed_by,
        releases=bool(fact.releases) and not review.edited,
        screened=eligibility.is_screened(fact.item, fact.required_role),
    )


def not_theirs(review: OpenReview, given: DecisionMade, person: Person | None, work: Work | None = None) -> str:
    """Return why a person may not give this answer; "" if they may. ``person``: None if their roles are unknown, so
    that they may not. ``work``: None where no program may answer.
    """
    if person is None or person.name != given.actor:
        return f"the rights of {given.actor} here are unknown"
    caps = given.cap_usd_micros is not None or bool(given.caps)
    return eligibility.problem(build_review_rules(review, work), person, given.verb, caps=caps)


def weigh_answer(work: Work, review: OpenReview, given: DecisionMade) -> Enough:
    """Return the weight of an answer: it decides, agrees or proposes. One person alone can reject and respond."""
    if given.verb == "edit":
        alone = review.fact.approvals == 1 and work.run.tier is not Tier.HIGH_STAKES
        return "decides" if alone else "proposes"
    if given.verb != "approve":
        return "decides"
    before = review.agreed if review.terms == _terms(given) else ()
    return "decides" if len(before) + 1 >= review.fact.approvals else "agrees"


def agree(work: Work, review: OpenReview, given: DecisionMade, person: Person) -> None:
    """Record the first of two approvals; the review stays open, and its time runs."""
    fact, terms = review.fact, _terms(given)
    agreed = (*(review.agreed if review.terms == terms else ()), given.actor)
    emitted = ev.ReviewApproved(
        review_id=fact.review_id,
        actor=given.actor,
        digest=fact.digest,
        agreed=agreed,
        roles=tuple(sorted(person.roles)),
        terms=terms,
    )
    work.emit(emitted, {"message": given.message} if given.message else None)


def propose(work: Work, review: OpenReview, given: DecisionMade, person: Person, more: Mapping[str, JSON]) -> None:
    """Put an edit in place of the content under review, with the changes that follow from it. In high-stakes its
    editor may not approve it; elsewhere the editor counts as one of two.
    """
    fact, own = review.fact, work.run.tier is Tier.HIGH_STAKES
    shown = edits.shown_with(work.ctx.contents.read(review.shown_ref), given, more)
    work.emit(
        ev.ReviewEdited(
            review_id=fact.review_id,
            actor=given.actor,
            digest=digest(fact.digest, content_ref(encode(shown)), work.run.seq + 1),
            before=fact.digest,
            agreed=() if own else (given.actor,),
            proposed_by=given.actor if own else "",
            roles=tuple(sorted(person.roles)),
        ),
        shown,
    )


def followed_answer(work: Work, review: OpenReview, given: DecisionMade) -> DecisionMade:
    """Return the effect of an answer: the approval of an edit becomes that edit, as it was written."""
    if given.verb != "approve" or not review.edited:
        return given
    shown = work.ctx.contents.read(review.shown_ref)
    written = {"edited": shown["edited"], "actor": shown["edited_by"], "message": shown["edited_because"]}
    if review.fact.item == "pre_action":
        written["tool"] = shown["tool"]
    return replace(given, verb="edit", **written)


def _terms(given: DecisionMade) -> str:
    """Return the digest of the terms named with an approval; "" if there are none."""
    if given.cap_usd_micros is None and not given.caps and not given.model:
        return ""
    caps = sorted((one.scope, one.unit, one.cap) for one in given.caps)
    return content_ref(encode([given.cap_usd_micros, [list(one) for one in caps], given.model]))
