"""Agents of the OpenAI Agents SDK against the endpoint's Responses API, as ``simulate_endpoint`` serves it: tools, a typed answer, histories, failures."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.endpoint import Received, ScriptedEndpoint
from tests.peers.openai_agents.agents_sdk import Client
from tests.simulator.endpoint.asking import playing

pytestmark = [pytest.mark.peers, pytest.mark.slow]
WELL = ["cooperative", "strict", "reasoning", "return_sealed", "index_zero", "pings"]


def play(sdk: Client, scenario: str, **case: Any) -> tuple[Any, list[Received]]:
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        found = sdk.play(endpoint.url, api="responses", **case)
        assert {one.path for one in endpoint.received} == {"/v1/responses"}
        assert [one.body.get("stream", False) for one in endpoint.received] == [case["stream"]] * len(endpoint.received)
        return found, endpoint.received


@pytest.mark.parametrize("scenario", WELL)
def test_tools_and_then_the_answer(sdk: Client, stream: bool, scenario: str) -> None:
    found, received = play(sdk, scenario, stream=stream)
    assert found["looked"], found
    assert found["text"] == f"The tool says: {found['looked'][-1]} is calm"
    assert found["tokens"] == [10 * len(received), 5 * len(received)]


def test_an_answer_in_the_form_that_is_asked_for(sdk: Client, stream: bool) -> None:
    found, received = play(sdk, "cooperative", stream=stream, typed=True)
    assert found["text"] == {"title": "The tool says: Hello? is calm", "pages": 1}
    assert received[0].body["text"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize("history", ["items", "sealed", "response"])
@pytest.mark.parametrize("scenario", WELL)
def test_a_second_question_has_the_first_ones_history(sdk: Client, stream: bool, scenario: str, history: str) -> None:
    """Sent again as items, reasoning sealed or not, or kept at the endpoint; no endpoint, however strict, refuses it."""
    found, received = play(sdk, scenario, stream=stream, history=history)
    assert found["text"] == f"The tool says: {found['looked'][-1]} is calm", found
    last, before = received[-1].body, received[-2].body
    if history == "response":
        assert last["previous_response_id"] == f"resp_{received[-2].number:06d}"
        assert [item["content"] for item in last["input"]] == ["Again?"]
    else:
        assert "previous_response_id" not in last
        assert len(last["input"]) > len(before["input"])
        assert last["input"][: len(before["input"])] == before["input"]


def test_a_response_that_is_not_kept_is_a_bad_request(sdk: Client, stream: bool) -> None:
    found, _ = play(sdk, "forgotten_response", stream=stream, history="response")
    assert found["error"] == "BadRequestError"
    assert "not found" in found["words"]
    sealed, _ = play(sdk, "forgotten_response", stream=stream, history="sealed")
    assert sealed["text"] == "The tool says: part 2 is calm"


NONE: tuple[str, ...] = ("ModelBehaviorError", "produce a final response")
FAILURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "status_400": (("BadRequestError", "400"),) * 2,
    "bad_key": (("AuthenticationError", "401"),) * 2,
    "retry_after": (("RateLimitError", "slow down"),) * 2,
    "unavailable": (("InternalServerError", "503"),) * 2,
    "response_failed": (("ModelBehaviorError", "status=failed"),) * 2,
    "refused_answer": (("ModelRefusalError", "can't help"),) * 2,
    "cut_call": (("ModelBehaviorError", "max_output_tokens"),) * 2,
    "unknown_tool": (("ModelBehaviorError", "not found in agent"),) * 2,
    "tool_loop": (("MaxTurnsExceeded", "Max turns"),) * 2,
    "html": (("AttributeError", "no attribute"), NONE),
    "nothing": (("JSONDecodeError", "Expecting value"), NONE),
    "error_body": (("ValidationError", "output"), ("ModelBehaviorError", "overloaded")),
    "cut_after": (("",), NONE),
    "no_done": (("",), NONE),
    "drop_after": (("",), ("APIConnectionError", "Connection error")),
    "error_midway": (("",), ("ModelBehaviorError", "overloaded")),
    "broken_event": (("",), ("JSONDecodeError", "Unterminated string")),
}
"""The client's own error and a part of its words, whole and streamed; an empty one: it answers, since only streams are odd there."""


@pytest.mark.parametrize("scenario", FAILURES)
def test_what_it_makes_of_a_failure(sdk: Client, stream: bool, scenario: str) -> None:
    found, _ = play(sdk, scenario, stream=stream, turns=3)
    wanted = FAILURES[scenario][stream]
    assert found.get("error", "") == wanted[0], found
    assert all(words in found["words"] for words in wanted[1:])


def test_cut_arguments_are_told_to_the_model_and_nothing_is_looked_at(sdk: Client, stream: bool) -> None:
    found, _ = play(sdk, "cut_arguments", stream=stream)
    assert (found["looked"], found["text"][:14]) == ([], "The tool says:")
