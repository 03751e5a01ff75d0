"""Writes every event's outer form (S3's envelope), its bytes in the journal, and the chain over them.

A journal row is ``(seq, kind, version, header, payload, payload_hash, hash)``. ``header`` is JSON: the envelope's own
fields, and the fact without its defaults; spans and parties follow from the fact (``tracing``) and are not repeated.
``payload`` is the content's JSON, absent if there is none or it was erased; ``payload_hash`` stays.

A row has one event, or several of one instant. Its columns are those of the first; each further one is a line of the
header, ``KIND VERSION JSON``. It has the next seq, no content and no input of its own, and a kind of ``FOLLOWING``.

Upcasters bring events and inputs of older program versions to the current form. From 1.0.0 on an event's or input's
shape never changes under its version: old rows are read for good, and an older program must not drop a field that it
does not know. So a changed shape is a new version, and so is an added field with a default. Its row in ``UPCAST``
(``UPCAST_INPUT``) makes the old form into the new one. Its row in ``SINCE`` (``SINCE_INPUT``) has the ``flow.FORMAT``
that was raised for it. ``tests/fabric/core/events/test_upcasters.py`` checks the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, get_args

import msgspec

from fabric.core import events
from fabric.core.values.fingerprint import event_hash, hash_content
from fabric.core.values.frozen import value
from fabric.core.values.tracing import Trace, parties
from fabric.core.values.units import JSON

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


class Headed(Protocol):
    """The columns of a journal row that its events are read from."""

    @property
    def seq(self) -> int:
        """Return the seq of its first event."""
        ...

    @property
    def kind(self) -> str:
        """Return the kind of its first event."""
        ...

    @property
    def version(self) -> int:
        """Return the version of that kind."""
        ...

    @property
    def header(self) -> bytes:
        """Return its header."""
        ...


class Written(Protocol):
    """An event to be written, with its content's bytes."""

    @property
    def event(self) -> Event:
        """Return the event."""
        ...

    @property
    def content(self) -> bytes | None:
        """Return the content's JSON; None: it has none."""
        ...

    @property
    def hashed(self) -> bytes:
        """Return the content's SHA-256; empty: not computed."""
        ...


@value()
class JournalRow:
    """One journal row, ready to be written: bytes are encoded once and serve row, hash and socket."""

    seq: int
    kind: str
    version: int
    at: int
    header: bytes
    payload: bytes | None
    payload_hash: bytes
    hash: bytes

    @property
    def last_seq(self) -> int:
        """Return the seq of the row's last event."""
        return find_last_seq(self.seq, self.header)


class UnknownEvent(ValueError):
    """A journal row has a kind or version that this program does not know: a newer one wrote it. Upgrade, then
    replay.
    """


_FACTS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(events.Fact)}
KINDS: tuple[str, ...] = tuple(_FACTS)
"""Every event kind there is, in the order of the union."""


def fact_class(kind: str) -> type[Any]:
    """Return the class of an event kind; raises UnknownEvent."""
    try:
        return _FACTS[kind]
    except KeyError:
        raise UnknownEvent(
            f"event kind {kind!r} is not known to this version; upgrade before you replay this journal"
        ) from None


_encode = msgspec.json.Encoder().encode


def _reader(fact: type[Any]) -> msgspec.json.Decoder[Any]:
    """Read a header: ``e`` is the instant, the input's id, the content's reference and size; ``d`` is the fact."""
    fields = [("e", tuple[int, str, str, int]), ("d", fact)]
    return msgspec.json.Decoder(msgspec.defstruct("Header", fields))


_READERS = {kind: _reader(cls) for kind, cls in _FACTS.items()}


FOLLOWING = frozenset({"call_issued", "stage_entered", "stage_left"})
"""Kinds of events that may stand in the row of the event before them. No query looks for their seq or content."""
EVENTS_MAX = 16
"""Most events in one row. So a reader of one event finds its row within so many seqs."""


def find_last_seq(seq: int, header: bytes) -> int:
    """Return the seq of the last event in a row."""
    return seq + header.count(b"\n")


def group_events(events: Iterable[Written]) -> list[list[Written]]:
    """Return the events of each row, in order."""
    groups: list[list[Written]] = []
    for one in events:
        event = one.event
        follows = event.fact.kind in FOLLOWING and one.content is None and not event.input_id
        if follows and groups and len(groups[-1]) < EVENTS_MAX and event.at == groups[-1][0].event.at:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def to_rows(events: Iterable[Written], prev: bytes) -> list[JournalRow]:
    """Encode events and chain their rows to ``prev``, the hash of the row before them (32 bytes)."""
    rows: list[JournalRow] = []
    for first, *more in group_events(events):
        following = [one.event for one in more] if more else ()
        row = to_row(first.event, first.content, prev, first.hashed, following)
        prev = row.hash
        rows.append(row)
    return rows


def to_row(
    event: Event, content: bytes | None, prev: bytes, hashed: bytes = b"", more: Sequence[Event] = ()
) -> JournalRow:
    """Encode the events of one row and chain it to ``prev``, the hash of the row before it (32 bytes).

    ``hashed``: the content's SHA-256, if the caller has it. ``more``: the events that follow in this row.
    """
    fact = event.fact
    header = _header(event)
    if more:
        lines = [b"%b %d %b" % (one.fact.kind.encode(), one.fact.version, _header(one)) for one in more]
        header = b"\n".join((header, *lines))
    payload_hash = NO_PAYLOAD if content is None else hashed or hash_content(content)
    hashed = event_hash(prev, event.seq, fact.kind, fact.version, header, payload_hash)
    return JournalRow(event.seq, fact.kind, fact.version, event.at, header, content, payload_hash, hashed)


def _header(event: Event) -> bytes:
    return _encode({"e": (event.at, event.input_id, event.content_ref, event.content_bytes), "d": event.fact})


def split_row(seq: int, kind: str, version: int, header: bytes) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield ``(seq, kind, version, header)`` of each event in a row. ``from_row`` refuses that of a malformed line."""
    if b"\n" not in header:
        yield seq, kind, version, header
        return
    first, *lines = header.split(b"\n")
    yield seq, kind, version, first
    for number, line in enumerate(lines, start=seq + 1):
        name, _, rest = line.partition(b" ")
        digits, _, own = rest.partition(b" ")
        yield number, name.decode(errors="replace"), int(digits) if digits.isdigit() else 0, own


def list_events(rows: Iterable[Headed]) -> list[Event]:
    """Decode the events of rows, in order. Raises as ``from_row`` does."""
    return [event for row in rows for event in read_row(row.seq, row.kind, row.version, row.header)]


def split_rows(rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
    """Yield each event of the rows as a row of its own, with the hash of its row."""
    for row in rows:
        if b"\n" not in row.header:
            yield row
            continue
        for seq, kind, version, header in split_row(row.seq, row.kind, row.version, row.header):
            kept = (row.payload, row.payload_hash) if seq == row.seq else (None, NO_PAYLOAD)
            yield JournalRow(seq, kind, version, row.at, header, *kept, row.hash)


def list_kinds(kind: str, header: bytes) -> list[str]:
    """Return the kinds of the events in a row, in order."""
    return [kind] if b"\n" not in header else [name for _, name, _, _ in split_row(0, kind, 0, header)]


def read_row(seq: int, kind: str, version: int, header: bytes) -> list[Event]:
    """Decode the events of a row, of older versions too; the payload is not needed. Raises as ``from_row`` does."""
    return [from_row(*one) for one in split_row(seq, kind, version, header)]


def from_row(seq: int, kind: str, version: int, header: bytes) -> Event:
    """Decode the first event of a row, of an older version too; the payload is not needed. Raises UnknownEvent for an
    event of a newer program, or ValueError for a malformed header.
    """
    known = fact_class(kind).version
    header = header.partition(b"\n")[0]
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


def find_format(kinds: Iterable[str]) -> int:
    """Return the lowest format that reads events of those kinds as this program writes them."""
    newer = SINCE.keys() & kinds
    return max(map(SINCE.__getitem__, newer)) if newer else 1


def fact_json(event: Event) -> dict[str, Any]:
    """Return the fact as JSON, defaults included, ``kind`` and ``version`` first."""
    return {"kind": event.fact.kind, "version": event.fact.version, **_plain_value(event.fact)}


def _plain_value(given: Any) -> Any:
    if isinstance(given, msgspec.Struct):
        return {name: _plain_value(getattr(given, name)) for name in given.__struct_fields__}
    if isinstance(given, tuple | list):
        return [_plain_value(item) for item in given]
    return given.value if isinstance(given, Enum) else given


def envelope(trace: Trace, event: Event) -> dict[str, Any]:
    """Return S3's envelope for exports and the API."""

    def party(name: str) -> dict[str, str]:
        layer, _, agent = name.partition("/")
        return {"layer": layer, "agent_id": agent}

    span, parent = trace.place(event.fact)
    source, destination = parties(event.fact)
    return {
        "id": f"{trace.run_id}.{event.seq}",
        "trace_id": trace.trace_id,
        "span_id": span,
        "parent_span_id": parent,
        "timestamp": event.at,
        "source": party(source),
        "destination": party(destination),
        "payload": {"seq": event.seq, "content_ref": event.content_ref, **fact_json(event)},
    }


def verify_chain(rows: list[tuple[int, str, int, bytes, bytes, bytes]], prev: bytes) -> int | None:
    """Return the seq of the first row ``(seq, kind, version, header, payload_hash, hash)`` that breaks the chain, or
    None.
    """
    for seq, kind, version, header, payload_hash, hashed in rows:
        prev = event_hash(prev, seq, kind, version, header, payload_hash)
        if prev != hashed:
            return seq
    return None


Upcast = Callable[[JSON], JSON]
"""Makes the form of the next version. It may change its argument."""


UPCAST: Mapping[tuple[str, int], Upcast] = {}
"""Upcasters by event kind and version: each makes a header (``e`` the envelope, ``d`` the fact) of the next version.
Total by test.
"""
UPCAST_INPUT: Mapping[tuple[str, int], Upcast] = {}
"""Upcasters by input kind and version: each makes an inbox row's body of the next version. Total by test."""
SINCE: Mapping[str, int] = {}
"""The first format that reads an event kind in its present version; 1 for kinds not listed."""
SINCE_INPUT: Mapping[str, int] = {}
"""The first format that reads an input kind in its present version; 1 for kinds not listed."""


def upcast(given: JSON, kind: str, version: int, known: int, table: Mapping[tuple[str, int], Upcast] = UPCAST) -> JSON:
    """Return ``given`` of version ``version`` in the form of version ``known``, one upcaster after another. Raises
    KeyError for a missing step.
    """
    for step in range(version, known):
        given = table[kind, step](given)
    return given
