"""Agents of the OpenAI Agents SDK against the scripted endpoint: what another framework makes of its answers, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.endpoint import ScriptedEndpoint, answer, call, cut_stream, empty, error_body, html, refusal
from tests.peers.openai_agents.agents_sdk import Client

pytestmark = [pytest.mark.peers, pytest.mark.slow]


def play(sdk: Client, script: Any, **case: Any) -> tuple[Any, list[Any]]:
    with ScriptedEndpoint(script) as endpoint:
        return sdk.play(endpoint.url, **case), endpoint.received


def test_an_answer_and_its_tokens(sdk: Client, stream: bool) -> None:
    found, received = play(sdk, [answer("Hello.", usage=(12, 3))], stream=stream)
    assert found == {"text": "Hello.", "looked": [], "agent": "Reader", "tokens": [12, 3]}
    assert len(received) == 1
    assert received[0].body.get("stream", False) is stream


def test_two_calls_and_then_the_answer(sdk: Client, stream: bool) -> None:
    calls = [call("look", {"at": "here"}, "a"), call("look", {"at": "there"}, "b")]
    found, received = play(sdk, [answer(None, calls), answer("All is calm.")], stream=stream)
    assert (found["text"], sorted(found["looked"])) == ("All is calm.", ["here", "there"])
    results = [one for one in received[1].body["messages"] if one["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [("a", "here is calm"), ("b", "there is calm")]


def test_the_work_is_handed_over(sdk: Client, stream: bool) -> None:
    """``simulate_endpoint`` knows a tool that hands over by its name; the SDK's own is ``transfer_to_editor``."""
    script = [answer(None, [call("transfer_to_editor", {})]), answer("Edited.")]
    found, received = play(sdk, script, stream=stream, handoff=True)
    assert (found["text"], found["agent"]) == ("Edited.", "Editor")
    assert "transfer_to_editor" in [tool["function"]["name"] for tool in received[0].body["tools"]]


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ([refusal(401, "no key")], "AuthenticationError", "no key"),
        ([refusal(400, "bad thing")], "BadRequestError", "bad thing"),
        ([refusal(429, "slow down", headers={"Retry-After": "1"})], "RateLimitError", "slow down"),
        ([refusal(503, "overloaded")], "InternalServerError", "overloaded"),
    ],
    ids=["401", "400", "429", "503"],
)
def test_a_refusal_is_the_clients_own_error(sdk: Client, stream: bool, script: Any, error: str, words: str) -> None:
    found, received = play(sdk, script, stream=stream)
    assert found["error"] == error
    assert words in found["words"]
    assert len(received) == 1


@pytest.mark.parametrize(
    "script",
    [[html()], [empty()], [error_body()], [cut_stream()]],
    ids=["html", "empty", "error in a 200", "cut"],
)
def test_no_answer_is_not_taken_for_one(sdk: Client, script: Any) -> None:
    found, _ = play(sdk, script)
    assert found.get("error"), found


def test_an_agent_that_calls_for_ever_is_ended_by_the_clients_own_limit(sdk: Client, stream: bool) -> None:
    found, received = play(sdk, [answer(None, [call("look", {"at": "again"})])], stream=stream, turns=3)
    assert found["error"] == "MaxTurnsExceeded"
    assert len(received) == 3


def test_cut_arguments_are_told_to_the_model_and_nothing_is_looked_at(sdk: Client, stream: bool) -> None:
    script = [answer(None, [call("look", '{"at": "he')]), answer("I cannot.")]
    found, _ = play(sdk, script, stream=stream)
    assert found["looked"] == []
