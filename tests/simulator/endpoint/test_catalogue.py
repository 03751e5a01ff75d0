"""The scenarios answer turn by turn, strangers and this product's agents; and they strike when they should."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from fabric.core.schema.payloads import AGENT_OUTPUT, json_schema
from fabric.core.spec.policies.gates import GuardrailGroup
from fabric.policies.guardrails.compiled import scans
from simulator.agents.script import SCRIPTS
from simulator.endpoint import ScriptedEndpoint
from simulator.endpoint.behaviour.misbehaviour import FLOOD, NEEDS_MORE, NOWHERE
from simulator.endpoint.player import PLAYS, Playing, describe_unknown, format_table
from tests.documents.written import REFERENCE, hold_table
from tests.fabric.composition.test_misbehaviour_http import SCENARIOS as COMPARISON
from tests.simulator.endpoint.asking import FIND, LOOK, TO_B, arguments_of, converse, playing, tool

LOOPS = ("tool_loop", "tool_loop_paraphrased", "tool_loop_of_2", "tool_loop_of_3", "tool_loop_changing")
TURNS = 7
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
COMPARED: dict[str, tuple[str, dict[str, int]]] = {
    "same call for ever": ("tool_loop", {}),
    "same call, changing results": ("tool_loop_changing", {}),
    "paraphrased call": ("tool_loop_paraphrased", {}),
    "A, B, A, B": ("tool_loop_of_2", {}),
    "legal polling (8 times, then done)": ("tool_loop", {"times": 8}),
    "429 storm": ("retry_after", {}),
    "four 429s, then healthy": ("retry_after", {"times": 4}),
    "503 after three good calls": ("unavailable", {"after": 3}),
    "hang, trickle": ("trickle", {}),
    "broken tool JSON": ("bad_arguments", {}),
    "unknown tool": ("unknown_tool", {}),
    "off-schema output": ("off_schema", {}),
    "handoff ping-pong": ("handoff_cycle", {}),
    "sub-agents spawning": ("spawning", {}),
    "50k tokens an answer": ("cost_spike_tokens", {}),
    "credential in the answer": ("credential", {}),
    "200 tool calls in one answer": ("flood", {}),
    "HTML, empty answer": ("html", {}),
    "well-behaved": ("cooperative", {}),
}
"""What the comparison of frameworks was measured with, as it is said here."""


def test_every_scenario_of_the_comparison_can_be_said():
    assert set(COMPARED) == set(COMPARISON)
    for scenario, over in COMPARED.values():
        Playing(PLAYS[scenario], **over)


def test_the_documents_have_every_scenario():
    hold_table(REFERENCE / "endpoint.md", "Faults", format_table())


def test_the_endpoint_plays_every_script_of_the_scripted_agents():
    assert set(SCRIPTS) <= set(PLAYS)


# -- strangers --


def made_calls(scenario: str, *tools: dict[str, Any], stream: bool = False, **more: Any) -> list[tuple[str, str]]:
    """The calls of so many turns, of which none may have come to an end."""
    said = asyncio.run(converse(scenario, tools, TURNS, stream=stream, **more))
    assert len(said) == TURNS
    assert len({one for heard in said for one in heard.ids}) == TURNS, "no id comes twice"
    return [call for heard in said for call in heard.calls]


@BOTH
@pytest.mark.parametrize("tools", [[LOOK], [LOOK, FIND], [tool("count", n={"type": "integer"}), FIND, LOOK]])
@pytest.mark.parametrize(("scenario", "period"), [("tool_loop", 1), ("tool_loop_of_2", 2), ("tool_loop_of_3", 3)])
def test_a_loop_has_its_period(scenario, period, tools, stream):
    calls = made_calls(scenario, *tools, stream=stream)
    assert len(set(calls)) == period
    assert all(call == calls[at % period] for at, call in enumerate(calls))


def test_a_paraphrase_says_the_same_in_other_words():
    calls = made_calls("tool_loop_paraphrased", LOOK)
    words = [set(json.loads(args)["q"].split()) for _, args in calls]
    assert len(set(calls)) == TURNS
    assert all(len(one ^ words[0]) == 2 for one in words[1:]), "one word is another"


@BOTH
def test_a_loop_whose_results_change_says_so_and_calls_again(stream):
    said = asyncio.run(
        converse("tool_loop_changing", [LOOK], 3, stream=stream, results=lambda turn: f"row {turn} of many")
    )
    assert len({call for heard in said for call in heard.calls}) == 1
    assert [heard.text for heard in said] == [
        "I look.",
        "Now it says: row 0 of many I look again.",
        "Now it says: row 1 of many I look again.",
    ]


@pytest.mark.parametrize("scenario", LOOPS)
@pytest.mark.parametrize(
    "offered", [LOOK, FIND, tool("count", n={"type": "integer"}), tool("go", to={"enum": ["x", "y"]})]
)
def test_the_arguments_of_a_loop_fit_the_tool(scenario, offered):
    schema = offered["function"]["parameters"]
    for _, args in made_calls(scenario, offered):
        jsonschema_rs.validate(schema, json.loads(args))


@pytest.mark.parametrize(
    "scenario", [*LOOPS, "unknown_tool", "bad_arguments", "cost_spike_tokens", "spawning", "handoff_cycle"]
)
def test_without_tools_it_answers(scenario):
    [heard] = asyncio.run(converse(scenario, [], 1, stream=False))
    assert (heard.finish, heard.calls) == ("stop", [])


@BOTH
def test_a_well_behaved_one_takes_two_requests(stream):
    first, last = asyncio.run(converse("cooperative", [TO_B, LOOK], 5, stream=stream, results=lambda turn: "42"))
    assert first.calls == [("look", '{"q": "What does the report say?"}')]
    assert (last.finish, last.text) == ("stop", "The tool says: 42")


@BOTH
def test_a_flood_comes_once(stream):
    first, last = asyncio.run(converse("flood", [LOOK], 5, stream=stream))
    assert (len(first.calls), len(set(first.calls)), last.finish) == (FLOOD, FLOOD, "stop")


def test_broken_arguments_and_unknown_tools_are_so():
    [(name, args), *_] = made_calls("bad_arguments", LOOK)
    assert name == "look"
    with pytest.raises(json.JSONDecodeError):
        json.loads(args)
    assert {name for name, _ in made_calls("unknown_tool", LOOK)} == {"teleport"}


@pytest.mark.parametrize("scenario", ["handoff_cycle", "spawning", "supervisor_stuck"])
@pytest.mark.parametrize(
    "handing",
    [TO_B, tool("task", "Delegate work to a coworker."), tool("spawn_worker", brief={"type": "string"})],
)
def test_work_is_handed_on_by_the_tool_that_does(scenario, handing):
    name = handing["function"]["name"]
    assert {called for called, _ in made_calls(scenario, LOOK, handing)} == {name}


def test_a_supervisor_never_has_enough():
    said = asyncio.run(converse("supervisor_stuck", [LOOK], 4, stream=False))
    assert {heard.text for heard in said} == {NEEDS_MORE}
    assert {arguments_of(heard)["q"] for heard in said} == {NEEDS_MORE}


# -- this product's agents, and callers that send a schema --


def reply_of(scenario: str, body: dict[str, Any] | None = None, output: str = "", **over: Any) -> Any:
    """The message that is answered to one request."""
    headers = {"X-Fabric-Output": output, "X-Fabric-Agent": "one"} if output else {}
    asked = {"messages": [{"role": "user", "content": "What does the report say?"}], **(body or {})}
    if output and "response_format" not in asked:
        asked["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": output, "schema": json_schema(output)},
        }
    with ScriptedEndpoint(playing(scenario, **over)) as endpoint:
        answer = httpx2.post(f"{endpoint.url}/chat/completions", json=asked, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]


GOOD_FORM = (
    "cooperative",
    "credential",
    "ungrounded",
    "unsure",
    "bad_plan",
    "supervisor_stuck",
    "unfit_text",
    "spawning",
)
AT_FAULT = {("unfit_text", "summary"), ("spawning", "plan")}
"""What the product's own bounds refuse: half of a surrogate pair, more briefs than a plan may have."""


@pytest.mark.parametrize("output", AGENT_OUTPUT)
@pytest.mark.parametrize("scenario", GOOD_FORM)
def test_what_misbehaves_elsewhere_has_a_good_form(scenario, output):
    text = reply_of(scenario, output=output)["content"]
    jsonschema_rs.validate(json_schema(output), json.loads(text))
    if (scenario, output) not in AT_FAULT:
        AGENT_OUTPUT[output].model_validate_json(text)


REPORT = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "sources": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "confidence", "sources"],
}


@pytest.mark.parametrize("scenario", GOOD_FORM)
def test_a_stranger_gets_the_form_that_was_asked_for(scenario):
    form = {"type": "json_schema", "json_schema": {"name": "report", "schema": REPORT}}
    found = json.loads(reply_of(scenario, {"response_format": form})["content"])
    jsonschema_rs.validate(REPORT, found)
    if scenario == "unsure":
        assert found["confidence"] == 0.1
    if scenario == "ungrounded":
        assert found["sources"] == [NOWHERE]


def test_an_object_without_a_schema_is_one():
    found = json.loads(reply_of("cooperative", {"response_format": {"type": "json_object"}})["content"])
    assert found == {"text": "This was asked: What does the report say?", "citations": []}


def test_the_key_is_one_that_the_guardrails_find():
    scan = scans((GuardrailGroup(rules=("credentials",)),))
    text = json.loads(reply_of("credential", output="summary")["content"])["text"]
    assert [hit for one in scan.values() for hit in one(text)] != []
    fine = json.loads(reply_of("cooperative", output="summary")["content"])["text"]
    assert [hit for one in scan.values() for hit in one(fine)] == []


def test_what_fails_in_one_role_leaves_the_others_alone():
    assert json.loads(reply_of("bad_plan", output="plan")["content"])["briefs"][0]["agent"] == "nobody"
    assert "nobody" not in reply_of("bad_plan", output="summary")["content"]
    assert len(json.loads(reply_of("spawning", output="plan")["content"])["briefs"]) == FLOOD
    assert json.loads(reply_of("ungrounded", output="summary")["content"])["citations"] == [NOWHERE]
    assert json.loads(reply_of("ungrounded", output="critique")["content"])["score"] == 0.9
    for scenario in ("unsure", "supervisor_stuck"):
        assert json.loads(reply_of(scenario, output="critique")["content"])["score"] == 0.1
        assert json.loads(reply_of(scenario, output="judgement")["content"])["accept"] is False


def test_text_in_parts_is_read():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert reply_of("cooperative", {"messages": [{"role": "user", "content": parts}]})["content"].endswith("one\ntwo")


def test_a_choice_of_no_tool_is_kept_to():
    assert not reply_of("tool_loop", {"tools": [LOOK], "tool_choice": "none"}).get("tool_calls")


# -- when it strikes --


def statuses(count: int, scenario: str = "unavailable", **over: Any) -> list[int]:
    with ScriptedEndpoint(Playing(PLAYS[scenario], **over).reply) as endpoint, httpx2.Client(timeout=60) as asking:
        found = []
        for _ in range(count):
            try:
                found.append(asking.post(f"{endpoint.url}/chat/completions", json={"messages": []}).status_code)
            except httpx2.TransportError:
                found.append(0)
            asking.get(f"{endpoint.url}/models")  # Is not counted.
        return found


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ({}, [503] * 6),
        ({"after": 3}, [200, 200, 200, 503, 503, 503]),
        ({"times": 4}, [503, 503, 503, 503, 200, 200]),
        ({"after": 1, "times": 2}, [200, 503, 503, 200, 200, 200]),
    ],
)
def test_it_strikes_after_so_many_and_so_often(over, found):
    assert statuses(6, **over) == found


def test_an_outage_ends():
    assert statuses(10, "outage") == [200] * 3 + [503] * 5 + [200] * 2
    assert statuses(4, "outage", after=1, times=1) == [200, 503, 200, 200]


def test_a_seed_draws_the_same_again_and_another_seed_does_not():
    once = statuses(60, "flaky", seed=1)
    assert statuses(60, "flaky", seed=1) == once
    assert statuses(60, "flaky", seed=2) != once
    assert set(once) == {200, 429, 503, 0}
    assert 10 <= sum(status != 200 for status in once) <= 30


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ([], "the body is no JSON object"),
        ({"messages": "hello"}, "messages: this is no list of objects"),
        ({"messages": [], "tools": ["look"]}, "tools: this is no list of objects"),
        ({"messages": [], "tools": [{"function": "look"}]}, "tools: function is no object"),
        ({"messages": [], "response_format": "json"}, "response_format: this is no object with a json_schema"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_so(body, sentence):
    with ScriptedEndpoint(playing("tool_loop")) as endpoint:
        answer = httpx2.post(f"{endpoint.url}/chat/completions", json=body, timeout=60)
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, sentence)


def test_models_are_listed_and_what_is_not_served_says_what_is():
    with ScriptedEndpoint(playing("unavailable")) as endpoint:
        assert httpx2.get(f"{endpoint.url}/models").json()["data"][0]["id"] == "scripted"
        answer = httpx2.post(f"{endpoint.url}/embeddings", json={})
        assert answer.status_code == 404
        assert "ask /v1/chat/completions, /v1/responses, /v1/messages or " in answer.json()["error"]["message"]


def test_the_refusal_of_an_unknown_name_says_the_nearest_one():
    assert (
        describe_unknown("rate-limit")
        == "--fault: there is no 'rate-limit'; did you mean 'rate_limit'? --list lists all"
    )
    assert describe_unknown("qqq") == "--fault: there is no 'qqq'; --list lists all"


# -- how an answer has to be given --


@pytest.mark.parametrize(
    ("choice", "first", "then"),
    [
        ("auto", "look", None),
        ("required", "look", "find"),
        ({"type": "function", "function": {"name": "find"}}, "find", "find"),
        ("none", None, None),
    ],
    ids=str,
)
def test_an_answer_is_given_by_the_tool_that_it_has_to_be_given_by(choice, first, then):
    """Frameworks offer a tool for the answer, and forbid words."""
    offered = {"tools": [LOOK, FIND], "tool_choice": choice}
    told = [{"role": "user", "content": "What is it?"}, {"role": "tool", "tool_call_id": "1", "content": "42"}]
    for messages, name in ((told[:1], first), (told, then)):
        calls = reply_of("cooperative", {**offered, "messages": messages}).get("tool_calls") or []
        assert [one["function"]["name"] for one in calls] == ([name] if name else [])
    if then:
        [call] = reply_of("credential", {**offered, "messages": told})["tool_calls"]
        assert "AKIA" in call["function"]["arguments"]
