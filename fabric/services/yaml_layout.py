"""Where the parts of a YAML text stand: values without what follows them, entries with the comments that go with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fabric.services.yaml_tree import Path, Span, Tree

JSON = Any

_BREAK = re.compile(r"\r\n|\n|\r")
_LINE_END = re.compile(r"[\r\n]|\Z")
_COLON = re.compile(r"[ \t]*:")
_COLON_ANYWHERE = re.compile(r"\s*:")
_REST = re.compile(r"([ \t]+#[^\r\n]*)?[ \t]*(?=[\r\n]|\Z)")
_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_COMMENT_OR_BLANK = re.compile(r"( *)(#[^\r\n]*)?[ \t]*(?=[\r\n]|\Z)")
_BLANK_LINES_AT_END = re.compile(r"(?:(?:\r\n|\n|\r)[ \t]*)+\Z")
_LITERAL_HEAD = re.compile(r"[|>][-+0-9]*")
_NOTHING = Span(0, 0, "empty")


class Unfit(Exception):
    """The text is written in a way that no fine edit is made for."""


@dataclass(frozen=True)
class Layout:
    """A text and its tree. Places are indices of the text; paths are those of the tree."""

    text: str
    tree: Tree
    _dashes: dict[Path, list[int]] = field(default_factory=dict)

    @cached_property
    def newline(self) -> str:
        """The line break of the text."""
        found = _BREAK.search(self.text)
        return found[0] if found else "\n"

    def line_start(self, place: int) -> int:
        """The beginning of the line that a place is in."""
        return max(self.text.rfind("\n", 0, place), self.text.rfind("\r", 0, place)) + 1

    def line_end(self, place: int) -> int:
        """The end of the line without its break."""
        found = _LINE_END.search(self.text, place)
        assert found is not None
        return found.start()

    def next_line(self, place: int) -> int:
        """Behind the line break at a line's end."""
        found = _BREAK.match(self.text, place)
        return found.end() if found else place

    def line_before(self, start: int) -> int:
        """The beginning of the line before the one that begins at ``start``; -1: there is none."""
        if start == 0:
            return -1
        end = start - 2 if self.text[start - 2 : start] == "\r\n" else start - 1
        return self.line_start(end)

    def column(self, place: int) -> int:
        """How far in a place stands in its line, from 0."""
        return place - self.line_start(place)

    def begins_line(self, place: int) -> bool:
        """Whether only spaces stand before a place in its line."""
        return not self.text[self.line_start(place) : place].strip(" ")

    def is_blank(self, start: int) -> bool:
        """Whether the line that begins there has nothing in it."""
        return not self.text[start : self.line_end(start)].strip()

    def rest(self, place: int) -> str:
        """The comment behind a value, with the space before it; empty: there is none."""
        found = _REST.match(self.text, place)
        if found is None:
            raise Unfit
        return found[1] or ""

    def value(self, path: Path) -> JSON:
        """The value at a path."""
        node = self.tree.value
        for part in path:
            node = node[part]
        return node

    def span(self, path: Path) -> Span:
        """What a value was read from. A text with nothing in it has no value either."""
        return self.tree.spans[path] if path or path in self.tree.spans else _NOTHING

    def entries(self, path: Path) -> Sequence[Path]:
        """The paths of what a group or list holds, in the order of the text."""
        node = self.value(path)
        return [(*path, part) for part in (range(len(node)) if isinstance(node, list) else node)]

    def in_flow(self, path: Path) -> bool:
        """Whether a value stands inside a collection in flow style."""
        return bool(path) and self.span(path[:-1]).style == "flow"

    def head(self, path: Path) -> int:
        """Behind the colon or dash that a value in block style follows."""
        if isinstance(path[-1], int):
            return self.dashes(path[:-1])[path[-1]] + 1
        found = _COLON.match(self.text, self.tree.names[path].end)
        if found is None:
            raise Unfit
        return found.end()

    def dashes(self, path: Path) -> list[int]:
        """Where the items of a list in block style begin."""
        known = self._dashes.get(path)
        if known is None:
            known = self._dashes[path] = self._found_dashes(path)
        return known

    def _found_dashes(self, path: Path) -> list[int]:
        found: list[int] = []
        place = self.span(path).start
        for item in self.entries(path):
            space = _SPACE_AND_COMMENTS.match(self.text, place)
            assert space is not None
            dash = space.end()
            if self.text[dash : dash + 1] != "-":
                raise Unfit
            found.append(dash)
            place = dash + 1 if self.span(item).style == "empty" else self.value_end(item)
        return found

    def value_end(self, path: Path) -> int:
        """Where the last thing of a value ends: no comment behind it, no line break."""
        span = self.span(path)
        match span.style:
            case "block":
                return self.value_end(self.entries(path)[-1])
            case "empty":
                return self.empty_end(path)
            case "|" | ">":
                return self._literal_end(span)
        return span.end

    def empty_end(self, path: Path) -> int:
        """Where a value would stand that is not written."""
        if path and self.in_flow(path) and isinstance(path[-1], str):
            end = self.tree.names[path].end
            found = _COLON_ANYWHERE.match(self.text, end)
            return found.end() if found else end
        return self.head(path) if path else len(self.text)

    def _literal_end(self, span: Span) -> int:
        text = self.text[span.start : span.end]
        head = _LITERAL_HEAD.match(text)
        if head and "+" in head[0]:
            # The empty lines at its end are its own.
            last = _BREAK.search(text, len(text) - (2 if text.endswith("\r\n") else 1))
            return span.end - (len(last[0]) if last else 0)
        blank = _BLANK_LINES_AT_END.search(text)
        return span.start + (blank.start() if blank else len(text))

    def literal_comment(self, span: Span) -> str:
        """The comment behind the indicator of a literal or folded block."""
        head = _LITERAL_HEAD.match(self.text, span.start)
        assert head is not None
        return self.rest(head.end())

    def entry_start(self, path: Path) -> int:
        """Where the name of a field or the dash of an item stands; an item in flow style has neither."""
        if isinstance(path[-1], str):
            return self.tree.names[path].start
        return self.span(path).start if self.in_flow(path) else self.dashes(path[:-1])[path[-1]]

    def slot(self, path: Path) -> tuple[int, int]:
        """An entry with the comments that go with it: those in the lines directly above it, as far in as it is itself, the one behind it, and
        those below it that are further in. Without the indentation before and the line break behind.
        """
        start = self.entry_start(path)
        if self.in_flow(path):
            return start, self.value_end(path)
        column = self.column(start)
        return self._first_comment(start, column), self.block_end(path, column)

    def _first_comment(self, start: int, column: int) -> int:
        if not self.begins_line(start):
            return start
        line = self.line_before(start - column)
        while line >= 0 and self.text.startswith(" " * column + "#", line):
            start = line + column
            line = self.line_before(line)
        return start

    def block_end(self, path: Path, column: int) -> int:
        """The end of the last line of a value in block style, comments below it that stand further in than ``column`` included."""
        end = self.value_end(path)
        self.rest(end)
        last = end = self.line_end(end)
        while end < len(self.text) and (line := _COMMENT_OR_BLANK.match(self.text, self.next_line(end))):
            if line[2] and len(line[1]) <= column:
                break
            end = line.end()
            last = end if line[2] else last
        return last
