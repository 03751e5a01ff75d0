"""A call as a sentence names it: its tool, and its arguments shortened."""

from __future__ import annotations

from typing import Any

from fabric.core.fingerprint import encode

JSON = Any
ARGUMENTS_CHARS = 80
"""Most characters of the arguments that a sentence shows."""


def call_shown(tool: str, args: JSON) -> str:
    """Returns ``look({"q": "x"})``; the tool alone where it has no arguments, or they are not known."""
    if not args:
        return tool
    said = encode(args).decode()
    return f"{tool}({said if len(said) <= ARGUMENTS_CHARS else said[:ARGUMENTS_CHARS] + '...'})"
