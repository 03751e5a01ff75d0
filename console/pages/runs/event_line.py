"""Draw one event as a row of a run's list. All readers get equal rows, so the hub renders each once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from console.site.markup import mark_safe_markup
from console.templatetags.figures import instant, span
from console.templatetags.marks import EVENT_ICONS, icon
from console.templatetags.said import inert
from fabric.core.values.words import words
from fabric.selectors.runs.display import EVENT_DISPLAY, choose_label, choose_tone
from fabric.selectors.runs.events.windows import EventRow, EventWait, Gap

LOUD = frozenset({"warn", "danger", "human"})
"""Tones that colour a row. A page on which all goes well is grey."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """A row. ``delta_us``: since the row above it; None where there is none."""

    row: EventRow
    delta_us: int | None = None
    item: Literal["event"] = "event"

    def as_row(self, run_id: str, query: str = "") -> SafeString:
        """Return the row's HTML. ``query``: the list's filter, as the end of an address."""
        return row_html(self, run_id, query)

    @property
    def label(self) -> str:
        """The event in two or three words."""
        return choose_label(self.row.kind, self.row.fact)

    @property
    def icon_id(self) -> str:
        """The sprite's symbol."""
        display = EVENT_DISPLAY.get(self.row.kind)
        if display and self.row.kind == "step_failed" and not self.row.failed:
            return "minus"
        return EVENT_ICONS[display.icon] if display else "unknown"

    @property
    def tone(self) -> str:
        """The row's colour; empty for most."""
        if not self.row.known:
            return "danger"
        tone = choose_tone(self.row.kind, self.row.fact)
        return tone if tone in LOUD and self.importance > 1 else ""

    @property
    def importance(self) -> int:
        """0 detail to 3 a person should see it; what a newer version wrote may be anything."""
        display = EVENT_DISPLAY.get(self.row.kind)
        return display.importance if display else 2

    @property
    def stage(self) -> str:
        """The stage it is about, in words."""
        return words(self.row.stage)

    @property
    def header(self) -> str:
        """The header as it is journaled."""
        return self.row.header.decode("utf-8", "backslashreplace")

    @property
    def hash(self) -> str:
        """The event's place in the chain, hex."""
        return self.row.hash.hex()

    @property
    def payload_hash(self) -> str:
        """The hash of its content, hex. Empty: it never had one."""
        return self.row.payload_hash.hex()


@dataclass(frozen=True, slots=True)
class GapLine:
    """Events that should be there and are not."""

    gap: Gap
    item: Literal["gap"] = "gap"

    @property
    def count(self) -> int:
        """The number of missing events."""
        return self.gap.last - self.gap.first + 1


@dataclass(frozen=True, slots=True)
class WaitLine:
    """Folded time."""

    wait: EventWait
    item: Literal["wait"] = "wait"


Line = EventLine | GapLine | WaitLine


def list_lines(rows: tuple[EventRow, ...], gaps: tuple[Gap, ...], waits: tuple[EventWait, ...]) -> list[Line]:
    """The rows with what lies between them, in order."""
    found: list[Line] = []
    missing = list(gaps)
    folded = {wait.before: wait for wait in waits}
    above: EventRow | None = None
    for row in rows:
        while missing and missing[0].last < row.seq:
            found.append(GapLine(missing.pop(0)))
        if row.seq in folded:
            found.append(WaitLine(folded[row.seq]))
        found.append(EventLine(row, None if above is None else row.at - above.at))
        above = row
    return found + [GapLine(gap) for gap in missing]


def row_html(line: EventLine, run_id: str, query: str = "") -> SafeString:
    """The row of an event, ``query`` being the end of its address. By hand: a page has 200 of them, and a live one gets
    them one by one.

    Whatever the journal holds is shown inert and escaped here.
    """
    row, tone = line.row, line.tone
    address = f"{_find_events(run_id)}{row.seq}"
    stage, agent, summary = _spell_name(line.stage), _spell_name(row.agent), escape(inert(row.summary))
    marks = (f' data-tone="{tone}"' if tone else "") + (" data-failed" if row.failed else "")
    return mark_safe_markup(
        f'<tr{marks} data-seq="{row.seq}" data-at="{row.at}" data-weight="{line.importance}" data-kind="{_spell_name(row.kind)}"'
        f' data-stage="{_spell_name(row.stage)}" data-agent="{agent}">'
        f'<td><a class="seq" href="{address}{escape(query)}" hx-get="{address}" hx-target="#inspector" hx-swap="innerHTML">{row.seq}</a></td>'
        f"<td>{instant(row.at)}</td>"
        f'<td class="num delta">{span(line.delta_us)}</td>'
        f'<td class="k"><span>{icon(line.icon_id, "s")}{_spell_name(line.label)}</span></td>'
        f'<td class="muted hide-s">{stage or "–"}</td>'
        f'<td class="who hide-s">{agent or "–"}</td>'
        f'<td class="sum" title="{summary}">{summary}</td>'
        "</tr>"
    )


@lru_cache(maxsize=64)
def _find_events(run_id: str) -> str:
    """The address of a run's events, without the seq at its end."""
    return reverse("run-event", args=(run_id, 0))[:-1]


@lru_cache(maxsize=1_024)
def _spell_name(word: str) -> str:
    """Return a name as it stands in a page. Most rows have a few in common."""
    return str(escape(inert(word)))
