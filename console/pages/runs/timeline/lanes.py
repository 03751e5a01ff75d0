"""Draws the timeline of a run: five stage lanes, and a row for every step of the fan-out.

It is drawn as of the run's last event, so one journal is one picture. Rows and bars are bounded; more of them are
merged, with their count. Readers who do not see the picture get its rows in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from django.utils.safestring import SafeString

from console.pages.runs.timeline.axis import RIGHT, build_axis
from console.pages.runs.timeline.shapes import BARS_MAX, LOW, MARKS_MAX, TALL, Pen
from console.templatetags.figures import span
from console.templatetags.said import inert
from fabric.core.values.flow import Stage
from fabric.core.values.words import words
from fabric.selectors.runs.story.figures import busy
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import Bar, CallSums, Lane, Span, StageSpan, Tripped

ROWS_MAX = 36
"""Rows of the fan-out; the rest is one row with a count."""
GOES_ON = 95.0
"""Percent: where the last event of a run stands that has not ended."""
OUT = 62.0
"""Percent: where it stands while calls are out. Behind it the picture has the time until their deadlines."""


def grid_id(*, fold: bool) -> str:
    """Id of what all lanes refer to; the folded and the unfolded picture may stand in one page."""
    return "tl-grid" if fold else "tl-real"


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One row: a stage, or a step of the fan-out."""

    name: str
    note: str
    css: str
    svg: SafeString
    told: str
    """The lane in words."""
    tokens: int | None
    cost: int | None
    event: int = 0
    """Seq of the event that its name leads to; 0: none. It is the latest passage of a stage, or the latest call of a
    step.
    """


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture."""

    head: SafeString
    rows: tuple[LaneRow, ...]
    folded: int
    """Microseconds in pleats."""
    longest: int
    """The longest pleat."""
    merged: bool
    """True if some rows or bars stand for several."""
    marks: frozenset[str]
    """Marks in the picture, which the legend explains."""


def timeline(story: RunStory, created_at: int, *, fold: bool = True) -> Timeline:
    """Draws a story; ``created_at``: when the run was asked for. With idle time folded, or at its real length."""
    until = story.answers_until
    until = until if until > story.at else 0
    right = RIGHT if story.ended_at is not None else OUT if until else GOES_ON
    end, name = story.at or created_at, grid_id(fold=fold)
    axis = build_axis(created_at, end, busy(story), fold=fold, right=right, name=name, until=until)
    pen = Pen(axis, story, "?event=" if fold else "?fold=off&amp;event=")
    rows: list[LaneRow] = []
    merged = False
    by_stage = _group_by_stage(story)
    for stage in Stage:
        lanes = by_stage.get(stage, [])
        fan_out = stage is Stage.FAN_OUT
        rows.append(_stage_row(pen, story, stage, lanes, created_at))
        merged = merged or (not fan_out and sum(len(lane.bars) for lane in lanes) > BARS_MAX)
        if fan_out:
            shown, rest = _choose_lanes(lanes)
            rows.extend(_worker_row(pen, story, lane) for lane in shown)
            merged = merged or bool(rest) or any(len(lane.bars) > BARS_MAX for lane in shown)
            if rest:
                rows.append(_rest_row(pen, rest))
    return Timeline(
        head=pen.head(),
        rows=tuple(rows),
        folded=axis.folded_us,
        longest=max((pleat.micros for pleat in axis.pleats), default=0),
        merged=merged,
        marks=_marks(story, folded=bool(axis.pleats)),
    )


def _group_by_stage(story: RunStory) -> dict[str, list[Lane]]:
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
        "out": bool(story.open_bars) and story.ended_at is None,
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


# -- rows --------------------------------------------------------------------------------------------------------------


def _stage_row(pen: Pen, story: RunStory, stage: Stage, lanes: list[Lane], created_at: int) -> LaneRow:
    spans = [one for one in story.stages if one.stage == stage]
    queue = [pen.queue(created_at)] if stage is Stage.PLAN else []
    if not spans:
        empty = f'<line class="g-none" x1="1.2%" x2="98.8%" y1="{TALL // 2}" y2="{TALL // 2}"/>'
        note, standing = ("kept", KEPT) if stage in story.kept_stages else ("", "not reached")
        return LaneRow(words(stage), note, "stage unreached", pen.row(queue or [empty]), standing, None, None)
    here = [] if stage is Stage.FAN_OUT else lanes
    trips = [*story.stage_trips.get(stage, []), *(trip for lane in here for trip in lane.trips)]

    def shapes() -> Iterator[str]:
        yield from queue
        yield from map(pen.stage, spans[-MARKS_MAX:])
        yield from pen.bars(_bars(here), TALL)
        yield from pen.backoffs([one for lane in here for one in lane.backoffs], TALL)
        yield from pen.waits([one for lane in here for one in lane.waits], TALL)
        yield from pen.waits(story.stage_waits.get(stage, []), TALL)
        yield from pen.outs(_bars(here), TALL)
        for one in spans[-MARKS_MAX:]:
            yield from pen.gates(one)
        yield from pen.knots(trips, TALL)

    tally = story.by_stage.get(stage, CallSums())
    return LaneRow(
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


def _worker_row(pen: Pen, story: RunStory, lane: Lane) -> LaneRow:
    def shapes() -> Iterator[str]:
        yield from pen.bars(lane.bars, LOW)
        yield from pen.backoffs(lane.backoffs, LOW)
        yield from pen.waits(lane.waits, LOW)
        yield from pen.outs(lane.bars, LOW)
        yield from pen.knots(lane.trips, LOW)

    note = [f"plan {lane.epoch + 1}"] * bool(lane.epoch) + [f"start {lane.round + 1}"] * bool(lane.round)
    note += ["kept"] * bool(lane.kept)
    tally = lane.tally
    return LaneRow(
        f"{lane.agent} {lane.branch + 1}",
        " ".join(note),
        "worker",
        pen.row(shapes(), f"stopped: {lane.stopped}" if lane.stopped else trips_noted(lane.trips)),
        lane_told(story, lane),
        tally.tokens or None,
        tally.cost_usd_micros if tally.any else None,
        lane.trips[-1].seq if lane.state == "failed" and lane.trips else lane.bars[-1].seq if lane.bars else lane.kept,
    )


def _rest_row(pen: Pen, lanes: list[Lane]) -> LaneRow:
    tally = CallSums()
    for lane in lanes:
        tally.calls += lane.tally.calls
        tally.children += lane.tally.children
        tally.add(lane.tally.tokens, lane.tally.cost_usd_micros)
    states = Counter(lane.state for lane in lanes)
    counts = ", ".join(f"{count:,} {STATE_WORDS[state]}" for state, count in states.items())
    svg = pen.row(pen.bars(_bars(lanes), LOW))
    return LaneRow(f"{len(lanes):,} more", "", "worker", svg, counts, tally.tokens or None, tally.cost_usd_micros)


def _choose_lanes(lanes: list[Lane]) -> tuple[list[Lane], list[Lane]]:
    """The rows to show and the rest: what goes on or went wrong first, then the newest epoch."""
    if len(lanes) <= ROWS_MAX:
        return lanes, []
    calm = {"active": 0, "waiting": 0, "failed": 1}
    order = sorted(
        lanes, key=lambda one: (calm.get(one.state, 2 if one.trips or one.backoffs else 3), -one.epoch, one.branch)
    )
    keep = {lane.id for lane in order[: ROWS_MAX - 1]}
    return [lane for lane in lanes if lane.id in keep], [lane for lane in lanes if lane.id not in keep]


STATE_WORDS = {
    "active": "running",
    "waiting": "waiting",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped",
    "void": "superseded",
}

KEPT = "kept from the run that this one goes on from"
"""For a fork: the reason for an empty part."""


NOTE_CHARS = 40


def trips_noted(trips: list[Tripped]) -> str:
    """Return the latest trip in a few words: its cause, how often, and the reaction. Empty: nothing fired."""
    if not trips:
        return ""
    latest = trips[-1]
    cause = words(latest.cause or latest.mechanism)
    times = sum(1 for trip in trips if trip.cause == latest.cause)
    note = f"{cause}{f' ×{times}' if times > 1 else ''} · {words(latest.reaction)}"
    return note if len(note) <= NOTE_CHARS else f"{note[: NOTE_CHARS - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _calls_told(lane: Lane) -> list[str]:
    models = sum(1 for bar in lane.bars if bar.call == "model")
    tools = sum(1 for bar in lane.bars if bar.call == "tool")
    children = len(lane.bars) - models - tools
    failed = sum(1 for bar in lane.bars if bar.became == "failed")
    counts = [_count(models, "model call")] if models else []
    counts += [_count(tools, "tool call")] if tools else []
    counts += [_count(children, "child run")] if children else []
    counts += [f"{failed:,} failed"] if failed else []
    counts += [_count(len(lane.backoffs), "back-off")] if lane.backoffs else []
    return counts


def _wait_told(wait: Span) -> str:
    who = inert(wait.word)
    return f"waits for {who}" if wait.end is None else f"waited {span(wait.end - wait.start)} for {who}"


def lane_told(story: RunStory, lane: Lane) -> str:
    """A step: its calls, waits and trips, and where it stands."""
    if lane.kept and lane.state == "done":
        return f"done, {KEPT}"
    parts = _calls_told(lane)
    parts += [_wait_told(wait) for wait in lane.waits[-3:]]
    parts += [inert(trip.sentence) for trip in lane.trips[-3:]]
    took = (story.at if lane.end is None else lane.end) - lane.start
    why = f": {lane.stopped}" if lane.stopped else ""
    return ", ".join([*parts, f"{STATE_WORDS[lane.state]} after {span(took)}{why}"])


GATES = {True: "passed", False: "failed", None: "not made"}


def stage_told(story: RunStory, spans: list[StageSpan], lanes: list[Lane], trips: list[Tripped]) -> str:
    """A stage: each passage with its gates, the latest three."""
    parts = []
    for one in spans[-3:]:
        end = story.at if one.end is None else one.end
        begun = span(one.start - story.started_at)
        verb = f"ended after {span(end - one.start)}" if one.end is not None else f"running for {span(end - one.start)}"
        post = f", check after {GATES[one.post]}" if one.end is not None else ""
        parts.append(f"plan {one.epoch + 1}: began at {begun}, {verb}, check before {GATES[one.pre]}{post}")
    parts += [", ".join(_calls_told(lane)) for lane in lanes[-1:] if lane.stage != Stage.FAN_OUT and lane.bars]
    parts += [inert(trip.sentence) for trip in trips[-3:]]
    return "; ".join(parts)
