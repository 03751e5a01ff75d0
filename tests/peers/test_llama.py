"""The product's adapter and whole runs on a small real model behind llama.cpp's own server: whatever it says, the end is truthful."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.providers.openai_compatible import Endpoint, OpenAICompatible
from fabric.runtime.ports.calls import ChatMessage, ToolOffer
from fabric.runtime.ports.journal import Document
from tests.fabric.composition.installation import installation
from tests.fabric.providers.asking import request
from tests.peers.llama import small_model

pytestmark = [pytest.mark.peers, pytest.mark.slow]
WEATHER = ToolOffer(
    name="weather",
    description="Weather of a place",
    parameters={
        "type": "object",
        "properties": {"place": {"type": "string", "maxLength": 20}},
        "required": ["place"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: Any) -> Iterator[str]:
    """The base URL of the model."""
    with small_model(tmp_path_factory.mktemp("llama")) as found:
        yield found


def ask(url: str, within_s: float = 120.0, options: Any = None, **changed: Any) -> Any:
    spec = ModelSpec(name="main", model="smollm2", options={"temperature": 0, "seed": 1} | (options or {}))

    async def go() -> Any:
        port = OpenAICompatible(Endpoint(url, "smollm2", ""))
        try:
            return await port.ask(request(within_s=within_s, model=spec, **changed))
        finally:
            await port.aclose()

    return asyncio.run(go())


def conversation() -> tuple[ChatMessage, ...]:
    """Two questions with a call each, and a third. So small a model calls a tool when it has seen how."""
    told = [ChatMessage("system", "Call the function.")]
    for number, place in enumerate(("Rome", "London")):
        call = ToolCall(call_id=f"call-{number}", tool="weather", args={"place": place})
        told += [
            ChatMessage("user", f"What is the weather in {place}?"),
            ChatMessage("assistant", "", (call,)),
            ChatMessage("tool", "sunny", call_id=call.call_id, tool="weather"),
            ChatMessage("assistant", "It is sunny."),
        ]
    return (*told, ChatMessage("user", "What is the weather in Paris?"))


def test_an_answer_is_charged_by_the_servers_own_count(model: str) -> None:
    result = ask(model, max_output_tokens=20)
    assert isinstance(result, ModelReplied), result
    assert result.text.strip()
    assert 10 < result.input_tokens < 100
    assert 0 < result.output_tokens <= 20
    assert result.finish in ("stop", "length")


def test_an_answer_that_is_cut_says_so(model: str) -> None:
    messages = (ChatMessage("user", "Write a long story about a bridge."),)
    result = ask(model, max_output_tokens=5, messages=messages)
    assert (result.finish, result.output_tokens) == ("length", 5)


def test_a_schema_is_kept_by_the_servers_grammar(model: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    result = ask(model, output="critique", output_schema=schema, max_output_tokens=60)
    assert isinstance(result, ModelReplied), result
    assert result.finish == "stop"
    assert {name: type(value) for name, value in json.loads(result.text).items()} == {"name": str, "age": int}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_tool_is_called(model: str, stream: bool) -> None:
    begun: list[Any] = []
    more: dict[str, Any] = {"streamed": begun.append} if stream else {}
    result = ask(model, options={"stream": stream}, messages=conversation(), tools=(WEATHER,), **more)
    assert isinstance(result, ModelReplied), result
    assert [(one.tool, one.args) for one in result.calls] == [("weather", {"place": "Paris"})]
    assert result.calls[0].call_id
    assert result.text == ""


def test_a_prompt_that_does_not_fit_is_a_bad_request_that_says_so(model: str) -> None:
    messages = (ChatMessage("user", "The bridge is long. " * 2_000),)
    result = ask(model, messages=messages)
    assert isinstance(result, CallFailed), result
    assert result.cause in (Cause.BAD_REQUEST, Cause.CONTEXT_LENGTH)
    assert "context" in result.message


@pytest.mark.django_db(transaction=True)
def test_a_run_comes_to_a_truthful_end(model: str, settings: Any) -> None:
    """Completed, surfaced, escalated or aborted for a reason that a person understands; the journal whole; never an exception."""
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = model, "smollm2", ""
    document = Document("bridge.md", "The bridge is 40 metres long. It was built in 1931 and repaired in 1988.")
    with installation() as site:
        run_id = site.start(site.publish("small-model"), "Summarise the notes.", (document,), "batch")
        row = site.rest(run_id, 240.0)
        events, faults = site.events(run_id), site.host.counters.faults
        text = site.outcome(run_id)["text"] if row.state == "completed" else row.reason
    assert faults == 0
    assert row.state in ("completed", "stopped", "failed", "aborted", "waiting")
    assert len(text.strip()) > 5
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert row.tokens > 0
