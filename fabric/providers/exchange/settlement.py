"""Turns an answer of a protocol into the engine's input: cleaned, its arguments read, its tokens counted."""

from __future__ import annotations

import json
import re

from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.texts.text import clean, clean_text, parse_json_object
from fabric.core.values.frozen import replace
from fabric.core.values.metering import MeteredTokens, meter_call
from fabric.core.values.units import JSON
from fabric.providers.exchange.prices import tier_problem
from fabric.providers.protocols.contract import ModelAnswer, SaidCall
from fabric.providers.protocols.fitting import compact
from fabric.runtime.ports.calls import ChatMessage, ModelRequest

_decoder = json.JSONDecoder(strict=False)
_two_objects = re.compile(r"\}\s*\{")
RAW_ARGS_CHARS = 20_000
NAME_CHARS = 200
OWN_BYTES_MAX = 400_000
"""Largest size of reasoning and signatures stored with an answer, in bytes. Larger ones are dropped whole: a part of
them is useless.
"""


def settle(request: ModelRequest, answer: ModelAnswer, *, protocol: str, mended: bool) -> ModelReplied:
    """Return the answer as an input for the engine. ``mended``: True if the body was changed before it was read."""
    text, dirty = clean_text(answer.text)
    calls = [settle_call(request, one, protocol) for one in answer.calls]
    own, own_dirty = _own(answer.own, protocol)
    charged = meter(request, answer)
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text,
        calls=tuple(call for call, _ in calls),
        input_tokens=charged.input_tokens,
        output_tokens=charged.output_tokens,
        finish="stop" if answer.finish == "broken" else answer.finish,
        model=_name(answer.model),
        sanitized=mended or dirty or own_dirty or any(changed for _, changed in calls),
        own=own,
        parts=charged.parts,
        usage_problem=charged.problem,
    )


def settle_call(request: ModelRequest, said: SaidCall, protocol: str) -> tuple[ToolCall, bool]:
    """Return a proposed call, and True if cleaning changed it. Raw text that is no JSON object is kept."""
    text, dirty = clean_text(_arguments_text(said.arguments))
    args, _ = parse_json_object(text, strict=True) if text.strip() else ({}, "")
    tool = _name(said.tool)
    # Escaped characters show only once they are read: a NUL, a lone surrogate, a number beyond 64 bits.
    changed = dirty or (args is not None and bool(text.strip()) and args != _decoder.decode(text.strip()))
    if args:
        args = _drop_nulls(request, tool, args)
    kept = text[:RAW_ARGS_CHARS] if args is None else ""
    own, _ = _own(said.own, protocol)
    return ToolCall(call_id=clean_text(said.id)[0], tool=tool, args=args, raw_args=kept, own=own), changed


def meter(request: ModelRequest, answer: ModelAnswer) -> MeteredTokens:
    """Return the charge of the answer."""
    spoken = len(answer.text.encode("utf-8", "replace"))
    spoken += sum(len(_arguments_text(call.arguments)) for call in answer.calls)
    prompt = sum(_message_bytes(message) for message in request.messages)
    prompt += sum(len(compact([one.name, one.description, dict(one.parameters)]).encode()) for one in request.tools)
    if answer.own is not None:
        spoken += len(compact(answer.own).encode("utf-8", "replace"))
    charged = meter_call(
        reported=answer.usage,
        prompt_bytes=prompt,
        answer_bytes=spoken,
        max_output_tokens=request.max_output_tokens,
    )
    doubts = (charged.problem, tier_problem(request.model, _name(answer.tier)))
    return replace(charged, problem="; ".join(one for one in doubts if one))


def _message_bytes(message: ChatMessage) -> int:
    """Return the bytes of a message's text and calls."""
    calls = sum(len(call.tool) + len(compact(call.args).encode("utf-8", "replace")) for call in message.calls)
    return len(message.text.encode("utf-8", "replace")) + calls


def _arguments_text(arguments: JSON) -> str:
    """Return arguments as JSON text. None, empty text and the text null are no arguments; text in text is unwrapped."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        return compact(arguments)
    text = arguments.strip()
    if text == "null":
        return ""
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            inner = json.loads(text)
        except ValueError:
            return arguments
        return inner if isinstance(inner, str) else arguments
    return _once(text) if _two_objects.search(text) else arguments


def _once(text: str) -> str:
    """Return one object where a server put an empty one before it, or repeated it. Return any other text as it is."""
    found: list[str] = []
    at = 0
    try:
        while at < len(text):
            _, end = _decoder.raw_decode(text, at)
            found.append(text[at:end])
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, RecursionError):
        return text
    said = {one for one in found if one[1:-1].strip()}
    return said.pop() if len(said) == 1 else text


def _drop_nulls(request: ModelRequest, tool: str, args: dict[str, JSON]) -> dict[str, JSON]:
    """Return the arguments without nulls for optional ones that take no null. Models in strict mode write those for
    omitted ones.
    """
    offer = next((one for one in request.tools if one.name == tool), None)
    if offer is None or None not in args.values():
        return args
    properties, required = offer.parameters.get("properties"), offer.parameters.get("required") or ()
    if not isinstance(properties, dict):
        return args
    return {
        name: one
        for name, one in args.items()
        if one is not None or name in required or name not in properties or _takes_null(properties[name])
    }


def _takes_null(schema: JSON) -> bool:
    """Return True where a property's schema may take null; True where that is unclear."""
    if not isinstance(schema, dict):
        return True
    kinds = schema.get("type")
    if kinds is None:
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list):
            return any(_takes_null(one) for one in choices)
        return None in schema["enum"] if isinstance(schema.get("enum"), list) else "const" not in schema
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _own(own: JSON, protocol: str) -> tuple[JSON, bool]:
    """Return the provider's own parts for storage, with their protocol; None where they are too large or cannot be
    stored.
    """
    if own is None:
        return None, False
    try:
        kept, changed = clean(own)
    except ValueError:
        return None, True
    return (None, True) if len(compact(kept)) > OWN_BYTES_MAX else ({"protocol": protocol, "parts": kept}, changed)


def _name(text: str) -> str:
    return clean_text(text)[0][:NAME_CHARS]
