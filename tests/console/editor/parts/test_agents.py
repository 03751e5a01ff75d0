"""The agents' part: caps of an agent's own stand with it, follow its name, and those of no agent can be taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts.agents import build, strays
from console.editor.parts.catalogue import PARTS, remarks
from console.forms.drafts.edits import changes_in
from fabric.services.fabrics.yaml.edits import text_edited, tree_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import seen
from tests.console.editor.rich import RICH
from tests.fabric.services.world import sample

CAPS = "policy.budget.agents"
CAPPED = RICH.replace(
    "budget: {run_usd_micros: 1000000}",
    "budget: {run_usd_micros: 1000000, agent_tokens: 9000, agents: {reader: {usd_micros: 250000}}}",
)
READER = 2
"""Where the reader stands among the agents."""


def drawn(text: str) -> str:
    found = seen(text)
    return render_to_string(PARTS["agents"].template, {"editing": found, "draft": found.draft, **build(found)})


def text_after(text: str, button: str = "", **fields: str) -> str:
    """The draft's text after its form was sent with these fields."""
    tree, data = read_yaml(text).value, QueryDict(mutable=True)
    for path, value in fields.items():
        data[f"f.{path.replace('__', '.')}"] = value
    edits = changes_in(tree, data, button).edits
    after = text_edited(text, edits)
    assert read_yaml(after).value == tree_edited(tree, edits)
    return after


def sent(text: str, button: str = "", **fields: str) -> Any:
    """The draft after its form was sent with these fields, read from its text again."""
    return read_yaml(text_after(text, button, **fields)).value


@pytest.mark.parametrize(
    ("name", "planned"), [("research-desk", True), ("research-teams", True), ("incident-triage", False)]
)
def test_who_chooses_workers_is_said_where_an_agent_plans(name: str, planned: bool) -> None:
    said = "the planner chooses workers by their instructions"
    assert (said in drawn(sample(name))) is planned


OWN = {
    f"agents.{READER}.output_schema": '{"type": "object", "properties": {"owed": {"type": "integer"}}, "required": ["owed"]}',
    f"agents.{READER}.persona.allowed_capabilities": "tool:read_document\r\nfiles:*",
    f"agents.{READER}.persona.denied_capabilities": "tool:search_documents",
    f"{CAPS}.reader.usd_micros": "0.25",
    f"{CAPS}.reader.tokens": "60,000",
}
"""What is typed of all that is an agent's own."""


def test_all_that_is_an_agents_own_is_typed_into_the_form_and_stands_in_the_text() -> None:
    html = drawn(RICH)
    assert [path for path in OWN if f'name="f.{path}"' not in html] == []
    text = text_after(RICH, **OWN)
    before, after = RICH.splitlines(), text.splitlines()
    (reader,) = [line for line in after if "name: reader" in line]
    (budget,) = [line for line in after if "run_usd_micros" in line]
    assert [line for line in after if line not in before] == [reader, budget], "nothing else is written anew"
    assert read_yaml(reader.strip()).value == [
        {
            "name": "reader",
            "model": "script",
            "tools": ["read_document"],
            "instructions": "Read.",
            "output_schema": {"type": "object", "properties": {"owed": {"type": "integer"}}, "required": ["owed"]},
            "persona": {
                "allowed_capabilities": ["tool:read_document", "files:*"],
                "denied_capabilities": ["tool:search_documents"],
            },
        }
    ]
    assert read_yaml(budget.strip()).value == {
        "budget": {"run_usd_micros": 1_000_000, "agents": {"reader": {"usd_micros": 250_000, "tokens": 60_000}}}
    }
    again = seen(text)
    schema, *others = OWN
    assert json.loads(again.field(schema).text) == json.loads(OWN[schema])
    shown = ["tool:read_document\nfiles:*", "tool:search_documents", "0.25", "60000"]
    assert [again.field(path).text for path in others] == shown
    assert not again.checked.errors
    assert text_after(text, **dict.fromkeys(OWN, "")) == RICH, "emptied, they leave no trace"


def caps(tree: Any) -> Any:
    return tree["policy"]["budget"].get("agents")


def test_an_agents_own_caps_stand_with_it_in_dollars_and_tokens() -> None:
    html = drawn(CAPPED)
    assert f'id="f.{CAPS}.reader.usd_micros" name="f.{CAPS}.reader.usd_micros" value="0.25"' in html
    found = seen(CAPPED)
    assert found.field(f"{CAPS}.reader.usd_micros").own
    assert found.field(f"{CAPS}.reader.tokens").placeholder == "9000", (
        "what all agents have holds where it says nothing"
    )
    assert found.field(f"{CAPS}.planner.usd_micros").placeholder == ""
    (reader,) = [item for item in build(found)["items"] if item.name == "reader"]
    assert reader.own == 1


@pytest.mark.parametrize(
    ("fields", "after"),
    [
        (
            {f"{CAPS}.searcher.usd_micros": "1.5"},
            {"reader": {"usd_micros": 250_000}, "searcher": {"usd_micros": 1_500_000}},
        ),
        ({f"{CAPS}.reader.tokens": "12,000"}, {"reader": {"usd_micros": 250_000, "tokens": 12_000}}),
        ({f"{CAPS}.reader.usd_micros": ""}, None),
    ],
)
def test_a_cap_is_set_beside_others_and_an_emptied_one_leaves_nothing_behind(fields: Any, after: Any) -> None:
    assert caps(sent(CAPPED, **fields)) == after


def test_an_agent_that_is_called_otherwise_takes_its_caps_with_it() -> None:
    renamed = sent(CAPPED, **{f"agents.{READER}.name": "lawyer"})
    assert caps(renamed) == {"lawyer": {"usd_micros": 250_000}}
    both = sent(CAPPED, **{f"agents.{READER}.name": "lawyer", f"{CAPS}.reader.tokens": "700"})
    assert caps(both) == {"lawyer": {"usd_micros": 250_000, "tokens": 700}}
    assert caps(sent(CAPPED, **{f"agents.{READER}.name": "searcher"})) == {"reader": {"usd_micros": 250_000}}


def test_caps_of_an_agent_that_there_is_not_are_told_and_taken_out() -> None:
    text = CAPPED.replace("{reader: {usd", "{ghost: {tokens: 5}, reader: {usd")
    found = seen(text)
    assert [one.name for one in strays(found)] == ["ghost"]
    (remark,) = [one for one in remarks(found.checked) if "ghost" in one.finding.sentence]
    assert (remark.finding.path, remark.address) == (f"{CAPS}.ghost", f"?part=agents#f.{CAPS}.ghost")
    assert "no agent is named &#x27;ghost&#x27;" in drawn(text)
    assert caps(sent(text, f"reset {CAPS}.ghost")) == {"reader": {"usd_micros": 250_000}}
    empty = CAPPED.replace("{reader: {usd_micros: 250000}}", "{reader: {}}")
    assert [one.name for one in strays(seen(empty))] == ["reader"]
    assert "caps nothing" in drawn(empty)


def test_an_own_cap_that_is_wrong_is_told_at_its_field_and_opens_its_agent() -> None:
    found = seen(CAPPED.replace("usd_micros: 250000}", "usd_micros: lots}"))
    (reader,) = [item for item in build(found)["items"] if item.name == "reader"]
    assert (reader.errors, reader.open) == (1, True)
    assert found.field(f"{CAPS}.reader.usd_micros").wrong


def test_two_agents_of_one_name_have_one_place_for_their_caps() -> None:
    twice = drawn(CAPPED.replace("{name: spare,", "{name: reader,"))
    assert twice.count(f'id="f.{CAPS}.reader.usd_micros"') == 1


# -- personas and capabilities -----------------------------------------------------------------------------------------

PERSONA = f"agents.{READER}.persona"
DENYING = RICH.replace("{name: reader,", "{name: reader, persona: {denied_capabilities: ['tool:*', 'files:write']},")


def persona(tree: Any) -> Any:
    return tree["agents"][READER].get("persona")


def test_a_persona_is_two_lists_with_an_entry_a_line() -> None:
    found = seen(DENYING)
    assert found.field(f"{PERSONA}.denied_capabilities").text == "tool:*\nfiles:write"
    assert found.field(f"{PERSONA}.allowed_capabilities").text == ""
    html = drawn(DENYING)
    for name in ("allowed_capabilities", "denied_capabilities"):
        assert f'id="f.{PERSONA}.{name}"' in html


def test_a_persona_comes_with_its_first_line_and_goes_with_its_last() -> None:
    made = sent(RICH, **{f"{PERSONA}.allowed_capabilities": "files:*\r\n\r\n tool:read_document "})
    assert persona(made) == {"allowed_capabilities": ["files:*", "tool:read_document"]}
    assert persona(sent(DENYING, **{f"{PERSONA}.denied_capabilities": ""})) is None


def test_what_is_said_of_a_persona_stands_at_its_field() -> None:
    found = seen(DENYING)
    warned = {one.path: one.sentence for one in found.checked.findings if one.path.startswith(f"agents.{READER}")}
    assert set(warned) == {f"agents.{READER}.tools.0", f"{PERSONA}.denied_capabilities.1"}
    assert [one.sentence for one in found.field(f"{PERSONA}.denied_capabilities").findings] == [
        "no tool of this fabric needs 'files:write'"
    ]
    assert (
        "needs tool:read_document, which its persona denies"
        in found.field(f"agents.{READER}.tools").findings[0].sentence
    )
    wrong = seen(DENYING.replace("files:write", "Files"))
    assert wrong.field(f"{PERSONA}.denied_capabilities").wrong


def test_a_tool_says_its_capabilities_a_line_each() -> None:
    tools = PARTS["tools"]
    found = seen(RICH)
    html = render_to_string(tools.template, {"editing": found, "draft": found.draft, **tools.build(found)})
    assert 'id="f.tools.0.capabilities"' in html
    made = sent(RICH, **{"tools.0.capabilities": "files:read\nfiles:list"})
    assert made["tools"][0]["capabilities"] == ["files:read", "files:list"]
