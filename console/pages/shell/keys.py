"""Defines the keys of the console in one table.

The sheet shows it, and the page's script reads it from the sheet, so that both agree.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

KeyAct = Literal[
    "go",
    "search",
    "palette",
    "actions",
    "sheet",
    "next",
    "previous",
    "open",
    "pick",
    "press",
    "player",
    "close",
    "submit",
]
"""Act of a key; ``static/shell/keys.js`` has one function for each, total by test."""


class Key(NamedTuple):
    """One row: keys pressed one after the other, or together with Ctrl."""

    keys: str
    does: str
    """The sheet's sentence."""
    do: KeyAct
    to: str = ""
    """Target of the key. ``go``: a route name. ``press``: the ``data-press`` of a button or link on the page."""

    @property
    def bare(self) -> bool:
        """Return True if the key is only letters and signs, which can be turned off (WCAG 2.1.4)."""
        return not any(key in ("Ctrl", "Enter", "Esc") for key in self.keys.split())

    @property
    def caps(self) -> list[str]:
        """Return the texts on the keycaps."""
        return [{"Enter": "↵"}.get(key, key) for key in self.keys.split()]


KEYS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    (
        "Go to",
        (
            Key("g o", "overview", "go", "overview"),
            Key("g r", "runs", "go", "runs"),
            Key("g a", "dashboards", "go", "dashboards"),
            Key("g v", "reviews", "go", "reviews"),
            Key("g d", "drills", "go", "drills"),
            Key("g f", "fabrics", "go", "fabrics"),
            Key("g b", "breakers", "go", "breakers"),
            Key("n", "start a run", "go", "start"),
        ),
    ),
    (
        "Find and do",
        (
            Key("/", "search, or this list's query", "search"),
            Key("Ctrl K", "palette: pages, actions, results", "palette"),
            Key(".", "actions of this page", "actions"),
            Key("?", "this sheet", "sheet"),
        ),
    ),
    (
        "In a list",
        (
            Key("j", "next row", "next"),
            Key("k", "previous row", "previous"),
            Key("Enter", "open the row", "open"),
            Key("f", "add a filter", "press", "filter"),
            Key("x", "select the row, or clear it", "pick"),
        ),
    ),
    (
        "On a run",
        (
            Key("t", "timeline", "press", "view-timeline"),
            Key("v", "events", "press", "view-events"),
            Key("y", "graph", "press", "view-graph"),
            Key("c", "cost", "press", "view-cost"),
            Key("[", "previous stage", "press", "stage-previous"),
            Key("]", "next stage", "press", "stage-next"),
            Key("z", "fold idle time, or unfold it", "press", "fold"),
            Key("m", "message to the next speaker", "press", "say"),
            Key("l", "copy the link of the event", "press", "event-link"),
            Key("x", "cancel the run (asks first)", "press", "cancel"),
        ),
    ),
    (
        "On reviews",
        (
            Key("a", "approve: goes to its fields", "press", "verb-approve"),
            Key("e", "edit", "press", "verb-edit"),
            Key("s", "respond", "press", "verb-respond"),
            Key("d", "decline: the call alone is not made", "press", "verb-decline"),
            Key("r", "reject", "press", "verb-reject"),
            Key("u", "undo the answer", "press", "undo"),
            Key("c", "claim it", "press", "claim"),
            Key("n", "claim the next one", "press", "claim-next"),
            Key("j", "next review", "press", "review-next"),
            Key("k", "previous review", "press", "review-previous"),
        ),
    ),
    (
        "On the fabrics",
        (Key("n", "new fabric", "press", "fabric-new"),),
    ),
    (
        "On the drills",
        (
            Key("R", "drill all cells", "press", "drill-all"),
            Key("↑ ↓ ← →", "go from cell to cell of the matrix", "player"),
            Key("← →", "previous and next moment of a drill", "player"),
            Key("Home End", "its first and its last moment", "player"),
            Key("Space", "play or pause", "player"),
        ),
    ),
    (
        "On a page",
        (
            Key("p", "pause or resume live updates", "press", "pause"),
            Key("Ctrl Enter", "send the form", "submit"),
            Key("Esc", "close what is open", "close"),
        ),
    ),
)
"""Groups of the sheet, in order. If two groups use a key, the one whose button is on the page wins."""
