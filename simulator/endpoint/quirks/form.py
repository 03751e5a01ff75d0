"""Answers have an odd form: fields are missing or of another type, bytes surround the JSON, codings are unasked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Behaviour, Event, Form, Name
from simulator.endpoint.behaviour.misbehaviour import always, healthy
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.steps import Step

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


def _change_fields(value: JSON, path: Path, change: Callable[[dict[str, JSON], str], None]) -> None:
    """Changes each field that the path leads to."""
    key, *rest = path
    if key == "*":
        for one in value if isinstance(value, list) else ():
            _change_fields(one, rest, change)
    elif isinstance(value, dict) and rest and key in value:
        _change_fields(value[key], rest, change)
    elif isinstance(value, dict) and not rest:
        change(value, key)


def drop_field(name: str) -> Form:
    """Answers and events without this field."""

    def whole(protocol: Name, body: JSON) -> JSON:
        for path in FIELDS[name].get(protocol, ()):
            _change_fields(body, path, lambda found, key: found.pop(key, None))
        return body

    return _each(whole)


def _each(whole: Callable[[Name, JSON], JSON]) -> Form:
    """Return a form that changes the body and each event in one way."""

    def events(protocol: Name, found: list[Event]) -> list[Event]:
        return [replace(one, data=whole(protocol, one.data)) if isinstance(one.data, dict) else one for one in found]

    return Form(whole, events)


def _other_types(protocol: Name, body: JSON) -> JSON:
    for path, value in TYPES[protocol].items():
        _change_fields(body, path, lambda found, key, value=value: found.__setitem__(key, value))  # type: ignore[misc]
    return body


def _add_fields(more: Mapping[str, JSON]) -> Form:
    return _each(lambda protocol, body: body | more)


def _replace_bytes(mark: bytes, text: bytes) -> Form:
    """Return a form that puts a value that Python's JSON does not write into an unused field."""

    def change(raw: bytes) -> bytes:
        return raw.replace(mark, text)

    def pieces(found: list[bytes]) -> list[bytes]:
        return [change(one) for one in found]

    marked = _add_fields({"scripted": "MARK"})
    return replace(marked, raw=change, pieces=pieces)


def _nest_value(depth: int) -> JSON:
    value: JSON = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _first(mark: bytes) -> Form:
    return Form(raw=lambda raw: mark + raw, pieces=lambda found: [mark + found[0], *found[1:]])


def _append_bytes(mark: bytes) -> Form:
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


def _change_form(turn: Turn) -> Step:
    """Answer in the protocol's form, as a bare text, in Anthropic's form, and again, by the number of the request."""
    return (healthy(turn), BARE, OTHER_FORM)[(turn.count - 1) % 3]


_numbers = {
    "number_of_400_digits": b"9" * DIGITS,
    "number_nan": b"NaN",
    "number_infinity": b"-Infinity",
    "number_huge_exponent": b"1e400",
}

BEHAVIOURS: Mapping[str, Behaviour] = {
    "html": Behaviour(always(steps.html())),
    "nothing": Behaviour(always(steps.empty())),
    "cut_json": Behaviour(always(steps.bad_json())),
    "error_body": Behaviour(always(steps.error_body())),
    **{f"missing_{name}": Behaviour(healthy, form=drop_field(name)) for name in FIELDS},
    "wrong_types": Behaviour(healthy, form=_each(_other_types)),
    "unknown_fields": Behaviour(healthy, form=_add_fields({"x_scripted": {"a": [1, None]}, "provider": "x"})),
    "no_choices": Behaviour(healthy, form=Form(_empty_choices, lambda protocol, found: found[-1:])),
    "bom": Behaviour(healthy, form=_first(BOM)),
    "blank_lines": Behaviour(healthy, form=_first(b"\r\n \n\n")),
    "two_documents": Behaviour(healthy, form=_twice()),
    "trailing_text": Behaviour(healthy, form=_append_bytes(b"\nINFO: done\n")),
    "deep_json": Behaviour(healthy, form=_add_fields({"scripted": _nest_value(DEEP)})),
    "deep_json_10000": Behaviour(healthy, form=_replace_bytes(b'"MARK"', b"[" * 10_000 + b"]" * 10_000)),
    **{name: Behaviour(healthy, form=_replace_bytes(b'"MARK"', text)) for name, text in _numbers.items()},
    "bare_text": Behaviour(always(BARE)),
    "other_form": Behaviour(always(OTHER_FORM), protocols=("chat", "responses", "google")),
    "changing_form": Behaviour(_change_form),
    "login_page": Behaviour(always(LOGIN)),
    **{f"packed_{coding}": Behaviour(healthy, form=Form(encoding=coding)) for coding in ("gzip", "deflate", "br")},
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
