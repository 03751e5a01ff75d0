"""From an answer as its protocol has it to the engine's input: cleaned, its arguments read, its tokens counted."""

from __future__ import annotations

import json
import re
from typing import Any

from fabric.adapters.providers.fitting import compact
from fabric.adapters.providers.prices import tier_problem
from fabric.adapters.providers.protocols.contract import Answer, SaidCall
from fabric.core.frozen import replace
from fabric.core.inputs import ModelReplied, ToolCall
from fabric.core.metering import Metered, metered
from fabric.core.text import clean, clean_text, parse_json_object
from fabric.runtime.call_ports import ChatMessage, ModelRequest

JSON = Any
_decoder = json.JSONDecoder(strict=False)
_two_objects = re.compile(r"\}\s*\{")
RAW_ARGS_CHARS = 20_000
NAME_CHARS = 200
OWN_BYTES_MAX = 400_000
"""Bytes of reasoning and signatures that are kept with an answer. Larger ones are dropped whole: a part of them is worth nothing."""


def settle(request: ModelRequest, answer: Answer, *, protocol: str, mended: bool) -> ModelReplied:
    """The answer as an input for the engine. ``mended``: the body was changed before it was read."""
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
    """A proposed call, and whether cleaning changed it. Its raw text is kept where it is no JSON object."""
    text, dirty = clean_text(_arguments_text(said.arguments))
    args, _ = parse_json_object(text, strict=True) if text.strip() else ({}, "")
    tool = _name(said.tool)
    # Escaped characters show only once they are read: a NUL, a lone surrogate, a number beyond 64 bits.
    changed = dirty or (args is not None and bool(text.strip()) and args != _decoder.decode(text.strip()))
    if args:
        args = _without_nulls(request, tool, args)
    kept = text[:RAW_ARGS_CHARS] if args is None else ""
    own, _ = _own(said.own, protocol)
    return ToolCall(call_id=clean_text(said.id)[0], tool=tool, args=args, raw_args=kept, own=own), changed


def meter(request: ModelRequest, answer: Answer) -> Metered:
    """Returns the charge of the answer."""
    spoken = len(answer.text.encode("utf-8", "replace"))
    spoken += sum(len(_arguments_text(call.arguments)) for call in answer.calls)
    prompt = sum(_message_bytes(message) for message in request.messages)
    prompt += sum(len(compact([one.name, one.description, dict(one.parameters)]).encode()) for one in request.tools)
    if answer.own is not None:
        spoken += len(compact(answer.own).encode("utf-8", "replace"))
    charged = metered(
        reported=answer.usage,
        prompt_bytes=prompt,
        answer_bytes=spoken,
        max_output_tokens=request.max_output_tokens,
    )
    doubts = (charged.problem, tier_problem(request.model, _name(answer.tier)))
    return replace(charged, problem="; ".join(one for one in doubts if one))


def _message_bytes(message: ChatMessage) -> int:
    """Bytes of a message's text and calls."""
    calls = sum(len(call.tool) + len(compact(call.args).encode("utf-8", "replace")) for call in message.calls)
    return len(message.text.encode("utf-8", "replace")) + calls


def _arguments_text(arguments: JSON) -> str:
    """Arguments as JSON text. None, empty text and the text null are no arguments; text in text is taken out of it."""
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
    """One object where a server put an empty one before it, or sent it again; the text as it is for any other."""
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


def _without_nulls(request: ModelRequest, tool: str, args: dict[str, JSON]) -> dict[str, JSON]:
    """The arguments without the nulls of optional ones that take no null: models in strict mode write those for what they leave out."""
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
    """Returns True where a property's schema may take null; True where that is not plain to see."""
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
    """Returns the provider's own parts, fit to be kept, with their protocol; None where they are too large or cannot be kept."""
    if own is None:
        return None, False
    try:
        kept, changed = clean(own)
    except ValueError:
        return None, True
    return (None, True) if len(compact(kept)) > OWN_BYTES_MAX else ({"protocol": protocol, "parts": kept}, changed)


def _name(text: str) -> str:
    return clean_text(text)[0][:NAME_CHARS]
