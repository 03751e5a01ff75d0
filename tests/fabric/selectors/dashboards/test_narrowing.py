"""A narrowed line matches what the query and the figure match together."""

from __future__ import annotations

import pytest

from fabric.selectors.dashboards.narrowing import narrow_line
from fabric.selectors.runs.query.grammar import CHARS_MAX, Query, parse


@pytest.mark.parametrize(
    ("line", "terms", "narrowed"),
    [
        ("", ("state:failed",), "state:failed"),
        ("state:failed,completed x", ("state:failed,aborted",), "state:failed x"),
        ("state:completed", ("state:failed,aborted",), ""),
        ("-state:cancelled", ("state:failed",), "-state:cancelled state:failed"),
        ("recovered:yes", ("state:completed", "recovered:yes"), "recovered:yes state:completed"),
        ("recovered:yes", ("recovered:no",), ""),
        ("fired:budget", ("fired:loop",), "fired:budget fired:loop"),
        ("fabric:a* started:-4h", ("started:2026-11-20", "fabric:ab"), "fabric:a* started:-4h started:2026-11-20 fabric:ab"),
        ("label.team=ops", ("label.team=ops",), "label.team=ops label.team=ops"),
        ("review:late", ("review:expired",), "review:late review:expired"),
        ("x" * (CHARS_MAX - 5), ("state:failed",), ""),
        (" ".join("x" * 20), ("state:failed",), ""),
    ],
)  # fmt: skip
def test_a_line_is_narrowed(line, terms, narrowed):
    query = parse(line, now=0, fabrics=("ab",))
    assert isinstance(query, Query)
    assert narrow_line(query, *terms) == narrowed
    assert isinstance(parse(narrowed, now=0, fabrics=("ab",)), Query)
