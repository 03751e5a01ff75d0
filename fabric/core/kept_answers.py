"""What the contents are called in which a fork takes over what tools had answered in its origin (``events.ContentKept.what``)."""

from __future__ import annotations

import re

from fabric.core.flow import Stage

_NAMED = re.compile(r"answer of (\S+) in (\w+), \w+")


def answer_name(stage: Stage, tool: str, ref: str) -> str:
    """Of what a tool answered in a stage, which stands under a content reference."""
    return f"answer of {tool} in {stage}, {ref[:8]}"


def answer_named(what: str) -> tuple[Stage, str] | None:
    """``(stage, tool)`` of such a name; None: it is another content's."""
    found = _NAMED.fullmatch(what)
    return None if found is None else (Stage(found[2]), found[1])
