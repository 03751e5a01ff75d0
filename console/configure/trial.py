"""The box in which a check of the draft is tried on a sample: one at a time, under the check that it is of.

Its fields are sent with the part's form, as ``s.PATH.NAME``; ``tried`` says which box is open, and the button ``try`` opens one and tries it. While a box is
open, every answer of the page has tried it anew, so that it follows what is typed. A text that nobody has changed stays the example, also when the example
is another now: ``x.PATH.NAME`` is the fingerprint of the example that was shown.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.services.trying.apart import TRIAL_S
from fabric.services.trying.asked import check_try
from fabric.services.trying.shapes import Mark, SampleField, Tried, TriedLine
from fabric.services.trying.trials import TRIALS, fields_of, kind_at

JSON = Any
SAMPLE, EXAMPLE, OPEN, BUTTON = "s.", "x.", "tried", "try"
AGAIN_S = 1.0
"""Seconds that a box may take which is tried along with a change: who presses its button waits longer."""
ROWS_MAX = 14

MARKS: Mapping[Mark, tuple[str, str, str]] = {
    "passes": ("Passes", "ok", "okc"),
    "fails": ("Fails", "danger", "xc"),
    "error": ("Error", "warn", "alert"),
    "note": ("Note", "neutral", "info"),
}
"""Word, tone and icon of what a check says; total over ``Mark``."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    line: TriedLine
    word: str
    tone: str
    icon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBox:
    """One field of a sample as it stands in the page."""

    name: str
    """Of its control, and its id."""
    field: SampleField
    text: str
    mark: str
    """Name of the field beside it that has the example's fingerprint."""
    fingerprint: str
    problem: str = ""

    @property
    def rows(self) -> int:
        """Lines of its control."""
        return min(ROWS_MAX, max(2, self.text.count("\n") + 1 + len(self.text) // 110))

    @property
    def lines(self) -> bool:
        """Whether it has several lines."""
        return self.field.kind in ("json", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class TryBox:
    """A check that is being tried."""

    path: str
    title: str = ""
    boxes: tuple[SampleBox, ...] = ()
    tried: Tried | None = None
    """None: not yet, or it was refused."""
    refused: Refused | None = None
    problem: str = ""
    """Why it could not be tried, where that is no field's fault."""

    @property
    def verdict(self) -> tuple[str, str, str] | None:
        """Word, tone and icon."""
        return MARKS[self.tried.verdict] if self.tried is not None else None

    @property
    def lines(self) -> list[Line]:
        """What was looked at."""
        return [Line(one, *MARKS[one.mark]) for one in self.tried.lines] if self.tried is not None else []


def open_path(sent: Mapping[str, str], asked: str, button: str = "") -> str:
    """Which check's box is open after what was sent: the one whose button was pressed, else the one that was, wherever its check has gone meanwhile."""
    return sent.get(BUTTON) or followed(sent.get(OPEN) or asked, button)


def followed(path: str, button: str) -> str:
    """Where a path leads after a button that took items of a list out or moved them; empty: nowhere any more."""
    word, _, item = button.partition(" ")
    listed, _, number = item.rpartition(".")
    found = re.match(rf"{re.escape(listed)}\.(\d+)(?=\.|$)", path) if listed and number.isdecimal() else None
    if found is None or word not in ("remove", "up", "down"):
        return path
    here, there = int(found[1]), int(number)
    rest = path[found.end() :]
    if word == "remove":
        return "" if here == there else f"{listed}.{here - (here > there)}{rest}"
    other = there + (-1 if word == "up" else 1)
    moved = {there: other, other: there}.get(here, here) if other >= 0 else here
    return f"{listed}.{moved}{rest}"


def box_of(actor: Actor, draft: Mapping[str, JSON], path: str, sent: Mapping[str, str]) -> TryBox:
    """The box of a check, tried with what was sent of it; not tried where nothing was sent. Refused forbidden for who may not try."""
    try:
        kind, fields = kind_at(path), fields_of(draft, path)
    except Refused as refused:
        return TryBox(path=path, refused=refused, problem=refused.message)
    boxes = tuple(_box(path, field, sent) for field in fields)
    box = TryBox(path=path, title=TRIALS[kind].title, boxes=boxes)
    if OPEN not in sent:
        return box
    sample = {one.field.name: one.text for one in boxes}
    within_s = TRIAL_S if BUTTON in sent else AGAIN_S
    try:
        return replace(box, tried=check_try(actor=actor, draft=draft, path=path, sample=sample, within_s=within_s))
    except Refused as refused:
        if refused.code == "forbidden":
            raise
        return _refused(box, refused)


def _box(path: str, field: SampleField, sent: Mapping[str, str]) -> SampleBox:
    name, mark = f"{SAMPLE}{path}.{field.name}", f"{EXAMPLE}{path}.{field.name}"
    text = sent[name].replace("\r\n", "\n") if name in sent else field.example
    if sent.get(mark) == fingerprint(text) or (field.kind == "choice" and text not in field.choices):
        text = field.example
    return SampleBox(name=name, field=field, text=text, mark=mark, fingerprint=fingerprint(field.example))


def fingerprint(text: str) -> str:
    """A few characters that stand for an example."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _refused(box: TryBox, refused: Refused) -> TryBox:
    name = refused.field.partition(".")[0]
    sentence = refused.message.removeprefix(f"{name}: ")
    boxes = tuple(replace(one, problem=sentence) if one.field.name == name else one for one in box.boxes)
    ours = any(one.problem for one in boxes)
    return replace(box, boxes=boxes, refused=refused, problem="" if ours else refused.message)
