"""The draft as the text that it is."""

from __future__ import annotations

from typing import Any

from console.editor.draft import Editing


def build(editing: Editing) -> dict[str, Any]:
    """The text with the lines that remarks are about."""
    text = editing.draft.text if editing.own_text is None else editing.own_text
    lines = text.count("\n") + 1
    # Remarks are about the draft's lines: one's own side of an open question has others.
    remarks = editing.checked.findings if text == editing.draft.text else ()
    marked = {one.line: one.level for one in reversed(remarks) if one.line}
    return {
        "text": text,
        "lines": [(n, marked.get(n, "")) for n in range(1, lines + 1)],
        "rows": min(60, max(20, lines + 1)),
    }
