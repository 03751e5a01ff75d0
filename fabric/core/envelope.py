"""The outer form of every event (S3's envelope), its bytes in the journal, and the chain over them.

A journal row is ``(seq, kind, version, header, payload, payload_hash, hash)``. ``header`` is JSON: what the envelope adds, and the fact without its
defaults; spans and parties follow from the fact (``tracing``) and are not repeated in it. ``payload`` is the content's JSON, absent when there is none or when it was erased; ``payload_hash`` stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from hashlib import sha256
from typing import Any, get_args

import msgspec

from fabric.core import events
from fabric.core.fingerprint import event_hash
from fabric.core.frozen import value
from fabric.core.tracing import parties, spans
from fabric.core.upcasters import SINCE, upcast

NO_PAYLOAD = b""
"""Payload hash of an event that never had a content."""


@value()
class Event:
    """One recorded fact in its envelope."""

    seq: int
    """Position in the run's journal, from 1, dense."""
    at: int
    """Microseconds since the epoch."""
    fact: events.Fact
    input_id: str = ""
    """The input that caused it, where it came from outside."""
    content_ref: str = ""
    content_bytes: int = 0


@value()
class Row:
    """One journal row, ready to be written: bytes are encoded once and serve row, hash and socket."""

    seq: int
    kind: str
    version: int
    at: int
    header: bytes
    payload: bytes | None
    payload_hash: bytes
    hash: bytes


class UnknownEvent(ValueError):
    """A journal row of a kind or version that this program does not know: it was written by a newer one. Upgrade, then replay."""


_FACTS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(events.Fact)}
KINDS: tuple[str, ...] = tuple(_FACTS)
"""Every event kind there is, in the order of the union."""


def fact_class(kind: str) -> type[Any]:
    """The class of an event kind; raises UnknownEvent."""
    try:
        return _FACTS[kind]
    except KeyError:
        raise UnknownEvent(
            f"event kind {kind!r} is not known to this version; upgrade before you replay this journal"
        ) from None


_encode = msgspec.json.Encoder().encode


def _reader(fact: type[Any]) -> msgspec.json.Decoder[Any]:
    """Reads a header: ``e`` is the instant, the input's id, the content's reference and size; ``d`` is the fact."""
    fields = [("e", tuple[int, str, str, int]), ("d", fact)]
    return msgspec.json.Decoder(msgspec.defstruct("Header", fields))


_READERS = {kind: _reader(cls) for kind, cls in _FACTS.items()}


def to_row(event: Event, content: bytes | None, prev: bytes) -> Row:
    """Encodes an event and chains it to ``prev`` (the hash of the event before it, 32 bytes)."""
    fact = event.fact
    header = _encode({"e": (event.at, event.input_id, event.content_ref, event.content_bytes), "d": fact})
    payload_hash = NO_PAYLOAD if content is None else sha256(content).digest()
    hashed = event_hash(prev, event.seq, fact.kind, fact.version, header, payload_hash)
    return Row(event.seq, fact.kind, fact.version, event.at, header, content, payload_hash, hashed)


def from_row(seq: int, kind: str, version: int, header: bytes) -> Event:
    """Decodes a header, of an older version too; the payload is not needed.

    Raises UnknownEvent for what a newer program wrote, or ValueError for a header that is not ours.
    """
    known = fact_class(kind).version
    try:
        read = _READERS[kind].decode(header) if version == known else _older(seq, kind, version, known, header)
    except msgspec.DecodeError as error:
        raise ValueError(f"the header of event {seq} ({kind}) cannot be read: {error}") from error
    at, input_id, ref, size = read.e
    return Event(seq, at, read.d, input_id, ref, size)


def _older(seq: int, kind: str, version: int, known: int, header: bytes) -> Any:
    if not 1 <= version < known:
        raise UnknownEvent(f"event {seq} is {kind} version {version}; this program knows version {known}: upgrade it")
    return msgspec.convert(upcast(msgspec.json.decode(header), kind, version, known), _READERS[kind].type)


def format_of(kinds: Iterable[str]) -> int:
    """The lowest format that reads events of those kinds as this program writes them."""
    return max((SINCE.get(kind, 1) for kind in kinds), default=1)


def fact_json(event: Event) -> dict[str, Any]:
    """The fact as JSON, defaults included, ``kind`` and ``version`` first."""
    return {"kind": event.fact.kind, "version": event.fact.version, **_shown(event.fact)}


def _shown(given: Any) -> Any:
    if isinstance(given, msgspec.Struct):
        return {name: _shown(getattr(given, name)) for name in given.__struct_fields__}
    if isinstance(given, tuple | list):
        return [_shown(item) for item in given]
    return given.value if isinstance(given, Enum) else given


def envelope(run_id: str, trace_id: str, event: Event) -> dict[str, Any]:
    """S3's envelope, as exports and the API give it."""

    def party(name: str) -> dict[str, str]:
        layer, _, agent = name.partition("/")
        return {"layer": layer, "agent_id": agent}

    span, parent = spans(trace_id, event.fact)
    source, destination = parties(event.fact)
    return {
        "id": f"{run_id}.{event.seq}",
        "trace_id": trace_id,
        "span_id": span,
        "parent_span_id": parent,
        "timestamp": event.at,
        "source": party(source),
        "destination": party(destination),
        "payload": {"seq": event.seq, "content_ref": event.content_ref, **fact_json(event)},
    }


def verify_chain(rows: list[tuple[int, str, int, bytes, bytes, bytes]], prev: bytes) -> int | None:
    """The seq of the first row ``(seq, kind, version, header, payload_hash, hash)`` that breaks the chain, or None."""
    for seq, kind, version, header, payload_hash, hashed in rows:
        prev = event_hash(prev, seq, kind, version, header, payload_hash)
        if prev != hashed:
            return seq
    return None
