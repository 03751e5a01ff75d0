"""A tool that finds nothing. It is run in a process of its own, without Django, like any callable."""

from __future__ import annotations

from fabric.tools.functions.callables import tool


@tool(effect="read_only")
def lookup(*, query: str) -> dict[str, str]:
    """Looks something up and finds nothing, whatever is asked."""
    return {"text": "There is nothing on that."}
