"""Reads the single events of a run. A row of its journal may have several of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet, Sum

from fabric.core.events.envelope import EVENTS_MAX, FOLLOWING, NO_PAYLOAD, split_row
from fabric.models import Event

PAGE = 500
"""Rows that are read at once."""
LAST_SEQ = 2**31 - 1
ROW = ("seq", "kind", "version", "at", "header", "payload_hash", "hash", "more")
"""Columns of a row for ``split_stored``; the payload may follow."""


class StoredEvent(NamedTuple):
    """One event as it is stored. ``at``: microseconds since the epoch, UTC."""

    seq: int
    kind: str
    version: int
    at: int
    header: bytes
    """Its own line of the row's header."""
    payload_hash: bytes
    hash: bytes
    """Chain hash of its row."""
    payload: bytes | None = None
    """Its content, if contents were read, and it has one that is kept."""


def read_events(
    rows: QuerySet[Event],
    *,
    after: int = 0,
    upto: int = LAST_SEQ,
    kinds: Collection[str] = (),
    without: Collection[str] = (),
    newest: bool = False,
    contents: bool = False,
    page: int = PAGE,
) -> Iterator[StoredEvent]:
    """Yield the events of one run with ``after < seq <= upto``, in order, or the ``newest`` first.

    ``rows``: rows of that run alone. ``kinds``: these alone; none named: all. ``without``: all but these.
    ``contents``: with their payloads. ``page``: rows in one query.
    """
    wanted = rows.filter(seq__lte=upto).order_by("-seq" if newest else "seq")
    if after > 0:  # The first condition is the index's, the second leaves out the rows that end before.
        wanted = wanted.filter(seq__gt=after + 1 - EVENTS_MAX, seq__gte=after + 1 - F("more"))
    if kinds:
        wanted = wanted.filter(match_kinds(kinds))
    if without:
        wanted = wanted.exclude(kind__in=sorted(without), more=0)
    found = wanted.values_list(*ROW, *(("payload",) if contents else ()))
    read = list(found[:page])
    while read:
        for row in read:
            for event in split_stored(row, newest=newest):
                if after < event.seq <= upto and (not kinds or event.kind in kinds) and event.kind not in without:
                    yield event
        seq = read[-1][0]
        beyond = Q(seq__lt=seq) if newest else Q(seq__gt=seq)
        read = list(found.filter(beyond)[:page]) if len(read) == page else []


def split_stored(row: tuple[Any, ...], *, newest: bool = False) -> Iterable[StoredEvent]:
    """Return the events of a row, given its columns ``ROW``.

    A damaged row has its first event alone: its header has another number of lines than its column ``more`` says.
    """
    seq, kind, version, at, header, payload_hash, hashed, further, *payload = row
    raw = bytes(header)
    kept = bytes(payload[0]) if payload and payload[0] is not None else None
    first = StoredEvent(seq, kind, version, at, raw, bytes(payload_hash), bytes(hashed), kept)
    if not further or raw.count(b"\n") != further:
        return (first,)
    (_, _, _, own), *more = split_row(seq, kind, version, raw)
    if not all(name.isidentifier() and v for _, name, v, _ in more):  # Damaged packed bytes may have line breaks.
        return (first,)
    found = [first._replace(header=own)]
    found += [StoredEvent(n, name, v, at, line, NO_PAYLOAD, first.hash) for n, name, v, line in more]
    return reversed(found) if newest else found


def match_kinds(kinds: Collection[str]) -> Q:
    """Return the condition for rows that may have an event of those kinds."""
    named = Q(kind__in=sorted(kinds))
    return named if FOLLOWING.isdisjoint(kinds) else named | Q(more__gt=0)


def count_events(rows: QuerySet[Event]) -> int:
    """Return the number of events in those rows."""
    counted: int = rows.order_by().aggregate(events=Sum(F("more") + 1))["events"] or 0
    return counted
