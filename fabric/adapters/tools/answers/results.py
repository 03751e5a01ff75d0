"""Turns the answer of an HTTP tool into the model's result, by a table of types and readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabric.adapters.tools.answers.binary import UNKNOWN_TYPE, left_out
from fabric.adapters.tools.answers.pages import page_of
from fabric.adapters.tools.answers.parsing import GUARD, MARK, NotJson, is_json, is_json_lines, value_of, values_of
from fabric.adapters.tools.outcome import ToolError
from fabric.core.saga import Outcome

JSON = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole. ``text`` is None where its ``size`` bytes are none; ``content_type`` has no parameters; ``location`` is a whole URL."""

    status: int
    content_type: str
    text: str | None
    size: int
    location: str = ""


def result_of(answer: Answer, where: str) -> JSON:
    """Returns what an answer is to the model: JSON, the values of its lines, text, or what can be said of bytes; None where nothing came and nothing more is meant.

    ToolError for a web page and for what is announced as JSON and cannot be read. A page leaves open whether the call was done: it may come from a proxy in front of the endpoint.
    """
    text, kind = answer.text, answer.content_type
    if text is None:
        return left_out(kind or UNKNOWN_TYPE, answer.size)
    if not text.strip(f"{MARK} \t\r\n"):
        return _without_body(answer)
    if (page := page_of(text)) is not None:
        said = f"{where} answered HTTP {answer.status} with {page} where data is expected; pages are read with the built-in http_get"
        raise ToolError(said, outcome=Outcome.UNKNOWN)
    try:
        if is_json_lines(kind):
            return values_of(text)
        if is_json(kind):
            return value_of(text)
    except NotJson as error:
        raise ToolError(
            f"{where} answered HTTP {answer.status}, but its JSON {error}", outcome=Outcome.ANSWERED
        ) from None
    return _unannounced(text) if kind in SAYS_NOTHING else text


SAYS_NOTHING = frozenset(["", "text/html", "application/octet-stream", "binary/octet-stream"])
"""Types that servers give by themselves, whatever the body is."""


def _unannounced(text: str) -> JSON:
    """The JSON object or list that a text is, else the text."""
    if not text.lstrip(f"{MARK} \t\r\n").startswith(("{", "[", GUARD)):
        return text
    try:
        return value_of(text)
    except NotJson:
        return text


def _without_body(answer: Answer) -> JSON:
    """None; what a status without a body says beside "done", where it says that: made (201), taken and not done yet (202), or where it stands."""
    if answer.status not in (201, 202) and not answer.location:
        return None
    return {"status": answer.status} | ({"location": answer.location} if answer.location else {})
