"""One event as a row of a run's list: the same for whoever looks, so that the hub renders it once for all pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from console.templatetags.marks import EVENT_ICONS
from fabric.selectors.display import EVENT_DISPLAY, tone_of, words
from fabric.selectors.run_events import EventRow, Gap, Wait

LOUD = frozenset({"warn", "danger", "human"})
"""Tones that colour a row. A page on which all goes well is grey."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """A row. ``delta_us``: since the row above it; None where there is none."""

    row: EventRow
    delta_us: int | None = None
    item: Literal["event"] = "event"

    @property
    def label(self) -> str:
        """What happened, in two or three words."""
        display = EVENT_DISPLAY.get(self.row.kind)
        return display.label if display else self.row.kind.replace("_", " ")[:60]

    @property
    def icon_id(self) -> str:
        """The sprite's symbol."""
        display = EVENT_DISPLAY.get(self.row.kind)
        return EVENT_ICONS[display.icon] if display else "unknown"

    @property
    def tone(self) -> str:
        """The row's colour; empty for most."""
        if not self.row.known:
            return "danger"
        tone = tone_of(self.row.kind, self.row.fact)
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
        """What its content hashes to, hex; empty when it never had one."""
        return self.row.payload_hash.hex()


@dataclass(frozen=True, slots=True)
class GapLine:
    """Events that should be there and are not."""

    gap: Gap
    item: Literal["gap"] = "gap"

    @property
    def count(self) -> int:
        """How many."""
        return self.gap.last - self.gap.first + 1


@dataclass(frozen=True, slots=True)
class WaitLine:
    """Folded time."""

    wait: Wait
    item: Literal["wait"] = "wait"


Line = EventLine | GapLine | WaitLine


def lines_of(rows: tuple[EventRow, ...], gaps: tuple[Gap, ...], waits: tuple[Wait, ...]) -> list[Line]:
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
