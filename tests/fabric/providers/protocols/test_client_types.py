"""Requests of each protocol fit the request types of the official clients, over odd histories and every option."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from google.genai import types as google
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from fabric.core.schema.payloads import json_schema
from fabric.providers.exchange.http_model import Endpoint
from fabric.providers.protocols.fitting import fit
from fabric.runtime.ports.calls import ChatMessage
from tests.fabric.providers.asking import TOOL, request
from tests.fabric.providers.protocols.test_fitting import ASK, SYSTEM, call, messages, of, result, said
from tests.fabric.providers.wires import ANTHROPIC, AZURE, BEDROCK, GOOGLE, OPENAI, RESPONSES, VERTEX, Spoken

SPOKEN = (OPENAI, AZURE, RESPONSES, ANTHROPIC, GOOGLE, VERTEX, BEDROCK)
NAMED = {f"{one.name} {one.protocol.key}": one for one in SPOKEN}


# -- the clients' types ------------------------------------------------------------------------------------------------


def closed(schema: Any) -> Any:
    """A core schema whose dictionaries take no unknown field, and whose iterables are looked into, not only looked at."""
    if isinstance(schema, list | tuple):
        return type(schema)(closed(one) for one in schema)
    if not isinstance(schema, dict):
        return schema
    made = {name: one if name == "metadata" else closed(one) for name, one in schema.items()}
    if made.get("type") == "typed-dict":
        made["extra_behavior"] = "forbid"
    if made.get("type") == "generator":
        made["type"] = "list"
    return made


@cache
def validator(kind: Any) -> SchemaValidator:
    return SchemaValidator(closed(TypeAdapter(kind).core_schema))


def by_type(whole: Any, streamed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: validator(streamed if body.get("stream") else whole).validate_python(body, strict=True)


def by_chat(body: dict[str, Any]) -> None:
    """Results bear the name of their tool, which OpenAI takes and templates of open models read, and its client's type has no more."""
    for message in body["messages"]:
        if message["role"] == "tool":
            assert isinstance(message.pop("name"), str)
    by_type(chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming)(body)


def by_anthropic(body: dict[str, Any]) -> None:
    """A fabric may set what older models take, and the type of this client has no more."""
    for name in ("temperature", "top_p"):
        assert isinstance(body.pop(name, 0.0), float)
    by_type(MessageCreateParamsNonStreaming, MessageCreateParamsStreaming)(body)


def by_google(body: dict[str, Any]) -> None:
    """The client takes a request apart; each part has a model, which takes no unknown field."""
    fields: dict[str, Any] = {
        "contents": list[google.Content],
        "systemInstruction": google.Content,
        "tools": list[google.Tool],
        "toolConfig": google.ToolConfig,
        "generationConfig": google.GenerationConfig,
    }
    assert set(body) <= set(fields)
    for name, value in body.items():
        TypeAdapter(fields[name]).validate_python(value)


def by_botocore(body: dict[str, Any]) -> None:
    session = pytest.importorskip("botocore.session").Session()
    found = pytest.importorskip("botocore.validate").ParamValidator()
    shape = shape_of_converse(session)
    assert set(body) <= set(shape.members)
    report = found.validate({"modelId": "m", **body}, shape)
    assert not report.has_errors(), report.generate_report()


@cache
def shape_of_converse(session: Any) -> Any:
    return session.get_service_model("bedrock-runtime").operation_model("Converse").input_shape


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "chat": by_chat,
    "responses": by_type(responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming),
    "messages": by_anthropic,
    "gemini": by_google,
    "converse": by_botocore,
}
"""By a protocol's key. Each raises, ValidationError or AssertionError, for a body that the client would not write."""


# -- what is written ---------------------------------------------------------------------------------------------------

OWN = {
    "messages": [
        {"opaque": {"type": "thinking", "thinking": "hm", "signature": "c2ln"}},
        {"opaque": {"type": "redacted_thinking", "data": "c2ln"}},
    ],
    "responses": [{"opaque": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}}],
    "gemini": [{"opaque": {"text": "hm", "thought": True, "thoughtSignature": "c2ln"}}],
    "converse": [{"opaque": {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}}],
}
"""What only its provider understands, as each protocol keeps it."""
VALUES: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 7,
    "stop_sequences": ["END"],
    "parallel_tool_calls": True,
    "max_tokens_field": "max_completion_tokens",
    "schema_with_tools": True,
    "system_role": "developer",
    "strict_turns": True,
    "reasoning_back": "always",
    "store": True,
    "extra_body": {},
}
"""A value for each option that changes what is written."""
NOT_WRITTEN = {"api", "api_version", "project", "location", "stream", "response_format"}
"""Options that say where or how is asked; and the form of a schema that llama-cpp-python takes and OpenAI does not."""
OPTIONS = [(name, option) for name, one in NAMED.items() for option in sorted(one.adapter.OPTIONS - NOT_WRITTEN)]


def body_of(spoken: Spoken, history: Any, *, schema: bool, stream: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Return what its adapter writes."""
    protocol, streams = spoken.protocol, stream and bool(spoken.streams_at)
    asked = request(
        model=spoken.spec(options=options),
        messages=(SYSTEM, *history),
        tools=(TOOL,),
        output="critique",
        output_schema=json_schema("critique"),
    )
    fitted = fit(asked.messages, asked.model.name, protocol.key)
    body = protocol.body(asked, fitted, model=spoken.model, schema=schema, stream=streams)
    return spoken.adapter(Endpoint())._body(asked, body, "http://127.0.0.1:1")


def own_of(protocol: str) -> list[ChatMessage]:
    return (
        [said(call("own-1"), text="I look.", own=of(protocol, OWN[protocol])), result("own-1")]
        if protocol in OWN
        else []
    )


@pytest.mark.parametrize("spoken", NAMED.values(), ids=NAMED)
@given(history=st.lists(messages, max_size=12), schema=st.booleans(), stream=st.booleans(), own=st.booleans())
def test_whatever_the_history_is_the_client_would_write_it_too(
    spoken: Spoken, history: Any, schema: bool, stream: bool, own: bool
) -> None:
    key = spoken.protocol.key
    given_history = (ASK, *(own_of(key) if own else ()), *history)
    CHECKS[key](body_of(spoken, given_history, schema=schema, stream=stream, options={}))


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_whatever_the_options_are_the_client_would_write_them_too(name: str, option: str) -> None:
    spoken = NAMED[name]
    key = spoken.protocol.key
    history = (ASK, *own_of(key), said(call("a"), call("b")), result("a"), result("b"))
    body = body_of(spoken, history, schema=True, stream=False, options={option: VALUES[option]})
    CHECKS[key](body)


@pytest.mark.parametrize("spoken", NAMED.values(), ids=NAMED)
def test_a_field_too_many_or_of_another_type_is_found(spoken: Spoken) -> None:
    key = spoken.protocol.key
    history = (ASK, said(call("a")), result("a"))
    for spoil in SPOILS:
        body = body_of(spoken, history, schema=True, stream=False, options={})
        CHECKS[key](deepcopy(body))
        spoil(body)
        with pytest.raises((ValidationError, AssertionError)):
            CHECKS[key](body)


def _unknown_field(body: dict[str, Any]) -> None:
    body["not_a_field"] = 1


def _unknown_field_within(body: dict[str, Any]) -> None:
    turns = next(body[name] for name in ("messages", "input", "contents") if name in body)
    turns[0]["not_a_field"] = 1


def _another_type(body: dict[str, Any]) -> None:
    tools = body.get("tools") or body["toolConfig"]["tools"]
    tools[0] = "look"


SPOILS = (_unknown_field, _unknown_field_within, _another_type)
