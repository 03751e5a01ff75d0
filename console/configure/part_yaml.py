"""The draft as the text that it is."""

from __future__ import annotations

from typing import Any

from console.configure.editing import Editing


def build(editing: Editing) -> dict[str, Any]:
    """The text with the lines that remarks are about."""
    lines = editing.draft.text.count("\n") + 1
    marked = {one.line: one.level for one in reversed(editing.checked.findings) if one.line}
    return {"lines": [(n, marked.get(n, "")) for n in range(1, lines + 1)], "rows": min(60, max(20, lines + 1))}
