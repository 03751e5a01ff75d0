"""A browser, a proxy or an attacker may send these, by what is wrong with each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tests import sets

T = TypeVar("T")
U = TypeVar("U")
EACH = 12
"""In a run that is to be quick, so many of the second axis share the first one's things among them."""


def crossed(first: Iterable[T], second: Iterable[U], each: int = EACH) -> Iterator[tuple[T, U]]:
    """Each of the first with each of the second in the nightly set; else each with every twelfth (``each``), one further each time: all of both, but not all pairs."""
    others = list(second)
    every = 1 if sets.is_nightly() else min(each, len(others))
    return ((one, other) for m, one in enumerate(first) for n, other in enumerate(others) if (m + n) % every == 0)


NASTY = {
    "NUL": "\0",
    "NUL within": "a\0b",
    "surrogate": "\ud800",
    "long": "x" * 20_000,
    "number": "9" * 400,
    "negative": "-1",
    "float": "1e309",
    "brackets": "[[[[{{{{",
    "deep": "[" * 5_000,
    "markup": "<script>alert(1)</script>",
    "template": "{{ 7*7 }}{% debug %}",
    "quotes": "' OR 1=1 --\"",
    "path": "../../../etc/passwd",
    "direction": "\u202egnp.exe",
    "escape": "\x1b[31mred\x07",
    "not a number": "NaN",
    "emoji": "👩‍👩‍👧‍👦" * 50,
}
"""Texts that are put into every parameter and every field."""

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "a number": 7,
    "a negative number": -1,
    "the largest number": 2**63 - 1,
    "a fraction": 1.5,
    "nothing": "",
    "a space": " ",
    "an empty list": [],
    "an empty object": {},
    "a list of lists": [[[[]]]],
    "an object within": {"a": {"b": []}},
    "a list of numbers": [1, 2],
    "a large object": {str(number): number for number in range(500)},
    **{f"text: {kind}": text for kind, text in NASTY.items() if kind != "surrogate"},
}
"""JSON values that are put into every field of every body."""

NO_FORMS = {
    "text/plain": b'{"text": "x"}',
    "application/json": b'{"text": "x"}',
    "application/json; deep": b"[" * 200_000,
    "multipart/form-data": b"no boundary",
    "multipart/form-data; boundary=x": b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\ncut off',
    "multipart/form-data; boundary=" + "y" * 300: b"--y",
    "application/x-www-form-urlencoded; charset=nosuch": b"text=x",
    "application/x-www-form-urlencoded": b"text=%ff%fe&" + b"a=1&" * 5_000,
    "application/octet-stream": bytes(range(256)) * 100,
    "": b"\0\0\0",
}
"""Bodies that are no form, by what they are announced as."""

ELSEWHERE: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "https://127.0.0.1"},
    {"Referer": "http://evil.example/page"},
    {"X-CSRFToken": "x" * 32},
    {"X-CSRFToken": "\xff\xfe"},
)
"""Headers of a change that comes from another site, or without the session's token."""


def escaped(text: str) -> str:
    """A text as it stands in an address or a form's body, bytes that are no text among it."""
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))
