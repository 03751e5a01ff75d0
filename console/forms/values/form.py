"""Makes a form for a JSON value from its JSON schema and the shown value. Types are kept on the way back.

Every part of the value is a field, or holds fields; what fits no field is written as JSON. A field whose text is what
stood in it gives back the very value that was shown. Where no schema says what a part is, the value does. The form
carries its value with it, so that a page without a script adds and moves items by sending it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from console.forms.controls.edits import ButtonProblem, Ground, changes_in
from console.forms.controls.fields import (
    MISSING,
    EditField,
    Missing,
    Node,
    Shape,
    at,
    parsed,
    part_of,
    path_of,
    unlined,
)
from console.forms.controls.kinds import CONTROLS, Kind, options_of
from console.forms.controls.positions import origins
from console.forms.controls.schemas import Schema, properties_of, required_of, resolve, types_of
from console.forms.values.parts import PARTS_MAX, ROWS_MAX, Part, describe, help_of, kind_of, words_of
from console.site.sentences import sentence
from fabric.core.texts.text import clean
from fabric.core.texts.three_way import same
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import TextFinding
from fabric.services.fabrics.yaml.edits import EditProblem, PutEdit, tree_edited
from fabric.services.fabrics.yaml.tree import Path

DEPTH_MAX = 4
FIELDS_MAX = 60
"""Largest number of fields of a form; a value with more parts is written as JSON."""
LABEL_CHARS_MAX = 80
MARK, PRESS = "typed", "do"
"""Names of the hidden field that carries what was changed before, and of the buttons."""
DAMAGED = "The form was damaged on its way: reload the page and write it again."


@dataclass(frozen=True, slots=True)
class _Refused:
    """A text that does not fit its field."""

    text: str
    sentence: str


class TypedForm(Ground):
    """The form of one object. ``data``: what was sent; ``given``: a value that is to stand in it, where that is another
    than is shown.
    """

    kind: ClassVar[Kind] = "group"

    def __init__(self, schema: Mapping[str, JSON] | None, shown: JSON, data: Any = None, given: JSON = None) -> None:
        self.shown = shown
        self.problems: list[str] = []
        """Problems of the whole."""
        self._root: Mapping[str, JSON] = schema or {}
        self._said: dict[str, list[str]] = {}
        """Sentences of a check, by path."""
        self._refused: dict[str, _Refused] = {}
        self._draw(given if isinstance(given, dict) else shown)
        if data is not None and data.get(MARK) and self.parts:
            self._take(data)

    # -- what it says --------------------------------------------------------------------------------------------------

    @property
    def all(self) -> list[EditField | Node]:
        """Every field, those that hold others before what they hold."""
        return list(self._by_path.values())

    @property
    def wrong(self) -> bool:
        """Return True where anything in it has an error."""
        return bool(self.problems or self._said or self._refused)

    @property
    def changed(self) -> bool:
        """Return True where its value is another than was shown."""
        return not same(self.value, self.shown)

    @property
    def rows(self) -> bool:
        """Return True where it has lists, which have buttons of their own."""
        return any(isinstance(one, Node) and one.several for one in self.all)

    @property
    def mark(self) -> str:
        """Return the parts in which its value differs from the shown one, as the form carries them. The whole value
        would double its size.
        """
        other = {name: one for name, one in self.value.items() if not same(one, self.shown.get(name, MISSING))}
        return json.dumps([other, [name for name in self.shown if name not in self.value]])

    def blame(self, problems: list[str]) -> None:
        """Puts the problems of a schema's check at their fields: ``path.to.field: what is wrong``. The rest goes to the
        form.
        """
        for problem in problems:
            place, colon, rest = problem.partition(": ")
            path = [part for part in re.split(r"[./\[\]]+", place) if part]
            fits = [one.path for one in self.all if colon and _keys(one.path) == path[: len(_keys(one.path))]]
            if fits:
                self._said.setdefault(max(fits, key=len), []).append(sentence(rest))
            else:
                self.problems.append(sentence(problem))
        self._draw(self.value)

    # -- what was sent -------------------------------------------------------------------------------------------------

    def _take(self, data: Any) -> None:
        try:
            other, gone = json.loads(data[MARK], parse_constant=_refuse)
            tree = {name: one for name, one in self.shown.items() if name not in gone} | other
            clean(tree)  # It is as deep as values may be.
        except (ValueError, TypeError, RecursionError):
            self.problems.append(DAMAGED)
            return
        self._draw(tree)
        try:
            tree = tree_edited(tree, changes_in(self, tree, data).edits)
            if button := str(data.get(PRESS, "")):
                tree = self._press(tree, button)
        except (EditProblem, ButtonProblem) as problem:
            self.problems.append(sentence(str(problem)))
        self._draw(tree)

    def _press(self, tree: JSON, button: str) -> JSON:
        """Return the value after a button. A refused text stays with its item; an empty one is not written yet."""
        kept = [(path, one) for path, one in self._refused.items() if one.text.strip()]
        edits, _ = self.pressed(tree, button)
        held = tree
        for path, one in kept:
            held = _put(held, path_of(path), one)
        self._refused = dict(_refused_in(tree_edited(held, edits)))
        return tree_edited(tree, edits)

    def field(self, tree: JSON, path: str) -> EditField:
        """Return the field at a path."""
        one = self._by_path[path]
        if isinstance(one, Node):
            raise KeyError(path)
        return one

    def read(self, one: EditField, sent: list[str]) -> JSON:
        """Return the value of a text; the present one for a text that is refused."""
        text = unlined(sent[-1])
        blank = not (text if CONTROLS[one.shape.kind].read is str else text.strip())
        try:
            value = _emptied(one) if blank else parsed(one.shape, text)
            tree_edited({}, [] if blank else [PutEdit(("Its value",), value)])
        except ValueError as error:
            self._refused[one.path] = _Refused(text, sentence(str(error)))
            return one.given
        return value

    def fresh(self, tree: JSON, path: str) -> tuple[int, JSON]:
        """Return a new item, at the end of its list."""
        node, items = self._by_path.get(path), at(tree, path)
        if not isinstance(node, Node) or not node.several or node.full or self._left_in_rows <= 0:
            raise ButtonProblem(f"nothing can be added to {path[:80]!r}")
        return len(items) if isinstance(items, list) else 0, self._new(self._schemas[path])

    def optional(self, tree: JSON, path: str) -> bool:
        """Return True for a list that was not there at first, and need not be."""
        node = self._by_path.get(path)
        return isinstance(node, Node) and node.own

    def _new(self, schema: Schema) -> JSON:
        """Return an item of which every part that has to be there is, and holds nothing."""
        found, required = {}, required_of(schema)
        for name, part in properties_of(schema).items():
            inner = resolve(self._root, part)
            if name in required and types_of(inner) == ["object"] and properties_of(inner):
                found[name] = self._new(inner)
            elif name in required and types_of(inner) == ["array"]:
                found[name] = []
        return found

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _draw(self, tree: JSON) -> None:
        """Make the fields of a value. Too many to be looked through one by one are none."""
        self.value = tree
        self._left, self._left_in_rows = FIELDS_MAX, PARTS_MAX
        self._schemas: dict[str, Schema] = {}
        whole = isinstance(tree, dict) and isinstance(self.shown, dict)
        top = Part(resolve(self._root, self._root), tree, self.shown, "", "", True, 0, False)
        self.parts = self._parts(top) if whole else ()
        if self._left < 0:
            self.parts = ()
        self._by_path = {one.path: one for one in _all(self.parts)}

    def _parts(self, around: Part) -> tuple[EditField | Node, ...]:
        properties, required = properties_of(around.schema), required_of(around.schema)
        value, was = (one if isinstance(one, dict) else {} for one in (around.value, around.was))
        found = []
        for name in dict.fromkeys([*properties, *was, *value]):
            self._left -= not around.in_rows
            self._left_in_rows -= around.in_rows
            if self._left < 0:
                return ()
            path = f"{around.path}.{part_of(name)}".removeprefix(".")
            schema = self._resolved(properties.get(name, {}))
            here, before = value.get(name, MISSING), was.get(name, MISSING)
            label = name[:LABEL_CHARS_MAX]
            found.append(
                self._part(Part(schema, here, before, path, label, name in required, around.depth, around.in_rows))
            )
        return tuple(found)

    def _part(self, one: Part) -> EditField | Node:
        kind = kind_of(one)
        if kind == "items" and one.depth < DEPTH_MAX:
            return self._list(one)
        if kind == "group" and one.depth < DEPTH_MAX:
            inside = self._parts(Part(one.schema, one.value, one.was, one.path, "", True, one.depth + 1, one.in_rows))
            if inside:
                words, help_ = words_of(one, kind), help_of(one)
                findings = self._findings(one.path)
                return Node(one.path, one.label, kind, inside, words, help_, findings)
        return self._leaf(one, "json" if kind in ("group", "items") else kind)

    def _leaf(self, one: Part, kind: Kind) -> EditField:
        items = one.schema.get("items") or {}
        options = options_of(items if kind == "picks" else one.schema) if kind in ("picks", "choice") else {}
        shape = Shape(
            place=one.path,
            kind=kind,
            label=one.label,
            words=words_of(one, kind),
            help=help_of(one),
            default=MISSING if one.required else None,
            nullable="null" in types_of(one.schema) or one.known is None,
            options=options,
        )
        refused = self._refused.get(one.path)
        made = EditField(
            path=one.path,
            shape=shape,
            given=one.value,
            was=one.was,
            strict=True,
            unread=None if refused is None else refused.text,
            findings=self._findings(one.path),
        )
        stray = (made.text,) if kind == "choice" and made.text and made.text not in options else ()
        return replace(made, options=tuple((text, text) for text in (*options, *stray)))

    def _list(self, one: Part) -> Node:
        """Return a list of objects with its items."""
        before, items = (each if isinstance(each, list) else [] for each in (one.was, one.value))
        schema = self._resolved(one.schema.get("items", {}))
        if not isinstance(schema.get("properties"), dict):
            schema = {**schema, **describe(before)}
        self._schemas[one.path] = schema
        found, places = [], origins(before, items)
        for number, (item, place) in enumerate(zip(items, places, strict=True)):
            was = MISSING if place is None else before[place]
            inner = schema if isinstance(item, dict) else {}
            path, label = f"{one.path}.{number}", f"{one.label} {number + 1}"[:LABEL_CHARS_MAX]
            made = self._part(Part(inner, item, was, path, label, True, one.depth + 1, True))
            found.append(replace(made, new=place is None) if isinstance(made, Node) else made)
        most = one.schema.get("maxItems")
        return Node(
            one.path,
            one.label,
            "items",
            tuple(found),
            words_of(one, "items") + (", required" if one.required else ""),
            help_of(one),
            self._findings(one.path),
            own=isinstance(one.was, Missing) and not one.required,
            moved=places != list(range(len(before))),
            full=len(items) >= (min(most, ROWS_MAX) if isinstance(most, int) else ROWS_MAX),
        )

    def _findings(self, path: str) -> tuple[TextFinding, ...]:
        said = [*([self._refused[path].sentence] if path in self._refused else []), *self._said.get(path, ())]
        return tuple(TextFinding("error", path, one) for one in said)

    def _resolved(self, schema: JSON) -> Schema:
        found = resolve(self._root, schema)
        items = found.get("items")
        return {**found, "items": resolve(self._root, items)} if isinstance(items, dict) else found


def _refuse(constant: str) -> JSON:
    raise ValueError(f"{constant} is no JSON")


def _all(fields: tuple[EditField | Node, ...]) -> Iterator[EditField | Node]:
    for one in fields:
        yield one
        yield from _all(one.parts) if isinstance(one, Node) else ()


def _keys(path: str) -> list[str]:
    return [str(part) for part in path_of(path)]


def _put(node: JSON, path: Path, value: JSON) -> JSON:
    """Return a value with another thing than JSON in it."""
    if not path:
        return value
    part: Any = path[0]
    if isinstance(node, list):
        return [*node[:part], _put(node[part], path[1:], value), *node[part + 1 :]]
    inner = node if isinstance(node, dict) else {}
    return {**inner, part: _put(inner.get(part), path[1:], value)}


def _refused_in(node: JSON, path: str = "") -> Iterator[tuple[str, _Refused]]:
    if isinstance(node, _Refused):
        yield path, node
    named = ((part_of(name), one) for name, one in node.items()) if isinstance(node, dict) else ()
    for part, one in enumerate(node) if isinstance(node, list) else named:
        yield from _refused_in(one, f"{path}.{part}".removeprefix("."))


def _emptied(one: EditField) -> JSON:
    """Return the value of an emptied field: an empty text, null or nothing. Raise ValueError where it has
    to be given.
    """
    known, kind = one.given if isinstance(one.was, Missing) else one.was, one.shape.kind
    if isinstance(known, str) and kind == "text":
        return ""
    if known is None and one.shape.nullable:
        return None
    if CONTROLS[kind].empty is list and (one.required or not isinstance(known, Missing)):
        return []
    if not one.required:
        return MISSING
    if one.shape.nullable:
        return None
    raise ValueError("Pick one of these." if kind == "choice" else "This field is required.")
