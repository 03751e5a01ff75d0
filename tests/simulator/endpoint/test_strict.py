"""The strict scenarios refuse in the words of each provider, and take the rest. Plain HTTP, so that nothing mends a request."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from simulator.endpoint import ScriptedEndpoint
from simulator.endpoint.behaviour.definition import EVERY
from simulator.endpoint.player import PLAYS
from tests.simulator.endpoint.asking import playing

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:generateContent",
}
USER = {"role": "user", "content": "What is it?"}
SAYS = {"role": "assistant", "content": "It is so."}


def call(name: str = "look", call_id: Any = "c1", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"q": "x"}'}, **more}


def calls(*made: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(made or (call(),)), **more}


def tool(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "42"}


def chat(*messages: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    return "chat", {"model": "m", "messages": list(messages), **more}


def use(call_id: str = "c1", name: str = "look") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"q": "x"}}


def result(call_id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "42"}


def text(words: str = "so") -> dict[str, Any]:
    return {"type": "text", "text": words}


def anthropic(*contents: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    """Contents in turn, the user's first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]
    return "anthropic", {"model": "m", "max_tokens": 100, "messages": messages, **more}


def asks(**more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "look", "args": {"q": "x"}}, **more}


def tells() -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": {"result": "42"}}}


def google(*contents: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    roles = ("user", "model")
    return "google", {"contents": [{"role": roles[at % 2], "parts": parts} for at, parts in enumerate(contents)]}


def item_call(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}", **more}


def item_output(call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "42"}


def responses(*items: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    return "responses", {"model": "m", "input": [USER, *items], **more}


ASKED = [{"text": "What is it?"}]
LONG = "c" * 500
TOOL = {"type": "function", "function": {"name": "a b", "parameters": {"type": "object"}}}

GOOD = {
    "strict": [
        chat(USER),
        chat(USER, calls(call(), call(call_id="c2")), tool(), tool("c2")),
        chat(USER, calls(), tool(), SAYS, USER),
        chat(USER, USER),
        anthropic("What?", [use(), use("c2")], [result(), result("c2"), text()]),
        anthropic("What?", [text(), use()], [result()], "so", "and?"),
        google(ASKED, [asks(), asks()], [tells(), tells()]),
        google(ASKED),
        responses(item_call(), item_call("c2"), item_output("c2"), item_output()),
        ("responses", {"model": "m", "input": "What is it?"}),
    ],
    "strict_turns": [
        chat({"role": "system", "content": "s"}, USER, calls(), tool(), SAYS, USER),
        anthropic("a", "b", "c"),
        google(ASKED, [{"text": "a"}], ASKED),
    ],
    "strict_mistral": [chat(USER, calls(call(call_id="abcDEF123")), tool("abcDEF123")), chat(USER, USER)],
    "strict_content": [chat(USER, calls(), tool()), anthropic("a", "b", "c"), google(ASKED)],
    "strict_fields": [chat(USER, calls(), tool())],
    "strict_gemma": [chat(USER, SAYS, USER)],
    "max_tokens": [chat(USER, max_completion_tokens=10)],
    "temperature": [chat(USER, temperature=1), anthropic("a"), responses()],
    "no_tools": [chat(USER, tools=[])],
}

NOT_ANSWERED = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
ALTERNATE = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
BAD: list[tuple[str, tuple[str, dict[str, Any]], int, str]] = [
    ("strict", chat(USER, calls(call(), call(call_id="c2")), tool()), 400, f"{NOT_ANSWERED}c2"),
    ("strict", chat(USER, calls(), USER, tool()), 400, f"{NOT_ANSWERED}c1"),
    ("strict", chat(USER, calls()), 400, f"{NOT_ANSWERED}c1"),
    ("strict_answers", chat(USER, tool()), 400, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."),
    ("strict", chat(USER, calls(call(call_id=LONG)), tool(LONG)), 400, "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 500 instead."),
    ("strict", chat(USER, calls(call("look<|x|>")), tool()), 400, "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
    ("strict_names", chat(USER, tools=[TOOL]), 400, "Invalid 'tools[0].function.name': string does not match pattern."),
    ("strict", chat({"role": "user", "content": None}), 400, "Invalid value for 'content': expected a string, got null."),
    ("strict", chat(USER, {"role": "assistant", "content": None}), 400, "Invalid value for 'content': expected a string, got null."),
    ("strict", chat(USER, calls(call(call_id=None)), tool()), 400, "Invalid type for 'messages[1].tool_calls[0].id': expected a string, but got null instead."),
    ("strict", chat(USER, tools=[]), 400, "Invalid 'tools': empty array."),
    ("strict", chat(), 400, "Invalid 'messages': empty array."),
    ("strict", ("chat", {"messages": [USER]}), 400, "you must provide a model parameter"),
    ("strict_turns", chat(USER, USER), 400, ALTERNATE),
    ("strict_turns", chat(USER, calls(), tool(), USER), 400, ALTERNATE),
    ("strict_turns_llama", chat(USER, USER), 500, "Jinja Exception: Conversation roles must alternate"),
    ("strict_gemma", chat({"role": "system", "content": "s"}, USER), 400, "System role not supported"),
    ("strict_content", chat(USER, {"role": "assistant", "content": ""}, USER), 400, "Invalid request: the message at position 1 with role 'assistant' must not be empty"),
    ("strict_mistral", chat(USER, calls(call(call_id="call_1")), tool("call_1")), 400, "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."),
    ("strict_mistral", chat(USER, calls(call(call_id="abcDEF123")), tool("abcDEF123"), USER), 400, "Unexpected role 'user' after role 'tool'"),
    ("strict_mistral", chat(USER, calls(call(call_id="abcDEF123")), USER), 400, "Not the same number of function calls and responses"),
    ("strict_mistral", chat(USER, SAYS), 400, "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"),
    ("strict_mistral", chat(USER, {"role": "assistant", "content": ""}, USER), 400, "Assistant message must have either content or tool_calls, but not none."),
    ("strict_fields", chat(USER, calls(reasoning_content="x"), tool()), 400, "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
    ("strict_fields", chat(USER, calls(call(extra_content={})), tool()), 400, "'messages.1.tool_calls.0' : property 'extra_content' is unsupported"),
    ("max_tokens", chat(USER, max_tokens=10), 400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
    ("temperature", chat(USER, temperature=0.2), 400, "Unsupported value: 'temperature' does not support 0.2 with this model."),
    ("temperature", anthropic("a", temperature=1), 400, "`temperature` is deprecated for this model."),
    ("temperature", responses(temperature=0.2), 400, "Unsupported parameter: 'temperature' is not supported with this model."),
    ("no_tools", chat(USER, tools=[TOOL]), 400, "registry.ollama.ai/library/m does not support tools"),
    ("return_reasoning", chat(USER, calls(), tool()), 400, "The `reasoning_content` in the thinking mode must be passed back to the API."),
    ("return_signature", chat(USER, calls(), tool()), 400, "Function call is missing a thought_signature in functionCall parts."),
    ("return_signature", google(ASKED, [asks(thoughtSignature="AAAA")], [tells()]), 400, "Corrupted thought signature."),
    ("return_details", chat(USER, calls(), tool()), 400, "Provider returned error"),
    # Anthropic.
    ("strict", anthropic("a", [use(), use("c2")], [result()]), 400, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: c2. Each"),
    ("strict", anthropic("a", [use()], [text(), result()]), 400, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: c1. Each"),
    ("strict", anthropic("a", "b", [result()]), 400, "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c1. Each"),
    ("strict", anthropic("a", [use("x:1")], [result("x:1")]), 400, "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
    ("strict", anthropic("a", [text("")], "c"), 400, "messages: text content blocks must be non-empty"),
    ("strict", anthropic("a", "", "c"), 400, "messages.1: all messages must have non-empty content except for the optional final assistant message"),
    ("strict", anthropic("a", "b "), 400, "messages: final assistant content cannot end with trailing whitespace"),
    ("strict", ("anthropic", {"model": "m", "messages": [USER]}), 400, "max_tokens: Field required"),
    ("strict", ("anthropic", {"model": "m", "max_tokens": 1, "messages": [SAYS, USER]}), 400, 'messages: first message must use the "user" role'),
    ("strict", ("anthropic", {"model": "m", "max_tokens": 1, "messages": [{"role": "system", "content": "s"}]}), 400, 'messages: Unexpected role "system".'),
    ("strict", anthropic("a", [use(name="a b")], [result()]), 400, "messages.1.content.0.tool_use.name: String should match pattern"),
    ("strict_turns", ("anthropic", {"model": "m", "max_tokens": 1, "messages": [USER, USER]}), 400, 'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'),
    ("strict_last", anthropic("a", "b"), 400, "This model does not support assistant message prefill."),
    ("return_thinking", anthropic("a", [use()], [result()]), 400, "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."),
    ("return_thinking", anthropic("a", [{"type": "thinking", "thinking": "x"}, use()], [result()]), 400, "messages.1.content.0.thinking.signature: Field required"),
    ("return_thinking", anthropic("a", [{"type": "thinking", "thinking": "x", "signature": "y"}, use()], [result()]), 400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
    ("return_redacted", anthropic("a", [{"type": "redacted_thinking", "data": "y"}, use()], [result()]), 400, "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
    # Google.
    ("strict", google(ASKED, [asks(), asks()], [tells()]), 400, "Please ensure that the number of function response parts is equal to the number of function call parts"),
    ("strict", google(ASKED, [{"text": "a"}], [tells()]), 400, "Please ensure that function response turn comes immediately after a function call turn."),
    ("strict", google(ASKED, []), 400, "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty."),
    ("strict", ("google", {"contents": [{"role": "assistant", "parts": ASKED}]}), 400, "Please use a valid role: user, model."),
    ("strict", ("google", {"contents": [{"role": "model", "parts": [asks()]}]}), 400, "Please ensure that function call turn comes immediately after a user turn"),
    ("strict", ("google", {"contents": []}), 400, "* GenerateContentRequest.contents: contents is not specified"),
    ("strict", google(ASKED, [{"functionCall": {"name": "a|b", "args": {}}}], [tells()]), 400, "* GenerateContentRequest.contents[1].parts[0].function_call.name: Invalid function name."),
    ("strict_content", google([{"text": ""}]), 400, "Unable to submit request because it must have a text parameter."),
    ("strict_last", google(ASKED, [{"text": "a"}]), 400, "Please ensure that single turn requests end with a user role"),
    # Responses.
    ("strict", responses(item_call()), 400, "No tool output found for function call c1."),
    ("strict", responses(item_output()), 400, "No tool call found for function call output with call_id c1."),
    ("strict", responses(item_call("c" * 65), item_output("c" * 65)), 400, "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
    ("strict", responses(item_call(""), item_output("")), 400, "Invalid 'input[1].call_id': empty string."),
    ("strict", responses(item_call(arguments={}), item_output()), 400, "Invalid type for 'input[1].arguments': expected a string, but got an object instead."),
    ("cooperative", ("responses", {"model": "m", "input": "a", "previous_response_id": "resp_x"}), 400, "Previous response with id 'resp_x' not found."),
    ("return_sealed", responses(item_call(id="fc_7_0"), item_output()), 400, "Item 'fc_7_0' of type 'function_call' was provided without its required 'reasoning' item: 'rs_7'."),
    ("return_sealed", responses({"type": "reasoning", "id": "rs_7", "summary": []}, item_call(), item_output(), store=False), 404, "Item with id 'rs_7' not found. Items are not persisted when `store` is set to false."),
    ("return_sealed", responses({"type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": "gAAAx"}, item_call(), item_output()), 400, "The encrypted content gAAA... could not be verified."),
    ("return_sealed", responses({"type": "reasoning", "id": "rs_7", "summary": []}, store=True), 400, "Item 'rs_7' of type 'reasoning' was provided without its required following item."),
]  # fmt: skip


def post(scenario: str, request: tuple[str, dict[str, Any]]) -> httpx2.Response:
    protocol, body = request
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        return httpx2.post(f"http://{endpoint.authority}{PATHS[protocol]}", json=body, timeout=60)


def message_of(answer: httpx2.Response) -> str:
    body = answer.json()
    body = body[0] if isinstance(body, list) else body
    return str(body.get("error", body)["message"])


@pytest.mark.parametrize(
    ("scenario", "request_"), [(name, one) for name, found in GOOD.items() for one in found], ids=str
)
def test_what_a_provider_takes_is_taken(scenario, request_):
    answer = post(scenario, request_)
    assert (answer.status_code, answer.text[:0]) == (200, ""), answer.text


@pytest.mark.parametrize(("scenario", "request_", "status", "words"), BAD)
def test_what_a_provider_refuses_is_refused_in_its_words(scenario, request_, status, words):
    answer = post(scenario, request_)
    assert (answer.status_code, message_of(answer)[: len(words)]) == (status, words)
    if request_[0] == "anthropic":
        assert answer.json()["error"]["type"] == "invalid_request_error"
    if request_[0] == "google":
        assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_each_rule_is_seen_to_refuse():
    """Total: every scenario with rules, in every protocol that it has, is in the table."""
    ruled = {(name, protocol) for name, one in PLAYS.items() if one.rules for protocol in one.protocols} - NOT_HERE
    assert ruled <= {(name, request[0]) for name, request, _, _ in BAD}


SHARED = {
    "strict_answers": "strict",
    "strict_ids": "strict",
    "strict_names": "strict",
    "special_name": "strict",
    "strict_turns_empty": "strict_turns",
    "strict_content": "strict",
    "strict_mistral_ids": "strict_mistral",
}
"""Scenarios whose rules another one's rows show."""
NOT_HERE = {(name, protocol) for name in SHARED for protocol in EVERY} | {
    ("strict_turns", "google"),
    ("strict_last", "chat"),
    ("forgotten_response", "responses"),
}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "a", "tool_calls": 7}]},
        {"messages": [7]},
        {"messages": 7},
        {"input": [7]},
        {"input": 7},
        {"contents": [7]},
        {"contents": [{"parts": 7}]},
        {"contents": [{"parts": [{"functionCall": 7}]}]},
        {"messages": [{"role": "user", "content": [7]}]},
        {"tools": [7]},
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", EVERY)
def test_nonsense_is_answered_and_the_endpoint_goes_on(protocol, body):
    with ScriptedEndpoint(playing("strict")) as endpoint:
        url = f"http://{endpoint.authority}{PATHS[protocol]}"
        assert httpx2.post(url, json=body, timeout=60).status_code in (200, 400)
        good = next(one for name, one in GOOD["strict"] if name == protocol)
        assert httpx2.post(url, json=good, timeout=60).status_code == 200
