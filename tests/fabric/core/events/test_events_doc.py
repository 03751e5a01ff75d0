"""docs/reference/events.md is made of the dataclasses' own words, so it cannot fall behind them."""

from __future__ import annotations

import ast
import inspect
import os
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

from fabric.core import events as ev
from fabric.core.events import calls, children, control, conversation, decisions, lifecycle, parts, saga
from fabric.core.values.taxonomy import Evidence

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "events.md"
WRITE = "WRITE_DOCS"
"""Set this variable when running this test to write the page anew."""
HEAD = """# Events

Everything that happens to a run is an event in its journal. The run is the fold of them.

A row is `seq`, `kind`, `version`, `header`, `payload`, `payload_hash` and `hash`. The *header* (the envelope and the
fields below) is never erased. The *payload*, where a kind has a content, may be.
`hash = H(hash before | seq | kind | version | header | payload_hash)`, so an erased payload leaves the chain whole.

A row has one event, or several of one instant, so that a batch writes few rows. Its columns are those of the first. Each
further one is a line of the header, `KIND VERSION JSON`, and has the next `seq`. Only `call_issued`, `stage_entered` and
`stage_left` stand in the row of the event before them, without a payload and at most 15. The API, the pages and the
readable export give each event for itself.

Every event travels in one envelope: `id` (run and seq), `trace_id`, `span_id`, `parent_span_id`, `timestamp`, `source`
and `destination` (each a `layer` and an `agent_id`), and the fact itself. The ids and the two parties follow from the run
and the fact, and are not stored. Fields at their default are left out of the header.

| a name that ends in | is |
|---|---|
| `_at`, and `not_before` | microseconds since the epoch, UTC |
| `_s`, `_us` | seconds, microseconds |
| `_usd_micros` | micro-dollars |

A kind is never edited in place: a changed one is a new version. A row of an unknown kind or version is refused.

This page is made from `fabric/core/events/` by `tests/fabric/core/events/test_events_doc.py`.
"""
GROUPS = {
    "The run as a whole": lifecycle,
    "Steps and calls": calls,
    "Conversations": conversation,
    "Failures and people": decisions,
    "What people do with a run": control,
    "Changes and undoing": saga,
    "Parents and children": children,
}
PARTS = (
    *(parts.GateResult, parts.Check, parts.ProposedCall, parts.TripRecord, Evidence),
    *(control.KeptStage, control.KeptBranch, control.KeptPart),
)


def page() -> str:
    kinds = get_args(ev.Fact)
    written = [HEAD]
    for title, module in GROUPS.items():
        written.append(f"\n## {title}\n")
        written += [_section(f"`{kind.kind}`", kind) for kind in kinds if kind.__module__ == module.__name__]
    written.append("\n## Pieces that several share\n")
    written += [_section(f"`{part.__name__}`", part) for part in PARTS]
    return "".join(written)


def _section(title: str, kind: type[Any]) -> str:
    version = f" (version {kind.version})" if hasattr(kind, "version") else ""
    rows = [f"| `{f.name}` | {_type(f)} | {_default(f)} | {_said(kind).get(f.name, '')} |" for f in fields(kind)]
    head = "| field | type | default | |\n|---|---|---|---|\n"
    return f"\n### {title}{version}\n\n{_text(kind.__doc__)}\n\n{head}" + "\n".join(rows) + "\n"


def _type(field: Any) -> str:
    return "`" + str(field.type).replace("|", "\\|") + "`"


def _default(field: Any) -> str:
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    return "" if field.default is MISSING else f"`{getattr(field.default, 'value', field.default)!r}`"


def _said(kind: type[Any]) -> dict[str, str]:
    """Return what the source says under each field."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    said = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            said[field.target.id] = _text(ast.literal_eval(below.value))
    return said


def _text(docstring: str | None) -> str:
    assert docstring
    return re.sub(r"\s+", " ", docstring).replace("``", "`").replace("|", "\\|").strip()


def test_the_page_says_what_the_classes_say():
    made = page()
    if os.environ.get(WRITE):
        PAGE.write_text(made)
    assert PAGE.exists(), f"docs/reference/events.md is missing: run this test once with {WRITE}=1 in the environment"
    assert PAGE.read_text() == made, (
        f"docs/reference/events.md is out of date: run this test once with {WRITE}=1 in the environment"
    )


def test_every_kind_is_on_the_page():
    made = page()
    assert [kind.kind for kind in get_args(ev.Fact) if f"### `{kind.kind}` (version {kind.version})" not in made] == []
