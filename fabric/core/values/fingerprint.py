"""Computes canonical JSON, content references, argument fingerprints, masked results and the event chain.

Arguments are compared canonically: sorted keys, NFC, ``1.0 == 1``, absent is not null; digits are never masked in them.
Clocks, hex ids, durations, process ids and texts that repeat an argument are masked in *results* only
(docs/specification/protections.md). So a tool that repeats its arguments in each answer brings nothing new. Numbers,
dates and ids of the arguments stay in a result: a scan over them stays a scan.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode
"""JSON in one fixed form (sorted keys, no blanks, UTF-8): equal values give equal bytes. NaN and infinity become
null.
"""
decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
"""Decodes the bytes of ``encode``."""
_LENGTH = struct.Struct(">I").pack
_LENGTHS = tuple(_LENGTH(size) for size in range(256))
"""Prefixes of short parts."""
ZERO_HASH = b"\0" * 32
"""Hash before the first event of a chain."""


def content_ref(raw: bytes) -> str:
    """Return the address of a content: the first 128 bits of its SHA-256, in hex."""
    return address_of(hash_content(raw))


def hash_content(raw: bytes) -> bytes:
    """Return the SHA-256 of a content, 32 bytes."""
    return sha256(raw).digest()


def address_of(hashed: bytes) -> str:
    """Return the address of the content with that SHA-256."""
    return hashed[:16].hex()


_AS_IT_IS = frozenset({int, bool, type(None)})
"""Types of values that have one form alone."""


def canonical(value: Any) -> Any:
    """Return ``value`` with NFC strings and keys and integral floats as integers, so that equal arguments compare
    equal.
    """
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
    """Return 128 bits in hex over the canonical form of a JSON value."""
    return content_ref(encode(canonical(value)))


def digest(*parts: str | int) -> str:
    """Return 128 bits in hex over parts, each length-prefixed so that ``("ab", "c")`` and ``("a", "bc")`` differ."""
    pieces: list[bytes] = []
    for part in parts:
        raw = str(part).encode("utf-8", "surrogatepass")
        size = len(raw)
        pieces += (_LENGTHS[size] if size < 256 else _LENGTH(size), raw)
    return sha256(b"".join(pieces)).hexdigest()[:32]


def event_hash(prev: bytes, seq: int, kind: str, version: int, header: bytes, payload_hash: bytes) -> bytes:
    """Return the hash of the chain, 32 bytes (docs/specification/durability.md).

    It is ``H(prev | seq | kind | version | header bytes | payload hash)``.
    The payload enters by its hash alone, so that erasing a payload keeps the chain whole.
    """
    name = kind.encode()
    numbered = b"%b%d|%d|%b|%d|%d|%b%b" % (prev, seq, len(name), name, version, len(header), header, payload_hash)
    return sha256(numbered).digest()


_DIGIT = re.compile(r"\d")
"""Every mask needs one."""
_MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ns|us|µs|ms|s|sec|secs|seconds|min|minutes|h|hours)\b"), "<duration>"),
    (re.compile(r"\b(pid|process)([ =:#]+)\d+\b", re.IGNORECASE), r"\1\2<pid>"),
)


def mask(text: str) -> str:
    """Return ``text`` with clocks, hex ids, durations and process ids replaced, so that two results of one poll are
    equal.
    """
    if _DIGIT.search(text) is None:
        return text
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text


def masked_fingerprint(value: Any, args: Any = None) -> str:
    """Return 128 bits in hex over a result after masking its texts. ``args``: those of its call, which do not count
    where the result repeats them.
    """
    given = canonical(value)
    return content_ref(encode(_mask_value(given if args is None else replace_echoes(given, canonical(args)))))


def mask_texts(value: Any) -> Any:
    """Return ``value`` with its texts masked, for ``masked_fingerprint``; a dict becomes a list of its pairs."""
    return _mask_value(canonical(value))


def _mask_value(value: Any) -> Any:
    # Text by text, not over the JSON: there, an escaped line break would hide a clock at the start of a line.
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return [[mask(key), _mask_value(item)] for key, item in sorted(value.items())]
    if isinstance(value, list):
        return [_mask_value(item) for item in value]
    return value


ECHO = "<argument>"
"""Replaces a repeated argument in a result."""
CONTAINED_CHARS_MIN = 8
"""A shorter argument is found in longer texts by chance."""

_ITEM = re.compile(r"[\w.:#@/-]+")


def names_an_item(given: JSON) -> bool:
    """Return True for an argument that is a number, a date or an id and nothing else. A scan goes through such
    arguments.
    """
    if isinstance(given, str):
        return any(char.isdigit() for char in given) and _ITEM.fullmatch(given) is not None
    return isinstance(given, int | float) and not isinstance(given, bool)


def replace_echoes(result: JSON, args: JSON) -> JSON:
    """Return ``result`` with texts of ``args`` replaced, both in canonical form; keys stay.

    A text without a digit is replaced where it is a whole text of the result, and from 8 characters on within a
    longer one. A text with a digit is replaced under its own argument's name alone, and only where it is more than a
    number, a date or an id.
    """
    pairs = {(key, text) for key, text in _texts("", args) if text and not names_an_item(text)}
    plain = {text for _, text in pairs if not any(char.isdigit() for char in text)}
    if not pairs:
        return result
    within = tuple(
        sorted((text for text in plain if len(text) >= CONTAINED_CHARS_MIN), key=lambda text: (-len(text), text))
    )
    return _replace_echoes(_Echoes(frozenset(pairs), frozenset(plain), within), "", result)


@value()
class _Echoes:
    """Texts that may be echoes in a result."""

    pairs: frozenset[tuple[str, str]]
    """Texts that count under the name of their argument."""
    whole: frozenset[str]
    within: tuple[str, ...]
    """Texts that count within a longer one, the longest first."""


def _texts(key: str, given: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(given, str):
        yield key, given
    elif isinstance(given, dict):
        for name, item in given.items():
            yield from _texts(name, item)
    elif isinstance(given, list):
        for item in given:
            yield from _texts(key, item)


def _replace_echoes(echoes: _Echoes, key: str, given: JSON) -> JSON:
    if isinstance(given, str):
        if given in echoes.whole or (key, given) in echoes.pairs:
            return ECHO
        for text in echoes.within:
            if text in given:
                given = given.replace(text, ECHO)
        return given
    if isinstance(given, dict):
        return {name: _replace_echoes(echoes, name, item) for name, item in given.items()}
    if isinstance(given, list):
        return [_replace_echoes(echoes, key, item) for item in given]
    return given
