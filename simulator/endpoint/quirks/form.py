"""Answers whose form is odd: fields that are missing or of another type, bytes around the JSON, codings that were not asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.endpoint.misbehaviour import always, healthy
from simulator.endpoint.scenario import Event, Form, Name, Scenario
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn

JSON = Any
Path = Sequence[str]
"""To a field: ``*`` stands for each item of a list."""

BOM = b"\xef\xbb\xbf"
DEEP = 50
DIGITS = 400

FIELDS: Mapping[str, Mapping[Name, Sequence[Path]]] = {
    "id": {"chat": [("id",)], "responses": [("id",), ("response", "id")], "anthropic": [("id",), ("message", "id")], "google": [("responseId",)]},
    "object": {"chat": [("object",)], "responses": [("object",), ("response", "object")], "anthropic": [("message", "type")]},
    "model": {"chat": [("model",)], "responses": [("model",), ("response", "model")], "anthropic": [("model",), ("message", "model")], "google": [("modelVersion",)]},
    "index": {"chat": [("choices", "*", "index")], "google": [("candidates", "*", "index")]},
    "role": {
        "chat": [("choices", "*", "message", "role"), ("choices", "*", "delta", "role")],
        "responses": [("output", "*", "role"), ("response", "output", "*", "role"), ("item", "role")],
        "anthropic": [("role",), ("message", "role")],
        "google": [("candidates", "*", "content", "role")],
    },
    "created": {"chat": [("created",)], "responses": [("created_at",), ("response", "created_at")]},
    "usage": {
        "chat": [("usage",)],
        "responses": [("usage",), ("response", "usage")],
        "anthropic": [("usage",), ("message", "usage")],
        "google": [("usageMetadata",)],
    },
    "finish": {
        "chat": [("choices", "*", "finish_reason")],
        "responses": [("status",), ("response", "status")],
        "anthropic": [("stop_reason",), ("delta", "stop_reason")],
        "google": [("candidates", "*", "finishReason")],
    },
}  # fmt: skip
"""Fields that may be missing, by what they say; where a protocol has none, nothing is missing there."""
TYPES: Mapping[Name, Mapping[Path, JSON]] = {
    "chat": {("id",): 7, ("created",): "2026-11-28T00:00:00Z", ("system_fingerprint",): 7, ("model",): None},
    "responses": {("created_at",): "2026-11-28T00:00:00Z", ("metadata",): "none", ("model",): None},
    "anthropic": {("id",): 7, ("model",): None, ("stop_sequence",): 7, ("container",): "none"},
    "google": {("responseId",): 7, ("modelVersion",): None, ("createTime",): 7},
}
"""Fields that carry nothing, with a value of another type than the protocol says."""


def _walked(value: JSON, path: Path, change: Callable[[dict[str, JSON], str], None]) -> None:
    """Changes each field that the path leads to."""
    key, *rest = path
    if key == "*":
        for one in value if isinstance(value, list) else ():
            _walked(one, rest, change)
    elif isinstance(value, dict) and rest and key in value:
        _walked(value[key], rest, change)
    elif isinstance(value, dict) and not rest:
        change(value, key)


def without(name: str) -> Form:
    """Answers and events without this field."""

    def whole(protocol: Name, body: JSON) -> JSON:
        for path in FIELDS[name].get(protocol, ()):
            _walked(body, path, lambda found, key: found.pop(key, None))
        return body

    return _each(whole)


def _each(whole: Callable[[Name, JSON], JSON]) -> Form:
    """The same change of the body and of each event."""

    def events(protocol: Name, found: list[Event]) -> list[Event]:
        return [replace(one, data=whole(protocol, one.data)) if isinstance(one.data, dict) else one for one in found]

    return Form(whole, events)


def _other_types(protocol: Name, body: JSON) -> JSON:
    for path, value in TYPES[protocol].items():
        _walked(body, path, lambda found, key, value=value: found.__setitem__(key, value))  # type: ignore[misc]
    return body


def _adding(more: Mapping[str, JSON]) -> Form:
    return _each(lambda protocol, body: body | more)


def _replacing(mark: bytes, text: bytes) -> Form:
    """A value that Python's JSON does not write, in an unused field."""

    def change(raw: bytes) -> bytes:
        return raw.replace(mark, text)

    def pieces(found: list[bytes]) -> list[bytes]:
        return [change(one) for one in found]

    marked = _adding({"scripted": "MARK"})
    return replace(marked, raw=change, pieces=pieces)


def _nested(depth: int) -> JSON:
    value: JSON = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _first(mark: bytes) -> Form:
    return Form(raw=lambda raw: mark + raw, pieces=lambda found: [mark + found[0], *found[1:]])


def _behind(mark: bytes) -> Form:
    return Form(raw=lambda raw: raw + mark, pieces=lambda found: [*found, mark])


def _twice() -> Form:
    return Form(raw=lambda raw: raw + b"\n" + raw, pieces=lambda found: [*found, *found])


def _empty_choices(protocol: Name, body: JSON) -> JSON:
    for key in ("choices", "output", "content", "candidates"):
        if key in body:
            body[key] = []
    return body


BARE = Step(body=b'"It is done."')
LOGIN = Step(
    body=b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login' method='post'>"
    b"<input name='user'><input name='password' type='password'></form></body></html>",
    content_type="text/html; charset=utf-8",
)
OTHER_FORM = Step(
    body=json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{"type": "text", "text": "This is the form of another protocol."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
    ).encode()
)


def _changing(turn: Turn) -> Step:
    """By the number of the request: the protocol's form, a bare text, Anthropic's form, and again."""
    return (healthy(turn), BARE, OTHER_FORM)[(turn.count - 1) % 3]


_numbers = {
    "number_of_400_digits": ("a number of 400 digits", b"9" * DIGITS),
    "number_nan": ("NaN", b"NaN"),
    "number_infinity": ("Infinity", b"-Infinity"),
    "number_huge_exponent": ("1e400", b"1e400"),
}

SCENARIOS: Mapping[str, Scenario] = {
    **{f"missing_{name}": Scenario(f"Leaves out what says the {name} of an answer.", healthy, form=without(name)) for name in FIELDS},
    "wrong_types": Scenario("Gives fields that carry nothing values of other types than the protocol says.", healthy, form=_each(_other_types)),
    "unknown_fields": Scenario("Adds fields that no protocol knows.", healthy, form=_adding({"x_scripted": {"a": [1, None]}, "provider": "x"})),
    "no_choices": Scenario("Answers with an empty list where the answer should be.", healthy, form=Form(_empty_choices, lambda protocol, found: found[-1:])),
    "bom": Scenario("Begins the body with a byte order mark.", healthy, form=_first(BOM)),
    "blank_lines": Scenario("Begins the body with blank lines, as a gateway does that waits.", healthy, form=_first(b"\r\n \n\n")),
    "two_documents": Scenario("Sends the same document twice in one body.", healthy, form=_twice()),
    "trailing_text": Scenario("Sends a line of a log behind the body.", healthy, form=_behind(b"\nINFO: done\n")),
    "deep_json": Scenario("Adds a field that is nested 50 levels deep.", healthy, form=_adding({"scripted": _nested(DEEP)})),
    "deep_json_10000": Scenario("Adds a field that is nested 10,000 levels deep.", healthy, form=_replacing(b'"MARK"', b"[" * 10_000 + b"]" * 10_000)),
    **{name: Scenario(f"Adds a field that holds {what}.", healthy, form=_replacing(b'"MARK"', text)) for name, (what, text) in _numbers.items()},
    "bare_text": Scenario("Answers with a text in JSON, and nothing around it.", always(BARE)),
    "other_form": Scenario("Answers in the form of another protocol.", always(OTHER_FORM), protocols=("chat", "responses", "google")),
    "changing_form": Scenario("Changes its form from request to request: its protocol's, a bare text, Anthropic's.", _changing),
    "login_page": Scenario("Sends a login page with 200.", always(LOGIN)),
    **{f"packed_{coding}": Scenario(f"Packs each body with {coding}, whether it may or not.", healthy, form=Form(encoding=coding)) for coding in ("gzip", "deflate", "br")},
}  # fmt: skip
"""By what ``--scenario`` takes."""
