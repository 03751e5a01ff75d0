"""Between the port's values and pydantic-ai's: messages and tools going out, an answer coming back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from pydantic_ai import messages as ai
from pydantic_ai.tools import ToolDefinition

from fabric.core.cost import worst_input_tokens
from fabric.core.inputs import ModelReplied, ToolCall
from fabric.core.text import clean_text, parse_json_object
from fabric.runtime.call_ports import ChatMessage, ModelRequest, ToolOffer

RAW_ARGS_CHARS = 20_000
NAME_CHARS = 200
TOKENS_MAX = 1_000_000_000
"""More tokens than any context holds: a report above it is not believed."""
MADE_UP_ID = "pyd_ai_"
"""pydantic-ai invents an id where the endpoint gave none; the engine must see that there was none."""


def history(messages: Sequence[ChatMessage]) -> list[ai.ModelMessage]:
    """The rendered messages in pydantic-ai's terms, one for one, in order."""
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> ai.ModelMessage:
    if message.role == "system":
        return ai.ModelRequest(parts=[ai.SystemPromptPart(message.text)])
    if message.role == "user":
        return ai.ModelRequest(parts=[ai.UserPromptPart(message.text)])
    if message.role == "tool":
        return ai.ModelRequest(parts=[ai.ToolReturnPart(message.tool, message.text, message.call_id)])
    parts: list[ai.ModelResponsePart] = [ai.TextPart(message.text)] if message.text else []
    parts.extend(ai.ToolCallPart(call.tool, _sent_args(call), call.call_id) for call in message.calls)
    return ai.ModelResponse(parts=parts)


def _sent_args(call: ToolCall) -> str:
    # Endpoints refuse a history whose arguments do not parse, so what was no object goes back as the text it was.
    value = {"invalid_json": call.raw_args[:2_000]} if call.args is None else call.args
    return json.dumps(value, ensure_ascii=False)


def definitions(offers: Sequence[ToolOffer]) -> list[ToolDefinition]:
    """The tools on offer; never in strict mode, which few compatible endpoints know."""
    return [
        ToolDefinition(
            name=offer.name,
            description=offer.description,
            parameters_json_schema=dict(offer.parameters),
            strict=False,
        )
        for offer in offers
    ]


def replied(request: ModelRequest, response: ai.ModelResponse, *, mended: bool, numbered: bool = False) -> ModelReplied:
    """The answer as an input for the engine: cleaned, calls with their raw text where they are no JSON object.

    ``numbered``: the protocol knows tool calls without ids; they are given one each, unlike any other turn's.
    """
    text, dirty = clean_text("".join(part.content for part in response.parts if isinstance(part, ai.TextPart)))
    parts = [part for part in response.parts if isinstance(part, ai.ToolCallPart)]
    calls = [call_of(part, number_of(request, n) if numbered else "") for n, part in enumerate(parts)]
    finish = response.finish_reason
    input_tokens, output_tokens = _usage(request, response, text)
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text,
        calls=tuple(call for call, _ in calls),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        finish=finish if finish in ("length", "content_filter") else "stop",
        model=_name(response.model_name or ""),
        sanitized=mended or dirty or any(changed for _, changed in calls),
    )


def number_of(request: ModelRequest, n: int) -> str:
    """An id for the call at place ``n`` of an answer that gives none, in the letters that every provider takes back."""
    return f"call_{blake2b(request.command_id.encode(), digest_size=6).hexdigest()}_{n}"


def call_of(part: ai.ToolCallPart, number: str) -> tuple[ToolCall, bool]:
    """A proposed call, and whether cleaning changed it. ``number``: its id where the endpoint gave none."""
    raw: Any = part.args
    text, dirty = clean_text(raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False))
    args, _ = parse_json_object(text, strict=True)
    call_id = number if part.tool_call_id.startswith(MADE_UP_ID) else _name(part.tool_call_id)
    kept = text[:RAW_ARGS_CHARS] if args is None else ""
    # What was escaped shows only once it is read: a NUL, a lone surrogate, a number beyond 64 bits.
    changed = dirty or (args is not None and args != json.loads(text))
    return ToolCall(call_id=call_id, tool=_name(part.tool_name), args=args, raw_args=kept), changed


def _name(text: str) -> str:
    return clean_text(text)[0][:NAME_CHARS]


def _usage(request: ModelRequest, response: ai.ModelResponse, text: str) -> tuple[int, int]:
    """Tokens in and out. What an endpoint does not report is settled at worst case: rounding is against us."""
    reported = response.usage
    tokens_in, tokens_out = reported.input_tokens or 0, reported.output_tokens or 0
    if not 0 < tokens_in <= TOKENS_MAX:
        tokens_in = worst_input_tokens(
            sum(len(message.text.encode("utf-8", "replace")) for message in request.messages)
        )
    if not 0 < tokens_out <= TOKENS_MAX:
        spoken = len(text.encode()) + sum(
            len(str(part.args)) for part in response.parts if isinstance(part, ai.ToolCallPart)
        )
        tokens_out = min(spoken, request.max_output_tokens)
    return tokens_in, tokens_out
