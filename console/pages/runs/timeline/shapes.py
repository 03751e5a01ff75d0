"""The shapes of a run's timeline as SVG of attributes alone: bars, waits, gates, trips, the axis. Each leads to the
event that it is of.

Written as text by hand, since a template a shape is too slow for thousands of them: whatever is not a number or our own
word is escaped here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from django.utils.html import escape
from django.utils.safestring import SafeString

from console.pages.runs.timeline.axis import PLEAT, RIGHT, SHORT_US, Axis, clock
from console.site.markup import mark_safe_markup
from console.templatetags.figures import span, usd
from console.templatetags.said import inert
from fabric.core.values.units import US
from fabric.core.values.words import words
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import Bar, Span, StageSpan, Tripped

BARS_MAX = 72
"""Bars in a row; more are merged where they stand."""
MARKS_MAX = 24
"""Gates, trips, waits or back-offs in a row."""
NARROWEST = 0.15
"""Percent: a bar that is shorter can still be seen."""
TALL, LOW = 30, 26
"""Heights of a stage's row and a worker's, pixels."""
NOTE_ROOM = 72.0
"""Percent: a word stands behind a row's last mark when that is not further right."""
CHAR_ROOM, LABEL_GAP = 1.55, 1.5
"""Percent of the narrowest picture that a character of the axis takes, and what stays free beside a label."""
BAR_CSS = {"open": "", "done": "", "failed": "g-fail", "let_go": "g-void"}
BAR_NAMES = {"model": "model calls", "tool": "tool calls", "child": "child runs"}
BAR_WORDS = {"open": "still out", "done": "answered", "failed": "failed", "let_go": "cancelled"}


@dataclass(slots=True)
class TimelineMark:
    """One bar to be drawn, perhaps for several of one look."""

    bar: Bar
    """The first of them."""
    start: float
    end: float
    count: int = 1

    @property
    def css(self) -> str:
        """Its look."""
        return BAR_CSS[self.bar.became] or f"g-{self.bar.call}"


@dataclass(slots=True)
class Pen:
    """Draws on one axis, as of the story's last event."""

    axis: Axis
    story: RunStory
    address: str = "?event="
    """Address prefix before an event number."""
    reach: float = field(default=0.0, init=False)
    """The rightmost percent of the row that is being drawn."""

    # -- a row ---------------------------------------------------------------------------------------------------------

    def row(self, shapes: Iterable[str], note: str = "") -> SafeString:
        """The shapes as one lane, with a word behind the last of them where there is room."""
        self.reach = 0.0
        body = "".join(shapes)
        if note and 0 < self.reach <= NOTE_ROOM:
            body += f'<svg x="{self.reach:.2f}%" overflow="visible"><text x="9" y="50%" dy=".32em">{escape(note)}</text></svg>'
        return mark_safe_markup(f'<svg class="lane" aria-hidden="true"><use href="#{self.axis.name}"/>{body}</svg>')

    def _leads(self, seq: int, shape: str) -> str:
        # Out of the tab order: the row's name leads there too, and hundreds of stops help no reader.
        return f'<a href="{self.address}{seq}" tabindex="-1">{shape}</a>'

    def _rect(self, css: str, start: float, end: float, middle: float, height: int, title: str, seq: int) -> str:
        width = max(end - start, NARROWEST)
        self.reach = max(self.reach, start + width)
        return self._leads(
            seq,
            f'<rect class="{css}" x="{start:.2f}%" width="{width:.2f}%" y="{middle - height / 2:g}" height="{height}" rx="2">'
            f"<title>{escape(title)}</title></rect>",
        )

    # -- what stages and steps did -------------------------------------------------------------------------------------

    def stage(self, one: StageSpan) -> str:
        """One passage of a stage."""
        end = self.story.at if one.end is None else one.end
        css = "g-stage-run" if one.end is None else "g-stage" if one.outcome == "passed" else "g-stage-bad"
        so_far = " so far" if one.end is None else ""
        title = f"{words(one.stage)}, plan {one.epoch + 1}: {span(end - one.start)}{so_far} · event {one.seq}"
        return self._rect(css, self.axis.x(one.start), self.axis.place_end(one.end), TALL / 2, 8, title, one.seq)

    def queue(self, created_at: int) -> str:
        """The time before a worker took the run up."""
        start = self.story.started_at or self.story.at or created_at
        right = self.axis.x(start) if start > created_at else 98.8
        return f'<line class="g-queue" x1="{self.axis.x(created_at):.2f}%" x2="{right:.2f}%" y1="15" y2="15"/>'

    def bars(self, bars: list[Bar], height: int) -> Iterator[str]:
        """Attempts."""
        for mark in self.merge_bars(bars):
            yield self._rect(mark.css, mark.start, mark.end, height / 2, 12, self._describe_mark(mark), mark.bar.seq)

    def outs(self, bars: list[Bar], height: int) -> Iterator[str]:
        """Calls that are out: dashed until their deadline. The page's script fills them up to now."""
        out = (
            [bar for bar in bars if bar.end is None and bar.due > self.story.at][-MARKS_MAX:] if self.axis.until else []
        )
        for bar in out:
            left, width = self.axis.right, self.axis.ahead(bar.due) - self.axis.right
            y = height / 2 - 6
            yield (
                f'<rect class="g-out" x="{left:.2f}%" width="{width:.2f}%" y="{y:g}" height="12" rx="2"/>'
                f'<rect class="g-elapsed" x="{left:.2f}%" width="0%" y="{y:g}" height="12" data-due="{bar.due // 1_000}"/>'
            )
        if out:
            yield self._waits_for(out, height)

    def _waits_for(self, out: list[Bar], height: int) -> str:
        first = min(out, key=lambda bar: bar.due)
        more = f" and {len(out) - 1:,} more" if len(out) > 1 else ""
        who = escape(f"waits for {inert(first.target)}{more}")
        whole, due = span(first.due - first.start), first.due // 1_000
        return (
            f'<svg x="{RIGHT:.2f}%" overflow="visible"><text class="out-t" x="-4" y="{height // 2}" dy=".32em" text-anchor="end"'
            f' data-out="{who}" data-start="{first.start // 1_000}" data-due="{due}">{who}, {whole} at most</text></svg>'
        )

    def _describe_mark(self, mark: TimelineMark) -> str:
        bar = mark.bar
        if mark.count > 1:
            return f"{mark.count:,} {BAR_NAMES[bar.call]} {BAR_WORDS[bar.became]}, from event {bar.seq} on"
        end = self.story.at if bar.end is None else bar.end
        again = f", attempt {bar.attempt}" if bar.attempt > 1 else ""
        again += f", in place of {inert(bar.instead_of)}" if bar.instead_of else ""
        cost = f", {usd(bar.cost_usd_micros)}" if bar.cost_usd_micros else ""
        return f"{inert(bar.target)}{again}: {BAR_WORDS[bar.became]}, {span(end - bar.start)}{cost} · event {bar.seq}"

    def merge_bars(self, bars: list[Bar]) -> list[TimelineMark]:
        """Return at most ``BARS_MAX`` marks for sorted bars. Bars of one look in one slot are merged."""
        axis = self.axis
        if len(bars) <= BARS_MAX:
            return [TimelineMark(bar, axis.x(bar.start), self._end_bar(bar.end)) for bar in bars]
        slots = max(1, BARS_MAX // len({(bar.call, bar.became) for bar in bars}))
        made, first = [], 0
        for slot in range(1, slots + 1):
            right = 100 * slot / slots
            after = bisect_left(bars, right, first, key=lambda bar: axis.x(bar.start)) if slot < slots else len(bars)
            made += self._slot(bars[first:after], right)
            first = after
        return made

    def _slot(self, bars: list[Bar], right: float) -> list[TimelineMark]:
        found: dict[tuple[str, str], TimelineMark] = {}
        ends: dict[tuple[str, str], int | None] = {}
        for bar in bars:
            look = (bar.call, bar.became)
            mark = found.get(look)
            if mark is None:
                found[look], ends[look] = TimelineMark(bar, 0.0, 0.0), bar.end
                continue
            mark.count += 1
            latest = ends[look]
            ends[look] = None if latest is None or bar.end is None else max(latest, bar.end)
        for key, mark in found.items():
            mark.start, mark.end = self.axis.x(mark.bar.start), self._end_bar(ends[key])
            if mark.count > 1:
                mark.end = min(mark.end, right)
        return list(found.values())

    def _end_bar(self, end: int | None) -> float:
        """A call that is out is solid up to the last event, where the time until its deadline begins."""
        return self.axis.right if end is None and self.axis.until else self.axis.place_end(end)

    def waits(self, spans: list[Span], height: int) -> Iterator[str]:
        """Waits for a person."""
        for one in spans[-MARKS_MAX:]:
            # An open wait grows while nothing is recorded: how long it is cannot be drawn.
            so_long = "not answered yet" if one.end is None else span(one.end - one.start)
            title = f"waits for {inert(one.word)}, {so_long} · event {one.seq}"
            yield self._rect("g-human", self.axis.x(one.start), self._place_end(one), height / 2, 12, title, one.seq)

    def backoffs(self, spans: list[Span], height: int) -> Iterator[str]:
        """Back-offs: dashed."""
        for one in spans[-MARKS_MAX:]:
            end = self.story.at if one.end is None else one.end
            left = self.axis.x(one.start)
            right = max(self._place_end(one), left + 0.4)
            self.reach = max(self.reach, right)
            title = f"back-off before {one.word}, {span(end - one.start)} · event {one.seq}"
            y = height // 2
            yield self._leads(
                one.seq,
                f'<line class="g-retry" x1="{left:.2f}%" x2="{right:.2f}%" y1="{y}" y2="{y}"><title>{escape(title)}</title></line>',
            )

    def _place_end(self, one: Span) -> float:
        return self.axis.place_end(None if one.end is None or one.end > self.story.at else one.end)

    def gates(self, one: StageSpan) -> Iterator[str]:
        """A passage's gates, as knots on its thread."""
        for at, seq, passed, which in (
            (one.start, one.seq, one.pre, "before"),
            (one.end, one.end_seq, one.post, "after"),
        ):
            if at is None or passed is None:
                continue
            word, css = ("passed", "pass") if passed else ("failed", "fail")
            x = self.axis.x(at)
            self.reach = max(self.reach, x)
            title = f"check {which} {words(one.stage)} {word}, plan {one.epoch + 1} · event {seq}"
            path = f'<path class="gate {css}" d="M0-5.500L5.500 0 0 5.500-5.500 0z"><title>{title}</title></path>'
            yield f'<svg x="{x:.2f}%" y="15" overflow="visible">{self._leads(seq, path)}</svg>'

    def knots(self, trips: list[Tripped], height: int) -> Iterator[str]:
        """Mechanisms that fired."""
        for trip in trips[-MARKS_MAX:]:
            x, y = self.axis.x(trip.at), 7 if height == TALL else height // 2
            self.reach = max(self.reach, x)
            title = escape(f"{inert(trip.sentence)} · event {trip.seq}")
            circle = f'<circle class="knot" r="4.5"><title>{title}</title></circle>'
            yield f'<svg x="{x:.2f}%" y="{y}" overflow="visible">{self._leads(trip.seq, circle)}</svg>'

    # -- the axis ------------------------------------------------------------------------------------------------------

    def head(self) -> SafeString:
        """The axis, and what every lane shows behind its bars, drawn once: lanes refer to it."""
        grid, labels = "".join(self._grid()), "".join(self._labels())
        return mark_safe_markup(
            f'<svg class="lane axis" aria-hidden="true"><defs>{HATCH}</defs><g id="{self.axis.name}">{grid}</g>{labels}</svg>'
        )

    def _grid(self) -> Iterator[str]:
        """Ticks, pleats, new epochs, and the instant of the last event."""
        axis, story = self.axis, self.story
        for tick in axis.ticks():
            yield _upright("g-grid", tick.x)
        for pleat in axis.pleats:
            yield (
                f'<rect class="g-fold" x="{pleat.x:.2f}%" width="{PLEAT:g}%" y="0" height="100%"/>'
                f'<svg x="{pleat.x + PLEAT / 2:.2f}%" y="0" overflow="visible">'
                '<path class="g-fold-z" d="M-3 0L3 4-3 8 3 12-3 16 3 20-3 24 3 28-3 32"/></svg>'
            )
        for at, *_ in story.epochs:
            yield _upright("g-epoch", axis.x(at))
        if story.ended_at is None and story.at:
            yield _upright("g-now", axis.x(story.at))
        if axis.until:
            ends = f'data-left="{axis.right:g}" data-right="{RIGHT:g}" data-from="{axis.end // 1_000}" data-until="{axis.until // 1_000}"'
            yield f'<rect class="g-ahead" x="{axis.right:.2f}%" width="{RIGHT - axis.right:.2f}%" y="0" height="100%"/>'
            yield f'<line class="g-now moves" x1="{axis.right:.2f}%" x2="{axis.right:.2f}%" y1="0" y2="100%" {ends}/>'

    def _labels(self) -> Iterator[str]:
        """Return the labels of ticks and pleats, where there is room. Labels of the end and of pleats come first."""
        axis, whole = self.axis, self.axis.drawn_us
        ticks = axis.ticks()
        step = ticks[1].elapsed - ticks[0].elapsed if len(ticks) > 1 else US
        last = axis.x(axis.end)
        end = clock(whole, min(step, US // 10) if whole < SHORT_US else step, whole=whole)
        places = Places()
        trailing = axis.pleats[-1] if axis.pleats and axis.pleats[-1].x + PLEAT > last - places.room(end) else None
        ending = places.place_before(last, end, self._end_css) if trailing is None and self.story.at else ""
        for pleat in axis.pleats:
            took = span(pleat.micros)
            label = (
                places.place_before(pleat.x, took, "fold-t")
                if pleat is trailing
                else places.place_after(pleat.x + PLEAT, took, "fold-t")
            )
            yield label or places.place_before(pleat.x, took, "fold-t")
        if trailing is not None and self.story.at:
            # The last fold reaches to the end: the time that is drawn stands before it, in the order in which it
            # passed.
            ending = places.place_before(trailing.x - places.room(span(trailing.micros)), end, self._end_css)
        if axis.until:
            yield places.place_before(RIGHT, f"{span(axis.until - axis.end)} to the deadline")
        for tick in ticks:
            yield places.place_after(tick.x, clock(tick.elapsed, step, whole=whole))
        yield ending

    @property
    def _end_css(self) -> str:
        return "now-t" if self.story.ended_at is None else ""


class Places:
    """The labels on one line, percent. A label takes its place if that is free, or is left out."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, float]] = []

    def room(self, text: str) -> float:
        """Return the width of a label."""
        return CHAR_ROOM * len(text) + LABEL_GAP

    def place_after(self, x: float, text: str, css: str = "") -> str:
        """A label that begins at ``x``; empty where there is no room for it."""
        return _text(x, 4, "start", text, css) if self._free(x, x + self.room(text)) else ""

    def place_before(self, x: float, text: str, css: str = "") -> str:
        """A label that ends at ``x``; empty where there is no room for it."""
        return _text(x, -4, "end", text, css) if self._free(x - self.room(text), x) else ""

    def _free(self, left: float, right: float) -> bool:
        if left < 0 or right > 100 or any(left < b and a < right for a, b in self.taken):
            return False
        self.taken.append((left, right))
        return True


def _upright(css: str, x: float) -> str:
    return f'<line class="{css}" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="100%"/>'


def _text(x: float, dx: int, anchor: str, text: str, css: str = "") -> str:
    return f'<svg x="{x:.2f}%" overflow="visible"><text class="{css}" x="{dx}" y="17" text-anchor="{anchor}">{text}</text></svg>'


HATCH = (
    '<pattern id="p-human" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="pat-bg" width="6" height="6"/><rect class="pat-h" width="2" height="6"/></pattern>'
)
"""Bars that wait for a person are hatched."""
