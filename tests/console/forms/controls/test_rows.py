"""Rows of names with values, and of a tool's parameters: drawn, sent and read back."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from console.forms.controls.fields import EditField
from console.forms.controls.rows import SPARE_ROWS
from console.forms.drafts.edits import changes_in
from console.forms.drafts.fields import field_at
from fabric.services.fabrics.yaml.edits import tree_edited
from tests.console.editor.drafted import seen

HEADERS, PARAMETERS, PLACES = "tools.0.headers_from", "tools.0.parameters", "tools.0.places"
SCHEMA = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "description": "The customer's number.", "maxLength": 12},
        "pages": {"type": "integer", "minimum": 1},
        "any": {"enum": [1, "two"]},
    },
    "required": ["customer"],
    "additionalProperties": False,
}


def tree(**fields: Any) -> dict[str, Any]:
    """A draft with one tool."""
    return {"tools": [{"name": "crm", "kind": "http", **fields}]}


def page(draft: Any, path: str) -> QueryDict:
    """The fields that a browser sends of the rows at a path."""
    data = QueryDict(mutable=True)
    data[f"p.{path}"] = "1"
    for row in field_at(draft, path).cells:
        for cell in row.cells:
            data[cell.name] = cell.text
    return data


def sent(draft: Any, path: str, cells: dict[str, str], button: str = "") -> Any:
    """The tool after the rows were sent with these cells."""
    data = page(draft, path)
    for place, text in cells.items():
        data[f"r.{path}.{place}"] = text
    return tree_edited(draft, changes_in(draft, data, button).edits)["tools"][0]


@pytest.mark.parametrize(
    ("path", "draft"),
    [
        (HEADERS, tree()),
        (HEADERS, tree(headers_from={"Authorization": "CRM_TOKEN", "X-Team": "TEAM"})),
        (PLACES, tree(places={"id": "path", "q": "query", "odd": "url"})),
        (PARAMETERS, tree()),
        (PARAMETERS, tree(parameters={})),
        (PARAMETERS, tree(parameters=SCHEMA)),
        (PARAMETERS, tree(parameters={"required": ["b", "a"], "properties": {"a": {}, "b": {"type": "number"}}})),
    ],
)
def test_rows_that_are_sent_as_they_are_change_nothing(path: str, draft: Any) -> None:
    assert field_at(draft, path).in_rows
    assert changes_in(draft, page(draft, path)).edits == ()


def test_a_header_is_added_in_an_empty_row() -> None:
    cells = {"0.0": " Authorization ", "0.1": "CRM_TOKEN"}
    assert sent(tree(), HEADERS, cells)["headers_from"] == {"Authorization": "CRM_TOKEN"}
    assert sent(tree(), HEADERS, {"2.0": "X-Team", "2.1": "TEAM"})["headers_from"] == {"X-Team": "TEAM"}


def test_an_emptied_row_is_gone_and_the_last_one_takes_the_field_along() -> None:
    two = tree(headers_from={"Authorization": "CRM_TOKEN", "X-Team": "TEAM"})
    assert sent(two, HEADERS, {"0.0": "", "0.1": ""})["headers_from"] == {"X-Team": "TEAM"}
    one = tree(headers_from={"X-Team": "TEAM"})
    assert "headers_from" not in sent(one, HEADERS, {"0.0": "", "0.1": ""})
    assert "headers_from" not in sent(one, HEADERS, {}, f"drop {HEADERS}=X-Team")
    assert sent(two, HEADERS, {}, f"drop {HEADERS}=X-Team")["headers_from"] == {"Authorization": "CRM_TOKEN"}


def test_a_parameter_keeps_the_keywords_that_its_row_does_not_show_also_under_another_name() -> None:
    after = sent(
        tree(parameters=SCHEMA), PARAMETERS, {"0.1": "client", "1.3": "yes", "3.1": "note", "3.4": "A remark."}
    )
    assert after["parameters"] == {
        "type": "object",
        "properties": {
            "client": {"type": "string", "description": "The customer's number.", "maxLength": 12},
            "pages": {"type": "integer", "minimum": 1},
            "any": {"enum": [1, "two"]},
            "note": {"type": "string", "description": "A remark."},
        },
        "required": ["client", "pages", "note"],
        "additionalProperties": False,
    }


def test_a_tool_may_have_no_parameters_left() -> None:
    one = tree(parameters={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    for after in (sent(one, PARAMETERS, {"0.1": "", "0.4": ""}), sent(one, PARAMETERS, {}, f"drop {PARAMETERS}=a")):
        assert after["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"0.1": "TEAM"}, "Headers from variables: row 1 has no name: give it one, or empty the row"),
        (
            {"0.0": "A", "0.1": "X", "1.0": "A", "1.1": "Y"},
            "Headers from variables: 'A' is there twice: give row 2 another name",
        ),
    ],
)
def test_a_row_that_says_nothing_certain_is_refused_with_one_sentence(cells: dict[str, str], said: str) -> None:
    data = page(tree(), HEADERS)
    data.update({f"r.{HEADERS}.{place}": text for place, text in cells.items()})
    assert changes_in(tree(), data).refused == (said,)


@pytest.mark.parametrize(
    ("path", "draft"),
    [
        (HEADERS, tree(headers_from="Authorization: CRM_TOKEN")),
        (HEADERS, tree(headers_from={"Authorization": 5})),
        (PARAMETERS, tree(parameters={"type": "array"})),
        (PARAMETERS, tree(parameters={"properties": {"a": {"type": ["string", "null"]}}})),
        (PARAMETERS, tree(parameters={"properties": {"a": True}})),
        (PARAMETERS, tree(parameters={"properties": {}, "required": ["ghost"]})),
        (PARAMETERS, tree(parameters={"properties": {}, "required": "a"})),
        (PARAMETERS, tree(parameters={"properties": {}, "required": [["a"]]})),
        (PARAMETERS, tree(parameters={"properties": []})),
    ],
)
def test_what_rows_cannot_say_is_written_as_json(path: str, draft: Any) -> None:
    assert field_at(draft, path).shape.kind == "json"


def rows(one: EditField) -> list[list[str]]:
    return [[cell.text for cell in row.cells if not cell.column.hidden] for row in one.cells]


def test_rows_stay_where_their_author_types() -> None:
    text = "tools:\n  - {name: crm, kind: http, headers_from: {X-Team: TEAM}}\n"
    shown = seen(text).field(HEADERS)
    assert rows(shown) == [["X-Team", "TEAM"], *[["", ""]] * SPARE_ROWS]
    assert [row.spare for row in shown.cells] == [False, False, True, True]
    cells = {
        f"r.{HEADERS}.{n}.{c}": t for n, row in enumerate((("", ""), ("X-Team", "TEAM"))) for c, t in enumerate(row)
    }
    typed = field_with(text, cells)
    assert rows(typed)[:3] == [["", ""], ["X-Team", "TEAM"], ["", ""]]
    assert [row.spare for row in typed.cells] == [False, False, False, True, True]
    assert rows(field_with(text, {f"r.{HEADERS}.0.0": "Other", f"r.{HEADERS}.0.1": "O"}))[0] == ["X-Team", "TEAM"]


def field_with(text: str, cells: dict[str, str]) -> EditField:
    from dataclasses import replace

    return replace(seen(text), sent_cells=cells).field(HEADERS)
