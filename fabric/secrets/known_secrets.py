"""Masks the secrets of this process in all incoming text.

That text is answers of models and tools, errors, output of children, and lines of the log. One RE2 pattern finds all
secrets in time that is linear in the text, each in the forms in which programs return texts: as it is, in base64 (RFC
4648, both alphabets, at any place of a longer text), percent-encoded (RFC 3986; of a form too), and as JSON and HTML
escape it. It does not find a secret in parts, one shorter than ``CHARS_MIN``, or one changed in another way.
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
"""Least length of a known secret: a shorter value may be a word of an answer."""
WORD_CHARS = 20
"""Length from which a part of a web address is no word; nor is one with a digit."""
VALUES_MAX = 2_000
"""Largest number of known values; of more, those that were learnt first."""
PATTERN_BYTES = 256 * 1024 * 1024
"""Memory that the pattern may take; a few hundred values take some ten MB."""
MASK = "[secret]"
_MASK = MASK.encode()


class KnownSecrets:
    """Known values by their source. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_source: dict[str, frozenset[str]] = {}
        self._pattern: Any = None

    def learn(self, source: str, values: Iterable[str]) -> None:
        """Mask these values from now on, in place of the source's earlier ones. Too short ones are skipped."""
        found = frozenset(value for value in values if len(value) >= CHARS_MIN)
        with self._lock:
            self._put(source, found)

    def add(self, source: str, values: Iterable[str]) -> None:
        """Mask these values too."""
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

    def mask_text(self, text: str) -> str:
        """Return the text with every known secret replaced by ``MASK``."""
        pattern = self._pattern
        if pattern is None or len(text) < CHARS_MIN:
            return text
        raw = text.encode("utf-8", "surrogatepass")
        if pattern.search(raw) is None:
            return text
        return pattern.sub(_MASK, raw).decode("utf-8", "surrogatepass")

    def mask_value(self, value: T) -> T:
        """Return a value of the engine, or JSON, with every text in it masked. Without secrets the value itself is
        returned.
        """
        found: T = value if self._pattern is None else self._mask_value(value)
        return found

    def _mask_value(self, value: Any) -> Any:
        if isinstance(value, str):
            # An enumeration's member means itself.
            return self.mask_text(value) if type(value) is str else value
        if isinstance(value, Mapping):
            pairs = [(self._mask_value(key), self._mask_value(item)) for key, item in value.items()]
            same = all(k is key and i is item for (k, i), (key, item) in zip(pairs, value.items(), strict=True))
            return value if same else dict(pairs)
        if isinstance(value, list | tuple):
            items = [self._mask_value(item) for item in value]
            same = all(one is item for one, item in zip(items, value, strict=True))
            return value if same else type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, msgspec.Struct):
            held = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in held.items() if (new := self._mask_value(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            told = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
            changed = {name: new for name, old in told.items() if (new := self._mask_value(old)) is not old}
            return dataclasses.replace(value, **changed) if changed else value
        return value


KNOWN = KnownSecrets()
"""Known secrets of this process."""


def list_variable_secrets(value: str) -> list[str]:
    """Return the secrets of a tool's variable: all of it and each of its words, as of ``Bearer TOKEN``."""
    return [value, *value.split()]


def list_webhook_secrets(address: str) -> Iterator[str]:
    """Yield the secrets of a webhook's address. They are the values of its query, and parts of its path that are no
    words.
    """
    parts = urlsplit(address)
    yield from (part for part in parts.path.split("/") if len(part) >= WORD_CHARS or any(map(str.isdigit, part)))
    yield from (value for _, value in parse_qsl(parts.query))


def list_passwords(address: str) -> Iterator[str]:
    """Yield the password in the address of a database or a broker, as written and as decoded."""
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
    """Yield the forms in which a value may come back."""
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
        # The neighbours in a longer text change the characters at its ends.
        inside = encoded[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
        yield inside
        yield inside.translate(bytes.maketrans(b"+/", b"-_"))


def _small(quoted: str) -> str:
    """Return the text with lower-case letters after its percent signs."""
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])
