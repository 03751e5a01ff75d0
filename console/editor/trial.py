"""The box that tries a check of the draft on a sample. One box is open at a time, under its check.

The part's form sends its fields as ``s.PATH.NAME``. ``tried`` names the open box; the button ``try`` opens one and
tries it. While a box is open, every answer of the page tries it again. An unchanged sample follows the current
example: ``x.PATH.NAME`` is the fingerprint of the shown one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from console.forms.controls.fields import MISSING, EditField, Shape, unlined
from console.forms.controls.kinds import Kind
from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.selectors.errors import Refused
from fabric.services.fabrics.checks import TextFinding
from fabric.services.fabrics.trials.processes import TRIAL_S, check_try
from fabric.services.fabrics.trials.shapes import Mark, SampleField, TrialResult, TriedLine
from fabric.services.fabrics.trials.table import TRIALS, kind_at, list_fields

SAMPLE, EXAMPLE, OPEN, BUTTON = "s.", "x.", "tried", "try"
AGAIN_S = 1.0
"""Seconds that a box may take which is tried along with a change: who presses its button waits longer."""

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
class TryBox:
    """A check that is being tried."""

    path: str
    title: str = ""
    boxes: tuple[EditField, ...] = ()
    tried: TrialResult | None = None
    """None: not yet, or it was refused."""
    refused: Refused | None = None
    problem: str = ""
    """Why it could not be tried, where that is no field's fault."""

    @property
    def verdict(self) -> tuple[str, str, str] | None:
        """Word, tone and icon."""
        return MARKS[self.tried.verdict] if self.tried is not None else None

    @property
    def marks(self) -> list[tuple[str, str]]:
        """Return the fingerprints of the examples, by the names of the fields that send them."""
        return [(one.shape.place, fingerprint(one.shape.default)) for one in self.boxes]

    @property
    def lines(self) -> list[Line]:
        """Result of the trial."""
        return [Line(one, *MARKS[one.mark]) for one in self.tried.lines] if self.tried is not None else []


def open_path(sent: Mapping[str, str], asked: str, button: str = "") -> str:
    """Return the check whose box is open: that of the pressed button, else the one that was open."""
    return sent.get(BUTTON) or followed(sent.get(OPEN) or asked, button)


def followed(path: str, button: str) -> str:
    """Return the path of a place after a button took items of a list out or moved them. Empty: the place is gone."""
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
    """The box of a check, tried with what was sent of it; not tried where nothing was sent. Refused forbidden for who
    may not try.
    """
    try:
        kind, fields = kind_at(path), list_fields(draft, path)
    except Refused as refused:
        return TryBox(path=path, refused=refused, problem=refused.message)
    boxes = tuple(_box(path, field, sent) for field in fields)
    box = TryBox(path=path, title=TRIALS[kind].title, boxes=boxes)
    if OPEN not in sent:
        return box
    sample = {field.name: one.text for field, one in zip(fields, boxes, strict=True)}
    within_s = TRIAL_S if BUTTON in sent else AGAIN_S
    try:
        return replace(box, tried=check_try(actor=actor, draft=draft, path=path, sample=sample, within_s=within_s))
    except Refused as refused:
        if refused.code == "forbidden":
            raise
        return _refused(box, refused)


KINDS: Mapping[str, Kind] = {"text": "prose", "json": "json", "number": "number", "choice": "choice"}
"""The control of each kind of a sample's field."""


def _box(path: str, field: SampleField, sent: Mapping[str, str]) -> EditField:
    name, mark = f"{SAMPLE}{path}.{field.name}", f"{EXAMPLE}{path}.{field.name}"
    text = unlined(sent.get(name, field.example))
    if sent.get(mark) == fingerprint(text) or (field.kind == "choice" and text not in field.choices):
        text = field.example
    shape = Shape(
        place=mark, kind=KINDS[field.kind], label=field.label, words="sample", help=field.hint, default=field.example
    )
    options = tuple((one, one) for one in field.choices)
    inherited = field.example if options else MISSING
    return EditField(prefix="", path=name, shape=shape, given=text, was=text, inherited=inherited, options=options)


def fingerprint(text: str) -> str:
    """A few characters that stand for an example."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _refused(box: TryBox, refused: Refused) -> TryBox:
    name = refused.field.partition(".")[0]
    sentence = refused.message.removeprefix(f"{name}: ")
    about = f"{SAMPLE}{box.path}.{name}"
    said = (TextFinding("error", about, sentence),)
    boxes = tuple(replace(one, findings=said) if one.path == about else one for one in box.boxes)
    ours = any(one.wrong for one in boxes)
    return replace(box, boxes=boxes, refused=refused, problem="" if ours else refused.message)
