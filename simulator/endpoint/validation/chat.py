"""The refusals of OpenAI's chat completions, in OpenAI's words."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.validation.names import Body, read_kind

ID_CHARS_MAX = 40
ROLES = ("system", "assistant", "user", "function", "tool", "developer")


def _build_refusal(message: str, param: str, code: str = "") -> Refusal:
    return Refusal(400, message, code, param=param)


def check_required(body: Body) -> Iterator[Refusal]:
    """The request has a model, and at least one message."""
    if not body.get("model"):
        yield Refusal(400, "you must provide a model parameter")
    if "messages" not in body:
        yield _build_refusal("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    elif not body["messages"]:
        yield _empty("messages")


def _empty(where: str) -> Refusal:
    said = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    return _build_refusal(f"Invalid '{where}': {said}", where, "empty_array")


def forms(body: Body) -> Iterator[Refusal]:
    """Roles are known, contents are there, calls have the fields that they need."""
    if body.get("tools") == []:
        yield _empty("tools")
    for at, message in enumerate(body["messages"]):
        where, role = f"messages[{at}]", message.get("role")
        if role not in ROLES:
            said = (
                f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, ROLES[:-1]))}, and {ROLES[-1]!r}."
            )
            yield _build_refusal(said, f"{where}.role", "invalid_value")
        content, calls = message.get("content"), message.get("tool_calls")
        if content is None and not (role == "assistant" and (calls or message.get("function_call"))):
            param = f"messages.[{at}].content"
            yield _build_refusal("Invalid value for 'content': expected a string, got null.", param)
        if calls == []:
            yield _empty(f"{where}.tool_calls")
        for number, call in enumerate(calls or ()):
            yield from _call(call, f"{where}.tool_calls[{number}]")


def _call(call: Body, where: str) -> Iterator[Refusal]:
    for name in ("id", "type", "function"):
        if name not in call:
            yield _build_refusal(
                f"Missing required parameter: '{where}.{name}'.", f"{where}.{name}", "missing_required_parameter"
            )
    function = call.get("function") or {}
    for name, value in (("id", call.get("id")), ("function.arguments", function.get("arguments"))):
        if not isinstance(value, str):
            said = f"Invalid type for '{where}.{name}': expected a string, but got {read_kind(value)} instead."
            yield _build_refusal(said, f"{where}.{name}", "invalid_type")


def ids(body: Body) -> Iterator[Refusal]:
    """Ids of calls have at most 40 characters."""
    for at, message in enumerate(body["messages"]):
        found = [(f"tool_calls[{n}].id", call.get("id")) for n, call in enumerate(message.get("tool_calls") or ())]
        for name, value in (*found, ("tool_call_id", message.get("tool_call_id"))):
            if isinstance(value, str) and len(value) > ID_CHARS_MAX:
                where = f"messages[{at}].{name}"
                said = f"string too long. Expected a string with maximum length {ID_CHARS_MAX}, but got a string with length {len(value)} instead."
                yield _build_refusal(f"Invalid '{where}': {said}", where, "string_above_max_length")


def check_answers(body: Body) -> Iterator[Refusal]:
    """Each call is answered by a tool message right behind it, and each tool message answers a call."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        if message.get("role") == "tool":
            calling = _find_caller(messages, at)
            if calling is None:
                said = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield _build_refusal(f"Invalid parameter: {said}", f"messages.[{at}].role")
            elif message.get("tool_call_id") not in [one.get("id") for one in calling["tool_calls"]]:
                said = "'tool_call_id' not found in 'tool_calls' of previous message."
                yield _build_refusal(f"Invalid parameter: {said}", f"messages.[{at}].tool_call_id")
        wanted = [str(one.get("id")) for one in message.get("tool_calls") or ()]
        told = _list_tool_ids(messages, at)
        missing = [one for one in wanted if one not in told]
        if missing:
            said = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
            said += f" The following tool_call_ids did not have response messages: {', '.join(missing)}"
            yield _build_refusal(said, f"messages.[{at + 1 + len(told)}].role")


def _find_caller(messages: list[Body], at: int) -> Body | None:
    """The message whose calls this tool message can answer."""
    before = at - 1
    while before >= 0 and messages[before].get("role") == "tool":
        before -= 1
    found = messages[before] if before >= 0 else {}
    return found if found.get("tool_calls") else None


def _list_tool_ids(messages: list[Body], at: int) -> list[str]:
    """Ids of the tool messages right behind this message."""
    found = []
    for message in messages[at + 1 :]:
        if message.get("role") != "tool":
            break
        found.append(str(message.get("tool_call_id")))
    return found


def max_tokens(body: Body) -> Iterator[Refusal]:
    """``max_tokens`` is refused, as reasoning models do."""
    if body.get("max_tokens") is not None:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        yield _build_refusal(said, "max_tokens", "unsupported_parameter")


def temperature(body: Body) -> Iterator[Refusal]:
    """A ``temperature`` other than 1 is refused, as reasoning models do."""
    if body.get("temperature") not in (None, 1):
        said = f"'temperature' does not support {body['temperature']} with this model. Only the default (1) value is supported."
        yield _build_refusal(f"Unsupported value: {said}", "temperature", "unsupported_value")


def openai(body: Body) -> Iterator[Refusal]:
    """All of it, in the order in which OpenAI looks; names are a rule of their own."""
    for check in (check_required, forms, ids, check_answers):
        yield from check(body)
