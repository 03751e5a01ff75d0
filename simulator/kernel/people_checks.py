"""What must be true of who answers (reliability.md 1.2 H4, 2 "Decisions"): nobody lets pass what is their own, two are two, and each holds what they were
judged on at the moment when it is written. Counted from the facts alone, by rules said anew.
"""

from __future__ import annotations

from typing import Any

from fabric.core.eligibility import STOPS
from fabric.core.envelope import Event
from fabric.core.roles import held_in
from fabric.core.run import Run
from fabric.core.taxonomy import Tier
from simulator.kernel.seen import Seen, on


@on("escalation_opened")
def nobody_has_said_anything_yet(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A question is everybody's who is asked; two have to agree where the fabric says so, and nothing waits for a ticket."""
    seen.agreed[fact.escalation_id] = []
    if fact.item in ("ticket", "quarantine"):
        return ""
    two = seen.run.tier in seen.compiled.spec.policy.humans.four_eyes
    return "" if fact.approvals == 1 + two else f"{fact.approvals} have to agree"


@on("escalation_approved", "escalation_edited", "escalation_decided")
def answers_by_right(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Whoever answers is a member, and holds at this moment what the answer was judged on."""
    if getattr(fact, "system", False):
        return ""
    holds = seen.holds(fact.actor)
    if holds is None:
        return f"{fact.actor} is no member"
    return "" if set(fact.roles) == held_in(holds) else f"{fact.actor} was judged on {fact.roles} and holds {holds}"


@on("escalation_approved", "escalation_edited", "escalation_decided")
def nobodys_own(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Whoever started a run lets nothing of it pass, who wrote something in high-stakes does not either, and one person is one."""
    if getattr(fact, "system", False):
        return ""
    agreed = seen.agreed.setdefault(fact.escalation_id, [])
    if fact.kind == "escalation_edited":
        seen.wrote[fact.escalation_id] = fact.actor
        agreed[:] = [] if seen.run.tier is Tier.HIGH_STAKES else [fact.actor]
        return _own(seen, fact)
    if getattr(fact, "verb", "approve") in STOPS:
        return ""
    if wrong := _own(seen, fact):
        return wrong
    if fact.kind == "escalation_approved" and fact.agreed == (fact.actor,):
        agreed.clear()  # Other terms than those before.
    high = seen.run.tier is Tier.HIGH_STAKES
    if high and fact.actor == seen.wrote.get(fact.escalation_id):
        return f"{fact.actor} wrote it"
    if fact.actor in agreed:
        return f"{fact.actor} agreed twice"
    agreed.append(fact.actor)
    question = seen.run.questions[fact.escalation_id].fact
    if fact.kind != "escalation_decided" or fact.verb not in ("approve", "edit"):
        return ""
    if high and fact.verb == "edit":
        return "an edit of high-stakes was done at one person's word"
    return "" if len(agreed) >= question.approvals else f"{len(agreed)} of {question.approvals} agreed"


def _own(seen: Seen, fact: Any) -> str:
    """Who started it, or caused that, lets it pass where they are alone there and one is enough."""
    run, approvals = seen.run, seen.run.questions[fact.escalation_id].fact.approvals
    if fact.actor not in (run.requested_by, *run.caused_by) or ("alone" in fact.roles and approvals == 1):
        return ""
    return f"{fact.actor} started the run"
