"""The rules of a graph in the editor: a list of transitions with a sentence each, conditions within conditions, and a picture beside them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts import graph as part_graph
from console.editor.parts.catalogue import PARTS
from console.editor.subjects import subject
from console.forms.drafts.edits import GROUND, changes_in
from console.forms.drafts.fields import field_at
from console.words.graphs import condition_words, target_words
from fabric.core.graph.conditions import NAMES as CONDITION_NAMES
from fabric.core.graph.conditions import TARGET_NAMES
from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import seen

PART = PARTS["topology"]
DESK = """
name: desk
title: Desk
models:
  - {name: m, provider: scripted, price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}}
tools:
  - {name: look, target: search_documents}
agents:
  - {name: triage, model: m, instructions: Sort it., tools: [look]}
  - {name: billing, model: m, instructions: Bill it.}
  - {name: writer, model: m, instructions: Write it.}
topology:
  kind: graph
  workers: [triage, billing, writer]
  initial_speaker: triage
  transitions:
    # Money first.
    - when: {kind: all_of, conditions: [{kind: from_speaker, agent: triage}, {kind: not, condition: {kind: tool_called, tool: look}}]}
      then: {kind: agent, agent: billing}
    - when: {kind: from_speaker, agent: writer}
      then: {kind: terminate, reason: written}
  default_target: {kind: agent, agent: writer}
  max_turns: 8
policy: {budget: {run_usd_micros: 100000}}
reviewers: [owner]
"""


def tree(text: str = DESK) -> Any:
    return read_yaml(text).value


def page(text: str) -> str:
    return render_to_string(PART.template, {**PART.build(found := seen(text)), "editing": found, "part": PART})


def pressed(text: str, button: str) -> str:
    return text_edited(text, GROUND.pressed(tree(text), button)[0])


def sent(text: str, **fields: str) -> str:
    data = QueryDict(mutable=True)
    for path, value in fields.items():
        data[f"f.{path.replace('__', '.')}"] = value
    return text_edited(text, changes_in(tree(text), data).edits)


def test_every_kind_has_its_words() -> None:
    assert set(part_graph.CONDITIONS) == set(CONDITION_NAMES)
    assert set(part_graph.TARGETS) == set(TARGET_NAMES)
    assert all(condition_words({"kind": kind}) != "…" for kind in set(CONDITION_NAMES) - {"all_of", "any_of"})
    assert all(target_words({"kind": kind}) != "…" for kind in TARGET_NAMES)


def test_each_rule_says_what_it_does_and_has_its_fields() -> None:
    FabricSpec.model_validate(tree())
    html = page(DESK)
    assert "If triage spoke and not (look was called), billing speaks next." in html
    assert "If writer spoke, it ends: written." in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for path in (
        "topology.transitions.0.when.kind",
        "topology.transitions.0.when.conditions.0.agent",
        "topology.transitions.0.when.conditions.1.condition.tool",
        "topology.transitions.1.then.reason",
        "topology.default_target.agent",
        "topology.max_turns",
    ):
        assert f"f.{path}" in ids


def test_what_was_shown_changes_nothing_when_it_is_sent() -> None:
    built = PART.build(seen(DESK))["own"]
    data = QueryDict(mutable=True)

    def put(form: part_graph.KindForm) -> None:
        for one in (form.kind, *form.fields):
            data[one.name] = one.text
        for inner in form.inner:
            put(inner)

    for rule in built["rules"]:
        put(rule.when)
        put(rule.then)
        data[rule.order.name] = rule.order.text
    put(built["otherwise"])
    for one in (*built["begins"], *built["bounds"]):
        data[one.name] = one.text
    assert changes_in(tree(), data).edits == ()


@pytest.mark.parametrize("kind", CONDITION_NAMES)
def test_a_condition_of_another_kind_begins_with_what_it_needs_and_keeps_nothing_else(kind: str) -> None:
    after = sent(DESK, topology__transitions__1__when__kind=kind)
    condition = tree(after)["topology"]["transitions"][1]["when"]
    assert condition["kind"] == kind
    assert "agent" not in condition or kind == "from_speaker"
    if kind not in ("registered", "context_equals", "context_text"):  # Those want a name of the author's own.
        FabricSpec.model_validate(tree(after))
    assert "# Money first." in after
    assert page(after)


@pytest.mark.parametrize("kind", TARGET_NAMES)
def test_and_so_does_a_target(kind: str) -> None:
    after = sent(DESK, topology__transitions__0__then__kind=kind)
    assert tree(after)["topology"]["transitions"][0]["then"]["kind"] == kind
    if kind != "registered":
        FabricSpec.model_validate(tree(after))


def test_a_new_rule_takes_nothing_from_the_others_and_from_where_none_applies() -> None:
    after = pressed(DESK, "add topology.transitions")
    assert len(tree(after)["topology"]["transitions"]) == 3
    assert seen(after).checked.findings == seen(DESK).checked.findings


def test_conditions_within_conditions_come_and_go() -> None:
    more = pressed(DESK, "add topology.transitions.0.when.conditions")
    assert len(tree(more)["topology"]["transitions"][0]["when"]["conditions"]) == 3
    fewer = pressed(more, "remove topology.transitions.0.when.conditions.0")
    assert [one["kind"] for one in tree(fewer)["topology"]["transitions"][0]["when"]["conditions"]] == ["not", "always"]
    deep = sent(more, topology__transitions__0__when__conditions__2__kind="any_of")
    assert tree(deep)["topology"]["transitions"][0]["when"]["conditions"][2]["conditions"] == [{"kind": "always"}]
    FabricSpec.model_validate(tree(deep))


def test_an_agent_that_is_called_otherwise_is_so_in_every_rule_however_deep() -> None:
    after = sent(DESK, agents__0__name="intake", tools__0__name="peek")
    FabricSpec.model_validate(tree(after))
    rule = tree(after)["topology"]["transitions"][0]["when"]["conditions"]
    assert rule[0]["agent"] == "intake"
    assert rule[1]["condition"]["tool"] == "peek"
    assert tree(after)["topology"]["initial_speaker"] == "intake"


def test_a_rule_is_added_moved_and_taken_out() -> None:
    added = pressed(DESK, "add topology.transitions")
    FabricSpec.model_validate(tree(added))
    assert len(tree(added)["topology"]["transitions"]) == 3
    up = pressed(added, "up topology.transitions.1")
    assert tree(up)["topology"]["transitions"][0]["then"] == {"kind": "terminate", "reason": "written"}
    gone = pressed(up, "remove topology.transitions.0")
    assert len(tree(gone)["topology"]["transitions"]) == 2


def test_where_no_rule_applies_an_agent_speaks_or_it_ends() -> None:
    ends = pressed(DESK, "reset topology.default_target")
    assert "default_target" not in tree(ends)["topology"]
    assert "The conversation ends." in page(ends)
    again = pressed(ends, "set topology.default_target.kind=round_robin")
    assert tree(again)["topology"]["default_target"] == {"kind": "round_robin"}
    FabricSpec.model_validate(tree(again))


def test_a_supervisor_becomes_a_graph_that_can_be_run_at_once() -> None:
    plain = sent(DESK, topology__kind="handoff")
    assert set(tree(plain)["topology"]) == {"kind", "workers"}
    back = sent(plain, topology__kind="graph")
    topology = FabricSpec.model_validate(tree(back)).topology
    assert topology.kind == "graph"
    assert len(topology.transitions) == 3


def test_what_is_deeper_than_there_are_forms_is_left_to_the_yaml() -> None:
    nested: Any = {"kind": "always"}
    for _ in range(6):
        nested = {"kind": "not", "condition": nested}
    text = DESK.replace("when: {kind: from_speaker, agent: writer}", f"when: {nested!r}".replace("'", '"'))
    assert "deeper than are shown here" in page(text)


REGISTERED = DESK.replace(
    "    - when: {kind: from_speaker, agent: writer}\n      then: {kind: terminate, reason: written}\n",
    "    - when: {kind: any_of, conditions: [{kind: registered, name: gone}]}\n      then: {kind: registered, name: last}\n",
)


def test_what_the_installation_registers_is_offered_and_what_is_registered_no_more_stays(settings):
    settings.FABRIC_GRAPH_RULES = ("tests.fabric.policies.sample_rules.ROUTING",)
    text = page(REGISTERED)
    names = {
        path: re.findall(r'<option value="([^"]+)"( selected)?', found)
        for path, found in re.findall(
            r'<select[^>]*name="f\.(topology[^"]*\.name)"[^>]*>(.*?)</select>', text, re.DOTALL
        )
    }
    assert names == {
        "topology.transitions.1.when.conditions.0.name": [("late", ""), ("gone", " selected")],
        "topology.transitions.1.then.name": [("last", " selected")],
    }


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("topology.transitions.7", "Rule 8"),
        ("topology.transitions.7.when.conditions.1.agent", "Rule 8 · Condition 2 · Agent"),
        ("topology.expectations.0.seconds", "Expectation 1 · Turn timeout"),
        ("topology.procedure.1.title", "Item 2 · Title"),
        ("topology.plan.briefs.0.title", "Brief 1 · Title"),
    ],
)
def test_problems_call_what_has_no_name_as_the_forms_do(path: str, called: str) -> None:
    assert subject(path, {}) == called


AGAIN = """    - when: {kind: error_class_is, failure_class: transient_infra}
      then: {kind: agent, agent: triage}
      restart: true
  default_target:"""
BACK = """  max_turns: 8
  retry_target: triage
  retry_targets: {billing: {retry_target: billing, fallback_retry_target: writer}}
"""


def led_back() -> str:
    return DESK.replace("  default_target:", AGAIN).replace("  max_turns: 8\n", BACK)


def test_a_restart_edge_says_that_the_conversation_begins_anew() -> None:
    html = page(led_back())
    assert "If the turn failed, transient infra, triage speaks next, and the conversation starts over." in html
    assert html.count("and the conversation starts over.") == 1
    on = read_yaml(sent(DESK, topology__transitions__0__restart="true")).value
    assert [rule.get("restart") for rule in on["topology"]["transitions"]] == [True, None]


def test_retry_targets_are_edited_of_the_graph_and_of_each_worker() -> None:
    html = page(led_back())
    for name in ("triage", "billing", "writer"):
        assert f'name="f.topology.retry_targets.{name}.fallback_retry_target"' in html
    fields = {"topology__retry_target": "writer", "topology__retry_targets__billing__retry_target": "triage"}
    topology = read_yaml(sent(DESK, **fields)).value["topology"]
    assert (topology["retry_target"], topology["retry_targets"]) == ("writer", {"billing": {"retry_target": "triage"}})
    FabricSpec.model_validate(read_yaml(led_back()).value)


def test_the_picture_and_its_table_tell_both_with_strokes_of_their_own() -> None:
    html = page(led_back())
    assert html.count('<path class="e anew"') == 2
    assert "billing to triage: rule 3, and the conversation starts over" in html
    assert "billing to writer: after a failure that no rule is for: its own fallback" in html
    assert "by rule 3, which starts the conversation over" in html
    assert "back after a failure that no rule is for: the graph&#x27;s retry target" in html
    plain = page(DESK)
    assert 'class="e anew"' not in plain
    assert 'class="e back"' not in plain


def test_of_a_teams_graph_the_same_is_offered(settings):
    settings.FABRIC_GRAPH_RULES = ("tests.fabric.policies.sample_rules.ROUTING",)
    graph = "topology.teams.head.topology"
    for place, name in (("transitions.0.when.condition.name", "late"), ("default_target.name", "last")):
        assert field_at({}, f"{graph}.{place}").options == ((name, name),)
