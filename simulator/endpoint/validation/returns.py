"""The parts that must come back with the history of calls, by provider: reasoning, signatures, sealed items."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Refusal
from simulator.endpoint.validation.names import Body
from simulator.endpoint.wire.steps import seal

REASONING = "I have to look before I answer."
"""The thinking in each answer that must come back."""
SKIPPED = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""The values that Google takes in place of a signature, for histories that another model began."""


def deepseek(body: Body) -> Iterator[Refusal]:
    """Each assistant's message that calls a tool has its ``reasoning_content``. DeepSeek, thinking mode."""
    for message in body["messages"]:
        if message.get("tool_calls") and not message.get("reasoning_content"):
            said = "The `reasoning_content` in the thinking mode must be passed back to the API."
            yield Refusal(400, said, "invalid_request_error", "invalid_request_error")


def gemini_compatible(body: Body) -> Iterator[Refusal]:
    """The first call of each step since the user spoke has its ``thought_signature``.

    Gemini 3 over the compatible endpoint wants it. The error is in a list.
    """
    spoken = [at for at, message in enumerate(body["messages"]) if message.get("role") == "user"]
    for at, message in enumerate(body["messages"]):
        if at < max(spoken, default=0):
            continue
        for call in (message.get("tool_calls") or ())[:1]:
            google = (call.get("extra_content") or {}).get("google") or {}
            yield from _check_signature(google.get("thought_signature"), call["function"]["name"], at + 1, listed=True)


def gemini(body: Body) -> Iterator[Refusal]:
    """The first call of each step since the user spoke has its ``thoughtSignature``. Gemini 3."""
    contents = body.get("contents") or ()
    spoken = [at for at, one in enumerate(contents) if one.get("role") != "model" and _says(one)]
    for at, content in enumerate(contents):
        if at < max(spoken, default=0):
            continue
        calls = [part for part in content.get("parts") or () if "functionCall" in part]
        for part in calls[:1]:
            yield from _check_signature(
                part.get("thoughtSignature"), part["functionCall"].get("name"), at + 1, listed=False
            )


def _says(content: Body) -> bool:
    return any("text" in part for part in content.get("parts") or ())


def _check_signature(found: JSON, name: str, position: int, *, listed: bool) -> Iterator[Refusal]:
    # Google's own client writes base64 in the alphabet of URLs; both are taken.
    if found in SKIPPED or str(found).translate(str.maketrans("-_", "+/")) == seal(name):
        return
    if found:
        said = "Corrupted thought signature."
    else:
        said = (
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
            "and missing thought_signature may lead to degraded model performance. Additional data, function call "
            f"`default_api:{name}` , position {position}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
            "for more details."
        )
    error = {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}
    yield Refusal(400, said, body=[error] if listed else error)


def openrouter(body: Body) -> Iterator[Refusal]:
    """The last message that calls a tool has its ``reasoning_details``, unchanged. OpenRouter, in front of
    Anthropic.
    """
    calling = [(at, message) for at, message in enumerate(body["messages"]) if message.get("tool_calls")]
    for at, message in calling[-1:]:
        details = message.get("reasoning_details")
        sealed = [one.get("signature") == seal(str(one.get("text"))) for one in details or ()]
        if not sealed or not all(sealed):
            said = "Invalid `signature` in `thinking` block" if sealed else THINKING_FIRST
            raw = f'{{"type":"error","error":{{"type":"invalid_request_error","message":"messages.{at}.content.0: {said}"}}}}'
            metadata = {"raw": raw, "provider_name": "Anthropic"}
            body_of = {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}
            yield Refusal(400, said, body=body_of)


THINKING_FIRST = (
    "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message "
    "must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
)


def anthropic(body: Body) -> Iterator[Refusal]:
    """The last message with tool calls begins with its thinking, and all thinking keeps its signature."""
    calling: list[tuple[int, str]] = []
    for at, message in enumerate(body.get("messages") or ()):
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            continue
        for number, block in enumerate(content):
            yield from _block(block, f"messages.{at}.content.{number}")
        if any(block.get("type") == "tool_use" for block in content):
            calling.append((at, content[0].get("type")))
    for at, kind in calling[-1:]:
        if kind not in ("thinking", "redacted_thinking"):
            said = THINKING_FIRST.replace("`tool_use`. When", f"`{kind}`. When")
            yield Refusal(400, f"messages.{at}.content.0.type: {said}")


def _block(block: Body, where: str) -> Iterator[Refusal]:
    if block.get("type") == "thinking":
        if "signature" not in block:
            yield Refusal(400, f"{where}.thinking.signature: Field required")
        elif block["signature"] != seal(str(block.get("thinking"))):
            yield Refusal(400, f"{where}: Invalid `signature` in `thinking` block")
    if block.get("type") == "redacted_thinking" and block.get("data") != seal(REASONING):
        yield Refusal(400, f"{where}: Invalid `data` in `redacted_thinking` block")
