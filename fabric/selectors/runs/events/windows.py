"""Read a run's events as its page lists them: by density and filters, in windows, with gaps and waits marked.

Kinds and positions are asked of the database. What only the header knows (stage, agent, a failure, words of the
summary) is looked for in at most ``SCAN_MAX`` events a read, newest first; a window that stopped there says so and
where to go on. Contents are never read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal

from django.db.models import F, Sum
from django.db.models.functions import Greatest, Least

from fabric.core.events.envelope import EVENTS_MAX, from_row
from fabric.core.people.actor import Actor
from fabric.core.state.run import step_id
from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON
from fabric.models import Event, Review, Run
from fabric.selectors.contents import fact_shown, header_for, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.display import (
    DETAILS,
    FAILING,
    choose_label,
    find_stage,
    find_step,
    is_failure,
    write_sentence,
)
from fabric.selectors.stored_events import LAST_SEQ, StoredEvent, read_events

Density = Literal["compact", "full", "raw"]

WINDOW = 200
"""Rows in one window."""
SCAN_MAX = 20_000
"""Events that one read looks at, at most."""
CHUNK = 500
FOLD_US = 60_000_000
"""From a minute on, time in which there was nothing but a person to wait for is folded."""
TIE_US = 1_000_000
"""Largest distance between the instants of a review and of the events around it."""
GAPS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that a list shows. Its defaults: all of them."""

    density: Density = "full"
    failed: bool = False
    stage: str = ""
    agent: str = ""
    kind: str = ""
    text: str = ""

    @property
    def scans(self) -> bool:
        """True: headers must be read to apply the filter."""
        return bool(self.failed or self.stage or self.agent or self.text)

    @property
    def narrowed(self) -> bool:
        """True: something more than the density leaves events out."""
        return self.scans or bool(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event without its content. Instants are microseconds since the epoch, UTC."""

    seq: int
    at: int
    kind: str
    version: int
    fact: dict[str, JSON]
    """Empty where the header could not be read: ``summary`` says why."""
    summary: str
    stage: str
    agent: str
    failed: bool
    header: bytes = field(repr=False)
    """As it is journaled."""
    payload_hash: bytes = field(repr=False)
    hash: bytes = field(repr=False)

    @property
    def known(self) -> bool:
        """True: this program can read it."""
        return bool(self.fact)


@dataclass(frozen=True, slots=True)
class Gap:
    """Seqs that should be there and are not."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class EventWait:
    """Time before an event in which there was nothing but a person to wait for."""

    before: int
    """The seq of the row that it stands above."""
    us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some events of a run in order, and where its neighbours begin."""

    rows: tuple[EventRow, ...]
    last_seq: int
    """The end of the journal when this was read: what comes later follows from here."""
    earlier: int | None
    """Value of ``before`` for the next page towards the beginning; None: nothing earlier matches."""
    later: int | None
    """Value of ``after`` for the next page towards the end; None: this is the end."""
    stopped: bool = False
    """True: ``SCAN_MAX`` events were looked at, and more would have to be."""
    gaps: tuple[Gap, ...] = ()
    waits: tuple[EventWait, ...] = ()


def events_window(
    actor: Actor,
    run_id: str,
    wanted: EventFilter,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = WINDOW,
) -> Window:
    """The last events before a seq, or the first after one; neither: the newest. Refused not_found."""
    run_id, last_seq, reads = _find_run(actor, run_id)
    forward = after is not None
    start = after if after is not None else min(before or last_seq + 1, last_seq + 1)
    look = _Look(run_id, wanted, step_agents(run_id, last_seq), reads=reads)
    found = look.scan(start, forward=forward, limit=limit + 1)
    more = len(found) > limit or look.stopped
    rows = tuple(found[:limit] if forward else reversed(found[:limit]))
    edge = look.at if len(found) <= limit else rows[-1 if forward else 0].seq
    low, high = (start + 1, edge if more else last_seq) if forward else (edge if more else 1, start - 1)
    earlier = (low if more else None) if not forward else (low if low > 1 else None)
    later = (edge if more else None) if forward else (high if high < last_seq else None)
    return Window(
        rows=rows,
        last_seq=last_seq,
        earlier=earlier,
        later=later,
        stopped=look.stopped and len(found) <= limit,
        gaps=_gaps(run_id, low, high),
        waits=() if wanted.narrowed else _waits(run_id, rows),
    )


def events_after(actor: Actor, run_id: str, *, after: int, limit: int) -> list[EventRow]:
    """The first events after a seq, whatever they are. Refused not_found."""
    run_id, last_seq, reads = _find_run(actor, run_id)
    agents = step_agents(run_id, last_seq)
    found = read_events(Event.objects.filter(run_id=run_id), after=after, page=limit + 1)
    return [event_row(agents, stored, reads=reads) for stored in islice(found, limit)]


def neighbours(actor: Actor, run_id: str, wanted: EventFilter, seq: int) -> tuple[int | None, int | None]:
    """The seqs before and after one that the filter lets through. Refused not_found."""
    run_id, last_seq, reads = _find_run(actor, run_id)
    agents = step_agents(run_id, last_seq)
    before = _Look(run_id, wanted, agents, reads=reads).scan(seq, forward=False, limit=1)
    after = _Look(run_id, wanted, agents, reads=reads).scan(seq, forward=True, limit=1)
    return (before[0].seq if before else None), (after[0].seq if after else None)


def stages_around(actor: Actor, run_id: str, seq: int) -> tuple[int | None, int | None]:
    """The seqs at which the stage before a seq and the one after it began. Refused not_found."""
    run_id, last_seq, _ = _find_run(actor, run_id)
    begun = _read_on(run_id, last_seq).stages
    before, after = bisect_left(begun, seq), bisect_right(begun, seq)
    return (begun[before - 1] if before else None), (begun[after] if after < len(begun) else None)


def run_agents(actor: Actor, run_id: str) -> tuple[str, ...]:
    """The agents that have worked in a run, by name. Refused not_found."""
    run_id, last_seq, _ = _find_run(actor, run_id)
    return tuple(sorted(set(step_agents(run_id, last_seq).values())))


# -- looking ---------------------------------------------------------------------------------------------------------


class _Look:
    """One read: goes through a run's rows from a seq until enough were found or enough were looked at."""

    def __init__(self, run_id: str, wanted: EventFilter, agents: Mapping[str, str], *, reads: bool) -> None:
        self.run_id, self.wanted, self.agents, self.reads = run_id, wanted, agents, reads
        self.text = " ".join(wanted.text.casefold().split())
        self.at = 0
        """The last seq that was looked at."""
        self.stopped = False

    def scan(self, start: int, *, forward: bool, limit: int) -> list[EventRow]:
        """At most ``limit`` events that match, in the direction of the look; ``start`` itself is not among them."""
        found: list[EventRow] = []
        self.at = start
        page = CHUNK if self.wanted.scans else limit
        for looked, stored in enumerate(self._events(start, forward, page)):
            if looked >= SCAN_MAX:
                self.stopped = True
                break
            self.at = stored.seq
            event = event_row(self.agents, stored, reads=self.reads)
            if self._matches(event):
                found.append(event)
            if len(found) == limit:
                break
        return found

    def _events(self, start: int, forward: bool, page: int) -> Iterator[StoredEvent]:
        wanted, rows = self.wanted, Event.objects.filter(run_id=self.run_id)
        compact = wanted.density == "compact" and not (wanted.kind or wanted.failed)
        kinds = FAILING if wanted.failed else {wanted.kind} if wanted.kind else ()
        return read_events(
            rows,
            after=start if forward else 0,
            upto=LAST_SEQ if forward else start - 1,
            kinds=kinds,
            without=DETAILS if compact else (),
            newest=not forward,
            page=page,
        )

    def _matches(self, event: EventRow) -> bool:
        wanted = self.wanted
        return (
            (not wanted.failed or event.failed)
            and (not wanted.kind or event.kind == wanted.kind)
            and (not wanted.stage or event.stage == wanted.stage)
            and (not wanted.agent or event.agent == wanted.agent)
            and (not self.text or self.text in searchable_text(event))
        )


def searchable_text(event: EventRow) -> str:
    """Return the text that a filter's words are sought in: label and summary, in lower case."""
    return f"{choose_label(event.kind, event.fact)} {event.summary}".casefold()


def event_row(agents: Mapping[str, str], stored: StoredEvent, *, reads: bool) -> EventRow:
    """Return an event as a row of the list, with its sentences for readers of contents. An unreadable one is a row
    too.
    """
    seq, kind, version, at, header, payload_hash, hashed, _ = stored
    raw = header if reads else b""
    try:
        raw = header_for(header, reads=reads)
        fact = fact_shown(from_row(seq, kind, version, raw))
        summary = write_sentence(kind, fact)
    except (ValueError, LookupError, TypeError) as error:
        fact, summary = {}, str(error)
    return EventRow(
        seq=seq,
        at=at,
        kind=kind,
        version=version,
        fact=fact,
        summary=summary,
        stage=find_stage(fact),
        agent=str(fact.get("agent") or agents.get(find_step(fact), "")),
        failed=is_failure(kind, fact),
        header=raw,
        payload_hash=payload_hash,
        hash=hashed,
    )


# -- who works on which step -----------------------------------------------------------------------------------------


class _Steps:
    """The agents of a run's steps, as far as its journal was read. Facts do not change, so it only grows."""

    def __init__(self) -> None:
        self.upto = 0
        self.agents: dict[str, str] = {}
        self.stages: list[int] = []
        """Seqs at which stages began, in order."""


@lru_cache(maxsize=512)
def _steps(run_id: str) -> _Steps:
    return _Steps()


def step_agents(run_id: str, last_seq: int) -> Mapping[str, str]:
    """Return the agents by step, up to a seq at least. The caller has checked that the reader may see the run."""
    return _read_on(run_id, last_seq).agents


def _read_on(run_id: str, last_seq: int) -> _Steps:
    known = _steps(run_id)
    if known.upto >= last_seq:
        return known
    opened = ("stage_entered", "step_opened", "turn_opened")
    rows = read_events(Event.objects.filter(run_id=run_id), after=known.upto, upto=last_seq, kinds=opened)
    for seq, kind, version, _, header, *_ in rows:
        try:
            fact = fact_shown(from_row(seq, kind, version, header))
        except ValueError:
            continue
        known.agents.update(_list_opened(fact))
        if kind == "stage_entered" and seq > (known.stages[-1] if known.stages else 0):
            known.stages.append(seq)
    known.upto = max(known.upto, last_seq)
    return known


def _list_opened(fact: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    if fact["kind"] != "stage_entered":
        yield fact["step_id"], fact["agent"]
    else:
        for branch, agent in enumerate(fact["agents"]):
            yield step_id(fact["stage"], branch, fact["epoch"], 0), agent


# -- what is missing, what was only waiting --------------------------------------------------------------------------


def _gaps(run_id: str, low: int, high: int) -> tuple[Gap, ...]:
    """Missing seqs from ``low`` to ``high``: counted by the index first, looked for only when the count is short."""
    rows = Event.objects.filter(run_id=run_id, seq__gt=low - EVENTS_MAX, seq__lte=high)
    within = Least(F("seq") + F("more"), high) - Greatest(F("seq"), low) + 1
    counted = rows.filter(seq__gte=low - F("more")).aggregate(events=Sum(within))["events"]
    if high < low or counted == high - low + 1:
        return ()
    gaps, expected = [], low
    for seq, more in rows.order_by("seq").values_list("seq", "more").iterator(chunk_size=2_000):
        if seq + more < low:
            continue
        if seq > expected:
            gaps.append(Gap(expected, seq - 1))
        expected = seq + more + 1
        if len(gaps) == GAPS_MAX:
            return tuple(gaps)
    return (*gaps, Gap(expected, high)) if expected <= high else tuple(gaps)


def _waits(run_id: str, rows: tuple[EventRow, ...]) -> tuple[EventWait, ...]:
    """Return the silences of a minute or more through which a review was open."""
    long = [(a, b) for a, b in pairwise(rows) if b.at - a.at >= FOLD_US]
    if not long:
        return ()
    asked = list(Review.objects.filter(run_id=run_id).order_by("opened_at").values_list("opened_at", "decided_at"))
    waits = []
    for above, below in long:
        start, end = _silence(run_id, above, below)
        open_through = any(o - TIE_US <= start and (d is None or d + TIE_US >= end) for o, d in asked)
        if end - start >= FOLD_US and open_through:
            waits.append(EventWait(below.seq, end - start))
    return tuple(waits)


def _silence(run_id: str, above: EventRow, below: EventRow) -> tuple[int, int]:
    """The longest time between two neighbouring events from one row to the next one shown. A reminder ends no silence:
    who was asked is waited for as before.
    """
    if below.seq == above.seq + 1:
        return above.at, below.at
    between = Event.objects.filter(run_id=run_id, seq__gt=above.seq, seq__lt=below.seq).exclude(kind="review_reminded")
    instants = list(between.order_by("seq").values_list("at", flat=True)[: 2 * CHUNK])
    return max(pairwise([above.at, *instants, below.at]), key=lambda pair: pair[1] - pair[0])


def _find_run(actor: Actor, run_id: str) -> tuple[str, int, bool]:
    """A run's id, its last seq, and whether who looks may read its contents."""
    rows = Run.objects.filter(match_visible(actor, Run), id=clean_text(run_id)[0])
    found = rows.values_list("last_seq", "fabric__name").first()
    if found is None:
        raise Refused(
            f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs",
            code="not_found",
            field="run",
        )
    return run_id, found[0], may_read(actor, found[1])
