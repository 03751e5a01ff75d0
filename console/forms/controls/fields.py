"""Describes fields of a form: the shape of a place, its value, and the text in its control."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final
from urllib.parse import quote, unquote

from console.forms.controls.kinds import CONTROLS, SEVERAL, Control, Kind, is_number, split
from console.forms.controls.rows import ROW, ROW_KINDS, SPARE_ROWS, Cells, Column, RowKind, list_rows, read_rows
from fabric.core.texts.three_way import ABSENT, Absent, same
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import TextFinding
from fabric.services.fabrics.yaml.tree import Path

Missing = Absent
MISSING: Final = ABSENT
"""There is no value."""
FIELD, SHOWN = "f.", "p."
"""Before the path in the names of controls. ``p.`` says that a control was shown of which nothing may be
sent: boxes.
"""
FITTING: Mapping[Kind, tuple[type, ...]] = {
    "text": (str,),
    "prose": (str,),
    "date": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
"""The types that a value of a strict form may have, by its kind; any where none is named."""
LONG_CHARS = 72
"""A text of more characters gets more than one line."""


# -- paths -------------------------------------------------------------------------------------------------------------


def part_of(name: str) -> str:
    """Return a key as a part of a dotted path. Its dots, and all that an id of a page may not have, are escaped."""
    part = quote(name, safe="", errors="surrogatepass").replace(".", "%2E")
    return f"%3{part}" if part.isdecimal() else part or "%"


def name_of(part: str) -> str:
    """Return the key of a part of a dotted path."""
    return "" if part == "%" else unquote(part, errors="surrogatepass") if "%" in part else part


def path_of(dotted: str) -> Path:
    """Return a dotted path as its parts."""
    return tuple(int(part) if part.isdecimal() else name_of(part) for part in dotted.split(".") if part)


def at(tree: JSON, path: str) -> JSON:
    """Return a tree's value at a dotted path; ``MISSING`` where it has none."""
    for part in path.split(".") if path else ():
        if isinstance(tree, dict) and (name := name_of(part)) in tree:
            tree = tree[name]
        elif isinstance(tree, list) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return MISSING
    return tree


# -- shapes and fields -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A place: how its value is edited."""

    place: str
    kind: Kind
    label: str
    words: str = ""
    """Its type with its bounds in words; empty where unit and help say enough."""
    unit: str = ""
    help: str = ""
    stops: str = ""
    """The effect at a limit; empty for anything else."""
    origin: str = ""
    """The source of the default."""
    default: JSON = MISSING
    """JSON; ``MISSING``: there is none, and a value has to be given."""
    nullable: bool = False
    """True where it may be left out though it has no default of its own."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """The only values, by the texts that its control sends for them."""
    refers: str = ""
    fields: tuple[str, ...] = ()
    """Names of the fields of a group, or of each group of a list or table, as in YAML."""
    columns: tuple[Column, ...] = ()
    """Columns of its rows; empty: those of its kind."""

    @property
    def required(self) -> bool:
        """Return True where a value has to be given."""
        return self.default is MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class EditField:
    """One place of a value as it is edited."""

    group: ClassVar[bool] = False
    parts: ClassVar[tuple[()]] = ()
    new: ClassVar[bool] = False
    path: str
    shape: Shape
    prefix: str = FIELD
    """Before the path in the name of its control."""
    given: JSON
    """The value; ``MISSING`` where there is none."""
    inherited: JSON = MISSING
    """The value in force where none is given; ``MISSING`` where one has to be given."""
    was: JSON = MISSING
    """The value that the form began with."""
    strict: bool = False
    """True where a text that does not fit is refused. Else it is kept, and the check of the whole says what
    is wrong.
    """
    unread: str | None = None
    """The text that was refused; None: none was."""
    inside: bool = False
    """True for a part of a default that only makes sense as a whole. An example is a rung of a cell that the draft
    leaves as it is.
    """
    spared: bool = False
    """True for a part of a group that may be left out, and is."""
    options: tuple[tuple[str, str], ...] = ()
    """The choices: value and word."""
    spelled: str = ""
    """Its number in words, where it is large."""
    default_spelled: str = ""
    """The number in force without one of its own in words, where it is large."""
    findings: tuple[TextFinding, ...] = ()
    sent_rows: tuple[Cells, ...] = ()
    """The rows that the page sent last, with the empty ones."""

    @property
    def name(self) -> str:
        """Name of its control, and its id."""
        return f"{self.prefix}{self.path}"

    @property
    def control(self) -> Control:
        """Return its kind of control."""
        return CONTROLS[self.shape.kind]

    @property
    def several(self) -> bool:
        """Return True where it holds picks."""
        return self.shape.kind in SEVERAL

    @property
    def template(self) -> str:
        """Return the template of its control."""
        return f"forms/controls/{'box' if self.box else self.drawn}.html"

    @property
    def drawn(self) -> str:
        """Return how its control is drawn: a long text needs more than one line."""
        long = len(self.text) > LONG_CHARS or {*self.text} & {"\n", "\r"}
        return "area" if self.control.drawn == "line" and self.shape.kind != "name" and long else self.control.drawn

    @property
    def wide(self) -> bool:
        """Return True where it takes the whole width."""
        return self.drawn in ("area", "rows", *SEVERAL)

    @property
    def grouped(self) -> bool:
        """Return True where it has several controls."""
        return self.several or self.in_rows

    @property
    def in_rows(self) -> bool:
        """Return True where it is edited in rows."""
        return self.shape.kind in ROW_KINDS

    @property
    def row_kind(self) -> RowKind:
        """Return the kind of its rows."""
        about = ROW_KINDS[self.shape.kind]
        return replace(about, columns=self.shape.columns) if self.shape.columns else about

    @property
    def cells(self) -> list[RowView]:
        """Return its rows, and empty ones behind them. Rows that were sent stay where they are while they say the value,
        or while one of them is refused: the author may be typing there.
        """
        about, given = self.row_kind, None if isinstance(self.given, Missing) else self.given
        shown = list_rows(about, given) or []
        sent = list(self.sent_rows)
        read = read_rows(about, sent, given)
        if not sent or not (read.problem or (same(read.value, given) or not (read.value or given))):
            sent = list(shown)
        while sent and about.is_empty(sent[-1]):
            sent.pop()
        known = {cells[about.key]: cells for cells in shown}
        rows = [*sent, *[about.blank] * SPARE_ROWS]
        return [_view(self, n, cells, known.get(cells[about.key]), n > len(sent)) for n, cells in enumerate(rows)]

    @property
    def box(self) -> bool:
        """Return True for a yes or no that has no third answer."""
        return self.strict and self.shape.kind == "boolean" and isinstance(self.was, bool)

    @property
    def fits(self) -> bool:
        """Return True where its value may stay as it is: none that is refused may."""
        if not self.strict or self.several:
            return True
        if isinstance(self.given, Missing):
            return not self.required
        if self.given is None:
            return self.shape.nullable
        return type(self.given) in FITTING.get(self.shape.kind, (type(self.given),))

    @property
    def text(self) -> str:
        """Return the text of its control. It is empty where no value is given, unless a default holds as a whole."""
        if self.unread is not None:
            return self.unread
        value = self.inherited if self.inside and isinstance(self.given, Missing) else self.given
        return self._text(value)

    @property
    def stood(self) -> str:
        """Return the text that stood in its control at first."""
        return self._text(self.was)

    def _text(self, value: JSON) -> str:
        if value is None and self.strict and (self.shape.kind == "json" or "null" in self.shape.options):
            return "null"
        return shown(self.shape.kind, value, strict=self.strict)

    @property
    def picked(self) -> tuple[str, ...]:
        """Return its picks, where it may have several."""
        value = self.inherited if isinstance(self.given, Missing) else self.given
        return tuple(str(one) for one in value) if isinstance(value, list) else ()

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """Return what a list offers: value and word. A value that is none of them stays until it is changed."""
        if self.shape.kind != "boolean":
            return self.options
        stray = {} if self.text in ("", "true", "false") else {self.text: self.text}
        return tuple(({"true": "yes", "false": "no"} | stray).items())

    @property
    def placeholder(self) -> str:
        """Return the value in force without a value of its own, in the words of its control."""
        return self._show(self.inherited)

    @property
    def own(self) -> bool:
        """Return True where the value is another than the one that would be in force anyway."""
        return not isinstance(self.given, Missing) and not same(self.given, self.inherited)

    @property
    def required(self) -> bool:
        """Return True where a value has to be given. Parts of a group that is left out need none."""
        return self.shape.required and not self.spared

    @property
    def missing(self) -> bool:
        """Return True where a value has to be given and is not."""
        return isinstance(self.given, Missing) and isinstance(self.inherited, Missing) and self.required

    @property
    def said(self) -> str:
        """Return its type in words, and whether it is required."""
        return ", ".join(filter(None, (self.shape.words, "required" if self.required and not self.box else "")))

    @property
    def default_word(self) -> str:
        """Return the value in force without a pick, in the words of the choices."""
        words = {**dict(self.options), "true": "yes", "false": "no"}
        return words.get(self.placeholder, self.placeholder)

    @property
    def changed(self) -> bool:
        """Return True where the form began with another value."""
        return not same(self.given, self.was)

    @property
    def before(self) -> str:
        """Return the value that the form began with, in words."""
        value = self.inherited if isinstance(self.was, Missing) else self.was
        return "not given" if isinstance(value, Missing) or value is None else self._show(value) or "empty"

    def _show(self, value: JSON) -> str:
        """A value as its control has it, or what is picked of several in words."""
        if not self.several or not isinstance(value, list):
            return shown(self.shape.kind, value)
        if self.shape.options and set(map(str, value)) == set(self.shape.options):
            return "all"
        return ", ".join(str(one).replace("_", " ") if self.shape.options else str(one) for one in value) or "none"

    @property
    def wrong(self) -> bool:
        """Return True where an error is about it."""
        return any(one.level == "error" for one in self.findings)

    @property
    def rows(self) -> int:
        """Lines of its control, where it has several."""
        least = 2 if self.shape.kind in ("lines", "text") else 3
        return min(18, max(least, sum(1 + len(line) // 96 for line in self.text.split("\n"))))


def limit_options(one: EditField, names: Sequence[str]) -> EditField:
    """Return a field with these options alone, and what stands there."""
    options = tuple((value, word) for value, word in one.options if value in names or value == one.text)
    return replace(one, options=options)


@dataclass(frozen=True, slots=True)
class Cell:
    """One control of a row."""

    name: str
    """Its name, and its id."""
    label: str
    text: str
    column: Column

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Return its choices, and its text where that is none of them."""
        known = self.column.options
        return known if not known or self.text in dict(known) else (*known, (self.text, self.text))


@dataclass(frozen=True, slots=True)
class RowView:
    """One row, drawn."""

    cells: tuple[Cell, ...]
    name: str
    """Its name in the value; empty for a row that is in no value."""
    spare: bool
    """True for an empty row that a page with a script hides."""


def _view(one: EditField, number: int, cells: Cells, known: Cells | None, spare: bool) -> RowView:
    """Return a row. A hidden cell of a row that is in the value says what it says there."""
    about = one.row_kind
    name = cells[about.key]
    drawn = tuple(
        Cell(
            f"{ROW}{one.path}.{number}.{place}",
            f"{column.label}, row {number + 1} of {one.shape.label}",
            known[place] if column.hidden and known is not None else cells[place],
            column,
        )
        for place, column in enumerate(about.columns)
    )
    return RowView(drawn, name if known is not None else "", spare)


# -- text --------------------------------------------------------------------------------------------------------------


def shown(kind: Kind, value: JSON, *, strict: bool = False) -> str:
    """Return a value as the text of its control. What fits no type stands there as it is, so that it can be mended."""
    if isinstance(value, Missing) or value is None:
        return ""
    if isinstance(value, str) and not (strict and kind == "json"):
        return value
    return CONTROLS[kind].show(value)


def unlined(text: str) -> str:
    """Return a text without the line ends that forms send."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parsed(shape: Shape, text: str) -> JSON:
    """Return the text of a control as JSON. Raises ValueError, with one sentence."""
    if shape.kind == "choice":
        if text not in shape.options:
            raise ValueError("Pick one of these.")
        return shape.options[text]
    return CONTROLS[shape.kind].read(text)


def read(shape: Shape, sent: Sequence[str]) -> JSON:
    """Return what was sent of a control as JSON; ``MISSING`` where it is empty. A text that does not fit
    stays a text.
    """
    if shape.kind in SEVERAL:
        return list(dict.fromkeys(one for one in sent if one))
    text = unlined(sent[-1] if sent else "")
    if not text.strip():
        return MISSING
    try:
        return parsed(shape, text)
    except ValueError:
        if shape.kind in ("integers", "numbers"):  # The check says which part is none.
            return [json.loads(part) if is_number(part) else part for part in split(text)]
        return text if shape.kind == "json" else text.strip()


# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A group of fields, a table of such groups, or a list of them."""

    group: ClassVar[bool] = True
    path: str
    label: str
    kind: Kind
    parts: tuple[EditField | Node, ...] = ()
    words: str = ""
    help: str = ""
    findings: tuple[TextFinding, ...] = ()
    own: bool = False
    """True where a value is given that need not be."""
    new: bool = False
    """True for an item that was added."""
    moved: bool = False
    """True for a list whose items were added, moved or removed."""
    full: bool = False
    """True for a list that takes no more items."""

    @property
    def several(self) -> bool:
        """Return True for a list."""
        return self.kind == "items"
