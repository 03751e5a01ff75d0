"""Conversations of the official ``openai`` client through the endpoint's Responses API: stored and stateless, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from simulator.endpoint import ScriptedEndpoint
from tests.simulator.endpoint.asking import QUESTION, playing
from tests.simulator.endpoint.official_clients import KEY, PARAMETERS, PATIENCE_S

TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": PARAMETERS, "strict": False}
SEALED: Mapping[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
ROUNDS = 6
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Report(BaseModel):
    """What a model may be asked for."""

    title: str
    pages: int


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=PATIENCE_S)


def ask(made: openai.OpenAI, *, stream: bool, **asked: Any) -> Any:
    given = {"model": "m", "tools": [TOOL], **asked}
    if not stream:
        return made.responses.create(**given)
    with made.responses.stream(**given) as events:
        return events.get_final_response()


def answers(response: Any) -> list[dict[str, Any]]:
    """A result for each call of a response."""
    calls = [one for one in response.output if one.type == "function_call"]
    return [
        {"type": "function_call_output", "call_id": one.call_id, "output": f"seen {n}"} for n, one in enumerate(calls)
    ]


def converse(made: openai.OpenAI, *, stream: bool, stored: bool) -> list[Any]:
    """The responses up to one that calls nothing, and one more to a second question."""
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    said: list[Any] = []
    for _ in range(ROUNDS):
        before = {"previous_response_id": said[-1].id} if stored and said else {}
        said.append(ask(made, stream=stream, input=history, **(before if stored else SEALED)))
        results = answers(said[-1])
        more = results or [{"role": "user", "content": "Again?"}]
        if not results and len(said) > 1 and not answers(said[-2]):
            return said
        own = [] if stored else [one.model_dump(mode="json", exclude_none=True) for one in said[-1].output]
        history = more if stored else [*history, *own, *more]
    raise AssertionError(f"it still calls after {ROUNDS} rounds")


@BOTH
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "stateless"])
@pytest.mark.parametrize("scenario", ["cooperative", "strict", "reasoning", "return_sealed", "parallel_calls"])
def test_a_conversation_comes_to_its_answer(scenario: str, stored: bool, stream: bool) -> None:
    with ScriptedEndpoint(playing(scenario)) as endpoint, client(endpoint.url) as made:
        said = converse(made, stream=stream, stored=stored)
        bodies = [one.body for one in endpoint.received]
    assert all(response.status == "completed" for response in said)
    assert [response.output_text[:14] for response in said[-2:]] == ["The tool says:"] * 2
    assert [body.get("previous_response_id") for body in bodies] == (
        [None, *(response.id for response in said[:-1])] if stored else [None] * len(said)
    )
    sent = [len(body["input"]) for body in bodies]
    assert stored or sent == sorted(set(sent))


@BOTH
def test_a_history_without_its_reasoning_is_refused(stream: bool) -> None:
    with ScriptedEndpoint(playing("return_sealed")) as endpoint, client(endpoint.url) as made:
        first = ask(made, stream=stream, input=QUESTION, **SEALED)
        own = [one.model_dump(mode="json") for one in first.output if one.type != "reasoning"]
        with pytest.raises(openai.BadRequestError, match="without its required 'reasoning' item"):
            ask(made, stream=stream, input=[*own, *answers(first)], **SEALED)


@BOTH
def test_a_response_that_is_not_kept_is_refused(stream: bool) -> None:
    with ScriptedEndpoint(playing("forgotten_response")) as endpoint, client(endpoint.url) as made:
        first = ask(made, stream=stream, input=QUESTION)
        with pytest.raises(openai.BadRequestError, match="not found"):
            ask(made, stream=stream, input=answers(first), previous_response_id=first.id)


def test_an_answer_in_the_form_that_is_asked_for() -> None:
    with ScriptedEndpoint(playing("cooperative")) as endpoint, client(endpoint.url) as made:
        found = made.responses.parse(model="m", input=QUESTION, text_format=Report)
        with made.responses.stream(model="m", input=QUESTION, text_format=Report) as events:
            streamed = events.get_final_response()
    assert isinstance(found.output_parsed, Report)
    assert streamed.output_parsed == found.output_parsed
