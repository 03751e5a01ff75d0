"""The places of a fabric: each is known, with what it may hold."""

from __future__ import annotations

from typing import Any

import pytest

from console.forms.controls.fields import MISSING, read, shown
from console.forms.controls.kinds import NUMBERS, SEVERAL
from console.forms.controls.rows import ROW_KINDS
from console.forms.drafts.beginnings import NEW
from console.forms.drafts.fields import field_at
from console.forms.drafts.places import KINDS, LABELS, ORDERED, REFERS
from console.forms.drafts.shape import place_of, shape_of
from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.three_way import same
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.yaml.document import fabric_dump
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import places

ALL = {shape.place: shape for shape in places()}
_OF_TOPOLOGIES = {
    "topology.transitions.*.when.value",
    "topology.transitions.*.when.args",
    "topology.transitions.*.then.args",
    "topology.default_target.args",
    "topology.context",
}
AS_JSON = {
    "agents.*.output_schema",
    "models.*.options",
    "memories.*.value_schema",
    "gates.oracle.*.arguments",
    *_OF_TOPOLOGIES,
    *(f"topology.teams.*.{place}" for place in _OF_TOPOLOGIES),
}
"""Places that may hold any JSON; all others have a type."""
SOURCES = sorted(path for path in SAMPLES.glob("*.yaml"))


def leaves(tree: Any, path: str = "") -> list[str]:
    """The dotted paths of everything that is edited as one field."""
    shape = shape_of(path) if path else None
    if shape is not None and shape.kind not in ("group", "items", "table"):
        return [path]
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [leaf for key, value in inside for leaf in leaves(value, f"{path}.{key}" if path else str(key))]


def test_maps_of_strings_and_parameters_are_edited_in_rows() -> None:
    assert {place: shape.kind for place, shape in ALL.items() if shape.kind in ROW_KINDS} == {
        "tools.*.parameters": "parameters",
        "tools.*.headers_from": "pairs",
        "tools.*.places": "pairs",
        "mcp_servers.*.headers_from": "pairs",
    }


def test_only_what_may_hold_anything_is_edited_as_json() -> None:
    assert {place for place, shape in ALL.items() if shape.kind == "json"} == AS_JSON


@pytest.mark.parametrize("table", [REFERS, KINDS, LABELS, NEW, dict.fromkeys(ORDERED, "")])
def test_tables_name_only_places_that_there_are(table: dict[str, Any]) -> None:
    assert {place.replace("**.", "") for place in table} <= set(ALL)


def test_every_place_has_a_label() -> None:
    assert not [place for place, shape in ALL.items() if not shape.label]


def test_no_label_stands_beside_the_title_of_a_limit() -> None:
    assert not [place for place in LABELS if ALL[place].unit]


def test_a_number_of_the_policy_is_shown_with_its_unit_and_with_what_happens_there() -> None:
    numbers = [one for one in ALL.values() if one.kind in NUMBERS and one.place.startswith("policy.")]
    assert len(numbers) > 100
    assert not [one.place for one in numbers if not (one.unit and one.stops)]
    visits = ALL["policy.limits.max_visits.*"]
    assert (visits.label, visits.unit, visits.stops) == (
        "Visits of single stages",
        "visits",
        "the stage is not entered again",
    )


def test_choices_have_options() -> None:
    assert not [place for place, shape in ALL.items() if shape.kind == "choice" and not shape.options]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
@pytest.mark.parametrize("whole", [False, True], ids=["as written", "written out"])
def test_every_value_of_a_sample_comes_back_from_its_control(path: Any, whole: bool) -> None:
    text = path.read_text()
    tree = read_yaml(fabric_dump(FabricSpec.model_validate(read_yaml(text).value)) if whole else text).value
    found = leaves(tree)
    assert len(found) > 30
    for leaf in found:
        one = field_at(tree, leaf)
        sent = list(one.picked) if one.shape.kind in SEVERAL else [one.text]
        given = one.given
        back = read(one.shape, sent)
        if back is MISSING:
            assert given in ("", None, [], {}), leaf
        elif one.shape.kind == "number":
            assert back == given, leaf  # 10.0 stands there as 10, and is not sent unless it is changed.
        elif one.shape.kind == "text":
            assert back == str(given), leaf  # Prices may be written as numbers.
        else:
            assert same(back, given), (leaf, given, back)


def test_a_path_of_a_draft_is_a_place() -> None:
    assert place_of("policy.deadlines.batch.call_s") == "policy.deadlines.*.call_s"
    assert place_of("decision_table.infinite_tool_loop.batch.rungs.0.with") == "decision_table.*.*.rungs.*.with"
    assert shape_of("agents.0.nothing") is None
    assert shape_of("agents.0.name.more") is None


def test_money_is_shown_in_dollars_and_read_back_exactly() -> None:
    cap = shape_of("policy.budget.run_usd_micros")
    assert cap is not None
    assert cap.kind == "usd"
    for micros, text in (
        (2_400_000, "2.40"),
        (1, "0.000001"),
        (0, "0.00"),
        (100_000, "0.10"),
        (12_345_678_000_000, "12345678.00"),
    ):
        assert shown("usd", micros) == text
        assert read(cap, [text]) == micros
    assert read(cap, ["$1.5"]) == 1_500_000
    assert read(cap, ["0.0000001"]) == "0.0000001"
    assert read(cap, ["many"]) == "many"


def test_what_is_no_number_stays_what_was_typed() -> None:
    turns, tau = shape_of("policy.limits.turns"), shape_of("policy.tau")
    assert turns is not None
    assert tau is not None
    assert read(turns, ["twelve"]) == "twelve"
    assert read(turns, ["12"]) == 12
    assert read(turns, ["20,000"]) == 20_000
    assert read(turns, ["1.5"]) == "1.5"
    assert read(tau, ["0.7"]) == 0.7
    assert read(tau, ["1e3"]) == 1000.0, "the check of the whole says that it is too much"
    assert read(tau, ["1e"]) == "1e"
    assert read(tau, [" "]) is MISSING
