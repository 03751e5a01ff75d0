"""Calls in words: their titles in sentences, and calls that a model writes as text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from fabric.core.values.fingerprint import encode
from fabric.core.values.units import JSON

# -- call titles -------------------------------------------------------------------------------------------------------

ARGUMENTS_CHARS = 80
"""Most characters of the arguments that a sentence shows."""


def call_shown(tool: str, args: JSON) -> str:
    """Return ``look({"q": "x"})``; the tool alone where it has no arguments, or they are not known."""
    if not args:
        return tool
    said = encode(args).decode()
    return f"{tool}({said if len(said) <= ARGUMENTS_CHARS else said[:ARGUMENTS_CHARS] + '...'})"


# -- written calls -----------------------------------------------------------------------------------------------------


FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Hermes, Qwen", re.compile(r"<tool_call>")),
    ("Llama 3", re.compile(r"<function=[\w.-]+>|<\|python_tag\|>")),
    ("Mistral", re.compile(r"\[TOOL_CALLS\]")),
    ("DeepSeek", re.compile(r"<｜tool▁calls?▁begin｜>|<\|tool_calls?_begin\|>|<｜DSML｜")),
    ("Kimi", re.compile(r"<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>")),
    ("GPT-OSS", re.compile(r"<\|channel\|>commentary\s+to=\S+|<\|start\|>assistant<\|channel\|>commentary")),
    ("Claude", re.compile(r"<(?:antml:)?function_calls>|<(?:antml:)?invoke name=")),
    ("Granite, Phi", re.compile(r"<\|tool_call\|>|<function_call>")),
    ("Gemma", re.compile(r"```tool_(?:code|call)")),
)
"""Marks that open a call in the templates of models. No answer to a person has one outside code."""

_mark = re.compile("|".join(pattern.pattern for _, pattern in FORMS))
_code = re.compile(r"```(?!tool_).*?(?:```|\Z)|(?<!`)`[^`\n]+`(?!`)", re.DOTALL)
_fenced = re.compile(r"```[ \t]*(?:json)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_python = re.compile(r"(?:print\()?(?:[a-z_]+\.)?([A-Za-z_][\w-]*)\((?:[^()]|\([^()]*\))*\)\)?")
_name = re.compile(
    r"\"(?:name|function|tool)\"\s*:\s*\"([\w.-]{1,64})\"|<function=([\w.-]{1,64})|name=\"([\w.-]{1,64})"
)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def written_call(text: str, tools: Collection[str]) -> str | None:
    """Return the name of the tool that an answer calls in words. "": the name cannot be read; None: the answer is no
    such call.

    ``tools``: those that the agent is offered. An object counts for one of them alone, as the whole answer or in code
    at its end; an expression likewise, as the whole answer.
    """
    if _mark.search(text) and _mark.search(_drop_code(text)):
        found = _name.search(text)
        return next((one for one in found.groups() if one), "") if found else ""
    if not tools:
        return None
    whole = text.strip()
    *_, fenced = [None, *_fenced.finditer(whole)]
    if fenced is not None and fenced.end() == len(whole):
        # Words before it announce the call.
        return _object(fenced[1], tools)
    return _object(whole, tools) or _expression(whole, tools)


def _drop_code(text: str) -> str:
    return _code.sub("", text)


def _object(text: str, tools: Collection[str]) -> str | None:
    """Return the offered tool that a JSON object or list of objects calls."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > 100_000:
        return None
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return None
    inner = first.get("function")
    call = inner if isinstance(inner, dict) else first
    name = call.get("name", call.get("tool", inner if isinstance(inner, str) else None))
    return name if isinstance(name, str) and name in tools and any(key in call for key in _ARGUMENTS) else None


def _expression(text: str, tools: Collection[str]) -> str | None:
    """Return the offered tool that a single expression such as ``lookup(key="alpha")`` calls."""
    found = _python.fullmatch(text) if len(text) <= 4_000 and "\n" not in text else None
    return found[1] if found and found[1] in tools else None
