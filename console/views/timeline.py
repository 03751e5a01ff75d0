"""The timeline of a run: five stage lanes with a row for every step of the fan-out, as SVG of attributes alone. Pure functions of the story.

Drawn as of the run's last event, so that the same journal is the same picture for everybody. Bounded: so many rows, so many bars in a
row; what is more is merged, with its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.figures import span, usd
from console.templatetags.said import inert
from console.views.time_axis import PLEAT, RIGHT, US, Axis, axis_of, clock
from console.views.timeline_words import STATE_WORDS, lane_told, stage_told, trip_told
from fabric.core.flow import Stage
from fabric.selectors.display import words
from fabric.selectors.run_story import RunStory
from fabric.selectors.run_time import busy
from fabric.selectors.story_parts import Bar, Lane, Span, StageSpan, Tally, Tripped

ROWS_MAX = 36
"""Rows of the fan-out; the rest is one row with a count."""
BARS_MAX = 72
"""Bars in a row; more are merged where they stand."""
MARKS_MAX = 24
"""Gates, trips, waits or back-offs in a row."""
NARROWEST = 0.15
"""Percent: a bar that is shorter can still be seen."""
GOES_ON = 95.0
"""Percent: where the last event of a run stands that has not ended."""
TALL, LOW = 30, 26
"""Heights of a stage's row and a worker's, pixels."""


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
    waits: bool
    retries: bool
    trips: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """One bar to be drawn, perhaps for several."""

    css: str
    start: float
    end: float
    title: str


def timeline(story: RunStory, created_at: int, *, fold: bool = True) -> Timeline:
    """Draws a story; ``created_at``: when the run was asked for. With idle time folded, or at its real length."""
    right = RIGHT if story.ended_at is not None else GOES_ON
    axis = axis_of(created_at, story.at or created_at, busy(story), fold=fold, right=right, name=grid_id(fold=fold))
    rows: list[Row] = []
    merged = False
    for stage in Stage:
        lanes = sorted(
            (lane for lane in story.lanes.values() if lane.stage == stage),
            key=lambda one: (one.epoch, one.branch, one.round),
        )
        fan_out = stage is Stage.FAN_OUT
        rows.append(_stage_row(story, axis, stage, lanes, created_at))
        merged = merged or (not fan_out and sum(len(lane.bars) for lane in lanes) > BARS_MAX)
        if fan_out:
            shown, rest = _chosen(lanes)
            rows.extend(_worker_row(axis, story, lane) for lane in shown)
            merged = merged or bool(rest) or any(len(lane.bars) > BARS_MAX for lane in shown)
            if rest:
                rows.append(_rest_row(axis, story, rest))
    return Timeline(
        head=_head(axis, story),
        rows=tuple(rows),
        folded=axis.folded,
        longest=max((pleat.micros for pleat in axis.pleats), default=0),
        merged=merged,
        waits=any(lane.waits for lane in story.lanes.values()) or bool(story.stage_waits),
        retries=any(lane.backoffs for lane in story.lanes.values()),
        trips=bool(story.fired),
    )


# -- rows ----------------------------------------------------------------------------------------------------------------


def _stage_row(story: RunStory, axis: Axis, stage: Stage, lanes: list[Lane], created_at: int) -> Row:
    spans = [one for one in story.stages if one.stage == stage]
    if not spans:
        empty = format_html('<line class="g-none" x1="1.2%" x2="98.8%" y1="{0}" y2="{0}"/>', TALL // 2)
        queue = _queue(axis, story, created_at) if stage is Stage.PLAN else ""
        told = "not reached"
        return Row(words(stage), "", "stage unreached", _svg(axis.name, (queue or empty,)), told, None, None)
    parts: list[SafeString] = [_queue(axis, story, created_at)] if stage is Stage.PLAN else []
    parts += [_stage_bar(axis, story, one) for one in spans[-MARKS_MAX:]]
    if stage is not Stage.FAN_OUT:
        parts += _bars(axis, story, [bar for lane in lanes for bar in lane.bars], TALL)
        parts += _spans(axis, story, [b for lane in lanes for b in lane.backoffs], "g-retry", TALL)
        parts += _spans(axis, story, [w for lane in lanes for w in lane.waits], "g-human", TALL)
    parts += _spans(axis, story, story.stage_waits.get(stage, []), "g-human", TALL)
    for one in spans[-MARKS_MAX:]:
        parts += _gates(axis, one)
    trips = [
        *story.stage_trips.get(stage, []),
        *(t for lane in lanes if stage is not Stage.FAN_OUT for t in lane.trips),
    ]
    parts += _knots(axis, trips, TALL)
    tally = story.by_stage.get(stage, Tally())
    cost = tally.cost_usd_micros if tally.calls else None
    return Row(
        words(stage),
        "",
        "stage",
        _svg(axis.name, parts),
        stage_told(story, spans, lanes, trips),
        tally.tokens or None,
        cost,
    )


def _worker_row(axis: Axis, story: RunStory, lane: Lane) -> Row:
    parts = [
        *_bars(axis, story, lane.bars, LOW),
        *_spans(axis, story, lane.backoffs, "g-retry", LOW),
        *_spans(axis, story, lane.waits, "g-human", LOW),
        *_knots(axis, lane.trips, LOW),
    ]
    note = " ".join(
        part
        for part in (f"e{lane.epoch + 1}" if lane.epoch else "", f"r{lane.round + 1}" if lane.round else "")
        if part
    )
    tally = lane.tally
    name = f"{lane.agent} {lane.branch + 1}"
    return Row(
        name, note, "worker", _svg(axis.name, parts), lane_told(story, lane), tally.tokens or None, tally.cost_usd_micros if tally.calls else None
    )  # fmt: skip


def _rest_row(axis: Axis, story: RunStory, lanes: list[Lane]) -> Row:
    bars = sorted((bar for lane in lanes for bar in lane.bars), key=lambda bar: bar.start)
    tally = Tally()
    for lane in lanes:
        tally.calls += lane.tally.calls
        tally.add(lane.tally.tokens, lane.tally.cost_usd_micros)
    states = Counter(lane.state for lane in lanes)
    told = ", ".join(f"{count:,} {STATE_WORDS[state]}" for state, count in states.items())
    name = f"{len(lanes):,} more"
    return Row(
        name,
        "",
        "worker",
        _svg(axis.name, _bars(axis, story, bars, LOW)),
        told,
        tally.tokens or None,
        tally.cost_usd_micros,
    )


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


# -- shapes --------------------------------------------------------------------------------------------------------------


def _svg(grid: str, parts: Iterable[Any]) -> SafeString:
    body = format_html_join("", "{}", ((part,) for part in parts))
    return format_html('<svg class="lane" aria-hidden="true"><use href="#{}"/>{}</svg>', grid, body)


def _rect(css: str, start: float, end: float, y: float, height: float, title: str) -> SafeString:
    return format_html(
        '<rect class="{}" x="{}%" width="{}%" y="{}" height="{}" rx="2"><title>{}</title></rect>',
        *(css, f"{start:.2f}", f"{max(end - start, NARROWEST):.2f}", f"{y:g}", f"{height:g}", title),
    )


def _stage_bar(axis: Axis, story: RunStory, one: StageSpan) -> SafeString:
    goes_on = one.end is None
    css = "g-stage-run" if goes_on else "g-stage"
    end = story.at if one.end is None else one.end
    title = f"{words(one.stage)}, epoch {one.epoch + 1}: {span(end - one.start)}{' so far' if goes_on else ''}"
    return _rect(css, axis.x(one.start), axis.until(one.end), 11, 8, title)


def _queue(axis: Axis, story: RunStory, created_at: int) -> SafeString:
    start = story.started_at or story.at or created_at
    return format_html(
        '<line class="g-queue" x1="{}%" x2="{}%" y1="15" y2="15"/>',
        f"{axis.x(created_at):.2f}",
        f"{axis.x(start) if start > created_at else 98.8:.2f}",
    )


BAR_CSS = {"open": "", "done": "", "failed": "g-fail", "let_go": "g-void"}
BAR_WORDS = {"open": "still out", "done": "answered", "failed": "failed", "let_go": "let go"}


def _bars(axis: Axis, story: RunStory, bars: list[Bar], height: int) -> list[SafeString]:
    marks = merged(axis, story, bars)
    return [_rect(mark.css, mark.start, mark.end, height / 2 - 6, 12, mark.title) for mark in marks]


def merged(axis: Axis, story: RunStory, bars: list[Bar]) -> list[Mark]:
    """At most ``BARS_MAX`` marks for all of ``bars``: those of one look that stand in the same slot are one, with their count."""
    if len(bars) <= BARS_MAX:
        return [_mark(axis, story, bar) for bar in bars]
    slots = max(1, BARS_MAX // len({(bar.call, bar.became) for bar in bars}))
    groups: dict[tuple[str, str, int], list[Bar]] = {}
    for bar in bars:
        slot = min(slots - 1, int(axis.x(bar.start) * slots / 100))
        groups.setdefault((bar.call, bar.became, slot), []).append(bar)
    made = []
    for (call, became, slot), group in groups.items():
        if len(group) == 1:
            made.append(_mark(axis, story, group[0]))
            continue
        ends = [bar.end for bar in group if bar.end is not None]
        until = axis.until(max(ends) if len(ends) == len(group) else None)
        title = f"{len(group):,} {call} calls {BAR_WORDS[became]}"
        made.append(Mark(_css(group[0]), axis.x(group[0].start), min(until, (slot + 1) * 100 / slots), title))
    return sorted(made, key=lambda mark: (mark.start, mark.css))


def _css(bar: Bar) -> str:
    return BAR_CSS[bar.became] or f"g-{bar.call}"


def _mark(axis: Axis, story: RunStory, bar: Bar) -> Mark:
    end = story.at if bar.end is None else bar.end
    again = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
    cost = f", {usd(bar.cost_usd_micros)}" if bar.cost_usd_micros else ""
    title = f"{inert(bar.target)}{again}: {BAR_WORDS[bar.became]}, {span(end - bar.start)}{cost} · event {bar.seq}"
    return Mark(_css(bar), axis.x(bar.start), axis.until(bar.end), title)


def _spans(axis: Axis, story: RunStory, spans: list[Span], css: str, height: int) -> list[SafeString]:
    made = []
    for one in spans[-MARKS_MAX:]:
        lasts = one.end is None or one.end > story.at
        end = story.at if one.end is None else one.end
        until = axis.until(None if lasts else one.end)
        title = f"waits for {inert(one.word)}" if css == "g-human" else f"back-off before {one.word}"
        if css == "g-human":
            made.append(_rect(css, axis.x(one.start), until, height / 2 - 6, 12, f"{title}, {span(end - one.start)}"))
        else:
            line = '<line class="g-retry" x1="{}%" x2="{}%" y1="{}" y2="{}"><title>{}</title></line>'
            y = height // 2
            until = max(until, axis.x(one.start) + 0.4)
            made.append(
                format_html(line, f"{axis.x(one.start):.2f}", f"{until:.2f}", y, y, f"{title}, {span(end - one.start)}")
            )
    return made


def _gates(axis: Axis, one: StageSpan) -> Iterator[SafeString]:
    for at, passed, which in ((one.start, one.pre, "pre"), (one.end, one.post, "post")):
        if at is not None and passed is not None:
            word, css = ("passed", "pass") if passed else ("failed", "fail")
            yield format_html(
                '<svg x="{}%" y="15" overflow="visible"><path class="gate {}" d="M0-5.500L5.500 0 0 5.500-5.500 0z"><title>{}</title></path></svg>',
                *(f"{axis.x(at):.2f}", css, f"{which}-gate of {words(one.stage)} {word}, epoch {one.epoch + 1}"),
            )


def _knots(axis: Axis, trips: list[Tripped], height: int) -> list[SafeString]:
    return [
        format_html(
            '<svg x="{}%" y="{}" overflow="visible"><circle class="knot" r="4.5"><title>{}</title></circle></svg>',
            *(
                f"{axis.x(trip.at):.2f}",
                7 if height == TALL else height // 2,
                inert(trip_told(trip)) + f" · event {trip.seq}",
            ),
        )
        for trip in trips[-MARKS_MAX:]
    ]


def _head(axis: Axis, story: RunStory) -> SafeString:
    """The axis, and what every lane shows behind its bars, drawn once: lanes refer to it."""
    return format_html(
        '<svg class="lane axis" aria-hidden="true"><defs>{}</defs><g id="{}">{}</g>{}</svg>',
        HATCH,
        axis.name,
        format_html_join("", "{}", ((one,) for one in _grid(axis, story))),
        format_html_join("", "{}", ((one,) for one in _labels(axis, story))),
    )


def _grid(axis: Axis, story: RunStory) -> Iterator[SafeString]:
    """Ticks, pleats, new epochs, and the instant of the last event."""
    line = '<line class="{}" x1="{}%" x2="{}%" y1="0" y2="100%"/>'
    fold = (
        '<rect class="g-fold" x="{}%" width="4%" y="0" height="100%"/><svg x="{}%" y="0" overflow="visible">'
        '<path class="g-fold-z" d="M-3 0L3 4-3 8 3 12-3 16 3 20-3 24 3 28-3 32"/></svg>'
    )
    for tick in axis.ticks():
        yield format_html(line, "g-grid", f"{tick.x:.2f}", f"{tick.x:.2f}")
    for pleat in axis.pleats:
        yield format_html(fold, f"{pleat.x:.2f}", f"{pleat.x + PLEAT / 2:.2f}")
    for at, *_ in story.epochs:
        yield format_html(line, "g-epoch", f"{axis.x(at):.2f}", f"{axis.x(at):.2f}")
    if story.ended_at is None and story.at:
        yield format_html(line, "g-now", f"{axis.x(story.at):.2f}", f"{axis.x(story.at):.2f}")


def _labels(axis: Axis, story: RunStory) -> Iterator[SafeString]:
    """What the ticks and pleats are, where there is room to say it."""
    text = '<svg x="{}%" overflow="visible"><text class="{}" x="{}" y="17" text-anchor="{}">{}</text></svg>'
    ticks = axis.ticks()
    step = ticks[1].elapsed - ticks[0].elapsed if len(ticks) > 1 else US
    last = axis.x(axis.end)
    for tick in ticks:
        crowded = any(-18 < tick.x - pleat.x < 17 for pleat in axis.pleats) or tick.x > last - 13
        if not crowded or (tick.elapsed == 0 and not axis.pleats):
            yield format_html(text, f"{tick.x:.2f}", "", 4, "start", clock(tick.elapsed, step))
    for pleat in axis.pleats:
        beside = pleat.x + PLEAT < last - 24
        x, dx, anchor = (pleat.x + PLEAT, 4, "start") if beside else (pleat.x, -4, "end")
        yield format_html(text, f"{x:.2f}", "fold-t", dx, anchor, span(pleat.micros))
    now = "now-t" if story.ended_at is None else ""
    if story.at:
        yield format_html(text, f"{last:.2f}", now, -4, "end", clock(axis.shown, step))


HATCH = format_html(
    '<pattern id="p-human" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="pat-bg" width="6" height="6"/><rect class="pat-h" width="2" height="6"/></pattern>{}',
    "",
)
"""What waits for a person is hatched."""
