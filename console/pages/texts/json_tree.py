"""Renders a JSON value as nested HTML lists that open step by step.

1. It builds strings, because a template for each node is too slow for a megabyte.
2. Keys and texts are untrusted: they are escaped and shown inert.
3. Nodes deeper than ``DEPTH``, beyond ``CHILDREN`` of one parent, or beyond ``HTML_MAX`` in total become a link. The
   page's script follows it on opening; it also works without a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urlencode

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.templatetags.said import inert
from fabric.core.values.units import JSON

DEPTH = 4
"""Levels that are sent at once."""
CHILDREN = 200
"""Children of one parent that are sent at once."""
HTML_MAX = 100_000
"""Approximate limit of an answer's HTML, in characters."""
BREADTH = HTML_MAX * 4 // 5
"""Share of the characters for siblings: a long list comes before the depths of its first items."""
TEXT_SHOWN = 400
"""Characters of a text in the tree; a longer one is opened."""
TEXT_MAX = 16_000
"""Characters of a text that are opened at once."""
KEY_SHOWN = 120
SMALL = 60
"""Nodes up to which a value is open altogether."""
STEPS_MAX = 200
"""Largest number of steps of a path."""


def render_tree(value: JSON, base: str, path: str = "") -> SafeString:
    """Return the tree of a value at ``path`` of a content. ``base``: the address that serves the children of a path."""
    return _Tree(base).root(value, path)


def children_at(value: JSON, path: str, base: str, *, first: int = 0) -> SafeString | None:
    """Return the children of the value at a JSON pointer, from ``first`` on; None if there is no such value."""
    try:
        found = value_at(value, path)
    except LookupError:
        return None
    made = _Tree(base)
    if isinstance(found, str):
        return made.text(found, path, first)
    if not isinstance(found, dict | list):
        return made.leaf(found)
    return made.list_of(found, path, DEPTH, first)


def value_at(value: JSON, path: str) -> JSON:
    """Return the value at a JSON pointer (RFC 6901). Raises LookupError if there is none."""
    if not path:
        return value
    steps = path.split("/")
    if steps[0] or len(steps) > STEPS_MAX:
        raise LookupError(path)
    for step in steps[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and key.isascii() and len(key) < 10:
            value = value[int(key)]
        else:
            raise LookupError(path)
    return value


class _Tree:
    """Builds one answer within the remaining room."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.left = HTML_MAX
        self.small = False
        """True if the value is small enough to be open altogether."""

    def root(self, value: JSON, path: str) -> SafeString:
        """Return the whole value."""
        if isinstance(value, str):
            return self.text(value, path)
        if not isinstance(value, dict | list):
            return self.leaf(value)
        self.small = _nodes(value, SMALL) < SMALL
        return self.list_of(value, path, DEPTH, 0)

    def list_of(self, value: dict[str, JSON] | list[JSON], path: str, depth: int, first: int) -> SafeString:
        """Return the children of one parent as a list, with links to those that are not sent."""
        if not value:
            return format_html('<p class="jt-none">{}</p>', "nothing in it")
        parts: list[str] = []
        shown = first
        for key, child in islice(_items(value), first, first + CHILDREN):
            if self.left <= 0:
                break
            shown += 1
            parts.append(self._item(key, child, f"{path}/{_step(key)}", depth))
        if shown < len(value):
            parts.append(self._more(path, shown, len(value)))
        items = format_html_join("", "{}", ((part,) for part in parts))
        return items if first else format_html('<ul class="jt">{}</ul>', items)

    def _item(self, key: str | int, child: JSON, path: str, depth: int) -> str:
        name = format_html('<span class="jk{}">{}</span>', "" if isinstance(key, str) else " n", _cut(str(key)))
        mark = _cut(_step(key))
        if isinstance(child, dict | list) and child:
            self.left -= 2 * len(name) + 100
            opened = depth > 1 and self.left > BREADTH
            inside = self.list_of(child, path, depth - 1, 0) if opened else self._later(path)
            lazy = "" if opened else self._lazy(path)
            shown = " open" if opened and (depth == DEPTH or self.small) else ""
            return format_html(
                '<li data-k="{}"><details{}{}><summary>{} <span class="jm">{}</span></summary>{}</details></li>',
                *(mark, shown, lazy, name, _size(child), inside),
            )
        if isinstance(child, str) and len(child) > TEXT_SHOWN:
            length = format_html('<span class="jm">{} characters</span>', f"{len(child):,}")
            made = format_html(
                '<li data-k="{}"><details{}><summary>{} <span class="js">{}</span> {}</summary>{}</details></li>',
                *(mark, self._lazy(path), name, _cut(child), length, self._later(path)),
            )
        else:
            made = format_html('<li data-k="{}">{} {}</li>', mark, name, self.leaf(child))
        self.left -= len(made)
        return made

    def leaf(self, value: JSON) -> SafeString:
        """Return a value without children."""
        if isinstance(value, str):
            return format_html('<span class="js" dir="auto">{}</span>', inert(value))
        if isinstance(value, dict | list):
            return format_html('<span class="jm">{}</span>', _size(value))
        return format_html('<span class="jv">{}</span>', json.dumps(value)[:80])

    def text(self, value: str, path: str, first: int = 0) -> SafeString:
        """Return a long text, a stretch at a time."""
        shown = first + len(value[first : first + TEXT_MAX])
        made = format_html(
            '<pre class="said mono" dir="auto" hx-ignore>{}</pre>', inert(value[first : first + TEXT_MAX])
        )
        if shown >= len(value):
            return made
        address = self._address(path, shown)
        more = '{}<p class="jt-more"><a href="{}" hx-get="{}" hx-target="closest p" hx-swap="outerHTML">{} more characters</a></p>'
        return format_html(more, made, address, address, f"{len(value) - shown:,}")

    def _address(self, path: str, first: int = 0) -> str:
        return f"{self.base}?{urlencode({'path': path} | ({'from': first} if first else {}))}"

    def _lazy(self, path: str) -> SafeString:
        return format_html(
            ' hx-get="{}" hx-trigger="toggle once" hx-target="find .jt-later" hx-swap="outerHTML"', self._address(path)
        )

    def _later(self, path: str) -> SafeString:
        return format_html('<p class="jt-later"><a href="{}">Open this part</a></p>', self._address(path))

    def _more(self, path: str, shown: int, count: int) -> SafeString:
        address = self._address(path, shown)
        return format_html(
            '<li class="jt-more"><a href="{}" hx-get="{}" hx-target="closest li" hx-swap="outerHTML">{} more</a></li>',
            *(address, address, f"{count - shown:,}"),
        )


def _nodes(value: JSON, limit: int) -> int:
    """Return the number of nodes in a value, counted up to the limit."""
    count, waiting = 0, [value]
    while waiting and count < limit:
        found = waiting.pop()
        if isinstance(found, dict | list):
            count += len(found)
            waiting += list(islice(found.values() if isinstance(found, dict) else found, limit))
    return count


def _items(value: dict[str, JSON] | list[JSON]) -> Iterator[tuple[str | int, JSON]]:
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))


def _step(key: str | int) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _cut(text: str) -> str:
    return inert(text if len(text) <= KEY_SHOWN else f"{text[:KEY_SHOWN]}…")


def _size(value: dict[str, JSON] | list[JSON]) -> str:
    if isinstance(value, dict):
        return f"{{{len(value):,}}}"
    return f"[{len(value):,}]"
