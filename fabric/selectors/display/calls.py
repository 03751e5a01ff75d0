"""Steps and calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fabric.core.words import charged, count, cut, dollars, duration, joined, step_words, words
from fabric.selectors.display.row import Display, Fact

JSON = Any


def _step_opened(fact: Fact) -> str:
    again = f", attempt {fact['round'] + 1}" if fact["round"] else ""
    if fact.get("keeps"):
        return (
            f"{fact['agent']} makes the failed call of {step_words(fact['step_id'])} again; what it did before stands"
        )
    return f"{fact['agent'] or 'the oracle'} takes up {step_words(fact['step_id'])}{again}"


def _turn_opened(fact: Fact) -> str:
    heard = f", after {count(len(fact['hears']), 'turn')}" if fact["hears"] else ""
    return f"{fact['agent']} has turn {fact['branch'] + 1}{heard}"


def _speaker_chosen(fact: Fact) -> str:
    before = f"after turn {fact['turn']} of {fact['from_agent']}" if fact["step_id"] else "before anybody spoke"
    if not fact["speaker"]:
        return f"{before} the conversation is closed: {cut(fact['close_reason'])} ({words(fact['why'])})"
    rule = f" {fact['transition']}" if fact["transition"] is not None else ""
    wrong = f"; {cut(fact['errors'][0])}" if fact["errors"] else ""
    return f"{before} {fact['speaker']} speaks next, by {words(fact['why'])}{rule}{wrong}"


def _person_said(fact: Fact) -> str:
    return f"{fact['actor']} has a word for whoever speaks next"


def _context_written(fact: Fact) -> str:
    return f"{fact['actor']} wrote {count(fact['writes'], 'context variable')}"


def _turn_overdue(fact: Fact) -> str:
    closed = ", and the conversation is closed" if fact["on_violation"] == "auto_close" else ""
    return f"{fact['speaker']} has taken {duration(fact['elapsed_us'] / 1_000_000)}, {duration(fact['seconds'])} are expected{closed}"


def _call_issued(fact: Fact) -> str:
    again = f", attempt {fact['attempt']}" if fact["attempt"] > 1 else ""
    held = f", at most {dollars(fact['reserved_usd_micros'])}" if fact["reserved_usd_micros"] else ""
    if fact["call"] == "tool":
        return f"{fact['agent'] or 'the oracle'} calls {fact['target']}{again}{held}"
    last = ", for its last answer" if fact["final"] else ""
    return f"{fact['agent']} asks {fact['target']}, turn {fact['turn']}{again}{last}{held}"


def _call_streamed(fact: Fact) -> str:
    waits = f", after {', '.join(fact['after'])}" if fact["after"] else ""
    return f"{fact['tool']} is asked for while the answer is still coming in{waits}"


PART_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "cached": "from the cache",
        "cache_written": "to the cache",
        "audio_in": "audio in",
        "reasoning": "reasoning",
        "audio_out": "audio out",
    }
)
"""Kinds of tokens that may have prices of their own, in words; total by test."""


def _parts(fact: Fact) -> str:
    """``, 900 of them from the cache``, and why the endpoint's count is not believed."""
    parts = fact.get("parts") or {}
    said = [f"{parts[kind]:,} {says}" for kind, says in PART_WORDS.items() if parts.get(kind)]
    of_them = f", of them {', '.join(said)}" if said else ""
    problem = fact.get("usage_problem") or ""
    return f"{of_them}; {problem}" if problem else of_them


def _model_answered(fact: Fact) -> str:
    used = (
        f"{fact['input_tokens']:,} + {fact['output_tokens']:,} tokens, {dollars(fact['cost_usd_micros'])}{_parts(fact)}"
    )
    if fact["verdict"] == "calls":
        tools = list(dict.fromkeys(call["tool"] for call in fact["calls"]))
        return f"proposed {count(len(fact['calls']), 'call')} ({', '.join(tools)}): {used}"
    if fact["verdict"] == "rejected":
        problem = f": {cut(fact['problems'][0])}" if fact["problems"] else ""
        return f"gave an answer that cannot be used{problem} ({used})"
    return f"answered: {used}"


def _tool_answered(fact: Fact) -> str:
    cost = f", {dollars(fact['cost_usd_micros'])}" if fact.get("cost_usd_micros") else ""
    return f"{fact['tool']} returned an error{cost}" if fact["error"] else f"{fact['tool']} answered{cost}"


def _call_refused(fact: Fact) -> str:
    return f"{fact['tool']} was not called: {cut(fact['problem'])}"


def _call_deduplicated(fact: Fact) -> str:
    if fact.get("begun"):
        return f"{fact['tool']} was called for an answer that broke off; what it came to stands"
    return f"{fact['tool']} was asked the same again; its first answer stands"


def _call_edited(fact: Fact) -> str:
    if fact.get("proposed_tool"):
        return f"{fact['actor']} has {fact['tool']} called in place of {fact['proposed_tool']}"
    return f"{fact['actor']} lets {fact['tool']} be called with other arguments"


def _call_resolved(fact: Fact) -> str:
    return f"{fact['tool']} gets what its arguments refer to"


def _call_skipped(fact: Fact) -> str:
    return f"{fact['tool']} was not called: the plan went another way"


def _call_responded(fact: Fact) -> str:
    return f"{fact['actor']} answered in place of {fact['tool']}, which was not called"


def _input_requested(fact: Fact) -> str:
    return f"the server of {fact['tool']} asks a person in the middle of the call"


def _input_given(fact: Fact) -> str:
    return f"{fact['actor']} answered the server of {fact['tool']}; the call goes out once more"


def _output_accepted(fact: Fact) -> str:
    return f"the answer of {step_words(fact['step_id'])} stands, its calls came back without an error"


def _handed_off(fact: Fact) -> str:
    return f"{fact['from_agent']} handed over to {fact['to_agent']}"


def _attempt_failed(fact: Fact) -> str:
    status = str(fact["status"]) if fact["status"] else ""
    after = f"Retry-After {duration(fact['retry_after_s'])}" if fact["retry_after_s"] is not None else ""
    part = "a part of the answer had come" if fact.get("partial") else ""
    details = joined(status, after, part, charged(fact), fact.get("usage_problem") or "")
    return f"attempt {fact['attempt']} failed, {words(fact['cause'])}: {cut(fact['message'])}" + (
        f" ({details})" if details else ""
    )


def _attempt_interrupted(fact: Fact) -> str:
    return joined(f"attempt {fact['attempt']} was lost with its worker", charged(fact))


def _call_aborted(fact: Fact) -> str:
    return joined(f"let go: {cut(fact['reason'])}", charged(fact))


def _late_result(fact: Fact) -> str:
    return f"a result came too late and is not used: {cut(fact['reason'])}"


def _input_ignored(fact: Fact) -> str:
    return f"{words(fact['input_kind'])} changed nothing: {cut(fact['reason'])}"


ROWS: Mapping[str, Display] = {
    "step_opened": Display("Step opened", "info", "agent", 1, _step_opened),
    "turn_opened": Display("Turn", "info", "agent", 1, _turn_opened),
    "speaker_chosen": Display("Next speaker", "info", "agent", 2, _speaker_chosen),
    "person_said": Display("Message", "human", "answer", 2, _person_said),
    "context_written": Display("Context written", "human", "answer", 2, _context_written),
    "turn_overdue": Display("Turn overdue", "warn", "late", 2, _turn_overdue),
    "call_issued": Display("Call", "neutral", "call", 1, _call_issued),
    "call_streamed": Display("Call streamed in", "neutral", "call", 0, _call_streamed),
    "model_answered": Display("Model answered", "ok", "model", 2, _model_answered),
    "tool_answered": Display("Tool answered", "ok", "tool", 1, _tool_answered),
    "call_refused": Display("Call refused", "warn", "block", 2, _call_refused),
    "call_deduplicated": Display("Call repeated", "neutral", "copy", 0, _call_deduplicated),
    "call_resolved": Display("References resolved", "neutral", "tool", 3, _call_resolved),
    "call_skipped": Display("Call skipped", "neutral", "tool", 2, _call_skipped),
    "call_edited": Display("Call edited", "human", "answer", 2, _call_edited),
    "call_responded": Display("Call answered by a person", "human", "answer", 2, _call_responded),
    "input_requested": Display("Server asks", "human", "ask", 2, _input_requested),
    "input_given": Display("Server answered", "human", "answer", 2, _input_given),
    "output_accepted": Display("Output accepted", "ok", "check", 1, _output_accepted),
    "handed_off": Display("Handed over", "info", "handoff", 2, _handed_off),
    "attempt_failed": Display("Attempt failed", "warn", "alert", 2, _attempt_failed),
    "attempt_interrupted": Display("Attempt lost", "warn", "plug", 2, _attempt_interrupted),
    "call_aborted": Display("Call let go", "neutral", "cut", 1, _call_aborted),
    "late_result_ignored": Display("Late result", "neutral", "late", 0, _late_result),
    "input_ignored": Display("Without effect", "neutral", "ignore", 0, _input_ignored),
}
