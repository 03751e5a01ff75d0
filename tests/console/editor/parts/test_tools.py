"""The tools' part: rules by which a person is asked, and what becomes of two writes of one key, are typed and read back."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts.catalogue import PARTS
from console.editor.parts.tools import OFFERED, READ_BY_TRANSPORT, TARGETS, TOOL_FIELDS, build, draw_tool_field
from console.forms.drafts.edits import changes_in
from console.forms.drafts.fields import field_at
from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import seen
from tests.console.editor.rich import RICH

REMEMBERS = RICH.replace("gates:\n", "memories:\n  - {name: notes, scope: fabric}\ngates:\n", 1)


def drawn(text: str) -> str:
    found = seen(text)
    return render_to_string(PARTS["tools"].template, {"editing": found, "draft": found.draft, **build(found)})


def sent(text: str, **fields: str) -> Any:
    """The draft after its form was sent with these fields, read from its text again."""
    tree, data = read_yaml(text).value, QueryDict(mutable=True)
    for path, value in fields.items():
        data[f"f.{path.replace('__', '.')}"] = value
    return read_yaml(text_edited(text, changes_in(tree, data, "").edits)).value


def test_a_rule_is_typed_as_code_and_stands_with_its_tool() -> None:
    assert 'name="f.tools.1.approve_when"' in drawn(RICH)
    after = sent(RICH, tools__1__approve_when="size(args.query) > 100 && run.tier == 'high_stakes'")
    assert after["tools"][1] == {
        "name": "search_documents",
        "approve_when": "size(args.query) > 100 && run.tier == 'high_stakes'",
    }
    assert sent(RICH, tools__1__approve_when="") == read_yaml(RICH).value


def test_a_memory_says_what_becomes_of_two_writes_of_one_key() -> None:
    page = drawn(REMEMBERS)
    assert 'name="f.memories.0.conflicts"' in page
    assert "last_write_wins" in page
    assert sent(REMEMBERS, memories__0__conflicts="last_write_wins")["memories"][0]["conflicts"] == "last_write_wins"


def fields_of(kind: str, **more: Any) -> list[str]:
    """The names of the fields that a tool of a kind shows, in order."""
    tool = {"name": "one", "kind": kind, **more}
    made = (field_at({"tools": [tool]}, f"tools.0.{name}") for name in TOOL_FIELDS)
    return [drawn.path.removeprefix("tools.0.") for one in made if (drawn := draw_tool_field(tool, one))]


def test_the_table_of_fields_is_total() -> None:
    assert set(TOOL_FIELDS) == set(ToolSpec.model_fields)
    made_by_engine = {"memory", "conversation"}
    assert {*OFFERED, *made_by_engine} == set(get_args(ToolSpec.model_fields["kind"].annotation))
    assert set(TARGETS) == set(OFFERED)
    assert set(READ_BY_TRANSPORT) | {"name", "transport", "timeout_s", "connect_s", "result_bytes"} == set(
        McpServer.model_fields
    )


COMMON = {
    "name",
    "kind",
    "target",
    "description",
    "capabilities",
    "timeout_s",
    "usd_per_call",
    "polling",
    "ends_turn",
    "approve_when",
}
OF_OUTSIDE = {*COMMON, "effect", "parameters", "hands_over"}


@pytest.mark.parametrize(
    ("kind", "effect", "fields"),
    [
        ("builtin", "read_only", {*COMMON, "allowed_hosts"}),
        ("callable", "read_only", OF_OUTSIDE),
        ("mcp", "idempotent", OF_OUTSIDE),
        ("http", "read_only", {*OF_OUTSIDE, "method", "places", "headers_from"}),
        ("callable", "mutating", {*OF_OUTSIDE, "compensation", "reconcile", "carry_over"}),
        ("mcp", "irreversible", {*OF_OUTSIDE, "approval", "deviation"}),
    ],
)
def test_a_tool_shows_what_its_kind_and_its_effect_read(kind: str, effect: str, fields: set[str]) -> None:
    more = {} if effect == "read_only" else {"effect": effect}
    assert set(fields_of(kind, **more)) == fields


def test_a_written_field_is_shown_though_its_kind_does_not_read_it() -> None:
    assert {"method", "compensation"} <= set(fields_of("builtin", method="PUT", compensation="undo"))


def test_a_tool_of_an_unknown_kind_shows_every_field_that_its_effect_reads() -> None:
    assert "headers_from" in fields_of("carrier pigeon")


def test_kinds_that_the_engine_makes_are_not_offered() -> None:
    kind = draw_tool_field({}, field_at({"tools": [{}]}, "tools.0.kind"))
    assert kind is not None
    assert [value for value, _ in kind.options] == list(OFFERED)


def test_a_server_shows_what_its_transport_reads() -> None:
    page = drawn(f"{REMEMBERS}mcp_servers:\n  - {{name: files, transport: stdio, command: ls}}\n")
    assert 'name="f.mcp_servers.0.command"' in page
    assert 'f.mcp_servers.0.url"' not in page
    page = drawn(f"{REMEMBERS}mcp_servers:\n  - {{name: files, transport: http, args: [x]}}\n")
    assert 'f.mcp_servers.0.url"' in page
    assert 'f.mcp_servers.0.command"' not in page
    assert 'f.mcp_servers.0.args"' in page
