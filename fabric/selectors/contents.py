"""What an event carries, as it is read for pages and programs."""

from __future__ import annotations

import json
import re
from typing import Any

from fabric.core.envelope import Event, fact_json
from fabric.guardrails.compiled import SHOWN_CHARS, looking, without

JSON = Any
SENTENCES = frozenset(
    {
        *("message", "reason", "problem", "problems", "errors", "usage_problem", "why"),
        *("ends", "close_reason", "signature"),
    }
)
"""Fields of facts that hold sentences, one or several. A signature repeats a sentence."""
WITHHELD = "credentials"
"""The shipped rule whose finds no page and no program is shown."""


def shown(content: JSON) -> JSON:
    """A content as pages and programs show it: credentials are replaced by their kind and first characters."""
    return without(content, looking(WITHHELD))


def fact_shown(event: Event) -> dict[str, JSON]:
    """An event's fact as pages and programs show it: credentials in its sentences are masked, and no id or digest is touched."""
    masked: dict[str, JSON] = with_sentences_shown(fact_json(event))
    return masked


def with_sentences_shown(given: JSON) -> JSON:
    """The same value with the sentences in it as pages show them. A sentence may name a call with its arguments."""
    if isinstance(given, dict):
        return {key: shown(item) if key in SENTENCES else with_sentences_shown(item) for key, item in given.items()}
    return [with_sentences_shown(one) for one in given] if isinstance(given, list) else given


def holds_mark(given: JSON) -> bool:
    """Whether a content holds what stands in place of a withheld credential: it was copied from a page, and is no credential."""
    if isinstance(given, str):
        return _MARK.search(given) is not None
    if isinstance(given, dict):
        return any(holds_mark(one) for pair in given.items() for one in pair)
    return isinstance(given, list) and any(holds_mark(one) for one in given)


_MARK = re.compile(rf"\[{WITHHELD}\.\w+: .{{0,{SHOWN_CHARS}}}…, \d+ characters\]")


def content_of(payload: bytes | memoryview | None) -> JSON:
    """A payload as it may be shown. None: there is none, or it was damaged where it is stored (``verify`` names it), which takes no page away."""
    return shown(given_content(payload))


def given_content(payload: bytes | memoryview | None) -> JSON:
    """A payload byte for byte as JSON, for what goes on working with it. None: as for ``content_of``."""
    try:
        return None if payload is None else json.loads(bytes(payload))
    except (ValueError, RecursionError):
        return None
