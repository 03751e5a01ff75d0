"""Changes of single paths in a YAML text that leave everything else as it stands, byte for byte, comments included.

What holds for every text and every edit: the edited text reads as the edited tree, ``read_yaml(text_edited(text, edits)).value ==
tree_edited(read_yaml(text).value, edits)``. So that it does, each text is read back; where the fine edit reads as anything else, the smallest
value around it that can be is written anew, which costs the comments in that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fabric.core.text import clean
from fabric.core.three_way import same
from fabric.services.yaml_layout import Layout, Unfit
from fabric.services.yaml_render import document_text, flow_text, scalar_text
from fabric.services.yaml_splice import (
    Splice,
    entry_dropped,
    field_added,
    field_renamed,
    in_place,
    item_inserted,
    item_moved,
    value_put,
)
from fabric.services.yaml_tree import BYTES_MAX, Path, Tree, YamlProblem, read_yaml

JSON = Any
NAME_CHARS_MAX = 1_000
"""Characters of a field's name as it is written; beyond 1,024 YAML takes it for something else."""


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a value. Groups that are missing on the way are made; a new field goes to the end of its group."""

    path: Path
    value: JSON


@dataclass(frozen=True, slots=True)
class Drop:
    """Removes a field or an item of a list, with the comments directly above, behind and inside it. What had no other is left empty."""

    path: Path


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts an item. The last part of the path is its index in the list, from 0 to the list's length. A missing list is made."""

    path: Path
    value: JSON


@dataclass(frozen=True, slots=True)
class Move:
    """Moves an item of a list, so that its index is ``to`` then."""

    path: Path
    to: int


@dataclass(frozen=True, slots=True)
class Rename:
    """Gives a field another name; it keeps its place."""

    path: Path
    name: str


Edit = Put | Drop | Insert | Move | Rename


class EditProblem(ValueError):
    """An edit that cannot be made, in one sentence that begins with the path: it is not there, or the value cannot be kept."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'the document'}: {sentence}")
        self.path = path


# -- on plain values ---------------------------------------------------------------------------------------------------


def tree_edited(tree: JSON, edits: Sequence[Edit]) -> JSON:
    """The tree with the edits made one after the other; the one given stays as it is. Raises EditProblem."""
    for edit in edits:
        if not edit.path:
            if not isinstance(edit, Put):
                raise EditProblem((), "it can only be replaced as a whole; name a field or an item")
            tree = _fit((), edit.value)
        else:
            tree = _changed(tree, edit, 0)
    return tree


def _changed(node: JSON, edit: Edit, depth: int) -> JSON:
    """A node with the edit made in it; ``depth`` parts of the path lead to it."""
    part: Any = edit.path[depth]
    last = depth == len(edit.path) - 1
    if node is None and isinstance(edit, Put | Insert) and (isinstance(part, str) or (last and part == 0)):
        node = {} if isinstance(part, str) else []
    if last:
        return _ENDS[type(edit)](node, edit)
    _expect(node, edit.path[: depth + 1], new=isinstance(edit, Put | Insert))
    inner = node.get(part) if isinstance(node, dict) else node[part]
    changed = _changed(inner, edit, depth + 1)
    if isinstance(node, dict):
        if part not in node:
            _fit_name(edit.path, part)
        return node | {part: changed}
    return [*node[:part], changed, *node[part + 1 :]]


def _expect(node: JSON, path: Path, *, new: bool = False, room: int = 0) -> None:
    """Raises EditProblem unless a path's last part is in the node. ``new``: a field may be missing; ``room``: places behind a list's end."""
    part = path[-1]
    if isinstance(part, str):
        if not isinstance(node, dict):
            raise EditProblem(path, f"there is no such field, for {_named(path[:-1])} is no group of fields")
        if part not in node and not new:
            raise EditProblem(path, "there is no such field")
    elif not isinstance(node, list):
        raise EditProblem(path, f"there is no such item, for {_named(path[:-1])} is no list")
    elif not 0 <= part < len(node) + room:
        raise EditProblem(path, f"there is no such item; the list has {len(node)}")


def _named(path: Path) -> str:
    return ".".join(map(str, path)) or "the document"


def _put(node: JSON, edit: Put) -> JSON:
    _expect(node, edit.path, new=True)
    part, value = edit.path[-1], _fit(edit.path, edit.value)
    if isinstance(node, dict):
        if part not in node:
            _fit_name(edit.path, str(part))
        return node | {part: value}
    assert isinstance(part, int)
    return [*node[:part], value, *node[part + 1 :]]


def _drop(node: JSON, edit: Drop) -> JSON:
    _expect(node, edit.path)
    part = edit.path[-1]
    if isinstance(node, dict):
        return {name: item for name, item in node.items() if name != part}
    return [item for at, item in enumerate(node) if at != part]


def _insert(node: JSON, edit: Insert) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, int):
        raise EditProblem(edit.path, "an item is inserted by its index in a list; this is a name")
    _expect(node, edit.path, room=1)
    return [*node[:part], _fit(edit.path, edit.value), *node[part:]]


def _move(node: JSON, edit: Move) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, int):
        raise EditProblem(edit.path, "only items of a list are moved; this is a field")
    _expect(node, edit.path)
    _expect(node, (*edit.path[:-1], edit.to))
    items = list(node)
    items.insert(edit.to, items.pop(part))
    return items


def _rename(node: JSON, edit: Rename) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, str):
        raise EditProblem(edit.path, "only fields have names; this is an item of a list")
    _expect(node, edit.path)
    if edit.name != part and edit.name in node:
        raise EditProblem(edit.path, f"there is already a field {edit.name!r} beside it")
    _fit_name(edit.path, edit.name)
    return {edit.name if name == part else name: item for name, item in node.items()}


_ENDS: dict[type[Edit], Callable[[JSON, Any], JSON]] = {
    Put: _put,
    Drop: _drop,
    Insert: _insert,
    Move: _move,
    Rename: _rename,
}


def _fit(path: Path, value: JSON) -> JSON:
    """A value as it can be kept. Raises EditProblem for what YAML text would not give back."""
    try:
        kept, changed = clean(value)
    except ValueError as error:
        raise EditProblem(path, str(error)) from None
    if changed or _too_large(kept):
        raise EditProblem(path, "it holds NUL characters, broken Unicode or a number that is not finite or too large")
    for name in _names(kept):
        _fit_name(path, name)
    return kept


def _too_large(value: JSON) -> bool:
    if isinstance(value, dict | list):
        return any(map(_too_large, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and abs(value) >= 2**63


def _names(value: JSON) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names(item)


def _fit_name(path: Path, name: str) -> None:
    if len(scalar_text(name)) > NAME_CHARS_MAX:
        raise EditProblem(path, f"a field's name may have at most {NAME_CHARS_MAX:,} characters; make it shorter")
    if clean(name)[1]:
        raise EditProblem(path, "a field's name holds NUL characters or broken Unicode")


# -- on the text -------------------------------------------------------------------------------------------------------


def text_edited(text: str, edits: Sequence[Edit], *, order: Sequence[str] = ()) -> str:
    """The text with the edits made one after the other. ``order``: names of the top level, in the order in which a new one is put among them.

    Raises YamlProblem for a text that is not read, now or when edited (it would be too large), and EditProblem.
    """
    if not edits:
        return text
    tree, made = read_yaml(text), 0
    while made < len(edits):
        together = _made_together(text, tree, edits[made:])
        if together is None:
            text, tree = _edited(text, tree, edits[made], order)
            made += 1
        else:
            count, text, tree = together
            made += count
    return text


def _made_together(text: str, tree: Tree, edits: Sequence[Edit]) -> tuple[int, str, Tree] | None:
    """The first edits at once, as many as only put one scalar in place of another: how many, the text, its tree. None: they are fewer than two,
    or the text does not read back as it should. The reading is what an edit costs.
    """
    layout = Layout(text, tree)
    splices: dict[Path, Splice] = {}
    for edit in edits:
        splice = in_place(layout, edit.path, _fit(edit.path, edit.value)) if isinstance(edit, Put) else None
        if splice is None or edit.path in splices:
            break
        splices[edit.path] = splice
    if len(splices) < 2:
        return None
    wanted = tree_edited(tree.value, edits[: len(splices)])
    for splice in sorted(splices.values(), key=lambda splice: -splice.start):
        text = splice.put_into(text)
    try:
        read = read_yaml(text)
    except YamlProblem:
        return None
    return (len(splices), text, read) if same(read.value, wanted) else None


def _edited(text: str, tree: Tree, edit: Edit, order: Sequence[str]) -> tuple[str, Tree]:
    wanted = tree_edited(tree.value, [edit])
    if same(wanted, tree.value):
        return text, tree
    layout = Layout(text, tree)
    for number, attempt in enumerate(_attempts(layout, edit, wanted, order)):
        try:
            new = attempt()
            read = read_yaml(new)
        except YamlProblem:
            if number == 0:
                _refuse_what_is_too_large(new, wanted)
        except Unfit:
            pass
        else:
            if same(read.value, wanted):
                return new, read
    raise EditProblem(edit.path, "the text cannot be written so that it reads back as the value")


def _refuse_what_is_too_large(text: str, wanted: JSON) -> None:
    """Raises YamlProblem where no other way to write it helps, or only one that takes the author's comments out."""
    if len(text.encode()) > BYTES_MAX:
        read_yaml(text)
    read_yaml(flow_text(wanted, '"'))


def _attempts(layout: Layout, edit: Edit, wanted: JSON, order: Sequence[str]) -> Iterator[Callable[[], str]]:
    """Ways to write the edited text, the finest first."""
    text = layout.text
    yield lambda: _splice(layout, edit, order).put_into(text)
    # Text in a literal block that ends the document has no line break at its end, unless the document has one.
    yield lambda: _splice(layout, edit, order).put_into(text) + layout.newline
    for length in range(len(edit.path), -1, -1):
        path = edit.path[:length]
        if path in layout.tree.spans and (found := _at(wanted, path)) is not None:
            yield partial(_rewritten, layout, path, found)
    yield lambda: document_text(wanted).replace("\n", layout.newline) + layout.newline
    yield lambda: flow_text(wanted, '"') + layout.newline


def _rewritten(layout: Layout, path: Path, value: JSON) -> str:
    return value_put(layout, path, value).put_into(layout.text)


def _at(tree: JSON, path: Path) -> JSON:
    """The value at a path; None: it is not there, or nothing."""
    for part in path:
        inside = part in tree if isinstance(tree, dict) else isinstance(tree, list) and part in range(len(tree))
        if not inside:
            return None
        tree = tree[part]
    return tree


def _splice(layout: Layout, edit: Edit, order: Sequence[str]) -> Splice:
    """The fine edit. Raises Unfit."""
    match edit:
        case Drop(path):
            return entry_dropped(layout, path)
        case Move(path, to):
            return item_moved(layout, path, to)
        case Rename(path, name):
            return field_renamed(layout, path, name)
        case Put(path, value) if not path or path in layout.tree.spans:
            return value_put(layout, path, value)
    return _added(layout, edit, order)


def _added(layout: Layout, edit: Put | Insert, order: Sequence[str]) -> Splice:
    """Adds what is not there, with what is missing on the way to it."""
    path, value = edit.path, edit.value
    if isinstance(edit, Insert):
        if isinstance(_at(layout.tree.value, path[:-1]), list):
            return item_inserted(layout, path[:-1], int(path[-1]), value)
        path, value = path[:-1], [value]
    while path and not isinstance(_at(layout.tree.value, path[:-1]), dict) and path not in layout.tree.spans:
        path, value = path[:-1], {path[-1]: value}
    if not path or path in layout.tree.spans:
        return value_put(layout, path, value)
    return field_added(layout, path, value, order if len(path) == 1 else ())
