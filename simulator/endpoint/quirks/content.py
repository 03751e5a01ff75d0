"""Content comes in an odd form: thinking in the text or beside it, parts, finish reasons, counts of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import EVERY, Behaviour, Event, Form, Name, Saying
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.quirks.wording import Change, change_all, change_texts
from simulator.endpoint.wire.steps import SimulatedAnswer, Usage

THOUGHT = "They want to know. I say what I found."
DRAFT = {"text": "WRONG DRAFT", "citations": []}
HUGE = 10**15


def _thinks(before: str, after: str) -> Saying:
    """Return a behaviour that puts a thought before the text of its answer."""
    return change_texts(lambda answer, turn: replace(answer, text=f"{before}{after}{answer.text or ''}"))


def _draft(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    """Put a draft in the form of the answer before the closing tag."""
    try:
        drafted = {**json.loads(answer.text or ""), "text": DRAFT["text"]}
    except (ValueError, TypeError):
        drafted = dict(DRAFT)
    return replace(answer, text=f"{json.dumps(drafted)}\n</think>\n\n{answer.text}")


def _add_reasoning(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    return replace(answer, reasoning=THOUGHT)


def _details(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    return replace(answer, reasoning=THOUGHT, seals="details")


def _parts(message: dict[str, JSON]) -> None:
    if isinstance(message.get("content"), str) and message["content"]:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}], "closed": True}
        message["content"] = [thinking, {"type": "text", "text": message["content"]}]


def _split_content(protocol: Name, body: JSON) -> JSON:
    """Turn content into a list of parts, as Mistral's Magistral has it."""
    for choice in body["choices"]:
        _parts(choice["message"])
    return body


def _split_events(protocol: Name, events: list[Event]) -> list[Event]:
    for event in events:
        if isinstance(event.data, dict):
            for choice in event.data["choices"]:
                _parts(choice["delta"])
    return events


def _finishes(word: str) -> Saying:
    return change_all(lambda answer, turn: replace(answer, finish=word))


def _uses(usage: Usage | None) -> Saying:
    change: Change = lambda answer, turn: replace(answer, usage=usage)  # noqa: E731 - A lambda says it in one line.
    return change_all(change)


FINISHES = ("tool_use", "eos", "end_turn", "stop_sequence", "pause_turn", "totally_new", "length", "content_filter")
USAGES: Mapping[str, Usage | None] = {
    "usage_negative": Usage(1116, -35),
    "usage_absurd": Usage(HUGE, HUGE),
    "usage_one": Usage(1, 1),
    "usage_zero": Usage(0, 0),
    "usage_float": Usage(1116.0, 35.5),
    "usage_text": Usage("1116", "35"),
    "usage_null": Usage(None, None),
    "usage_cached": Usage(1_000, 50, cached=800),
    "usage_cached_apart": Usage(200, 50, cached=800, apart=True),
    "usage_cached_too_many": Usage(100, 50, cached=800),
    "usage_reasoning": Usage(100, 500, reasoning=450),
    "usage_reasoning_too_many": Usage(100, 50, reasoning=450),
    "usage_audio": Usage(1_000, 50, audio=700),
}

COUNTED: Mapping[str, tuple[Name, ...]] = {
    "usage_cached_apart": ("chat", "anthropic"),
    "usage_cached_too_many": ("chat", "responses", "google"),
    "usage_reasoning": ("chat", "responses", "google"),
    "usage_reasoning_too_many": ("chat", "responses"),
    "usage_audio": ("chat", "google"),
}
"""Counts that not every protocol has."""

BEHAVIOURS: Mapping[str, Behaviour] = {
    "think": Behaviour(_thinks(f"<think>\n{THOUGHT}\n</think>\n\n", "")),
    "think_closing": Behaviour(_thinks(f"{THOUGHT}\n</think>\n\n", "")),
    "think_open": Behaviour(_thinks(f"<think>\n{THOUGHT}\n\n", "")),
    "think_draft": Behaviour(change_texts(_draft)),
    "think_parts": Behaviour(_thinks("", ""), form=Form(_split_content, _split_events), protocols=("chat",)),
    "reasoning": Behaviour(change_all(_add_reasoning)),
    "reasoning_details": Behaviour(change_all(_details), protocols=("chat",)),
    "reasoning_only": Behaviour(change_texts(lambda answer, turn: replace(answer, text="", reasoning=THOUGHT))),
    **{f"finish_{word}": Behaviour(_finishes(word)) for word in FINISHES},
    **{name: Behaviour(_uses(usage), protocols=COUNTED.get(name, EVERY)) for name, usage in USAGES.items()},
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
