"""Turns a YAML text into nodes that can be edited and written again.

ruamel keeps order, quotes and flow style, the notes keep the comments. The text is written in one layout: two spaces a
level, dashes two spaces in, one line for each value that is no literal block.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from ruamel.yaml import YAML
from ruamel.yaml.emitter import Emitter
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.tree import Path, read_yaml

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_IN_QUOTES = re.compile(r"^\?|[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Text with control characters or other line breaks, and text that begins like a name behind a question mark."""


class _Emitter(Emitter):
    def check_simple_key(self) -> bool:
        """Return True: each name is a scalar on one line of any length, not behind a question mark."""
        return True


@dataclass(slots=True)
class EntryNote:
    """The comments of a field or an item, without indentation; an empty text is an empty line."""

    above: list[str] = field(default_factory=list)
    behind: str = ""
    below: list[str] = field(default_factory=list)
    """Comments further in than the entry, behind its last part: often a field that is commented out."""


@dataclass(slots=True)
class YamlDocument:
    """A whole text. The note of a field is its name's ``comment``, that of an item its value's."""

    root: Node | None
    newline: str = "\n"
    head: list[str] = field(default_factory=list)
    """Comments of a text without any field or item on a line of its own."""
    end: list[str] = field(default_factory=list)
    """Comments behind the last entry."""


@dataclass(slots=True)
class _Entry:
    """A field or an item that begins on a line of the text."""

    holder: Node
    value: Node
    start: int
    column: int
    parent: _Entry | None

    @property
    def end(self) -> int:
        """Return the line behind a value with a known end: a block ends where the next entry begins."""
        begin, end = self.value.start_mark.index, self.value.end_mark.index
        literal = isinstance(self.value, ScalarNode) and self.value.style in ("|", ">")
        return self.start if is_block(self.value) or literal or begin == end else int(end)


def is_block(node: Node) -> bool:
    """Return True for a group or a list that is not in flow style."""
    return isinstance(node, MappingNode | SequenceNode) and not node.flow_style


def walk_entries(node: Node) -> Iterator[tuple[str | int, Node, Node]]:
    """Yield each field or item of a node: its name or index, the node with its note, and its value."""
    if isinstance(node, MappingNode):
        yield from ((key.value, key, value) for key, value in node.value)
    elif isinstance(node, SequenceNode):
        yield from ((index, item, item) for index, item in enumerate(node.value))


def get_note(holder: Node) -> EntryNote:
    """Return the note of an entry, which may be changed."""
    if holder.comment is None:
        holder.comment = EntryNote()
    note: EntryNote = holder.comment
    return note


# -- reading -----------------------------------------------------------------------------------------------------------


def read_document(text: str) -> YamlDocument:
    """Return the nodes and comments of a text. Read it with ``read_yaml`` before, which refuses too large or too
    deep ones.
    """
    root = YAML(typ="rt", pure=True).compose(text)
    found = _LINE.match(text)
    document = YamlDocument(root, "\r\n" if found and found[0].endswith("\r\n") else "\n")
    scalars = list(_scalars(root)) if root is not None else []
    entries = list(_entries(root, None)) if root is not None else []
    lines = list(_comments(_mask_scalars(text, scalars), entries))
    if not entries:
        document.head = [line for _, _, line in lines]
        while document.head and not document.head[-1]:
            document.head.pop()
        return document
    for place, group in groupby(lines, key=itemgetter(0)):
        _place(document, entries, place, [(column, line) for _, column, line in group])
    return document


def _entries(node: Node, parent: _Entry | None) -> Iterator[_Entry]:
    if not is_block(node):
        return
    for _, holder, value in walk_entries(node):
        column = node.start_mark.column if isinstance(node, SequenceNode) else holder.start_mark.column
        entry = _Entry(holder, value, holder.start_mark.index, column, parent)
        yield entry
        yield from _entries(value, entry)


def _comments(masked: str, entries: Sequence[_Entry]) -> Iterator[tuple[int, int, str]]:
    """Yield the comments and empty lines with lines of their own in a masked text. Each has the index of the entry
    before, the column and the text.

    A comment behind an entry becomes a part of its note here.
    """
    starts = [entry.start for entry in entries]
    for found in _LINE.finditer(masked):
        line = found[0].rstrip("\r\n")
        at, code = line.find("#"), line.partition("#")[0].rstrip(" \t")
        place = bisect_right(starts, found.start() + max(at, 0)) - 1
        before = entries[place] if place >= 0 else None
        inside = before is not None and max(before.start, before.end - 1) >= found.start()
        if at < 0:
            if not code and found[0] and not inside:
                yield place, 0, ""
        elif before is None or not inside:
            yield place, at, line[at:].rstrip()
        elif not code or get_note(before.holder).behind:
            get_note(before.holder).above.append(line[at:].rstrip())
        else:
            get_note(before.holder).behind = line[len(code) :].rstrip()


def _mask_scalars(text: str, scalars: Sequence[ScalarNode]) -> str:
    """Return the text with every scalar covered, so that each number sign begins a comment."""
    parts, done = [], 0
    for node in scalars:
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in ("|", ">"):
            head = _LINE.match(text, start)
            assert head is not None
            keeps = "+" in head[0].partition("#")[0]
            end = end - 1 if keeps else start + len(text[start:end].rstrip())
            start += len(head[0])
        if end > start:
            parts += [text[done:start], "x" * (end - start)]
            done = end
    return "".join([*parts, text[done:]])


def _scalars(node: Node) -> Iterator[ScalarNode]:
    """Yield the names and single values in a node, in the order of the text. Remove ruamel's notes at them."""
    node.comment = None
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _scalars(key)
            yield from _scalars(value)
    else:
        for item in node.value:
            yield from _scalars(item)


def _place(document: YamlDocument, entries: Sequence[_Entry], place: int, lines: Sequence[tuple[int, str]]) -> None:
    """Attach the lines between two entries to their owner: the following entry, or an earlier one that is indented
    less.
    """
    before = entries[place] if place >= 0 else None
    after = entries[place + 1] if place + 1 < len(entries) else None
    blank: list[str] = []
    target: list[str] | None = None
    for column, line in lines:
        if not line:
            blank.append(line)
            continue
        if after is not None and (
            target is get_note(after.holder).above or after.parent is before or column <= after.column
        ):
            target = get_note(after.holder).above
        else:
            owner = before
            while owner is not None and owner.column >= column:
                owner = owner.parent
            target = document.end if owner is None else get_note(owner.holder).below
        target += [*blank, line]
        blank.clear()
    if after is not None and blank:
        get_note(after.holder).above += blank


# -- writing -----------------------------------------------------------------------------------------------------------


def make_node(value: JSON) -> Node:
    """Return a JSON value as a new node."""
    node: Node = _yaml().representer.represent_data(_style_value(value))
    return node


def write_yaml(value: JSON) -> str:
    """Return a JSON value as a YAML text in the standard layout."""
    return _serialize(make_node(value))


def _style_value(value: JSON) -> JSON:
    """Return the value with its texts marked. Texts of several lines become literal blocks; those that need escapes get
    quotes.
    """
    if isinstance(value, dict):
        return {_style_value(name): _style_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_style_value(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if _IN_QUOTES.search(value):
        return DoubleQuotedScalarString(value)
    last = value.removesuffix("\n").rpartition("\n")[2]
    is_literal = "\n" in value and not value[0].isspace() and bool(last.strip())
    return LiteralScalarString(value) if is_literal else value


def _yaml() -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.Emitter = _Emitter
    yaml.default_flow_style = False
    yaml.width = 2**31
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _serialize(root: Node) -> str:
    out = io.StringIO()
    _yaml().serialize(root, out)
    return out.getvalue()


def write_document(document: YamlDocument) -> str:
    """Return the document as a text. Raises YamlProblem where the text would be too large."""
    if document.root is None:
        return document.newline.join([*document.head, *document.end, ""])
    notes = list(_notes(document.root, ()))
    lines = _serialize(document.root).split("\n")
    before = _lines_before(notes, lines)
    written = [inner for number, line in enumerate(lines) for inner in (*before.get(number, ()), line)]
    return document.newline.join([*document.head, *written[:-1], *document.end, ""])


def _notes(node: Node, path: Path) -> Iterator[tuple[Path, EntryNote, Node]]:
    """Yield the path, note and value of each entry, in the order of the text. The nodes have no notes afterwards."""
    for part, holder, value in walk_entries(node):
        here = (*path, part)
        note, holder.comment = holder.comment, None
        if is_block(node):
            yield here, note or EntryNote(), value
        yield from _notes(value, here)


def _lines_before(notes: Sequence[tuple[Path, EntryNote, Node]], lines: list[str]) -> dict[int, list[str]]:
    """Return the lines that precede each line, by its index. Comments behind an entry are put into its line."""
    tree = read_yaml("\n".join(lines))
    before: dict[int, list[str]] = {}
    open_: list[tuple[Path, list[str]]] = []

    def close(path: Path, number: int) -> None:
        while open_ and path[: len(open_[-1][0])] != open_[-1][0]:
            before.setdefault(number, []).extend(open_.pop()[1])

    for path, note, value in notes:
        mark = tree.keys.get(path) or tree.marks[path]
        number = mark.line - 1
        indent = " " * (len(lines[number]) - len(lines[number].lstrip(" ")))
        close(path, number)
        before.setdefault(number, []).extend(indent + line if line else "" for line in note.above)
        if note.behind:
            lines[number] += note.behind if note.behind[0] in " \t" else f" {note.behind}"
        # Further in than a literal block's name, a comment would be a line of the block.
        further = indent if isinstance(value, ScalarNode) and value.style in ("|", ">") else f"{indent}  "
        open_.append((path, [further + line if line else "" for line in note.below]))
    close((), len(lines) - 1)
    return before
