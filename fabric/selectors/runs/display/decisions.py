"""Decisions, reviews by people, and clocks."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.people.eligibility import asked_words, first_asked
from fabric.core.spec.policies.budgets import amount_words, cap_words
from fabric.core.values.branches import stopped_words
from fabric.core.values.units import JSON
from fabric.core.values.words import count, cut, dollars, duration, join_words, step_words, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts, always

WAITS: Mapping[str, str] = {
    "backoff": "backoff with full jitter",
    "retry_after": "the provider asked for the wait",
    "breaker": "its circuit breaker is open",
    "named": "its endpoint asked for the wait",
    "failover": "another model of the endpoint is asked at once",
}
"""Why a call waits for its next attempt; total by test."""
DECIDED_AS: Mapping[str, str] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "answered",
    "decline": "declined",
}
"""The past tense of each answer."""


def _why(trip: JSON) -> str:
    seen = trip["evidence"]
    if trip["cause"] == "below_tau" and seen["limit"] is not None and seen["observed"] is not None:
        return f"below the needed score, {seen['observed']:.2f} < {seen['limit']:.2f}"
    return f"{words(trip['cause'])}, {cut(trip['message'])}"


def _reaction_decided(fact: Fact) -> Parts:
    bound = f"{fact['spent'] + 1} of {fact['bound']}" if fact["bound"] else ""
    layer = f"layer {words(fact['layer'])}" if fact["layer"] else ""
    return Parts("The engine", f"chose {words(fact['reaction'])}", join_words(bound, layer), _why(fact["cause"]))


def _model_changed(fact: Fact) -> Parts:
    answers = fact.get("left_out", 0)
    left_out = f"without the reasoning of {count(answers, 'earlier answer')}" if answers else ""
    approved = f"approved by {fact['actor']}" if fact["actor"] else ""
    why = join_words(words(fact["reason"]), words(fact["cause"] or ""), approved)
    what = f"put {cut(fact['model'])} in place of {cut(fact['before'])} for {cut(fact['agent'])}"
    return Parts("The engine", what, left_out, why)


def _budget_raised(fact: Fact) -> Parts:
    before, cap = (amount_words(fact[name], fact["unit"]) for name in ("before", "cap"))
    return Parts(fact["actor"], f"raised the cap of {cap_words(fact['scope'])} from {before} to {cap}")


def _describe_rest(fact: Fact) -> str:
    return f"{fact['tokens_left'] / 1_000:.1f} retries left"


def _retry_scheduled(fact: Fact) -> Parts:
    what = f"scheduled attempt {fact['attempt']} in {duration(fact['delay_s'])}"
    return Parts("The engine", what, _describe_rest(fact), WAITS[fact["source"]])


def _node_retry_scheduled(fact: Fact) -> Parts:
    what = f"scheduled {step_words(fact['step_id'])} once more in {duration(fact['delay_s'])}"
    return Parts("The engine", what, f"attempt {fact['attempt']} of {fact['attempts']}, {_describe_rest(fact)}")


def is_stopped(fact: Fact) -> bool:
    """Return True where a step that is journaled as failed was stopped because of the others."""
    return bool(stopped_words(fact["cause"], fact["message"]))


def _step_failed(fact: Fact) -> Parts:
    if why := stopped_words(fact["cause"], fact["message"]):
        return Parts(step_words(fact["step_id"]).capitalize(), "was stopped", why=why)
    what = "failed, and the run goes on with a gap" if fact["partial"] else "failed"
    return Parts(step_words(fact["step_id"]).capitalize(), what, why=f"{words(fact['cause'])}, {cut(fact['message'])}")


def _review_opened(fact: Fact) -> Parts:
    people = asked_words(first_asked(fact["required_role"], fact.get("reviewers", ())))
    return Parts("The engine", f"asked {people}", why=cut(fact["reason"]))


def _review_reminded(fact: Fact) -> Parts:
    if fact["step"] == "reminder":
        return Parts("The engine", "reminded the reviewers", "half of the time had passed")
    return Parts("The engine", "passed the review on", "three quarters of the time had passed")


def _review_edited(fact: Fact) -> Parts:
    another = bool(fact["proposed_by"] or fact["agreed"])
    wanted = "another person has to agree to it" if another else "it has to be agreed to"
    return Parts(fact["actor"], "changed what is under review", wanted)


def _review_decided(fact: Fact) -> Parts:
    verb = f"{DECIDED_AS[fact['verb']]} the review"
    return Parts("The system", verb, why="no one answered in time") if fact["system"] else Parts(fact["actor"], verb)


ROWS: Mapping[str, EventDisplay] = {
    "rung_skipped": EventDisplay(
        "Reaction skipped", "neutral", "skip", 2,
        lambda fact: Parts("The engine", f"skipped {words(fact['reaction'])}", why=cut(fact["reason"])),
    ),
    "reaction_decided": EventDisplay("Decision", "warn", "decide", 3, _reaction_decided, fails=always),
    "alert_raised": EventDisplay(
        "Alert", "warn", "bell", 3,
        lambda fact: Parts(
            f"The {words(fact['mechanism'])}", "raised an alert", f"reaction: {words(fact['reaction'])}",
            f"{words(fact['cause'])}, {cut(fact['message'])}",
        ),
        "The run goes on as decided; no answer is needed.", follows=True,
    ),
    "model_changed": EventDisplay("Another model", "warn", "exchange", 2, _model_changed, follows=True),
    "cap_raised": EventDisplay(
        "Cap raised", "human", "answer", 3,
        lambda fact: Parts(
            fact["actor"], f"raised the run's cap from {dollars(fact['before_usd_micros'])} to {dollars(fact['cap_usd_micros'])}"
        ),
        follows=True,
    ),
    "budget_raised": EventDisplay("Budget raised", "human", "answer", 3, _budget_raised, follows=True),
    "retry_scheduled": EventDisplay("Retry", "warn", "retry", 2, _retry_scheduled, follows=True),
    "node_retry_scheduled": EventDisplay(
        "Node retry", "warn", "retry", 2, _node_retry_scheduled,
        "Its step is opened anew then, with calls and retries of its own.", follows=True,
    ),
    "message_injected": EventDisplay(
        "Correction", "warn", "message", 2,
        lambda fact: Parts("The engine", f"sent {step_words(fact['step_id'])} a correction or a person's word"),
        content="Message to the agent", follows=True,
    ),
    "tools_stripped": EventDisplay(
        "Tools taken away", "warn", "strip", 2,
        lambda fact: Parts("The engine", f"took the tools away from {step_words(fact['step_id'])}", why=cut(fact["reason"])),
        "It answers with what it has.", "Message to the agent", follows=True,
    ),
    "step_failed": EventDisplay(
        "Step failed", "danger", "fail", 3, _step_failed, fails=lambda fact: not is_stopped(fact), follows=True
    ),
    "review_opened": EventDisplay(
        "Review opened", "human", "ask", 3, _review_opened, content="Content shown",
        fails=lambda fact: fact.get("item") in ("failure", "compensation"), follows=True,
    ),
    "review_reminded": EventDisplay("Reminder", "human", "bell", 1, _review_reminded),
    "review_approved": EventDisplay(
        "First approval", "human", "answer", 2,
        lambda fact: Parts(fact["actor"], "approved the review", "another person has to agree too"),
        content="Message", follows=True,
    ),
    "review_edited": EventDisplay(
        "Change proposed", "human", "answer", 2, _review_edited, content="Content from now on", follows=True
    ),
    "review_decided": EventDisplay(
        "Review answered", "human", "answer", 3, _review_decided, content="Message", follows=True
    ),
    "review_withdrawn": EventDisplay(
        "Review withdrawn", "human", "withdraw", 2,
        lambda fact: Parts("The engine", "withdrew the review", why=cut(fact["reason"])), follows=True,
    ),
    "deadlines_suspended": EventDisplay(
        "Clocks stopped", "human", "pause", 1,
        lambda fact: Parts(
            "The engine", "stopped the clocks while people decide", f"{duration(fact['run_remaining_us'] / 1e6)} of the run left"
        ),
        "The run's clocks stand still while the run waits only for people. Commands already out keep their own.",
    ),
    "deadlines_reissued": EventDisplay(
        "Clocks restarted", "human", "clock", 1,
        lambda fact: Parts("The engine", "started the clocks of the stage and the run again"),
    ),
}  # fmt: skip
