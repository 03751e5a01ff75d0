"""Drafts as the editor has them, and what of them a part owns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from console.editor.draft import Editing, editing
from console.forms.controls.fields import Shape
from console.forms.drafts.shape import shape_of
from fabric.selectors.drafts.lookup import DraftView
from fabric.services.fabrics.yaml.tree import read_yaml


def seen(text: str, base: str | None = None, **asked: str) -> Editing:
    """A draft with this text."""
    draft = DraftView(
        id="d", name="rich", author="ana", step=0, text=text, base_text=text if base is None else base, base=1, base_id="r",
        published=1, published_id="r", changed_at=datetime.now(UTC),
    )  # fmt: skip
    return editing(draft, None, asked=asked)


def leaves(tree: Any, path: str = "") -> list[str]:
    """The dotted paths of everything that is edited as one field."""
    shape = shape_of(path) if path else None
    if shape is not None and shape.kind not in ("group", "items", "table"):
        return [path]
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [leaf for key, value in inside for leaf in leaves(value, f"{path}.{key}" if path else str(key))]


def owned(text: str, owns: tuple[str, ...]) -> list[str]:
    """The leaves of a text that a part owns."""
    found = leaves(read_yaml(text).value)
    return [one for one in found if any(one == own or one.startswith(f"{own}.") for own in owns)]


def places(start: str = "", within: tuple[Any, ...] = ()) -> Iterator[Shape]:
    """Every place of a fabric under another. A group that may hold groups of its own kind is entered once."""
    shape = shape_of(start)
    assert shape is not None
    if start:
        yield shape
    if shape.fields and shape.fields in within:
        return
    under, many = f"{start}." if start else "", shape.kind in ("items", "table")
    for name in shape.fields or ("",) * many:
        yield from places(f"{under}{'*.' * many}{name}".removesuffix("."), (*within, shape.fields))
