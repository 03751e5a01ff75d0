"""The refusals of Anthropic's Messages API, in Anthropic's words; and those of Bedrock in front of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.validation.names import Body

ID = re.compile(r"[a-zA-Z0-9_-]+")


def _build_refusal(message: str) -> Refusal:
    return Refusal(400, message)


def _blocks(message: Body) -> list[Body]:
    content = message.get("content")
    return [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []


def _select_blocks(message: Body, kind: str) -> list[Body]:
    return [one for one in _blocks(message) if one.get("type") == kind]


def check_required(body: Body) -> Iterator[Refusal]:
    """The request has a model, ``max_tokens``, at least one message, and no role but two."""
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield _build_refusal(f"{name}: Field required")
    if not body.get("messages"):
        yield _build_refusal("messages: at least one message is required")
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        if role == "system":
            said = 'The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
            yield _build_refusal(f'messages: Unexpected role "system". {said}')
        elif role not in ("user", "assistant"):
            yield _build_refusal(f"messages.{at}.role: Input should be 'user' or 'assistant'")


def first(body: Body) -> Iterator[Refusal]:
    """Yield a refusal if the first message is not the user's."""
    if body["messages"] and body["messages"][0].get("role") != "user":
        yield _build_refusal('messages: first message must use the "user" role')


def check_alternation(body: Body) -> Iterator[Refusal]:
    """Yield a refusal if two messages in a row have one role. Bedrock and Vertex refuse that; Anthropic joins them."""
    roles = [message.get("role") for message in body["messages"]]
    for before, role in pairwise(roles):
        if before == role:
            said = f'roles must alternate between "user" and "assistant", but found multiple "{role}" roles in a row'
            yield _build_refusal(f"messages: {said}")


def content(body: Body) -> Iterator[Refusal]:
    """No message and no block of text is empty; only the last of the assistant may be."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        last = at == len(messages) - 1 and message.get("role") == "assistant"
        if not message.get("content") and not last:
            said = "all messages must have non-empty content except for the optional final assistant message"
            yield _build_refusal(f"messages.{at}: {said}")
        for block in _select_blocks(message, "text"):
            text = str(block.get("text") or "")
            if not text:
                yield _build_refusal("messages: text content blocks must be non-empty")
            elif not text.strip():
                yield _build_refusal("messages: text content blocks must contain non-whitespace text")
    system = body.get("system")
    for block in system if isinstance(system, list) else ():
        if not block.get("text"):
            yield _build_refusal("system: text content blocks must be non-empty")


def check_ending(body: Body) -> Iterator[Refusal]:
    """The assistant's last text does not end with whitespace."""
    message = body["messages"][-1] if body["messages"] else {}
    if message.get("role") != "assistant":
        return
    texts = [message["content"]] if isinstance(message.get("content"), str) else []
    texts += [str(block.get("text")) for block in _blocks(message)[-1:] if block.get("type") == "text"]
    if any(text != text.rstrip() for text in texts):
        yield _build_refusal("messages: final assistant content cannot end with trailing whitespace")


def last(body: Body) -> Iterator[Refusal]:
    """The last message is not the assistant's."""
    if body["messages"] and body["messages"][-1].get("role") == "assistant":
        said = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield _build_refusal(said)


def ids(body: Body) -> Iterator[Refusal]:
    """Ids of calls are letters, digits, underscores and hyphens."""
    for at, message in enumerate(body["messages"]):
        for number, block in enumerate(_blocks(message)):
            for kind, name in (("tool_use", "id"), ("tool_result", "tool_use_id")):
                if block.get("type") != kind:
                    continue
                where = f"messages.{at}.content.{number}.{kind}.{name}"
                if name not in block:
                    yield _build_refusal(f"{where}: Field required")
                elif not isinstance(block[name], str):
                    yield _build_refusal(f"{where}: Input should be a valid string")
                elif not ID.fullmatch(block[name]):
                    yield _build_refusal(f"{where}: String should match pattern '^[a-zA-Z0-9_-]+$'")


def inputs(body: Body) -> Iterator[Refusal]:
    """The input of a call is an object."""
    for at, message in enumerate(body["messages"]):
        for number, block in enumerate(_blocks(message)):
            if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping):
                yield _build_refusal(
                    f"messages.{at}.content.{number}.tool_use.input: Input should be a valid dictionary"
                )


def check_answers(body: Body) -> Iterator[Refusal]:
    """The head of the next message answers all calls, and each result answers a call of the message before."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        calls = [str(one.get("id")) for one in _select_blocks(message, "tool_use")]
        if len(set(calls)) < len(calls):
            yield _build_refusal(f"messages.{at}.content: `tool_use` ids must be unique")
        following = messages[at + 1] if at + 1 < len(messages) else {}
        told = _head(following)
        missing = [one for one in calls if one not in told]
        if missing and at + 1 <= len(messages):
            said = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}."
            more = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            yield _build_refusal(f"messages.{at + 1 if following else at}: {said} {more}")
        before = [str(one.get("id")) for one in _select_blocks(messages[at - 1], "tool_use")] if at else []
        yield from _lone(at, message, before)


def _head(message: Body) -> list[str]:
    """Ids of the results that a message begins with."""
    found = []
    for block in _blocks(message):
        if block.get("type") != "tool_result":
            break
        found.append(str(block.get("tool_use_id")))
    return found


def _lone(at: int, message: Body, calls: list[str]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for number, block in enumerate(_blocks(message)):
        if block.get("type") != "tool_result":
            continue
        one = str(block.get("tool_use_id"))
        if one not in calls:
            said = f"unexpected `tool_use_id` found in `tool_result` blocks: {one}."
            more = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            yield _build_refusal(f"messages.{at}.content.{number}: {said} {more}")
        if one in seen:
            said = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {one}"
            yield _build_refusal(f"messages.{at}.content.{number}: {said}")
        seen.add(one)


def temperature(body: Body) -> Iterator[Refusal]:
    """A ``temperature`` is refused, as the newest models do."""
    if "temperature" in body:
        yield _build_refusal("`temperature` is deprecated for this model.")


def anthropic(body: Body) -> Iterator[Refusal]:
    """Yield the refusals of all rules but the one about names."""
    for check in (check_required, first, content, check_ending, ids, inputs, check_answers):
        yield from check(body)
