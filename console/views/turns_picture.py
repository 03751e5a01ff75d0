"""The turns of a conversation, as a strip and as a table: who spoke after whom, who speaks now, and where it goes round in a circle. Pure functions of the story.

A row for each agent, a column for each wave of turns: those that begin at the same instant stand in one. A line leads from a speaker to the next; it is red where agents
handed something round in a circle (``circles``). A handover that the deadlock monitor refused is a broken line to whom it would have gone to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.views.circles import circling, way_of
from console.views.graph_words import why_said
from console.views.talk_words import Fate, fate, speaking_in
from console.views.topology import NODE_STATES
from fabric.core.flow import Stage
from fabric.core.graph.state import Why
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_topology import TopologySpec
from fabric.selectors.run_story import RunStory
from fabric.selectors.story_parts import Lane, Tripped

WAVES_MAX = 40
"""Columns of the picture, the newest; the table has all turns."""
WIDTH, NAMES_W, ROW_H, TOP = 908, 150, 34, 30
PITCH_MAX = 64
NAME_CHARS = 20
PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn, as a row of the table."""

    number: int
    agent: str
    reads: tuple[int, ...]
    """Numbers of the turns whose output it reads."""
    state: str
    kept: bool
    """Its output came with a fork from the run that this one goes on from."""
    seq: int
    """The event that opened it, or with which it was kept."""
    circles: bool
    """Whether it belongs to a circle that was closed for the second time."""
    handed_to: str = ""
    """Whom its agent handed over to; empty: to nobody."""
    refused_to: str = ""
    """Whom it would have handed over to, had that not closed a circle; empty: nobody."""
    refused_seq: int = 0
    """The event that says so."""
    why: str = ""
    """Why its agent had it; empty: nobody chose, the topology's order says so."""
    why_seq: int = 0
    """The event that says so."""
    came: str = ""
    """How it came to it, where that has a stroke of its own: ``anew`` by a restart edge, ``back`` to a retry target."""

    @property
    def look(self) -> tuple[str, str, str]:
        """Its state: word, tone and icon."""
        return NODE_STATES[self.state]


@dataclass(frozen=True, slots=True)
class SaidRow:
    """What a person said between two turns, as a row of the table."""

    who: str
    after: int
    """Turns that had begun by then."""
    read_in: int
    """The turn in which it was read first; 0: in none of these."""
    fate: Fate
    seq: int


@dataclass(frozen=True, slots=True)
class Turns:
    """The conversation of a run's newest epoch."""

    rows: tuple[TurnRow, ...]
    svg: SafeString
    earlier: int
    """Turns that the picture leaves out."""
    closed: str = ""
    """Why nobody speaks after the last turn, with the reason of the conversation's end; empty: somebody does, or nobody chooses."""
    closed_seq: int = 0
    said: tuple[SaidRow, ...] = ()

    @property
    def lines(self) -> list[tuple[TurnRow | None, SaidRow | None]]:
        """The rows of the table: each turn, and after it what people said while it was in flight."""
        found: list[tuple[TurnRow | None, SaidRow | None]] = [(None, one) for one in self.said if not one.after]
        for row in self.rows:
            found += [(row, None), *((None, one) for one in self.said if one.after == row.number)]
        return found

    @property
    def chosen(self) -> bool:
        """Whether somebody chose who speaks next."""
        return bool(self.closed) or any(row.why for row in self.rows)

    @property
    def speaking(self) -> tuple[str, ...]:
        """Who has a turn now."""
        return tuple(row.agent for row in self.rows if row.state in ("active", "waiting"))

    @property
    def circles(self) -> bool:
        """Whether something went round."""
        return any(row.circles for row in self.rows)

    @property
    def stopped(self) -> bool:
        """Whether a handover was refused that would have gone on with it."""
        return any(row.refused_to for row in self.rows)


def turns(story: RunStory, named: TopologySpec) -> Turns | None:
    """The turns of a run; None: its workers take none."""
    lanes = [lane for lane in story.lanes.values() if lane.stage == Stage.FAN_OUT and lane.hears is not None]
    if not lanes:
        return None
    newest = max(lane.epoch for lane in lanes)
    latest = {
        lane.branch: lane for lane in lanes if lane.epoch == newest
    }  # Of a turn that was begun again the last time.
    ordered = [latest[branch] for branch in sorted(latest)]
    refused = {place: trip for place, lane in enumerate(ordered) if (trip := _refused(lane)) is not None}
    round_ = circling(
        [lane.agent for lane in ordered],
        [lane.id in story.handed for lane in ordered],
        {place: trip.cycle for place, trip in refused.items()},
    )
    rules = named.transitions if isinstance(named, GraphTopology) else ()
    before = [None, *(story.chosen.get(lane.id) for lane in ordered)]
    rows = tuple(
        TurnRow(
            why="" if chosen is None else why_said(chosen[0], rules),
            why_seq=0 if chosen is None else chosen[1],
            came="" if chosen is None else CAME.get(chosen[0].why, ""),
            number=lane.branch + 1,
            agent=lane.agent,
            reads=tuple(branch + 1 for branch in lane.hears or ()),
            state=lane.state,
            kept=bool(lane.kept),
            seq=lane.kept or lane.opened,
            circles=place in round_,
            handed_to=story.handed.get(lane.id, ""),
            refused_to=refused[place].cycle[-1] if place in refused else "",
            refused_seq=refused[place].seq if place in refused else 0,
        )
        for place, (lane, chosen) in enumerate(zip(ordered, before, strict=False))
    )
    waves = _waves(ordered)
    left_out = waves[:-WAVES_MAX]
    skipped = sum(len(wave) for wave in left_out)
    speakers = list(dict.fromkeys((*named.workers, *(lane.agent for lane in ordered))))
    last = before[-1]
    over = last is not None and not last[0].speaker
    closed = f"{last[0].close_reason}: {why_said(last[0], rules)}" if last is not None and over else ""
    said = tuple(_said(story, newest))
    drawn = _picture(rows[skipped:], [len(wave) for wave in waves[-WAVES_MAX:]], speakers, said)
    return Turns(rows, drawn, skipped, closed, last[1] if last is not None and over else 0, said)


def _said(story: RunStory, epoch: int) -> Iterator[SaidRow]:
    """What people said in an epoch and its run took."""
    closed = story.run.talk.closed if story.run is not None else ""
    over = f"the conversation is closed ({closed})" if closed else ""
    over = over if story.ended_at is None else "the run has ended"
    for one in story.said:
        if one.epoch == epoch and not one.refused:
            yield SaidRow(one.actor, one.after, one.turn, fate(one, speaking_in(story), over), one.seq)


CAME = {Why.RESTART: "anew", Why.RETRY_TARGET: "back", Why.GOAL: "back"}
"""Strokes of the ways that are no plain rule's."""


def _refused(lane: Lane) -> Tripped | None:
    """The handover of a turn that would have closed a circle; the last one."""
    return next((trip for trip in reversed(lane.trips) if way_of(trip.cause, trip.cycle)), None)


def _waves(ordered: Sequence[Lane]) -> list[list[Lane]]:
    """The turns by the event's batch that opened them: what a topology opens at once begins at one instant, one turn after the other."""
    waves: list[list[Lane]] = []
    for lane in ordered:
        together = waves and waves[-1][-1].opened + 1 == lane.opened and waves[-1][-1].hears == lane.hears
        if together:
            waves[-1].append(lane)
        else:
            waves.append([lane])
    return waves


# -- the picture -------------------------------------------------------------------------------------------------------


def _picture(
    rows: Sequence[TurnRow], waves: Sequence[int], speakers: Sequence[str], said: Sequence[SaidRow] = ()
) -> SafeString:
    pitch = min(PITCH_MAX, (WIDTH - NAMES_W - 40) / max(len(waves), 1))
    line = {name: TOP + ROW_H * n + ROW_H // 2 for n, name in enumerate(speakers)}
    people = TOP + ROW_H * len(speakers) + ROW_H // 2
    height = TOP + ROW_H * (len(speakers) + bool(said)) + 6
    parts = [_name(name, y) for name, y in line.items()]
    places: list[list[tuple[TurnRow, float, int]]] = []
    taken = 0
    for n, many in enumerate(waves):
        x = NAMES_W + 20 + pitch * n
        places.append([(row, x, line[row.agent]) for row in rows[taken : taken + many]])
        taken += many
    for before, after in pairwise(places):
        parts += [
            _step(one, other)
            for one in before
            for other in after
            if one[0].number in other[0].reads or len(before) == 1
        ]
    for row, x, y in (one for wave in places for one in wave):
        if row.refused_to in line and not row.handed_to:
            parts.append(_stopped(x, y, x + pitch, line[row.refused_to]))
    if said:
        parts += [_name(PEOPLE, people), *_messages(said, [spot for wave in places for spot in wave], people, pitch)]
    for wave in places:
        parts += [_dot(row, x, y, pitch) for row, x, y in wave]
        numbers = f"{wave[0][0].number}" if len(wave) == 1 else f"{wave[0][0].number}-{wave[-1][0].number}"
        parts.append(
            format_html('<text class="t2" x="{}" y="16" text-anchor="middle">{}</text>', round(wave[0][1]), numbers)
        )
    body = format_html_join("", "{}", ((part,) for part in parts))
    return format_html(
        '<svg class="topo run-topo turns" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>', WIDTH, height, body
    )


def _name(name: str, y: int) -> SafeString:
    said = inert(name)
    said = said if len(said) <= NAME_CHARS else f"{said[: NAME_CHARS - 1]}…"
    return format_html(
        '<path class="e ctx" d="M{} {}H{}"/><text x="8" y="{}">{}</text>', NAMES_W, y, WIDTH - 8, y + 4, said
    )


def _messages(
    said: Sequence[SaidRow], spots: Sequence[tuple[TurnRow, float, int]], y: int, pitch: float
) -> Iterator[SafeString]:
    """A mark for what was said while a turn was in flight, and a line to the turn in which it was read. Of turns that are left out nothing is drawn."""
    at = {row.number: (x, line) for row, x, line in spots}
    first = min(at)
    for after in sorted({one.after for one in said}):
        together = [one for one in said if one.after == after]
        if after not in at and after != first - 1:
            continue
        x = round(at[after][0] + pitch / 2) if after in at else NAMES_W + 6
        for turn in sorted({one.read_in for one in together if one.read_in in at}):
            to_x, to_y = at[turn]
            yield format_html('<path class="e ctx" d="M{} {}L{} {}"/>', x, y, round(to_x), to_y)
        title = "; ".join(f"{one.who}, a person: {one.fate.word}" for one in together)
        yield format_html(
            '<g data-tone="human"><title>{}</title><rect class="turn said-mark" x="{}" y="{}" width="10" height="10" rx="2"/></g>',
            *(inert(title), x - 5, y - 5),
        )


def _step(one: tuple[TurnRow, float, int], other: tuple[TurnRow, float, int]) -> SafeString:
    tone = "danger" if one[0].circles and other[0].circles else ""
    css = "e again" if tone else f"e {other[0].came}".rstrip()
    path = f"M{one[1]:.0f} {one[2]}C{(one[1] + other[1]) / 2:.0f} {one[2]} {(one[1] + other[1]) / 2:.0f} {other[2]} {other[1]:.0f} {other[2]}"
    return format_html('<g data-tone="{}"><path class="{}" d="{}"/></g>', tone, css, path)


def _stopped(x: float, y: int, beside: float, target: int) -> SafeString:
    """A handover that did not take place: a broken line half the way, and a bar across it."""
    middle, height = (x + beside) / 2, (y + target) / 2
    path = f"M{x:.0f} {y}C{middle:.0f} {y} {middle:.0f} {height:.0f} {middle:.0f} {height:.0f}"
    bar = f"M{middle - 6:.0f} {height:.0f}h12"
    return format_html(
        '<g data-tone="danger"><path class="e again refused" d="{}"/><path class="e again" d="{}"/></g>', path, bar
    )


def _dot(row: TurnRow, x: float, y: int, pitch: float) -> SafeString:
    word, tone, _ = row.look
    radius = 8 if pitch >= 20 else 5
    tone = "danger" if row.circles else tone
    title = (
        f"turn {row.number}, {row.agent}: {word}{', kept' if row.kept else ''}"
        + (f", handed over to {row.handed_to}" if row.handed_to else "")
        + (f", not let hand over to {row.refused_to}" if row.refused_to else "")
    )
    return format_html(
        '<g data-tone="{}"><title>{}</title><circle class="turn {}" cx="{}" cy="{}" r="{}"/></g>',
        *(tone, inert(title), row.state, round(x), y, radius),
    )
