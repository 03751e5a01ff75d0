"""What an edit of a question starts from, and the JSON schema of it, for the form by which it is edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from fabric.adapters.tools.registry import offers
from fabric.core.payloads import Aggregate, Brief, Outcome, Plan, Summary
from fabric.selectors.escalations import EscalationView
from fabric.selectors.fabrics import revision_spec

EDITED: Mapping[str, str] = {
    "arguments": "Your arguments",
    "payload": "Your version of the result",
    "brief": "Your version of the brief",
    "answer": "Your answer",
}
"""What is edited, as the form says it, by the question's ``edit_of``."""


def edited_word(question: EscalationView) -> str:
    """What is edited, as the form says it."""
    return EDITED.get(str(question.content.get("edit_of", "")), "Your version")


def initial_of(question: EscalationView) -> Any:
    """What stands in the form at first, and an edit is compared with."""
    content = question.content
    return content["edit_initial"] if "edit_initial" in content else content.get("payload")


MODELS: Mapping[str, type[BaseModel]] = {one.__name__: one for one in (Plan, Brief, Summary, Aggregate, Outcome)}
"""What stages pass on, by the title that their schemas have."""


def schema_of(question: EscalationView) -> Mapping[str, Any] | None:
    """The schema of it, with its parts in the order of who declared them, which a journal does not keep; None: nothing says what it is."""
    content = question.content
    if content.get("edit_of", "arguments") == "arguments":
        tools = {tool.name: tool for tool in revision_spec(question.revision_id).all_tools}
        asked = tools.get(str(content.get("tool", "")))
        return offers(asked).parameters if asked is not None else content.get("edit_schema")
    schema: Mapping[str, Any] = content.get("edit_schema") or {}
    model = MODELS.get(str(schema.get("title")))
    declared = model.model_json_schema() if model is not None else schema
    return declared if declared == schema else schema
