"""Mistral's endpoint, the chat templates behind vLLM and llama.cpp, Groq and Moonshot refuse these requests.

Each has an error body of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.validation.names import Body

ID = re.compile(r"[a-zA-Z0-9]{9}")
FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"})
"""Fields of a message in OpenAI's reference."""
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


def _mistral(message: str, kind: str = "invalid_request_message_order", code: str | None = "3230") -> Refusal:
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": code, "raw_status_code": 400}
    return Refusal(400, message, body=body)


def ids(body: Body) -> Iterator[Refusal]:
    """Ids of calls are nine letters and digits."""
    for message in body["messages"]:
        found = [call.get("id") for call in message.get("tool_calls") or ()]
        for one in (*found, message.get("tool_call_id")):
            if one is not None and not ID.fullmatch(str(one)):
                said = f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."
                yield _mistral(said, "invalid_function_call", "3280")


def order(body: Body) -> Iterator[Refusal]:
    """No user follows a tool, each call has a result, each assistant has content, and none is last."""
    messages = body["messages"]
    open_calls = 0
    for at, message in enumerate(messages):
        role, before = message.get("role"), messages[at - 1].get("role") if at else ""
        if role in ("user", "system") and before == "tool":
            yield _mistral(f"Unexpected role '{role}' after role 'tool'")
        if role == "tool" and before not in ("assistant", "tool"):
            yield _mistral(f"Unexpected role 'tool' after role '{before}'")
        if role != "tool" and open_calls:
            yield _mistral("Not the same number of function calls and responses")
        if role == "assistant":
            open_calls = len(message.get("tool_calls") or ())
            if not open_calls and not message.get("content"):
                said = "Assistant message must have either content or tool_calls, but not none."
                yield _mistral(said, "invalid_request_assistant_message", "3240")
        elif role == "tool":
            open_calls -= 1
    if open_calls:
        yield _mistral("Not the same number of function calls and responses")
    if messages and messages[-1].get("role") == "assistant" and not messages[-1].get("prefix"):
        said = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        yield _mistral(said)


def extras(body: Body) -> Iterator[Refusal]:
    """A message has no fields but the known ones, as Groq has it."""
    for at, message in enumerate(body["messages"]):
        for name in message.keys() - FIELDS:
            role = message.get("role")
            said = f"'messages.{at}' : for 'role:{role}' the following must be satisfied[('messages.{at}' : property '{name}' is unsupported)]"
            yield Refusal(400, said, kind="invalid_request_error")
        for number, call in enumerate(message.get("tool_calls") or ()):
            for name in call.keys() - {"id", "type", "function", "index"}:
                said = f"'messages.{at}.tool_calls.{number}' : property '{name}' is unsupported"
                yield Refusal(400, said, kind="invalid_request_error")


def turns(body: Body) -> Iterator[Refusal]:
    """Users and assistants alternate behind the system's message, tools aside.

    Templates of Mistral and Gemma want that. The error body is vLLM's.
    """
    rest = [one for one in body["messages"] if one.get("role") not in ("system", "developer", "tool")]
    spoken = [one.get("role") for one in rest if not one.get("tool_calls")]
    if any(role != ("user", "assistant")[at % 2] for at, role in enumerate(spoken)):
        yield _vllm(f"After the optional system message, c{ALTERNATE[1:]}")


def no_system(body: Body) -> Iterator[Refusal]:
    """No system's message at all, as Gemma 2's template has it."""
    if any(one.get("role") in ("system", "developer") for one in body["messages"]):
        yield _vllm("System role not supported")


def _vllm(message: str) -> Refusal:
    body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    return Refusal(400, message, body=body)


def turns_of_llama(body: Body) -> Iterator[Refusal]:
    """Users and assistants alternate, or llama.cpp refuses with 500."""
    if next(turns(body), None) is not None:
        raised = f"Jinja Exception: {ALTERNATE}"
        yield Refusal(500, raised, body={"error": {"code": 500, "message": raised, "type": "server_error"}})


def content(body: Body) -> Iterator[Refusal]:
    """No message is empty, as Moonshot has it."""
    for at, message in enumerate(body["messages"]):
        if not _text(message.get("content")) and not message.get("tool_calls"):
            said = f"Invalid request: the message at position {at} with role '{message.get('role')}' must not be empty"
            yield Refusal(400, said, kind="invalid_request_error")


def _text(content: JSON) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "x")) for part in content).strip()
    return str(content or "").strip()


def last(body: Body) -> Iterator[Refusal]:
    """The last message is not the assistant's, as vLLM has it with thinking on."""
    if body["messages"] and body["messages"][-1].get("role") == "assistant":
        yield _vllm("Cannot continue from an assistant message: the last message must be of the user or of a tool.")


def no_tools(body: Body) -> Iterator[Refusal]:
    """No tools at all, as Ollama has it for models without them."""
    if body.get("tools"):
        said = f"registry.ollama.ai/library/{body.get('model')} does not support tools"
        yield Refusal(400, said, kind="api_error")
