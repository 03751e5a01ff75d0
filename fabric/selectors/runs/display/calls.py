"""Steps, and the calls of models and tools."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fabric.core.values.words import charged_words, count, cut, dollars, duration, join_words, step_words, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts, always

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
_AS_THEY_RUN = {"calls": "Arguments as they run"}


def _step_opened(fact: Fact) -> Parts:
    step = step_words(fact["step_id"])
    what = f"took up the failed call of {step} again" if fact.get("keeps") else f"took up {step}"
    return Parts(fact["agent"] or "The oracle", what, f"attempt {fact['round'] + 1}" if fact["round"] else "")


def _call_issued(fact: Fact) -> Parts:
    again = f"attempt {fact['attempt']}" if fact["attempt"] > 1 else ""
    most = f"at most {dollars(fact['reserved_usd_micros'])}" if fact["reserved_usd_micros"] else ""
    if fact["call"] == "tool":
        return Parts(fact["agent"] or "The oracle", f"called {fact['target']}", join_words(again, most))
    last = "for its last answer" if fact["final"] else ""
    numbers = join_words(f"turn {fact['turn']}", again, last, most)
    return Parts(fact["agent"], f"asked {fact['target']}", numbers)


def _call_streamed(fact: Fact) -> Parts:
    waits = f"it waits for {', '.join(fact['after'])}" if fact["after"] else ""
    return Parts("The model", f"asked for {fact['tool']} before its answer ended", waits)


def _model_answered(fact: Fact) -> Parts:
    parts = fact.get("parts") or {}
    kinds = ", ".join(f"{parts[kind]:,} {name}" for kind, name in PART_WORDS.items() if parts.get(kind))
    tokens = f"{fact['input_tokens']:,} + {fact['output_tokens']:,} tokens"
    numbers = join_words(f"{tokens}, of them {kinds}" if kinds else tokens, dollars(fact["cost_usd_micros"]))
    doubt = fact.get("usage_problem") or ""
    if fact["verdict"] == "calls":
        tools = ", ".join(dict.fromkeys(call["tool"] for call in fact["calls"]))
        return Parts("The model", f"proposed {count(len(fact['calls']), 'call')} of {tools}", numbers, doubt)
    if fact["verdict"] == "rejected":
        problem = cut(fact["problems"][0]) if fact["problems"] else ""
        return Parts(
            "The model", "gave an answer that cannot be used", numbers, "; ".join(filter(None, (problem, doubt)))
        )
    return Parts("The model", "answered", numbers, doubt)


def _tool_answered(fact: Fact) -> Parts:
    cost = dollars(fact["cost_usd_micros"]) if fact.get("cost_usd_micros") else ""
    return Parts(fact["tool"], "returned an error" if fact["error"] else "answered", cost)


def _call_deduplicated(fact: Fact) -> Parts:
    return Parts("The engine", f"answered a repeated call of {fact['tool']} with its first result")


def _call_edited(fact: Fact) -> Parts:
    before = fact.get("proposed_tool")
    what = f"had {fact['tool']} called in place of {before}" if before else f"changed the arguments of {fact['tool']}"
    return Parts(fact["actor"], what)


def _attempt_failed(fact: Fact) -> Parts:
    status = str(fact["status"]) if fact["status"] else ""
    after = f"Retry-After {duration(fact['retry_after_s'])}" if fact["retry_after_s"] is not None else ""
    part = "a part of the answer had come" if fact.get("partial") else ""
    numbers = join_words(status, after, part, charged_words(fact), fact.get("usage_problem") or "")
    return Parts(f"Attempt {fact['attempt']}", "failed", numbers, f"{words(fact['cause'])}, {cut(fact['message'])}")


ROWS: Mapping[str, EventDisplay] = {
    "step_opened": EventDisplay("Step opened", "info", "agent", 1, _step_opened, content="Message to the agent"),
    "call_issued": EventDisplay("Call", "neutral", "call", 1, _call_issued),
    "call_streamed": EventDisplay(
        "Call streamed in", "neutral", "call", 0, _call_streamed, content={"calls": "Arguments as they came"}
    ),
    "model_answered": EventDisplay(
        "Model answered", "ok", "model", 2, _model_answered,
        content={
            "output": "Output",
            "text": "Text",
            "thinking": "Thinking that leaked into the answer",
            "unused_calls": "Calls not made",
            "calls": "Calls proposed",
        },
        fails=lambda fact: fact.get("verdict") == "rejected",
    ),
    "tool_answered": EventDisplay(
        "Tool answered", "ok", "tool", 1, _tool_answered, content="Result", fails=lambda fact: bool(fact.get("error"))
    ),
    "call_refused": EventDisplay(
        "Call refused", "warn", "block", 2,
        lambda fact: Parts(f"The {words(fact['mechanism'])}", f"refused the call of {fact['tool']}", why=cut(fact["problem"])),
        content="Message to the model", fails=always,
    ),
    "call_deduplicated": EventDisplay("Call repeated", "neutral", "copy", 0, _call_deduplicated),
    "call_resolved": EventDisplay(
        "References resolved", "neutral", "tool", 3,
        lambda fact: Parts("The engine", f"filled in the results that the call of {fact['tool']} refers to"),
        content=_AS_THEY_RUN,
    ),
    "call_skipped": EventDisplay(
        "Call skipped", "neutral", "tool", 2,
        lambda fact: Parts("The plan", f"left out the call of {fact['tool']}"), content={"skipped": "Why"},
    ),
    "call_edited": EventDisplay("Call edited", "human", "answer", 2, _call_edited, content=_AS_THEY_RUN),
    "call_responded": EventDisplay(
        "Call answered by a person", "human", "answer", 2,
        lambda fact: Parts(fact["actor"], f"answered in place of {fact['tool']}"), content={"result": "Result"},
    ),
    "input_requested": EventDisplay(
        "Server asks", "human", "ask", 2,
        lambda fact: Parts(f"The server of {fact['tool']}", "asked a person in the middle of the call"),
        content={"message": "Question", "schema": "Form", "said": "Reply without an answer"},
    ),
    "input_given": EventDisplay(
        "Server answered", "human", "answer", 2,
        lambda fact: Parts(fact["actor"], f"answered the server of {fact['tool']}"),
        "The call goes out once more with the answer.", {"answer": "Answer as the server gets it"},
    ),
    "output_accepted": EventDisplay(
        "Output accepted", "ok", "check", 1,
        lambda fact: Parts("The engine", f"accepted the answer of {step_words(fact['step_id'])}"),
    ),
    "attempt_failed": EventDisplay(
        "Attempt failed", "warn", "alert", 2, _attempt_failed, content="Reply", fails=always
    ),
    "attempt_interrupted": EventDisplay(
        "Attempt lost", "warn", "plug", 2,
        lambda fact: Parts(f"Attempt {fact['attempt']}", "was lost with its worker", charged_words(fact)),
        "It is charged at its worst case, since its bill is not known.", fails=always,
    ),
    "call_aborted": EventDisplay(
        "Call abandoned", "neutral", "cut", 1,
        lambda fact: Parts("The engine", "gave up the call", charged_words(fact), cut(fact["reason"])),
        "It is charged at its worst case, since its bill is not known.",
    ),
    "late_result_ignored": EventDisplay(
        "Late result", "neutral", "late", 0,
        lambda fact: Parts("A result", "came too late and was not used", why=cut(fact["reason"])), content="Result",
    ),
    "input_ignored": EventDisplay(
        "Without effect", "neutral", "ignore", 0,
        lambda fact: Parts("The run", f"took no notice of {words(fact['input_kind'])}", why=cut(fact["reason"])),
    ),
}  # fmt: skip
