"""The JSON schema of what a question asks about, for the form by which it is edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from fabric.adapters.tools.registry import offers
from fabric.core.flow import Stage
from fabric.core.payloads import Aggregate, Brief, Outcome, Plan, Summary
from fabric.selectors.escalations import EscalationView
from fabric.selectors.fabrics import revision_spec

OUTPUTS: Mapping[Stage, tuple[type[BaseModel], ...]] = {
    Stage.PLAN: (Plan, Brief),
    Stage.FAN_OUT: (Summary, Brief),
    Stage.FAN_IN: (Aggregate, Brief),
    Stage.VALIDATE: (Aggregate, Brief),
    Stage.FINALIZE: (Outcome, Summary, Brief),
}
"""What a question about a stage may show: the stage's own payload, or a step's brief; total by test."""


def schema_of(question: EscalationView) -> Mapping[str, Any] | None:
    """The schema of what is shown; None: nothing says what it is, and it is taken as it stands."""
    if question.item == "pre_action":
        tools = {tool.name: tool for tool in revision_spec(question.revision_id).all_tools}
        asked = tools.get(str(question.content.get("tool", "")))
        return offers(asked).parameters if asked is not None else None
    shown = question.content.get("payload")
    if not isinstance(shown, dict) or question.stage not in set(Stage):
        return None
    fitting = (one for one in OUTPUTS[Stage(question.stage)] if set(shown) <= set(one.model_fields))
    model = next(fitting, None)
    return model.model_json_schema() if model is not None else None
