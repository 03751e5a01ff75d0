"""Content that comes in an odd form: thinking that stands in the text or beside it, parts, finish reasons, counts of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simulator.endpoint.answers import Answer, Usage
from simulator.endpoint.quirks.saying import Change, in_all, in_texts
from simulator.endpoint.scenario import EVERY, Event, Form, Name, Saying, Scenario
from simulator.endpoint.turns import Turn

JSON = Any

THOUGHT = "They want to know. I say what I found."
DRAFT = {"text": "WRONG DRAFT", "citations": []}
HUGE = 10**15
LONG_USAGE = (900, 60)


def _thinks(before: str, after: str) -> Saying:
    """The text of an answer with what was thought before it."""
    return in_texts(lambda answer, turn: replace(answer, text=f"{before}{after}{answer.text or ''}"))


def _draft(answer: Answer, turn: Turn) -> Answer:
    """A draft in the form of the answer stands before the closing tag."""
    try:
        drafted = {**json.loads(answer.text or ""), "text": DRAFT["text"]}
    except (ValueError, TypeError):
        drafted = dict(DRAFT)
    return replace(answer, text=f"{json.dumps(drafted)}\n</think>\n\n{answer.text}")


def _reasoning(answer: Answer, turn: Turn) -> Answer:
    return replace(answer, reasoning=THOUGHT)


def _details(answer: Answer, turn: Turn) -> Answer:
    return replace(answer, reasoning=THOUGHT, seals="details")


def _parts(message: dict[str, JSON]) -> None:
    if isinstance(message.get("content"), str) and message["content"]:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}], "closed": True}
        message["content"] = [thinking, {"type": "text", "text": message["content"]}]


def _in_parts(protocol: Name, body: JSON) -> JSON:
    """Content as a list of parts, as Mistral's Magistral has it."""
    for choice in body["choices"]:
        _parts(choice["message"])
    return body


def _in_parts_events(protocol: Name, events: list[Event]) -> list[Event]:
    for event in events:
        if isinstance(event.data, dict):
            for choice in event.data["choices"]:
                _parts(choice["delta"])
    return events


def _finishes(word: str) -> Saying:
    return in_all(lambda answer, turn: replace(answer, finish=word))


def _uses(usage: Usage | None) -> Saying:
    change: Change = lambda answer, turn: replace(answer, usage=usage)  # noqa: E731 - A lambda says it in one line.
    return in_all(change)


FINISHES = ("tool_use", "eos", "end_turn", "stop_sequence", "pause_turn", "totally_new", "length", "content_filter")
USAGES: Mapping[str, tuple[str, Usage | None]] = {
    "usage_negative": ("negative counts of tokens", Usage(1116, -35)),
    "usage_absurd": ("10^15 tokens", Usage(HUGE, HUGE)),
    "usage_one": ("one token in and one out, however long the prompt is", Usage(1, 1)),
    "usage_zero": ("no tokens at all", Usage(0, 0)),
    "usage_float": ("counts of tokens with a fraction", Usage(1116.0, 35.5)),
    "usage_text": ("counts of tokens as text", Usage("1116", "35")),
    "usage_null": ("null for each count of tokens", Usage(None, None)),
    "usage_cached": ("cached tokens inside the tokens of the prompt", Usage(1_000, 50, cached=800)),
    "usage_cached_apart": ("cached tokens apart from the tokens of the prompt", Usage(200, 50, cached=800, apart=True)),
    "usage_cached_too_many": ("more cached tokens than the prompt has", Usage(100, 50, cached=800)),
    "usage_reasoning": ("reasoning tokens inside the tokens of the answer", Usage(100, 500, reasoning=450)),
    "usage_reasoning_too_many": ("more reasoning tokens than the answer has", Usage(100, 50, reasoning=450)),
    "usage_audio": ("audio tokens in the prompt", Usage(1_000, 50, audio=700)),
}

COUNTED: Mapping[str, tuple[Name, ...]] = {
    "usage_cached_apart": ("chat", "anthropic"),
    "usage_cached_too_many": ("chat", "responses", "google"),
    "usage_reasoning": ("chat", "responses", "google"),
    "usage_reasoning_too_many": ("chat", "responses"),
    "usage_audio": ("chat", "google"),
}
"""Counts that not every protocol has."""

SCENARIOS: Mapping[str, Scenario] = {
    "think": Scenario("Puts what it thinks into the text, between <think> and </think>.", _thinks(f"<think>\n{THOUGHT}\n</think>\n\n", "")),
    "think_closing": Scenario("Puts what it thinks into the text, with the closing </think> alone.", _thinks(f"{THOUGHT}\n</think>\n\n", "")),
    "think_open": Scenario("Puts what it thinks into the text, and never closes <think>.", _thinks(f"<think>\n{THOUGHT}\n\n", "")),
    "think_draft": Scenario("Drafts a wrong answer in the form of the answer, then closes </think> and gives the right one.", in_texts(_draft)),
    "think_parts": Scenario("Gives content in parts, thinking first, as Mistral does.", _thinks("", ""), form=Form(_in_parts, _in_parts_events), protocols=("chat",)),
    "reasoning": Scenario("Gives its reasoning beside the answer, where the protocol has its place.", in_all(_reasoning)),
    "reasoning_details": Scenario("Gives its reasoning in reasoning_details, as OpenRouter does.", in_all(_details), protocols=("chat",)),
    "reasoning_only": Scenario("Gives its reasoning, and no text at all.", in_texts(lambda answer, turn: replace(answer, text="", reasoning=THOUGHT))),
    **{f"finish_{word}": Scenario(f"Ends each answer with {word} for a reason.", _finishes(word)) for word in FINISHES},
    **{name: Scenario(f"Says that each answer took {what}.", _uses(usage), protocols=COUNTED.get(name, EVERY)) for name, (what, usage) in USAGES.items()},
}  # fmt: skip
"""By what ``--scenario`` takes."""
