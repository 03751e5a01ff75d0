"""The timeline of a run: five stage lanes with a row for every step of the fan-out. Pure functions of the story.

Drawn as of the run's last event, so that the same journal is the same picture for everybody. Bounded: so many rows, so many bars in a
row; what is more is merged, with its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from django.utils.safestring import SafeString

from console.views.time_axis import RIGHT, axis_of
from console.views.timeline_shapes import BARS_MAX, LOW, MARKS_MAX, TALL, Pen
from console.views.timeline_words import KEPT, STATE_WORDS, lane_told, stage_told, trips_noted
from fabric.core.flow import Stage
from fabric.core.words import words
from fabric.selectors.run_story import RunStory
from fabric.selectors.run_time import busy
from fabric.selectors.story_parts import Bar, Lane, Tally

ROWS_MAX = 36
"""Rows of the fan-out; the rest is one row with a count."""
GOES_ON = 95.0
"""Percent: where the last event of a run stands that has not ended."""


def grid_id(*, fold: bool) -> str:
    """Id of what all lanes refer to; the folded and the unfolded picture may stand in one page."""
    return "tl-grid" if fold else "tl-real"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a stage, or a step of the fan-out."""

    name: str
    note: str
    css: str
    svg: SafeString
    told: str
    """The same in words."""
    tokens: int | None
    cost: int | None
    event: int = 0
    """Seq of the event that its name leads to: the latest passage of a stage, the latest call of a step; 0: none."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture."""

    head: SafeString
    rows: tuple[Row, ...]
    folded: int
    """Microseconds in pleats."""
    longest: int
    """The longest pleat."""
    merged: bool
    """Whether some rows or bars stand for more than one."""
    marks: frozenset[str]
    """What the legend explains: nothing that is not in the picture."""


def timeline(story: RunStory, created_at: int, *, fold: bool = True) -> Timeline:
    """Draws a story; ``created_at``: when the run was asked for. With idle time folded, or at its real length."""
    right = RIGHT if story.ended_at is not None else GOES_ON
    axis = axis_of(created_at, story.at or created_at, busy(story), fold=fold, right=right, name=grid_id(fold=fold))
    pen = Pen(axis, story, "?event=" if fold else "?fold=off&amp;event=")
    rows: list[Row] = []
    merged = False
    by_stage = _by_stage(story)
    for stage in Stage:
        lanes = by_stage.get(stage, [])
        fan_out = stage is Stage.FAN_OUT
        rows.append(_stage_row(pen, story, stage, lanes, created_at))
        merged = merged or (not fan_out and sum(len(lane.bars) for lane in lanes) > BARS_MAX)
        if fan_out:
            shown, rest = _chosen(lanes)
            rows.extend(_worker_row(pen, story, lane) for lane in shown)
            merged = merged or bool(rest) or any(len(lane.bars) > BARS_MAX for lane in shown)
            if rest:
                rows.append(_rest_row(pen, rest))
    return Timeline(
        head=pen.head(),
        rows=tuple(rows),
        folded=axis.folded,
        longest=max((pleat.micros for pleat in axis.pleats), default=0),
        merged=merged,
        marks=_marks(story, folded=bool(axis.pleats)),
    )


def _by_stage(story: RunStory) -> dict[str, list[Lane]]:
    found: dict[str, list[Lane]] = {}
    for lane in story.lanes.values():
        found.setdefault(lane.stage, []).append(lane)
    for lanes in found.values():
        lanes.sort(key=attrgetter("epoch", "branch", "round"))
    return found


def _marks(story: RunStory, *, folded: bool) -> frozenset[str]:
    looks = {(bar.call, bar.became) for lane in story.lanes.values() for bar in lane.bars}
    gates = {gate for one in story.stages for gate in (one.pre, one.post)}
    there = {
        "model": any(call == "model" and became in ("open", "done") for call, became in looks),
        "tool": any(call == "tool" and became in ("open", "done") for call, became in looks),
        "child": any(call == "child" and became in ("open", "done") for call, became in looks),
        "failed": any(became == "failed" for _, became in looks),
        "let_go": any(became == "let_go" for _, became in looks),
        "retries": any(lane.backoffs for lane in story.lanes.values()),
        "waits": bool(story.stage_waits) or any(lane.waits for lane in story.lanes.values()),
        "passed": True in gates,
        "refused": False in gates,
        "trips": bool(story.fired),
        "epochs": bool(story.epochs),
        "folded": folded,
    }
    return frozenset(name for name, shown in there.items() if shown)


# -- rows ----------------------------------------------------------------------------------------------------------------


def _stage_row(pen: Pen, story: RunStory, stage: Stage, lanes: list[Lane], created_at: int) -> Row:
    spans = [one for one in story.stages if one.stage == stage]
    queue = [pen.queue(created_at)] if stage is Stage.PLAN else []
    if not spans:
        empty = f'<line class="g-none" x1="1.2%" x2="98.8%" y1="{TALL // 2}" y2="{TALL // 2}"/>'
        note, standing = ("kept", KEPT) if stage in story.kept else ("", "not reached")
        return Row(words(stage), note, "stage unreached", pen.row(queue or [empty]), standing, None, None)
    here = [] if stage is Stage.FAN_OUT else lanes
    trips = [*story.stage_trips.get(stage, []), *(trip for lane in here for trip in lane.trips)]

    def shapes() -> Iterator[str]:
        yield from queue
        yield from map(pen.stage, spans[-MARKS_MAX:])
        yield from pen.bars(_bars(here), TALL)
        yield from pen.backoffs([one for lane in here for one in lane.backoffs], TALL)
        yield from pen.waits([one for lane in here for one in lane.waits], TALL)
        yield from pen.waits(story.stage_waits.get(stage, []), TALL)
        for one in spans[-MARKS_MAX:]:
            yield from pen.gates(one)
        yield from pen.knots(trips, TALL)

    tally = story.by_stage.get(stage, Tally())
    return Row(
        words(stage),
        "",
        "stage",
        pen.row(shapes(), trips_noted(trips)),
        stage_told(story, spans, lanes, trips),
        tally.tokens or None,
        tally.cost_usd_micros if tally.any else None,
        spans[-1].seq,
    )


def _bars(lanes: list[Lane]) -> list[Bar]:
    """The bars of several lanes in the order of their starts."""
    if len(lanes) == 1:
        return lanes[0].bars
    return sorted((bar for lane in lanes for bar in lane.bars), key=attrgetter("start"))


def _worker_row(pen: Pen, story: RunStory, lane: Lane) -> Row:
    def shapes() -> Iterator[str]:
        yield from pen.bars(lane.bars, LOW)
        yield from pen.backoffs(lane.backoffs, LOW)
        yield from pen.waits(lane.waits, LOW)
        yield from pen.knots(lane.trips, LOW)

    note = [f"e{lane.epoch + 1}"] * bool(lane.epoch) + [f"r{lane.round + 1}"] * bool(lane.round)
    note += ["kept"] * bool(lane.kept)
    tally = lane.tally
    return Row(
        f"{lane.agent} {lane.branch + 1}",
        " ".join(note),
        "worker",
        pen.row(shapes(), trips_noted(lane.trips)),
        lane_told(story, lane),
        tally.tokens or None,
        tally.cost_usd_micros if tally.any else None,
        lane.trips[-1].seq if lane.state == "failed" and lane.trips else lane.bars[-1].seq if lane.bars else lane.kept,
    )


def _rest_row(pen: Pen, lanes: list[Lane]) -> Row:
    tally = Tally()
    for lane in lanes:
        tally.calls += lane.tally.calls
        tally.children += lane.tally.children
        tally.add(lane.tally.tokens, lane.tally.cost_usd_micros)
    states = Counter(lane.state for lane in lanes)
    counts = ", ".join(f"{count:,} {STATE_WORDS[state]}" for state, count in states.items())
    svg = pen.row(pen.bars(_bars(lanes), LOW))
    return Row(f"{len(lanes):,} more", "", "worker", svg, counts, tally.tokens or None, tally.cost_usd_micros)


def _chosen(lanes: list[Lane]) -> tuple[list[Lane], list[Lane]]:
    """The rows to show and the rest: what goes on or went wrong first, then the newest epoch."""
    if len(lanes) <= ROWS_MAX:
        return lanes, []
    calm = {"active": 0, "waiting": 0, "failed": 1}
    order = sorted(
        lanes, key=lambda one: (calm.get(one.state, 2 if one.trips or one.backoffs else 3), -one.epoch, one.branch)
    )
    keep = {lane.id for lane in order[: ROWS_MAX - 1]}
    return [lane for lane in lanes if lane.id in keep], [lane for lane in lanes if lane.id not in keep]
