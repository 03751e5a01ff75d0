"""Changes single paths in a YAML text, and computes the edits between two JSON trees.

Comments, order, quotes and flow style stay; the layout is that of ``nodes``. For every text and every edit, the edited
text reads as the edited tree: ``read_yaml(text_edited(text, edits)).value == tree_edited(read_yaml(text).value,
edits)``. Each text is read back, and refused where it does not. So a text changes only where two trees differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fabric.core.texts.text import clean
from fabric.core.texts.three_way import same
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.nodes import (
    YamlDocument,
    get_note,
    make_node,
    read_document,
    walk_entries,
    write_document,
)
from fabric.services.fabrics.yaml.tree import Path, read_yaml

NAME_CHARS_MAX = 1_000
"""Characters of a field's name as it is written; beyond 1,024 YAML takes it for something else."""


@dataclass(frozen=True, slots=True)
class PutEdit:
    """Sets a value. Missing groups on the way are created; a new field goes to the end of its group."""

    path: Path
    value: JSON


@dataclass(frozen=True, slots=True)
class DropEdit:
    """Removes a field or an item of a list, with the comments directly before, behind and inside it. A parent
    without other entries stays empty.
    """

    path: Path


@dataclass(frozen=True, slots=True)
class InsertEdit:
    """Inserts an item. The last part of the path is its index in the list, from 0 to the list's length. A missing
    list is made.
    """

    path: Path
    value: JSON


@dataclass(frozen=True, slots=True)
class MoveEdit:
    """Moves an item of a list, so that its index is ``to`` then."""

    path: Path
    to: int


@dataclass(frozen=True, slots=True)
class RenameEdit:
    """Gives a field another name; it keeps its place."""

    path: Path
    name: str


Edit = PutEdit | DropEdit | InsertEdit | MoveEdit | RenameEdit


class EditProblem(ValueError):
    """An impossible edit, in one sentence that begins with the path. The path does not exist, or the value cannot be
    stored.
    """

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'the document'}: {sentence}")
        self.path = path


# -- on plain values ---------------------------------------------------------------------------------------------------


def tree_edited(tree: JSON, edits: Sequence[Edit]) -> JSON:
    """Return the tree after these edits in order; the argument stays unchanged. Raises EditProblem."""
    for edit in edits:
        if not edit.path:
            if not isinstance(edit, PutEdit):
                raise EditProblem((), "it can only be replaced as a whole; name a field or an item")
            tree = _fit((), edit.value)
        else:
            tree = _apply_edit(tree, edit, 0)
    return tree


def _apply_edit(node: JSON, edit: Edit, depth: int) -> JSON:
    """Return a node with the edit made in it; ``depth`` parts of the path lead to it."""
    part: Any = edit.path[depth]
    last = depth == len(edit.path) - 1
    if node is None and isinstance(edit, PutEdit | InsertEdit) and (isinstance(part, str) or (last and part == 0)):
        node = {} if isinstance(part, str) else []
    if last:
        return _ENDS[type(edit)](node, edit)
    _expect(node, edit.path[: depth + 1], new=isinstance(edit, PutEdit | InsertEdit))
    inner = node.get(part) if isinstance(node, dict) else node[part]
    changed = _apply_edit(inner, edit, depth + 1)
    if isinstance(node, dict):
        if part not in node:
            _fit_name(edit.path, part)
        return node | {part: changed}
    return [*node[:part], changed, *node[part + 1 :]]


def _expect(node: JSON, path: Path, *, new: bool = False, room: int = 0) -> None:
    """Raise EditProblem unless a path's last part is in the node. ``new``: a field may be missing; ``room``: places
    behind a list's end.
    """
    part = path[-1]
    if isinstance(part, str):
        if not isinstance(node, dict):
            raise EditProblem(path, f"there is no such field, for {_path_text(path[:-1])} is no group of fields")
        if part not in node and not new:
            raise EditProblem(path, "there is no such field")
    elif not isinstance(node, list):
        raise EditProblem(path, f"there is no such item, for {_path_text(path[:-1])} is no list")
    elif not 0 <= part < len(node) + room:
        raise EditProblem(path, f"there is no such item; the list has {len(node)}")


def _path_text(path: Path) -> str:
    return ".".join(map(str, path)) or "the document"


def _put(node: JSON, edit: PutEdit) -> JSON:
    _expect(node, edit.path, new=True)
    part, value = edit.path[-1], _fit(edit.path, edit.value)
    if isinstance(node, dict):
        if part not in node:
            _fit_name(edit.path, str(part))
        return node | {part: value}
    assert isinstance(part, int)
    return [*node[:part], value, *node[part + 1 :]]


def _drop(node: JSON, edit: DropEdit) -> JSON:
    _expect(node, edit.path)
    part = edit.path[-1]
    if isinstance(node, dict):
        return {name: item for name, item in node.items() if name != part}
    return [item for at, item in enumerate(node) if at != part]


def _insert(node: JSON, edit: InsertEdit) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, int):
        raise EditProblem(edit.path, "an item is inserted by its index in a list; this is a name")
    _expect(node, edit.path, room=1)
    return [*node[:part], _fit(edit.path, edit.value), *node[part:]]


def _move(node: JSON, edit: MoveEdit) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, int):
        raise EditProblem(edit.path, "only items of a list are moved; this is a field")
    _expect(node, edit.path)
    _expect(node, (*edit.path[:-1], edit.to))
    items = list(node)
    items.insert(edit.to, items.pop(part))
    return items


def _rename(node: JSON, edit: RenameEdit) -> JSON:
    part = edit.path[-1]
    if not isinstance(part, str):
        raise EditProblem(edit.path, "only fields have names; this is an item of a list")
    _expect(node, edit.path)
    if edit.name != part and edit.name in node:
        raise EditProblem(edit.path, f"there is already a field {edit.name!r} beside it")
    _fit_name(edit.path, edit.name)
    return {edit.name if name == part else name: item for name, item in node.items()}


_ENDS: dict[type[Edit], Callable[[JSON, Any], JSON]] = {
    PutEdit: _put,
    DropEdit: _drop,
    InsertEdit: _insert,
    MoveEdit: _move,
    RenameEdit: _rename,
}


def _fit(path: Path, value: JSON) -> JSON:
    """Return a value that can be stored. Raises EditProblem for one that YAML text would not give back."""
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
    if len(json.dumps(name)) > NAME_CHARS_MAX:
        raise EditProblem(path, f"a field's name may have at most {NAME_CHARS_MAX:,} characters; make it shorter")
    if clean(name)[1]:
        raise EditProblem(path, "a field's name holds NUL characters or broken Unicode")


# -- on the text -------------------------------------------------------------------------------------------------------


def text_edited(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits made in order, in the layout of ``nodes``. Without a change the text stays as it
    is.

    Comments stay with their fields and items. Raises YamlProblem for a text that is not read, now or
    when edited (it would be too large), and EditProblem.
    """
    tree = read_yaml(text).value
    wanted = tree_edited(tree, edits)
    if same(tree, wanted):
        return text
    document = read_document(text)
    for edit in edits:
        _edit_document(document, edit)
    new = write_document(document)
    if not same(read_yaml(new).value, wanted):
        raise EditProblem(edits[0].path, "the text cannot be written so that it reads back as the value")
    return new


def _edit_document(document: YamlDocument, edit: Edit) -> None:
    """Make one edit that ``tree_edited`` has found possible."""
    path, value = edit.path, edit.value if isinstance(edit, PutEdit | InsertEdit) else None
    if isinstance(edit, InsertEdit) and not isinstance(_node_at(document.root, path[:-1]), SequenceNode):
        edit, path, value = PutEdit(path[:-1], [value]), path[:-1], [value]
    while path and not _is_group(_node_at(document.root, path[:-1])):
        path, value = path[:-1], {path[-1]: value}
    if not path:
        document.root = make_node(value)
        return
    parent: Any = _node_at(document.root, path[:-1])
    part: Any = path[-1]
    if not parent.value:
        parent.flow_style = False
    match edit:
        case PutEdit():
            _put_node(parent, part, make_node(value))
        case InsertEdit():
            parent.value.insert(part, make_node(value))
        case DropEdit():
            _drop_node(document, path, parent)
        case MoveEdit(_, to):
            _move_node(parent, part, to)
        case RenameEdit(_, name):
            index = _index(parent, part)
            key, inner = parent.value[index]
            renamed: Any = make_node(name)
            renamed.comment, renamed.style = key.comment, renamed.style or key.style
            parent.value[index] = (renamed, inner)


def _is_group(node: Node | None) -> bool:
    return isinstance(node, MappingNode | SequenceNode)


def _node_at(root: Node | None, path: Path) -> Node | None:
    """Return the node at a path; None where there is none."""
    node = root
    for part in path:
        found = [value for name, _, value in walk_entries(node) if name == part] if node is not None else []
        node = found[0] if found else None
    return node


def _index(node: Node, part: str | int) -> int:
    """Return the place of a field or item in its node."""
    return next(index for index, (name, _, _) in enumerate(walk_entries(node)) if name == part)


def _put_node(parent: Any, part: str | int, new: Any) -> None:
    if not any(name == part for name, _, _ in walk_entries(parent)):
        parent.value.append((make_node(part), new))
        return
    index = _index(parent, part)
    old = parent.value[index][1] if isinstance(parent, MappingNode) else parent.value[index]
    if isinstance(new, ScalarNode) and isinstance(old, ScalarNode):
        # Text keeps the quotes that the author gave it.
        if old.style in ("'", '"') and new.tag == old.tag and not new.style:
            new.style = old.style
    elif type(new) is type(old) and old.value:
        new.flow_style = old.flow_style
    if isinstance(parent, MappingNode):
        parent.value[index] = (parent.value[index][0], new)
    else:
        new.comment, parent.value[index] = old.comment, new


def _drop_node(document: YamlDocument, path: Path, parent: Node) -> None:
    """Drop an entry with the comments directly before it, behind it and in it. Comments before an empty line stay."""
    index = _index(parent, path[-1])
    holders = [holder for _, holder, _ in walk_entries(parent)]
    del parent.value[index]
    above = get_note(holders[index]).above
    while above and above[-1]:
        above.pop()
    if index + 1 < len(holders):
        after = get_note(holders[index + 1])
        while above and after.above and not above[-1] and not after.above[0]:
            above.pop()
        after.above[:0] = above
        return
    while above and not above[-1]:
        above.pop()
    around = _node_at(document.root, path[:-2]) if len(path) > 1 else None
    owner = next((holder for name, holder, _ in walk_entries(around) if name == path[-2]), None) if around else None
    (get_note(owner).below if owner else document.end)[:0] = above


def _move_node(parent: Node, index: int, to: int) -> None:
    """Move an item with its comments; the empty lines before the items stay in place."""
    gaps = []
    for item in parent.value:
        above = get_note(item).above
        count = next((at for at, line in enumerate(above) if line), len(above))
        gaps.append(above[:count])
        del above[:count]
    parent.value.insert(to, parent.value.pop(index))
    for item, gap in zip(parent.value, gaps, strict=True):
        get_note(item).above[:0] = gap


def edits_between(before: JSON, after: JSON, path: Path = ()) -> list[Edit]:
    """Return the edits that turn ``before`` into ``after``, each as deep as possible. ``path``: place of both.

    ``tree_edited`` with these edits returns ``after``.
    """
    return list(_edits(before, after, path))


def _edits(before: JSON, after: JSON, path: Path) -> Iterator[Edit]:
    if same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from (DropEdit((*path, name)) for name in before if name not in after)
        for name, value in after.items():
            if name in before:
                yield from _edits(before[name], value, (*path, name))
            else:
                yield PutEdit((*path, name), value)
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from _items(before, after, path)
    else:
        yield PutEdit(path, after)


def _items(before: list[JSON], after: list[JSON], path: Path) -> Iterator[Edit]:
    """Yield edits of two lists. Equal items at both ends stay; items between change in place, then come or go at their
    end.
    """
    start = 0
    while start < min(len(before), len(after)) and same(before[start], after[start]):
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for n in range(min(len(old), len(new))):
        yield from _edits(old[n], new[n], (*path, start + n))
    for n in reversed(range(len(new), len(old))):
        yield DropEdit((*path, start + n))
    for n in range(len(old), len(new)):
        yield InsertEdit((*path, start + n), new[n])
