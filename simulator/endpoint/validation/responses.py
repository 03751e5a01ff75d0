"""The refusals of OpenAI's Responses API, in OpenAI's words."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.validation.names import Body, read_kind
from simulator.endpoint.validation.returns import REASONING
from simulator.endpoint.wire.steps import seal

CALL_ID_CHARS_MAX = 64


def _build_refusal(message: str, param: str = "input", code: str = "") -> Refusal:
    return Refusal(400, message, code, param=param)


def _select_items(body: Body, kind: str) -> list[tuple[int, Body]]:
    return [(at, item) for at, item in enumerate(body["input"]) if item.get("type") == kind]


def ids(body: Body) -> Iterator[Refusal]:
    """A call has an id of 1 to 64 characters."""
    for at, item in (*_select_items(body, "function_call"), *_select_items(body, "function_call_output")):
        where, found = f"input[{at}].call_id", item.get("call_id")
        if "call_id" not in item:
            yield _build_refusal(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
        elif not isinstance(found, str):
            said = f"expected a string, but got {read_kind(found)} instead."
            yield _build_refusal(f"Invalid type for '{where}': {said}", where, "invalid_type")
        elif not found:
            said = "empty string. Expected a string with minimum length 1, but got an empty string instead."
            yield _build_refusal(f"Invalid '{where}': {said}", where, "empty_string")
        elif len(found) > CALL_ID_CHARS_MAX:
            said = f"string too long. Expected a string with maximum length {CALL_ID_CHARS_MAX}, but got a string with length {len(found)} instead."
            yield _build_refusal(f"Invalid '{where}': {said}", where, "string_above_max_length")


def forms(body: Body) -> Iterator[Refusal]:
    """Arguments and outputs are texts; a role is a known one; there is an input."""
    if not body.get("model"):
        yield _build_refusal("Missing required parameter: 'model'.", "model", "missing_required_parameter")
    if not body["input"]:
        yield _build_refusal(
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
            "input",
            "missing_required_parameter",
        )
    for at, item in _select_items(body, "function_call"):
        if not isinstance(item.get("arguments"), str):
            said = f"expected a string, but got {read_kind(item.get('arguments'))} instead."
            yield _build_refusal(
                f"Invalid type for 'input[{at}].arguments': {said}", f"input[{at}].arguments", "invalid_type"
            )
    for at, item in enumerate(body["input"]):
        roles = ("user", "assistant", "system", "developer")
        if item.get("type", "message") == "message" and item.get("role") not in roles:
            said = f"Invalid value: {item.get('role')!r}. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            yield _build_refusal(said, f"input[{at}].role", "invalid_value")


def check_answers(body: Body) -> Iterator[Refusal]:
    """Each call has an output, and each output a call before it."""
    outputs = {str(item.get("call_id")): at for at, item in _select_items(body, "function_call_output")}
    calls = {str(item.get("call_id")): at for at, item in _select_items(body, "function_call")}
    for one in calls:
        if one not in outputs:
            yield _build_refusal(f"No tool output found for function call {one}.")
    for one, at in outputs.items():
        if calls.get(one, at) >= at:
            yield _build_refusal(f"No tool call found for function call output with call_id {one}.")


def check_seals(body: Body) -> Iterator[Refusal]:
    """Each call has its reasoning before it, and each reasoning has an item behind it.

    It is sealed where nothing is stored.
    """
    items = body["input"]
    stored = body.get("store") is not False
    for at, item in _select_items(body, "reasoning"):
        following = items[at + 1].get("type", "message") if at + 1 < len(items) else ""
        if following not in ("function_call", "message", "reasoning"):
            said = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            yield _build_refusal(said)
        content = item.get("encrypted_content")
        if content and content != seal(REASONING):
            said = f"The encrypted content {str(content)[:4]}... could not be verified."
            yield Refusal(400, said, "invalid_encrypted_content")
        elif not content and not stored:
            said = f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
            more = "Try again with `store` set to true, or remove this item from your input."
            yield Refusal(404, f"{said} {more}", param="input")
    for at, item in _select_items(body, "function_call"):
        before = at - 1
        while (
            before >= 0
            and items[before].get("type") in ("function_call", "message")
            and items[before].get("role") != "user"
        ):
            before -= 1
        if before < 0 or items[before].get("type") != "reasoning":
            one = str(item.get("id") or item.get("call_id"))
            wanted = "rs_" + one.removeprefix("fc_").partition("_")[0]
            said = (
                f"Item '{one}' of type 'function_call' was provided without its required 'reasoning' item: '{wanted}'."
            )
            yield _build_refusal(said)


def check_forgetting(body: Body) -> Iterator[Refusal]:
    """No response is kept, as where an organisation keeps no data."""
    if previous := body.get("previous_response_id"):
        said = f"Previous response with id '{previous}' not found."
        yield _build_refusal(said, "previous_response_id", "previous_response_not_found")


def temperature(body: Body) -> Iterator[Refusal]:
    """A ``temperature`` is refused, as reasoning models do."""
    if body.get("temperature") is not None:
        said = "Unsupported parameter: 'temperature' is not supported with this model."
        yield _build_refusal(said, "temperature", "unsupported_parameter")


def responses(body: Body) -> Iterator[Refusal]:
    """Yield the refusals of all rules but the one about names."""
    for check in (forms, ids, check_answers):
        yield from check(body)
