"""Decisions, questions to people, clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.budget_caps import amount_words, cap_words
from fabric.core.eligibility import asked_words, first_asked
from fabric.core.words import count, cut, dollars, duration, step_words, words
from fabric.selectors.display.row import Display, Fact

JSON = Any


def _rung_skipped(fact: Fact) -> str:
    return f"{words(fact['reaction'])} was passed over: {cut(fact['reason'])}"


def _why(trip: JSON) -> str:
    """The cause with its numbers: ``below tau: 0.55 < 0.70``."""
    seen = trip["evidence"]
    if trip["cause"] == "below_tau" and seen["limit"] is not None and seen["observed"] is not None:
        return f"below tau: {seen['observed']:.2f} < {seen['limit']:.2f}"
    return f"{words(trip['cause'])}: {cut(trip['message'])}"


def _reaction_decided(fact: Fact) -> str:
    bound = f" {fact['spent'] + 1} of {fact['bound']}" if fact["bound"] else ""
    layer = f" (layer {words(fact['layer'])})" if fact["layer"] else ""
    return f"{words(fact['reaction'])}{bound}{layer}, {_why(fact['cause'])}"


def _alert_raised(fact: Fact) -> str:
    return f"{words(fact['cause'])}, and the answer is {words(fact['reaction'])}: {cut(fact['message'])}"


def _model_changed(fact: Fact) -> str:
    why = f"{words(fact['reason'])}, {words(fact['cause'])}" if fact["cause"] else words(fact["reason"])
    by = f", approved by {fact['actor']}" if fact["actor"] else ""
    return f"{cut(fact['model'])} answers for {cut(fact['agent'])} in place of {cut(fact['before'])} ({why}{by}){_left_out(fact)}"


def _left_out(fact: Fact) -> str:
    answers = fact.get("left_out", 0)
    if not answers:
        return ""
    return f"; the reasoning of {count(answers, 'earlier answer')} is left out, since only the model that gave it understands it"


_WAITS = {
    "backoff": "backoff",
    "retry_after": "Retry-After",
    "breaker": "its circuit breaker",
    "named": "as its endpoint asked",
    "failover": "another model",
}


def _cap_raised(fact: Fact) -> str:
    return f"{fact['actor']} raised it from {dollars(fact['before_usd_micros'])} to {dollars(fact['cap_usd_micros'])}"


def _budget_raised(fact: Fact) -> str:
    before, cap = (amount_words(fact[name], fact["unit"]) for name in ("before", "cap"))
    return f"{fact['actor']} raised that of {cap_words(fact['scope'])} from {before} to {cap}"


def _retry_scheduled(fact: Fact) -> str:
    source = _WAITS[fact["source"]]
    left = f"{fact['tokens_left'] / 1_000:.1f} retries left in the budget"
    return f"attempt {fact['attempt']} in {duration(fact['delay_s'])} ({source}), {left}"


def _node_retry_scheduled(fact: Fact) -> str:
    left = f"{fact['tokens_left'] / 1_000:.1f} retries left in the budget"
    again = f"{step_words(fact['step_id'])} runs once more in {duration(fact['delay_s'])}"
    return f"{again}, attempt {fact['attempt']} of {fact['attempts']}, {left}"


def _message_injected(fact: Fact) -> str:
    return f"{step_words(fact['step_id'])} was told what is wrong, or what a person says"


def _tools_stripped(fact: Fact) -> str:
    return f"{step_words(fact['step_id'])} gets no more tools and answers with what it has"


def _step_failed(fact: Fact) -> str:
    return f"{step_words(fact['step_id'])} {'leaves a gap that the run goes on with' if fact['partial'] else 'failed'}, {words(fact['cause'])}: {cut(fact['message'])}"


def _escalation_opened(fact: Fact) -> str:
    return (
        f"{asked_words(first_asked(fact['required_role'], fact.get('reviewers', ())))} is asked: {cut(fact['reason'])}"
    )


def _escalation_reminded(fact: Fact) -> str:
    return "half of the time has passed" if fact["step"] == "reminder" else "three quarters of the time have passed"


def _escalation_approved(fact: Fact) -> str:
    return f"{fact['actor']} agreed; somebody else has to agree too"


def _escalation_edited(fact: Fact) -> str:
    wanted = "somebody else has to agree to it" if fact["proposed_by"] or fact["agreed"] else "it has to be agreed to"
    return f"{fact['actor']} put something else in place of what is asked about; {wanted}"


DECIDED_AS = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "answered",
    "decline": "declined",
}
"""The past tense of each answer."""


def _escalation_decided(fact: Fact) -> str:
    verb = DECIDED_AS[fact["verb"]]
    return f"{verb} by the system: nobody answered in time" if fact["system"] else f"{verb} by {fact['actor']}"


def _escalation_withdrawn(fact: Fact) -> str:
    return f"no longer asked: {cut(fact['reason'])}"


def _deadlines_suspended(fact: Fact) -> str:
    return f"the clocks stand still while people decide; {duration(fact['run_remaining_us'] / 1e6)} of the run are left"


def _deadlines_reissued(fact: Fact) -> str:
    return "the clocks of the stage and of the run go on"


ROWS: Mapping[str, Display] = {
    "rung_skipped": Display("Option passed over", "neutral", "skip", 1, _rung_skipped),
    "reaction_decided": Display("Decision", "warn", "decide", 3, _reaction_decided),
    "alert_raised": Display("Alert", "warn", "bell", 3, _alert_raised),
    "model_changed": Display("Another model", "warn", "swap", 2, _model_changed),
    "cap_raised": Display("Cap raised", "human", "answer", 3, _cap_raised),
    "budget_raised": Display("Budget raised", "human", "answer", 3, _budget_raised),
    "retry_scheduled": Display("Retry", "warn", "retry", 2, _retry_scheduled),
    "node_retry_scheduled": Display("Node retry", "warn", "retry", 2, _node_retry_scheduled),
    "message_injected": Display("Correction", "warn", "message", 2, _message_injected),
    "tools_stripped": Display("Tools taken away", "warn", "strip", 2, _tools_stripped),
    "step_failed": Display("Step failed", "danger", "fail", 3, _step_failed),
    "escalation_opened": Display("Question to a person", "human", "ask", 3, _escalation_opened),
    "escalation_reminded": Display("Reminder", "human", "bell", 1, _escalation_reminded),
    "escalation_approved": Display("First approval", "human", "answer", 2, _escalation_approved),
    "escalation_edited": Display("Change proposed", "human", "answer", 2, _escalation_edited),
    "escalation_decided": Display("Answered", "human", "answer", 3, _escalation_decided),
    "escalation_withdrawn": Display("Question withdrawn", "human", "withdraw", 2, _escalation_withdrawn),
    "deadlines_suspended": Display("Clocks stopped", "human", "pause", 1, _deadlines_suspended),
    "deadlines_reissued": Display("Clocks restarted", "human", "clock", 1, _deadlines_reissued),
}
