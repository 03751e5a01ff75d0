"""Secrets that this process knows, taken out of whatever comes in: answers of models and tools, errors, what children print, lines of the log.

One RE2 pattern finds all of them in time that is linear in the text, each in the forms in which programs hand texts back: as it is, in base64 (RFC 4648, both
alphabets, at any place of a longer text), percent-encoded (RFC 3986; of a form too), and as JSON and HTML escape it. Not found is one that came in parts, shorter
than ``CHARS_MIN``, or changed in another way.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec
import re2

T = TypeVar("T")
CHARS_MIN = 12
"""A shorter value may be a word that an answer means."""
WORD_CHARS = 20
"""A part of a web address with so many characters is no word, nor is one with a digit."""
VALUES_MAX = 2_000
"""Values that are looked for; of more, those that were learnt first."""
PATTERN_BYTES = 256 * 1024 * 1024
"""Memory that the pattern may take; a few hundred values take some ten MB."""
MASK = "[secret]"
_MASK = MASK.encode()


class KnownSecrets:
    """Known values by where they are from. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_source: dict[str, frozenset[str]] = {}
        self._pattern: Any = None

    def learn(self, source: str, values: Iterable[str]) -> None:
        """Looks for these from now on, in place of those that the source had before. Too short ones are passed over."""
        found = frozenset(value for value in values if len(value) >= CHARS_MIN)
        with self._lock:
            self._put(source, found)

    def add(self, source: str, values: Iterable[str]) -> None:
        """Looks for these too."""
        found = frozenset(value for value in values if len(value) >= CHARS_MIN)
        if found <= self._by_source.get(source, frozenset()):
            return
        with self._lock:
            self._put(source, self._by_source.get(source, frozenset()) | found)

    def _put(self, source: str, found: frozenset[str]) -> None:
        if self._by_source.get(source, frozenset()) != found:
            by_source = {**self._by_source, source: found}
            known = list(dict.fromkeys(value for one in by_source.values() for value in sorted(one)))
            self._pattern = _pattern(known[:VALUES_MAX])
            self._by_source = by_source

    def masked(self, text: str) -> str:
        """The text with every known secret replaced by ``MASK``."""
        pattern = self._pattern
        if pattern is None or len(text) < CHARS_MIN:
            return text
        raw = text.encode("utf-8", "surrogatepass")
        if pattern.search(raw) is None:
            return text
        return pattern.sub(_MASK, raw).decode("utf-8", "surrogatepass")

    def hidden(self, value: T) -> T:
        """A value of the engine, or JSON, with every text in it masked; itself where there is none to mask."""
        found: T = value if self._pattern is None else self._hidden(value)
        return found

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str):
            # An enumeration's member means itself.
            return self.masked(value) if type(value) is str else value
        if isinstance(value, Mapping):
            pairs = [(self._hidden(key), self._hidden(item)) for key, item in value.items()]
            same = all(k is key and i is item for (k, i), (key, item) in zip(pairs, value.items(), strict=True))
            return value if same else dict(pairs)
        if isinstance(value, list | tuple):
            items = [self._hidden(item) for item in value]
            same = all(one is item for one, item in zip(items, value, strict=True))
            return value if same else type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, msgspec.Struct):
            held = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in held.items() if (new := self._hidden(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            told = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
            changed = {name: new for name, old in told.items() if (new := self._hidden(old)) is not old}
            return dataclasses.replace(value, **changed) if changed else value
        return value


KNOWN = KnownSecrets()
"""Those of this process."""


def of_variable(value: str) -> list[str]:
    """What is secret of a tool's variable: all of it and each of its words, as of ``Bearer TOKEN``."""
    return [value, *value.split()]


def of_webhook(address: str) -> Iterator[str]:
    """What is secret of a web address to which anybody may post who knows it: the values of its query, and parts of its path that are no words."""
    parts = urlsplit(address)
    yield from (part for part in parts.path.split("/") if len(part) >= WORD_CHARS or any(map(str.isdigit, part)))
    yield from (value for _, value in parse_qsl(parts.query))


def password_of(address: str) -> Iterator[str]:
    """The password in the address of a database or a broker, as it is written and as it is meant."""
    try:
        password = urlsplit(address).password or ""
    except ValueError:
        password = ""
    yield from (password, unquote(password))


def _pattern(values: list[str]) -> Any:
    if not values:
        return None
    options = re2.Options()
    options.max_mem, options.encoding, options.longest_match, options.log_errors = (
        PATTERN_BYTES,
        re2.Options.Encoding.LATIN1,
        True,
        False,
    )
    forms = sorted({form for value in values for form in _forms(value)})
    return re2.compile(b"|".join(map(re2.escape, forms)), options)


def _forms(value: str) -> Iterator[bytes]:
    """The ways in which a value may come back."""
    raw = value.encode("utf-8", "surrogatepass")
    yield raw
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted.encode()
        yield _small(quoted).encode()
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    yield json.dumps(value)[1:-1].replace("/", "\\/").encode()
    yield html.escape(value).encode("utf-8", "surrogatepass")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw)
        # What stands before and after it in a longer text changes the characters at its ends.
        inside = encoded[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
        yield inside
        yield inside.translate(bytes.maketrans(b"+/", b"-_"))


def _small(quoted: str) -> str:
    """The same with its percent signs followed by small letters."""
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])
