"""What an edit of a question starts from, and the JSON schema of it, for the form by which it is edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters.tools.registry import offers
from fabric.selectors.escalations import EscalationView
from fabric.selectors.fabrics import revision_spec

EDITED: Mapping[str, str] = {
    "arguments": "Your arguments",
    "payload": "Your version of the result",
    "brief": "Your version of the brief",
}
"""What is edited, as the form says it, by the question's ``edit_of``."""


def initial_of(question: EscalationView) -> Any:
    """What stands in the form at first, and an edit is compared with."""
    content = question.content
    return content["edit_initial"] if "edit_initial" in content else content.get("payload")


def schema_of(question: EscalationView) -> Mapping[str, Any] | None:
    """The schema of it; None: nothing says what it is, and it is taken as it stands. A question of before says no more than its tool."""
    schema = question.content.get("edit_schema")
    if isinstance(schema, dict):
        return schema
    tools = {tool.name: tool for tool in revision_spec(question.revision_id).all_tools}
    asked = tools.get(str(question.content.get("tool", "")))
    return offers(asked).parameters if asked is not None else None
