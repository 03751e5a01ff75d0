"""Canonical JSON, content references, argument fingerprints, masked results and the event chain.

Arguments are compared canonically: sorted keys, NFC, ``1.0 == 1``, absent is not null; digits are never masked in them. Clocks, hex ids,
durations, process ids and what repeats an argument are masked in *results* only (semantics.md 4 "What the detectors see").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from fabric.core.echoes import without_echoes

encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode
"""JSON in one fixed form (sorted keys, no blanks, UTF-8): equal values give equal bytes. NaN and infinity become null."""
decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
"""What ``encode`` wrote."""
ZERO_HASH = b"\0" * 32
"""What the first event of a chain follows."""


def content_ref(raw: bytes) -> str:
    """The address of a content: the first 128 bits of its SHA-256, in hex."""
    return sha256(raw).hexdigest()[:32]


_AS_IT_IS = frozenset({int, bool, type(None)})
"""Types of values that have one form alone."""


def canonical(value: Any) -> Any:
    """``value`` with NFC strings and keys and integral floats as integers, so that equal arguments compare equal."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, dict):
        return {
            key if type(key) is str and key.isascii() else canonical(str(key)): (
                item if type(item) in _AS_IT_IS else canonical(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in _AS_IT_IS else canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def fingerprint(value: Any) -> str:
    """128 bits in hex over the canonical form of a JSON value."""
    return content_ref(encode(canonical(value)))


def digest(*parts: str | int) -> str:
    """128 bits in hex over parts, each length-prefixed so that ``("ab", "c")`` and ``("a", "bc")`` differ."""
    joined = b""
    for part in parts:
        raw = str(part).encode("utf-8", "surrogatepass")
        joined += len(raw).to_bytes(4, "big") + raw
    return sha256(joined).hexdigest()[:32]


def event_hash(prev: bytes, seq: int, kind: str, version: int, header: bytes, payload_hash: bytes) -> bytes:
    """The chain: ``H(prev | seq | kind | version | header bytes | payload hash)`` (design.md 5), 32 bytes.

    The payload enters by its hash alone, so that erasing a payload keeps the chain whole.
    """
    name = kind.encode()
    numbered = b"%b%d|%d|%b|%d|%d|%b%b" % (prev, seq, len(name), name, version, len(header), header, payload_hash)
    return sha256(numbered).digest()


_MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ns|us|µs|ms|s|sec|secs|seconds|min|minutes|h|hours)\b"), "<duration>"),
    (re.compile(r"\b(pid|process)([ =:#]+)\d+\b", re.IGNORECASE), r"\1\2<pid>"),
)


def mask(text: str) -> str:
    """``text`` with clocks, hex ids, durations and process ids replaced: what makes two results of one poll equal."""
    if not any(char.isdigit() for char in text):
        return text
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text


def masked_fingerprint(value: Any, args: Any = None) -> str:
    """128 bits in hex over a result after masking its texts. ``args``: those of its call, which do not count where the result repeats them."""
    given = canonical(value)
    return content_ref(encode(_masked(given if args is None else without_echoes(given, canonical(args)))))


def masked(value: Any) -> Any:
    """``value`` with its texts masked, as ``masked_fingerprint`` compares it; a dict is a list of its pairs."""
    return _masked(canonical(value))


def _masked(value: Any) -> Any:
    # Text by text, not over the JSON: there, an escaped line break would hide that a clock begins a line.
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return [[mask(key), _masked(item)] for key, item in sorted(value.items())]
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value
