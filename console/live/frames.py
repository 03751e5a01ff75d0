"""Encodes the frames of a socket: JSON whose ``content`` is HTML for the page to swap in.

``{"after", "seq", "at", "panels", "more", "content"}``:

- A frame has the rows after ``after`` up to and including ``seq``.
- ``at`` is the server's time in milliseconds.
- ``panels`` are the versions of the page's panels after this frame.
- ``more`` is the number of rows that are still to come.

A page advances its cursor only from ``after`` to ``seq``. A frame that does not begin at its cursor shows that it
missed something.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.html import format_html

FRAME_ROWS = 100
"""Rows in one frame at most."""
BEHIND_MAX = 300
"""Events a page may be behind and still get every row. Further back it gets one link to them and the newest rows."""
ROWS_TARGET = "#events-rows"
COLUMNS = 7
"""Columns of the table of events."""

Versions = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One event, rendered."""

    seq: int
    html: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the page that is replaced as a whole. Equal versions mean equal content."""

    name: str
    version: str
    html: str


@dataclass(frozen=True)
class LiveHead:
    """State of a run: the panels of its page, the end of its journal, and whether it can still change."""

    seq: int
    ended: bool
    panels: tuple[Panel, ...] = ()
    drawn: int = 0
    """Sequence number up to which the panels are complete; later events may be missing."""
    mark: str = ""
    """Value that makes panels urgent: if it changes, they are drawn anew at once."""
    again: bool = False
    """True if a panel changes without its run, so that panels are drawn anew now and then."""

    @cached_property
    def versions(self) -> Versions:
        """Return the panels' versions, in their fixed order."""
        return tuple(panel.version for panel in self.panels)


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Result of one look at the store: rows in order without a gap, and the head after them."""

    rows: tuple[LiveRow, ...]
    head: LiveHead


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """One message to a page, encoded once."""

    after: int
    seq: int
    versions: Versions
    text: str = field(repr=False)


def frame(
    *,
    run_id: str,
    after: int,
    rows: Iterable[LiveRow],
    panels: Iterable[Panel],
    versions: Versions,
    at_ms: int,
    head: LiveHead,
) -> LiveFrame:
    """Encode a frame.

    ``versions``: the page's after this frame. ``panels``: those that change with it. Rows that do not begin right
    after ``after`` are preceded by a link to those between.
    """
    shown = tuple(rows)
    seq = shown[-1].seq if shown else after
    more = max(0, head.seq - seq)
    ended = head.ended and not more
    content = [_partial(f"#panel-{panel.name}", "outerMorph", panel.html) for panel in panels]
    if shown:
        skipped = folded_row(run_id, after + 1, shown[0].seq - 1) if shown[0].seq > after + 1 else ""
        content.append(_partial(ROWS_TARGET, "beforeend", skipped + "".join(row.html for row in shown)))
    content.append(_partial("#live", "outerHTML", badge(seq=seq, at_ms=at_ms, more=more, ended=ended)))
    body: Mapping[str, object] = {
        "after": after,
        "seq": seq,
        "at": at_ms,
        "panels": ".".join(versions),
        "more": more,
        "content": "".join(content),
    }
    # All ASCII: a server encodes a text anew for each socket, and of such a text that is a mere copy.
    return LiveFrame(after, seq, versions, json.dumps(body, separators=(",", ":")))


def _partial(target: str, how: str, html: str) -> str:
    return f'<hx-partial hx-target="{target}" hx-swap="{how}">{html}</hx-partial>'


def folded_row(run_id: str, first: int, last: int) -> str:
    """Return the row that replaces events which came faster than a page can show them."""
    return format_html(
        '<tr class="folded" data-first="{}" data-last="{}"><td colspan="{}"><a href="/runs/{}?before={}#events">{} more</a></td></tr>',
        *(first, last, COLUMNS, run_id, last + 1, f"{last - first + 1:,}"),
    )


def badge(*, seq: int, at_ms: int, more: int = 0, ended: bool = False) -> str:
    """Return the live badge: last event, and its time. The page's script counts its age and marks it stale."""
    if ended:
        state, tone, word = "ended", "neutral", "Ended"
    else:
        state, tone, word = "live", "ok", "Live"
    behind = format_html(" <span>{} more</span>", f"{more:,}") if more else ""
    return format_html(
        '<a id="live" class="live" href="" data-live="{}" data-tone="{}" data-seq="{}" data-at="{}" title="Events up to {}">'
        '{} <span class="muted" data-age></span>{}</a>',
        *(state, tone, seq, at_ms, seq, word, behind),
    )
