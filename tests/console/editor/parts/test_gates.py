"""Stages and gates of a draft: every check has its controls and its box, and buttons change what they say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts.catalogue import PARTS, part_of
from console.editor.parts.gates import ASKS, LISTS, schema_of
from console.forms.drafts.edits import GROUND, changes_in
from console.forms.drafts.places import SOURCES
from console.forms.drafts.shape import shape_of
from console.forms.drafts.variants import FORMS, form_at
from fabric.core.spec.policies.gates import Gates, OracleCheck
from fabric.core.values.flow import Stage
from fabric.policies.guardrails.rules import RULES
from fabric.services.fabrics.templates import SAMPLES
from fabric.services.fabrics.trials.table import triable
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import owned, places, seen
from tests.console.editor.rich import BROKEN, RICH

PART = PARTS["gates"]
TEXTS = {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.yaml"))} | {"rich": RICH}


def page(text: str) -> str:
    found = seen(text)
    return render_to_string(PART.template, {**PART.build(found), "editing": found, "part": PART})


def pressed(text: str, button: str) -> Any:
    edits, _ = GROUND.pressed(read_yaml(text).value, button)
    return read_yaml(text_edited(text, edits)).value


@pytest.mark.parametrize("source", TEXTS)
def test_each_field_that_it_owns_has_a_control(source: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page(TEXTS[source]))
    assert [one for one in owned(TEXTS[source], PART.owns) if f"f.{one}" not in ids] == []
    assert len(ids) == len(set(ids))


def test_the_rich_fabric_says_something_of_each_field_of_the_gates() -> None:
    assert seen(RICH).checked.errors == ()
    gates = read_yaml(RICH).value["gates"]
    assert set(gates) == set(Gates.model_fields)
    assert {field for one in gates["oracle"] for field in one} == set(OracleCheck.model_fields)


@pytest.mark.parametrize("text", BROKEN)
def test_what_are_no_gates_are_shown_all_the_same(text: str) -> None:
    html = page(text)
    assert all(f'id="h-{name}"' in html for name in LISTS)
    assert html.count('name="try"') >= len(Stage) + 3


def test_every_check_of_a_fabric_has_a_box() -> None:
    html = page(RICH)
    tried = set(re.findall(r'name="try" value="([^"]+)"', html))
    others = {"topology.critic", "topology.plan_critic"}
    ours = {one for one in triable(read_yaml(RICH).value) if not one.startswith(("tools.", "memories."))}
    # Citations and the grounding level are one check.
    assert tried == ours - others - {"gates.citations"}
    found = seen(RICH)
    topology = PARTS["topology"]
    beside = render_to_string(topology.template, {**topology.build(found), "editing": found, "part": topology})
    assert set(re.findall(r'name="try" value="([^"]+)"', beside)) == others


def test_lists_are_those_of_the_gates() -> None:
    lists = {
        place.removeprefix("gates.")
        for shape in places("gates")
        if (place := shape.place).count(".") == 1 and shape.kind == "items"
    }
    assert set(LISTS) == lists
    assert set(ASKS) == set(FORMS["gates.oracle.*"])


@pytest.mark.parametrize("stage", Stage)
def test_the_schema_of_a_stage_is_told_in_words(stage: Stage) -> None:
    several, fields = schema_of(stage)
    assert several is (stage is Stage.FAN_OUT)
    assert all(one.words for one in fields)
    assert any(one.required for one in fields)


def test_the_schema_of_a_plan() -> None:
    told = {one.name: one.words for one in schema_of(Stage.PLAN)[1]}
    assert told["briefs"] == "1 to 1,000 of {agent, title, instructions}"
    assert told["exit_criteria"] == "1 to 50 of text, at most 2,000 characters"


@pytest.mark.parametrize("place", SOURCES)
def test_sources_of_options_are_places_that_are_picked_from(place: str, settings: Any) -> None:
    settings.FABRIC_GRAPH_RULES = ("tests.fabric.policies.sample_rules.ROUTING",)
    shape = shape_of(place.replace(".**", ".conditions.0").replace("*", "0"))
    assert shape is not None
    assert shape.kind == ("reference" if place.endswith(".name") else "picks")
    assert SOURCES[place]({})


def test_shipped_rules_are_offered_with_what_they_find() -> None:
    options = dict(seen(RICH).field("gates.guardrails.0.rules").options)
    assert set(options) == {rule.name for rule in RULES}
    assert options["credentials"] == "credentials: keys, tokens, passwords and private keys"


def test_a_rule_that_there_is_not_stays_until_it_is_taken_out() -> None:
    text = RICH.replace("rules: [credentials, personal_data]", "rules: [credentials, of_mine]")
    field = seen(text).field("gates.guardrails.0.rules")
    assert "of_mine" in dict(field.options)
    assert any("of_mine" in one.sentence for one in field.findings)
    data = QueryDict(mutable=True)
    data["p.gates.guardrails.0.rules"] = "1"
    data.setlist("f.gates.guardrails.0.rules", list(field.picked))
    assert changes_in(read_yaml(text).value, data).edits == ()


def test_a_choice_that_there_is_not_stays_until_it_is_changed() -> None:
    text = RICH.replace("citations: required", "citations: perhaps")
    field = seen(text).field("gates.citations")
    assert field.text in dict(field.options)
    assert '<option value="perhaps" selected>' in page(text)


@pytest.mark.parametrize("kind", LISTS)
def test_a_check_is_added_and_the_list_goes_with_its_last(kind: str) -> None:
    begun = text_edited("name: x\n", GROUND.pressed({"name": "x"}, f"add gates.{kind}")[0])
    tree = read_yaml(begun).value
    assert len(tree["gates"][kind]) == 1
    assert pressed(begun, f"remove gates.{kind}.0") == {"name": "x"}
    assert len(pressed(begun, f"add gates.{kind}")["gates"][kind]) == 2


@pytest.mark.parametrize("kind", LISTS)
def test_a_check_that_was_just_added_is_in_order(kind: str) -> None:
    text = text_edited(RICH, GROUND.pressed(read_yaml(RICH).value, f"add gates.{kind}")[0])
    assert seen(text).checked.errors == ()


def test_patterns_are_added_under_a_name_of_their_own() -> None:
    text = RICH
    for _ in range(2):
        text = text_edited(text, GROUND.pressed(read_yaml(text).value, "add gates.guardrails.0.patterns")[0])
    names = [one["name"] for one in read_yaml(text).value["gates"]["guardrails"][0]["patterns"]]
    assert names == ["codename", "pattern", "pattern-2"]
    assert seen(text).checked.errors == ()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("way", FORMS["gates.oracle.*"])
def test_a_check_of_the_oracle_asks_in_another_way(number: int, way: str) -> None:
    path = f"gates.oracle.{number}"
    text = text_edited(RICH, GROUND.pressed(read_yaml(RICH).value, f"turn {path}={way}")[0])
    tree = read_yaml(text).value
    assert form_at(tree, path) == way
    assert (
        {"name", "message"}
        <= set(tree["gates"]["oracle"][number])
        <= {"name", "message", *FORMS["gates.oracle.*"][way].fields}
    )
    said = [one for one in seen(text).checked.errors if one.path.startswith(path)]
    # An expression over a tool's answer asks nothing of an outcome alone.
    assert said == [] or (number == 1 and way == "expression")
    html = page(text)
    assert f'id="f.{path}.{"http.url" if way == "http" else way}"' in html
    assert f'value="turn {path}={way}" id="turn.{path}.{way}" aria-pressed="true"' in html


@pytest.mark.parametrize("path", ["gates", "gates.oracle.0.tool", "policy.tau", "gates.guardrails.1.rules.0"])
def test_remarks_lead_here(path: str) -> None:
    assert part_of(path).name == "gates"
