"""Single changes of a YAML text as splices: which characters are replaced by which. Everything else stays as it stands, comments included.

Each function may raise Unfit, and none promises that the text reads back as it should: ``yaml_edit`` sees to that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fabric.services.yaml_layout import Layout, Unfit
from fabric.services.yaml_render import (
    block_lines,
    entry_lines,
    flow_text,
    is_literal,
    literal_head,
    literal_lines,
    on_one_line,
    scalar_text,
)
from fabric.services.yaml_tree import Path, Span

JSON = Any
_SEPARATOR = re.compile(r",\s+")
_COMMA = re.compile(r"[ \t]*,")


@dataclass(frozen=True, slots=True)
class Splice:
    """``text[start:end]`` is to be ``text``."""

    start: int
    end: int
    text: str

    def put_into(self, whole: str) -> str:
        """The whole text, spliced."""
        return whole[: self.start] + self.text + whole[self.end :]


# -- a value -----------------------------------------------------------------------------------------------------------


def value_put(layout: Layout, path: Path, value: JSON) -> Splice:
    """Puts a value in place of another. The comment behind it stays; those within it go with it."""
    span = layout.span(path)
    if layout.in_flow(path):
        return _put_in_flow(layout, path, span, value)
    line = _line(layout, path, span, value)
    if line is not None and span.style in ("plain", "'", '"', "flow"):
        return Splice(span.start, span.end, line)
    return _put_behind_head(layout, path, span, value, line) if path else _put_root(layout, span, value, line)


def _line(layout: Layout, path: Path, span: Span, value: JSON) -> str | None:
    """A value as it is written on one line in a text of block style; None: it takes several."""
    if isinstance(value, dict | list):
        stays_flow = span.style == "flow" and layout.value(path)
        return flow_text(value) if stays_flow or not value else None
    if path and not on_one_line(value):
        return None
    return scalar_text(value, quote=_quote(layout, span, layout.value(path), flow=False))


def _quote(layout: Layout, span: Span, was: JSON, flow: bool) -> str:
    """How an author quoted a scalar that did not need it, or not so; empty: as it would be written anyway."""
    if span.style not in ("'", '"') or layout.text[span.start : span.end] == scalar_text(was, flow=flow):
        return ""
    return span.style


def in_place(layout: Layout, path: Path, value: JSON) -> Splice | None:
    """Puts a scalar in place of another on one line, with nothing else to see to; None: it is not as simple as that."""
    span = layout.tree.spans.get(path)
    if span is None or span.style not in ("plain", "'", '"') or isinstance(value, dict | list) or is_literal(value):
        return None
    return value_put(layout, path, value)


def _put_in_flow(layout: Layout, path: Path, span: Span, value: JSON) -> Splice:
    quote = _quote(layout, span, layout.value(path), flow=True)
    text = flow_text(value) if isinstance(value, dict | list) else scalar_text(value, quote=quote, flow=True)
    if span.style != "empty":
        return Splice(span.start, span.end, text)
    end = layout.empty_end(path)
    return Splice(end, end, f" {text}" if layout.text[end - 1] == ":" else f": {text}")


def _put_behind_head(layout: Layout, path: Path, span: Span, value: JSON, line: str | None) -> Splice:
    """Writes everything behind the colon or dash anew, but for the comment there."""
    head, column = layout.head(path), layout.column(layout.entry_start(path))
    head_end = layout.line_end(head)
    below = span.style == "empty" or span.start > head_end
    comment = layout.rest(head) if below else ""
    match span.style:
        case "empty":
            end = head_end
        case "block":
            end = layout.block_end(path, column)
        case "|" | ">":
            comment, end = comment or layout.literal_comment(span), layout.value_end(path)
        case _:
            comment, end = comment or layout.rest(span.end), layout.line_end(span.end)
    if line is not None:
        return Splice(head, end, f" {line}{comment}")
    if is_literal(value):
        lines = [f" {literal_head(value)}{comment}", *literal_lines(value, column + 2)]
    else:
        lines = _group_lines(layout, path, span, value, comment, column, below)
    return Splice(head, end, layout.newline.join(lines))


def _group_lines(
    layout: Layout, path: Path, span: Span, value: JSON, comment: str, column: int, below: bool
) -> list[str]:
    same_kind = type(value) is type(layout.value(path))
    stays = span.style == "block" and same_kind and below and layout.begins_line(span.start)
    lines = block_lines(value, layout.column(span.start) if stays else column + 2)
    if isinstance(path[-1], int) and not comment and not stays:
        return [f" {lines[0].lstrip(' ')}", *lines[1:]]
    return [comment, *lines]


def _put_root(layout: Layout, span: Span, value: JSON, line: str | None) -> Splice:
    lines = [line] if line is not None else block_lines(value, 0)
    if span.style == "empty":
        text = layout.text
        before = "" if not text or text[-1] in "\r\n" else layout.newline
        return Splice(len(text), len(text), before + layout.newline.join(lines) + layout.newline)
    end = layout.value_end(())
    comment = layout.rest(end).lstrip()
    above = [comment] if comment and line is None and span.style != "block" else []
    if line is not None:
        return Splice(span.start, end, line)
    return Splice(span.start, layout.line_end(end), layout.newline.join([*above, *lines]))


# -- entries -----------------------------------------------------------------------------------------------------------


def field_added(layout: Layout, path: Path, value: JSON, order: Sequence[str] = ()) -> Splice:
    """Adds a field that is not there to a group that is: at its end, or where ``order`` of the names puts it."""
    parent, name = path[:-1], str(path[-1])
    fields = layout.entries(parent)
    if not fields:
        return value_put(layout, parent, {name: value})
    return _entry_inserted(layout, parent, _place(fields, name, order), name, value)


def _place(fields: Sequence[Path], name: str, order: Sequence[str]) -> int:
    if name not in order:
        return len(fields)
    before = order[: order.index(name)]
    return max((at + 1 for at, path in enumerate(fields) if path[-1] in before), default=0)


def item_inserted(layout: Layout, parent: Path, index: int, value: JSON) -> Splice:
    """Inserts an item before the one at ``index``, or at the end of the list."""
    if not layout.entries(parent):
        return value_put(layout, parent, [value])
    return _entry_inserted(layout, parent, index, None, value)


def _entry_inserted(layout: Layout, parent: Path, index: int, name: str | None, value: JSON) -> Splice:
    entries = layout.entries(parent)
    if layout.span(parent).style == "flow":
        return _inserted_in_flow(layout, parent, index, name, value)
    column = layout.column(layout.entry_start(entries[0]))
    head = "-" if name is None else f"{scalar_text(name)}:"
    lines = entry_lines(head, value, column)
    if index:
        end = layout.slot(entries[index - 1])[1]
        return Splice(end, end, "".join(layout.newline + line for line in lines))
    start = layout.slot(entries[0])[0]
    return Splice(start, start, layout.newline.join([lines[0].lstrip(" "), *lines[1:], " " * column]))


def _inserted_in_flow(layout: Layout, parent: Path, index: int, name: str | None, value: JSON) -> Splice:
    if layout.text[layout.span(parent).start] not in "[{":
        raise Unfit  # One field in a list, which needs no braces as long as it is the only one.
    slots = [layout.slot(path) for path in layout.entries(parent)]
    text = flow_text(value) if name is None else f"{scalar_text(name, flow=True)}: {flow_text(value)}"
    between = layout.text[slots[0][1] : slots[1][0]] if len(slots) > 1 else ""
    separator = between if _SEPARATOR.fullmatch(between) else ", "
    if index:
        return Splice(slots[index - 1][1], slots[index - 1][1], separator + text)
    return Splice(slots[0][0], slots[0][0], text + separator)


def entry_dropped(layout: Layout, path: Path) -> Splice:
    """Takes an entry out with its comments. A collection that has no other becomes an empty one."""
    parent = path[:-1]
    entries = layout.entries(parent)
    at = entries.index(path)
    if len(entries) == 1:
        return value_put(layout, parent, type(layout.value(parent))())
    if layout.span(parent).style == "flow":
        return _dropped_in_flow(layout, [layout.slot(entry) for entry in entries], at)
    start, end = layout.slot(path)
    if layout.begins_line(start):
        return _lines_dropped(layout, start, end, layout.value_end(entries[at - 1]) if at else None)
    following = layout.slot(entries[at + 1])[0]
    return Splice(start, end if layout.text[end:following].strip() else following, "")


def _lines_dropped(layout: Layout, start: int, end: int, bound: int | None) -> Splice:
    """Takes lines out. Of empty lines above and below them, only those below are kept. ``bound``: where the entry before ends."""
    first, following = layout.line_start(start), layout.next_line(end)
    if bound is not None and (following == len(layout.text) or layout.is_blank(following)):
        before = layout.line_before(first)
        while before > bound and layout.is_blank(before):
            first, before = before, layout.line_before(before)
    if following == end and first:
        return Splice(layout.line_end(layout.line_before(first)), end, "")  # There is no line break behind it to go.
    return Splice(first, following, "")


def _dropped_in_flow(layout: Layout, slots: list[tuple[int, int]], at: int) -> Splice:
    start, end = slots[at]
    if at and not re.search(r"[\r\n#]", layout.text[slots[at - 1][1] : start]):
        return Splice(slots[at - 1][1], end, "")
    if at + 1 < len(slots):
        return Splice(start, slots[at + 1][0], "")
    if "#" not in layout.text[slots[at - 1][1] : start]:
        return Splice(slots[at - 1][1], end, "")
    comma = _COMMA.match(layout.text, end)
    return Splice(start, comma.end() if comma else end, "")


def item_moved(layout: Layout, path: Path, to: int) -> Splice:
    """Moves an item: the items between change places with their comments, what stands between them stays."""
    at = path[-1]
    assert isinstance(at, int)
    slots = [layout.slot(entry) for entry in layout.entries(path[:-1])]
    numbers = list(range(len(slots)))
    numbers.insert(to, numbers.pop(at))
    first, last = min(at, to), max(at, to)
    pieces = []
    for place in range(first, last + 1):
        start, end = slots[numbers[place]]
        gap_end = slots[place + 1][0] if place < last else slots[place][1]
        pieces += [layout.text[start:end], layout.text[slots[place][1] : gap_end]]
    return Splice(slots[first][0], slots[last][1], "".join(pieces))


def field_renamed(layout: Layout, path: Path, name: str) -> Splice:
    """Gives a field another name, quoted as the one before."""
    span, flow = layout.tree.names[path], layout.in_flow(path)
    return Splice(span.start, span.end, scalar_text(name, quote=_quote(layout, span, path[-1], flow), flow=flow))
