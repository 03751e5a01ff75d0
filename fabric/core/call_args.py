"""The arguments of a call, where they are journaled: in the answer that proposed it, or by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fabric.core.context import Contents

JSON = Any


def call_args(contents: Contents, ref: str, call_id: str) -> JSON:
    """The arguments as the call was made with them; None for raw text. Raises MissingContent where nothing stands at ``ref``."""
    known = contents.read(ref)
    if "args" in known:
        return known["args"]  # The engine's own call.
    return next(call.get("args") for call in known["calls"] if call["call_id"] == call_id)
