"""Checks names in a request: of tools on offer, and of calls in its history.

A rule has a function for each protocol, from the request's body to the faults in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Name, Refusal, Rule

OPENAI = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GOOGLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def names(protocol: Name, body: Mapping[str, JSON]) -> Refusal | None:
    """Names of tools and of calls fit the provider's pattern."""
    return next(_WRONG[protocol](body), None)


def _openai(found: Iterator[tuple[str, JSON]]) -> Iterator[Refusal]:
    for where, name in found:
        if isinstance(name, str) and OPENAI.fullmatch(name):
            continue
        if isinstance(name, str) and len(name) > 64:
            said = f"string too long. Expected a string with maximum length 64, but got a string with length {len(name)} instead."
            yield Refusal(400, f"Invalid '{where}': {said}", "string_above_max_length", param=where)
        else:
            said = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            yield Refusal(400, f"Invalid '{where}': {said}", "invalid_value", param=where)


def _chat(body: Mapping[str, JSON]) -> Iterator[Refusal]:
    def find_names() -> Iterator[tuple[str, JSON]]:
        for at, tool in enumerate(body.get("tools") or ()):
            yield f"tools[{at}].function.name", (tool.get("function") or {}).get("name")
        for at, message in enumerate(body.get("messages") or ()):
            for number, call in enumerate(message.get("tool_calls") or ()):
                where = f"messages[{at}].tool_calls[{number}].function.name"
                yield where, (call.get("function") or {}).get("name")

    return _openai(find_names())


def _responses(body: Mapping[str, JSON]) -> Iterator[Refusal]:
    def find_names() -> Iterator[tuple[str, JSON]]:
        for at, tool in enumerate(body.get("tools") or ()):
            if tool.get("type") == "function":
                yield f"tools[{at}].name", tool.get("name")
        items = body.get("input")
        for at, item in enumerate(items if isinstance(items, list) else ()):
            if item.get("type") == "function_call":
                yield f"input[{at}].name", item.get("name")

    return _openai(find_names())


def _anthropic(body: Mapping[str, JSON]) -> Iterator[Refusal]:
    pattern = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    for at, tool in enumerate(body.get("tools") or ()):
        if "input_schema" in tool and not ANTHROPIC.fullmatch(str(tool.get("name"))):
            yield Refusal(400, f"tools.{at}.custom.name: {pattern}")
    for at, message in enumerate(body.get("messages") or ()):
        content = message.get("content")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if block.get("type") == "tool_use" and not ANTHROPIC.fullmatch(str(block.get("name"))):
                where = f"messages.{at}.content.{number}.tool_use.name"
                yield Refusal(400, f"{where}: {pattern.replace('128', '200')}")


def _google(body: Mapping[str, JSON]) -> Iterator[Refusal]:
    said = (
        "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), "
        "underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
    )
    for at, tool in enumerate(body.get("tools") or ()):
        for number, one in enumerate(tool.get("functionDeclarations") or ()):
            if not GOOGLE.fullmatch(str(one.get("name"))):
                where = f"* GenerateContentRequest.tools[{at}].function_declarations[{number}].name"
                yield Refusal(400, f"{where}: {said}")
    for at, content in enumerate(body.get("contents") or ()):
        for number, part in enumerate(content.get("parts") or ()):
            call = part.get("functionCall")
            if call and not GOOGLE.fullmatch(str(call.get("name"))):
                where = f"* GenerateContentRequest.contents[{at}].parts[{number}].function_call.name"
                yield Refusal(400, f"{where}: {said}")


_WRONG = {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "google": _google}


Body = Mapping[str, JSON]
Check = Callable[[Body], Iterator[Refusal]]


def rule(**checks: Check) -> Rule:
    """Return a rule for the protocols that have a check. In the others nothing is wrong."""

    def find_refusal(protocol: Name, body: Body) -> Refusal | None:
        check = checks.get(protocol)
        return None if check is None else next(check(body), None)

    return find_refusal


def read_kind(value: JSON) -> str:
    """Return a value's type as OpenAI's messages name it."""
    names = {"NoneType": "null", "str": "a string", "dict": "an object", "list": "an array", "bool": "a boolean"}
    return names.get(type(value).__name__, "a number")
