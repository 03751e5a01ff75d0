"""Checks reviews in the simulator (docs/specification/reviews.md), and the questions of tools' servers. Has planted
bugs too.

1. A person does not approve their own work.
2. Two reviewers are two people.
3. A reviewer has the required roles at the moment of writing.

They are counted from the facts alone, by an implementation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fabric.core import evolve
from fabric.core.calls import screening
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.people.eligibility import STOPS, ReviewAsked
from fabric.core.people.roles import held_in
from fabric.core.reviews import agreement as agreeing
from fabric.core.reviews import requested_input
from fabric.core.reviews.requested_input import QUESTIONS_MAX
from fabric.core.state.run import Run, Step
from fabric.core.texts.forms import FormRequested
from fabric.core.values.fingerprint import decode
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check


@register_check("review_opened")
def new_review_is_unanswered(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A new review has no approval, and needs two where the fabric says so. No run waits for a follow-up."""
    seen.agreed[fact.review_id] = []
    if fact.item in ("follow_up", "quarantine"):
        return ""
    two = seen.run.tier in seen.compiled.spec.policy.humans.four_eyes
    return "" if fact.approvals == 1 + two else f"{fact.approvals} have to agree"


@register_check("review_approved", "review_edited", "review_decided")
def answers_by_right(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The author of an answer is a member, and has exactly the recorded roles at this moment."""
    if getattr(fact, "system", False):
        return ""
    holds = seen.holds(fact.actor)
    if holds is None:
        return f"{fact.actor} is no member"
    return "" if set(fact.roles) == held_in(holds) else f"{fact.actor} was judged on {fact.roles} and holds {holds}"


@register_check("review_approved", "review_edited", "review_decided")
def no_own_approval(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run's starter approves nothing of it, nor does an edit's author in high-stakes; a person counts once."""
    if getattr(fact, "system", False):
        return ""
    agreed = seen.agreed.setdefault(fact.review_id, [])
    if fact.kind == "review_edited":
        seen.wrote[fact.review_id] = fact.actor
        agreed[:] = [] if seen.run.tier is Tier.HIGH_STAKES else [fact.actor]
        return _own(seen, fact)
    if getattr(fact, "verb", "approve") in STOPS:
        return ""
    if wrong := _own(seen, fact):
        return wrong
    if fact.kind == "review_approved" and fact.agreed == (fact.actor,):
        agreed.clear()  # Other terms than those before.
    high = seen.run.tier is Tier.HIGH_STAKES
    if high and fact.actor == seen.wrote.get(fact.review_id):
        return f"{fact.actor} wrote it"
    if fact.actor in agreed:
        return f"{fact.actor} agreed twice"
    agreed.append(fact.actor)
    review = seen.run.reviews[fact.review_id].fact
    if fact.kind != "review_decided" or fact.verb not in ("approve", "edit"):
        return ""
    if high and fact.verb == "edit":
        return "an edit of high-stakes was done at one person's word"
    return "" if len(agreed) >= review.approvals else f"{len(agreed)} of {review.approvals} agreed"


def _own(seen: WatchedRun, fact: Any) -> str:
    """Return an error if the run's starter, or its cause, approves. A sole member may, if one approval is enough."""
    run, approvals = seen.run, seen.run.reviews[fact.review_id].fact.approvals
    if fact.actor not in (run.requested_by, *run.caused_by) or ("alone" in fact.roles and approvals == 1):
        return ""
    return f"{fact.actor} started the run"


@register_check("input_requested", "input_given", "call_issued")
def answers_go_out_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call whose server asked is repeated only with an answer, under its key, after few questions."""
    asked = seen.server_questions.get(fact.command_id)
    if fact.kind == "input_requested":
        seen.server_questions[fact.command_id] = (fact.asked, fact.attempt, False)
        return f"question {fact.number}" if fact.number > QUESTIONS_MAX else ""
    if asked is None:
        return ""
    digest, attempt, _ = asked
    if fact.kind == "input_given":
        seen.server_questions[fact.command_id] = (digest, attempt, True)
        about = decode(seen.content)["asked"]
        return "" if about == digest else f"an answer to {about}, and {digest} was asked"
    if fact.attempt == attempt + 1 and not asked[2]:
        return f"{fact.command_id} goes out again without an answer"
    return "" if fact.attempt > attempt else f"attempt {fact.attempt} after {attempt}"


IN_STORE = ("roles_unchecked",)
"""Plants that the memory store applies itself."""


def _believe_roles(*given: Any) -> str:
    """The engine believes the roles of an answer's sender."""
    return ""


def _unread(*given: Any) -> None:
    """The engine does not search results for orders."""


def _bar_no_one(*given: Any) -> tuple[str, ...]:
    return ()


def _alone(asked_of: Callable[..., ReviewAsked]) -> Callable[..., ReviewAsked]:
    return lambda review, work=None: replace(asked_of(review, work), proposed_by="")


def _one_is_enough(enough: Callable[..., str]) -> Callable[..., str]:
    def decides(work: Any, review: Any, given: Any) -> str:
        found = enough(work, review, given)
        return "decides" if found == "agrees" else found

    return decides


PEOPLE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "roles_unchecked": nullcontext,
    "roles_believed": lambda: planting.attribute(agreeing, "not_theirs", _believe_roles),
    "own_approval_counts": lambda: planting.attribute(agreeing, "barred_people", _bar_no_one),
    "own_edit_counts": lambda: planting.attribute(agreeing, "build_review_rules", _alone(agreeing.build_review_rules)),
    "orders_are_followed": lambda: planting.attribute(screening, "find_instruction", _unread),
    "one_of_two_is_enough": lambda: planting.attribute(agreeing, "weigh_answer", _one_is_enough(agreeing.weigh_answer)),
}
"""Plants by name."""


def _nothing_open(step: Step, command_id: str) -> FormRequested | None:
    """A call whose server asks a person counts as answered."""
    return None


def _answers_the_one_before() -> AbstractContextManager[None]:
    """The engine keeps an answer under the digest of another question."""
    emits = Work.emit

    def emit(work: Work, fact: Any, content: JSON = None) -> Event:
        if fact.kind == "input_given":
            content = {**content, "asked": requested_input.question_digest("Another?", {})}
        return emits(work, fact, content)

    return planting.attribute(Work, "emit", emit)


def _asked_attempt_comes_again() -> AbstractContextManager[None]:
    """The attempt that asked does not count, so that the next one gets its number."""
    requested = evolve.EVOLVE["input_requested"]

    def request_uncounted(run: Run, event: Event, fact: Any) -> Run:
        return requested(run, event, replace(fact, attempt=fact.attempt - 1))

    return planting.entry(evolve.EVOLVE, "input_requested", request_uncounted)


ELICITATION_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "questions_without_end": lambda: planting.attribute(requested_input, "QUESTIONS_MAX", 100),
    "unanswered_goes_out": lambda: planting.attribute(requested_input, "open_request", _nothing_open),
    "answers_another_question": _answers_the_one_before,
    "asked_attempt_comes_again": _asked_attempt_comes_again,
}
"""Plants by name."""
