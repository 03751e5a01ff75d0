"""Draws the turns of a conversation as a strip and as a table, with the messages of people. Pure functions of the
story.

1. Each agent has a row. Each wave of turns, which begin at one instant, has a column.
2. A line leads from a speaker to the next one. It is red inside a circle (``circles``). A turn is in a circle by the
   shape of the handovers, or because the deadlock monitor stopped it.
3. A handover that the deadlock monitor refused is a broken line to the agent that it was meant for.
4. A person's message is shown with its fate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from console.topologies.runs import NODE_STATES
from console.words.graphs import reason_words
from fabric.core.graph.state import SpeakerReason
from fabric.core.people.actor import Actor
from fabric.core.schema.topology import TopologySpec
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.messages import SentMessage, closed_because, find_messages, takes_turns
from fabric.selectors.runs.story.parts import Lane, SpokenMessage, Tripped


class Fate(NamedTuple):
    """The fate of a message, as a sentence, a tone and an icon."""

    word: str
    tone: str
    icon: str


ON_ITS_WAY = Fate("on its way to the run", "neutral", "clock")


def fate(said: SpokenMessage, speaking: tuple[str, ...], closed: str) -> Fate:
    """Return the fate of a message that the run has accepted.

    ``speaking``: agents that have a turn. ``closed``: why no agent reads messages any more; empty if one will.
    """
    if said.refused:
        return Fate(f"refused: {said.refused}", "warn", "xc")
    if said.reader:
        return Fate(f"read by {said.reader} in turn {said.turn}", "ok", "check")
    if closed:
        return Fate(f"unread: {closed}", "warn", "alert")
    if speaking:
        return Fate(f"waits for the turn in flight ({', '.join(speaking)})", "human", "clock")
    return Fate("the next speaker reads it", "human", "clock")


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message as the list shows it."""

    sent: SentMessage
    fate: Fate

    @property
    def who(self) -> str:
        """Return the sender's name."""
        return self.sent.actor or "a person"


@dataclass(frozen=True, slots=True)
class Talk:
    """Data of the conversation part of a run's page."""

    lines: tuple[MessageLine, ...] = ()
    earlier: int = 0
    """Messages before those."""
    closed: str = ""
    """Reason why no agent reads messages any more; empty if one will."""
    later: bool = False
    """True if some messages are not in the story yet."""


def talk(actor: Actor, run: RunView, story: RunStory | None) -> Talk | None:
    """Return the conversation part of a run's page; None if the run's workers take no turns."""
    if not takes_turns(run):
        return None
    closed = closed_because(run, story)
    if story is None:
        return Talk(closed=closed, later=True)
    sent, earlier = find_messages(actor, run, story)
    speaking = list_speakers(story)
    lines = (MessageLine(one, ON_ITS_WAY if one.said is None else fate(one.said, speaking, closed)) for one in sent)
    return Talk(tuple(lines), earlier, closed)


def list_speakers(story: RunStory) -> tuple[str, ...]:
    """Return the agents that have a turn now."""
    turns = (lane for lane in story.lanes.values() if lane.stage == Stage.FAN_OUT and lane.hears is not None)
    return tuple(dict.fromkeys(lane.agent for lane in turns if lane.state in ("active", "waiting")))


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
    """Numbers of the turns whose output this turn reads."""
    state: str
    kept: bool
    """True if a fork brought its output from the parent run."""
    seq: int
    """Sequence number of the event that opened the turn, or brought it by a fork."""
    circles: bool
    """True if the turn belongs to a circle that was closed for the second time."""
    handed_to: str = ""
    """Agent that this turn handed over to; empty if it handed over to none."""
    refused_to: str = ""
    """Agent that a refused handover was meant for, because it would have closed a circle; empty if none was refused."""
    refused_seq: int = 0
    """Sequence number of the event that refused the handover."""
    why: str = ""
    """Reason why this agent has the turn; empty if the topology's order fixes it."""
    why_seq: int = 0
    """Sequence number of the event with the reason."""
    came: str = ""
    """Kind of the incoming line: ``anew`` by a restart edge, ``back`` to a retry target; empty for a usual one."""

    @property
    def look(self) -> tuple[str, str, str]:
        """Return its state: word, tone and icon."""
        return NODE_STATES[self.state]


@dataclass(frozen=True, slots=True)
class SaidRow:
    """A message that a person sent between two turns, as a row of the table."""

    who: str
    after: int
    """Number of turns that had begun then."""
    read_in: int
    """Number of the first turn that read it; 0 if none of these did."""
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
    """Reason why the conversation ended after the last turn. Empty while it goes on, or where no agent chooses a
    speaker.
    """
    closed_seq: int = 0
    said: tuple[SaidRow, ...] = ()

    @property
    def lines(self) -> list[tuple[TurnRow | None, SaidRow | None]]:
        """Return the rows of the table: each turn, and then the messages that people sent while it was in flight."""
        found: list[tuple[TurnRow | None, SaidRow | None]] = [(None, one) for one in self.said if not one.after]
        for row in self.rows:
            found += [(row, None), *((None, one) for one in self.said if one.after == row.number)]
        return found

    @property
    def chosen(self) -> bool:
        """Return True if an agent or a rule chose a next speaker."""
        return bool(self.closed) or any(row.why for row in self.rows)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Return the agents that have a turn now."""
        return tuple(row.agent for row in self.rows if row.state in ("active", "waiting"))

    @property
    def circles(self) -> bool:
        """Return True if a circle was found."""
        return any(row.circles for row in self.rows)

    @property
    def stopped(self) -> bool:
        """Return True if a handover was refused because it would have closed a circle."""
        return any(row.refused_to for row in self.rows)


def turns(story: RunStory, named: TopologySpec) -> Turns | None:
    """Return the turns of a run; None if its workers take no turns."""
    lanes = [lane for lane in story.lanes.values() if lane.stage == Stage.FAN_OUT and lane.hears is not None]
    if not lanes:
        return None
    newest = max(lane.epoch for lane in lanes)
    latest = {
        lane.branch: lane for lane in lanes if lane.epoch == newest
    }  # Of a turn that was begun again the last time.
    ordered = [latest[branch] for branch in sorted(latest)]
    refused = {place: trip for place, lane in enumerate(ordered) if (trip := _refused_handover(lane)) is not None}
    round_ = find_circling_turns(
        [lane.agent for lane in ordered],
        [lane.id in story.handed for lane in ordered],
        {place: trip.cycle for place, trip in refused.items()},
    )
    rules = named.transitions if isinstance(named, GraphTopology) else ()
    before = [None, *(story.chosen.get(lane.id) for lane in ordered)]
    rows = tuple(
        TurnRow(
            why="" if chosen is None else reason_words(chosen[0], rules),
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
    closed = f"{last[0].close_reason}: {reason_words(last[0], rules)}" if last is not None and over else ""
    said = tuple(_yield_messages(story, newest))
    drawn = _picture(rows[skipped:], [len(wave) for wave in waves[-WAVES_MAX:]], speakers, said)
    return Turns(rows, drawn, skipped, closed, last[1] if last is not None and over else 0, said)


def _yield_messages(story: RunStory, epoch: int) -> Iterator[SaidRow]:
    """Yield the messages of people that the run accepted in an epoch."""
    closed = story.run.talk.closed if story.run is not None else ""
    over = f"the conversation is closed ({closed})" if closed else ""
    over = over if story.ended_at is None else "the run has ended"
    for one in story.said:
        if one.epoch == epoch and not one.refused:
            yield SaidRow(one.actor, one.after, one.turn, fate(one, list_speakers(story), over), one.seq)


CAME = {SpeakerReason.RESTART: "anew", SpeakerReason.RETRY_TARGET: "back", SpeakerReason.GOAL: "back"}
"""Strokes of lines that do not follow a plain rule."""


def _refused_handover(lane: Lane) -> Tripped | None:
    """Return the handover of a turn that would have closed a circle; the last one."""
    return next((trip for trip in reversed(lane.trips) if find_way(trip.cause, trip.cycle)), None)


def _waves(ordered: Sequence[Lane]) -> list[list[Lane]]:
    """Return the turns grouped by the batch of events that opened them: turns opened together begin at one instant."""
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
            parts.append(_draw_refused(x, y, x + pitch, line[row.refused_to]))
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
    """Yield a mark for each message sent during a turn, and a line to the turn that read it. Omitted turns get
    nothing.
    """
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


def _draw_refused(x: float, y: int, beside: float, target: int) -> SafeString:
    """Return a handover that did not take place: a broken line half the way, and a bar across it."""
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


CYCLE_MAX = 3


def find_circling_turns(
    speakers: Sequence[str], handed: Sequence[bool], refused: Mapping[int, tuple[str, ...]] | None = None
) -> frozenset[int]:
    """Return the places of turns that belong to a circle.

    A circle closes when two or three agents hand work round for the second time. ``handed``: True for turns that
    ended in a handover. ``refused``: the circle that the deadlock monitor stopped, by the place of the turn. Its last
    handover never took place, so by shape alone that circle has not closed.
    """
    found = {place for length in range(2, CYCLE_MAX + 1) for place in _closed_circles(speakers, handed, length)}
    for place, way in (refused or {}).items():
        found |= _stopped_circle(speakers, place, way)
    return frozenset(found)


def _closed_circles(speakers: Sequence[str], handed: Sequence[bool], length: int) -> set[int]:
    found: set[int] = set()
    for first in range(len(speakers) - 2 * length):
        walk = speakers[first : first + 2 * length + 1]
        closes = walk[0] == walk[length] == walk[2 * length] and walk[:length] == walk[length:-1]
        if closes and len(set(walk[:length])) == length and all(handed[first : first + 2 * length]):
            found.update(range(first, first + 2 * length + 1))
    return found


def _stopped_circle(speakers: Sequence[str], last: int, way: tuple[str, ...]) -> set[int]:
    """Return the turns that led to a refused handover. ``way``: agents of the circle in order, with the refused
    target last.
    """
    if way[0] != way[-1]:
        # A repeated brief to one target: the circle began in the turn of the earlier one.
        before = [place for place in range(last) if speakers[place] == speakers[last]]
        return set(range(before[-1], last + 1)) if before else {last}
    wanted = list(way[:-1]) * 2
    found: set[int] = set()
    for place in range(last, -1, -1):
        if wanted and speakers[place] == wanted[-1]:
            wanted.pop()
            found.add(place)
    return found


def find_way(cause: str, cycle: tuple[str, ...]) -> tuple[str, ...]:
    """Return the circle that a trip stopped; empty if the trip has another cause."""
    return cycle if cause in (Cause.HANDOFF_CYCLE, Cause.BRIEF_REPEATED) and len(cycle) > 1 else ()
