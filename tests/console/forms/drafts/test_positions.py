"""A page finds a part again after its own changes: by name, by its words, by its place in a list that is as long as it was."""

from __future__ import annotations

from typing import Any

import pytest

from console.forms.controls.positions import moved

A, B, C = ({"name": name, "tools": [name]} for name in "abc")
R, S, T = ({"when": number} for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("before", "after", "path", "where"),
    [
        ([A, B, C], [A, B, C], "l.1.tools", "l.1.tools"),
        ([A, B, C], [A, C], "l.2.tools", "l.1.tools"),
        ([A, B, C], [A, C], "l.1.tools", None),
        ([A, B, C], [B, A, C], "l.0", "l.1"),
        ([A, B], [{**A, "name": "other"}, B], "l.0.tools", "l.0.tools"),
        ([A, B], [A, {**B, "tools": []}], "l.1.tools", "l.1.tools"),
        ([A, B], [A, B, C], "l.2.tools", "l.2.tools"),
        ([R, S, T], [R, T], "l.2.when", "l.1.when"),
        ([R, S, T], [R, T], "l.1.when", None),
        ([R, S, T], [S, R, T], "l.1.when", "l.0.when"),
        ([R, S], [R, {"when": 9}], "l.1.when", "l.1.when"),
        ([R, R, S], [R, S], "l.0", None),
        ([R, R, S], [R, S], "l.1", None),
        ([R, R, S], [R, S], "l.2", "l.1"),
        ([R, R, S], [S, R, R], "l.1", "l.2"),
        (["x", "y"], ["y"], "l.1", "l.0"),
        ([], [A], "l.0.name", "l.0.name"),
        (None, [A], "l.0.name", "l.0.name"),
        ([A], None, "l.0.name", None),
    ],
)
def test_it_is_found_where_it_is_by_now(before: Any, after: Any, path: str, where: str | None) -> None:
    assert moved({"l": before}, {"l": after}, path) == where


def test_lists_within_lists() -> None:
    before = {"l": [{"name": "a", "in": [R, S]}, {"name": "b", "in": [T]}]}
    after = {"l": [{"name": "b", "in": [T]}, {"name": "a", "in": [S]}]}
    assert moved(before, after, "l.0.in.1.when") == "l.1.in.0.when"
    assert moved(before, after, "l.0.in.0.when") is None
    assert moved(before, after, "l.1.in.0.when") == "l.0.in.0.when"
