"""The edits that make one JSON tree of another: what a text needs so that it says something else and stays as it stands everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.three_way import same
from fabric.services.yaml_edit import Drop, Edit, Insert, Put
from fabric.services.yaml_tree import Path

JSON = Any


def edits_between(before: JSON, after: JSON, path: Path = ()) -> list[Edit]:
    """What makes ``after`` of ``before``, each edit as deep as it can be: ``tree_edited`` with them gives ``after``. ``path``: where both stand."""
    return list(_edits(before, after, path))


def _edits(before: JSON, after: JSON, path: Path) -> Iterator[Edit]:
    if same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from (Drop((*path, name)) for name in before if name not in after)
        for name, value in after.items():
            if name in before:
                yield from _edits(before[name], value, (*path, name))
            else:
                yield Put((*path, name), value)
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from _items(before, after, path)
    else:
        yield Put(path, after)


def _items(before: list[JSON], after: list[JSON], path: Path) -> Iterator[Edit]:
    """What is alike at both ends stays; between them items are changed in their place, and then added or taken away behind."""
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
        yield Drop((*path, start + n))
    for n in range(len(old), len(new)):
        yield Insert((*path, start + n), new[n])
