"""The message about a call that brought no result: the call as a whole, and its error (S2 "Error handling")."""

from __future__ import annotations

from typing import Any

from fabric.core.fingerprint import encode

JSON = Any
ARGS_BYTES = 2_000
"""Larger arguments are not repeated: they stand in the answer that proposed the call."""


def call_error(call_id: str, tool: str, args: JSON, error: JSON, raw_args: str = "") -> JSON:
    """Returns ``{"call": {"id", "tool", "args"}, "error"}``. ``call_id``: as the model knows it; ``raw_args``: where the arguments are no JSON object."""
    given = {"raw_args": raw_args} if args is None and raw_args else {"args": args} if args is not None else {}
    fits = len(encode(given)) <= ARGS_BYTES
    return {"call": {"id": call_id, "tool": tool, **(given if fits else {})}, "error": error}
