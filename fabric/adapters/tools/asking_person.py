"""Asking a person in the middle of a conversation: the built-in tool ``ask_person``. Its call waits as one does whose MCP server asks (``core/requested_input.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters.tools.outcome import InputAsked
from fabric.core.forms import InputRequest
from fabric.core.graph.state import Writes, Wrote
from fabric.core.requested_input import question_digest

JSON = Any
DESCRIPTION = (
    "Asks a person and waits for the answer. Give the answers that are possible, by a short key each; without them the person writes what they like. "
    "The result is the answer."
)
PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "The question."},
        "answers": {
            "type": "object",
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 200},
            "maxProperties": 20,
            "description": 'The possible answers, by key, such as {"A": "Approve"}.',
        },
        "other": {"type": "boolean", "description": "Whether the person may write something else."},
        "keeps_as": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "What the context variables begin with that keep the answer: NAME.label, NAME.selected and NAME.text.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}
FREEFORM = "freeform"
KEEPS_AS = "answer"
FIELD = "answer"


def ask_person(
    given: Mapping[str, Mapping[str, JSON]],
    *,
    question: str,
    answers: Mapping[str, str] | None = None,
    other: bool = False,
    keeps_as: str = KEEPS_AS,
) -> Wrote:
    """The person's answer, and the context variables that keep it. ``given``: answers that came, by the digest of their question. Raises InputAsked until there is one."""
    there = dict(answers or {})
    schema = _form(there, other or not there)
    found = given.get(question_digest(question, schema))
    if found is None:
        raise InputAsked(InputRequest(server="", message=question, schema=schema))
    said = str(found[FIELD]).strip()
    key, label = _meant(there, said)
    kept = {"selected": key, "label": label, "text": said if key == FREEFORM else ""}
    return Wrote(
        Writes(set={f"{keeps_as}.{name}": value for name, value in kept.items()}),
        {FIELD: said if key == FREEFORM else label},
    )


def _form(answers: Mapping[str, str], free: bool) -> dict[str, JSON]:
    field: dict[str, JSON] = {"type": "string", "title": "Answer", "minLength": 1}
    if not free:
        field["enum"] = list(dict.fromkeys(answers.values()))
    elif answers:
        field["description"] = f"{', '.join(answers.values())}, or something else in your own words"
    return {"type": "object", "properties": {FIELD: field}, "required": [FIELD]}


def _meant(answers: Mapping[str, str], said: str) -> tuple[str, str]:
    """Key and label of the answer that was meant: by its label, or by its key."""
    for key, label in answers.items():
        if said.lower() in (label.lower(), key.lower()):
            return key, label
    return FREEFORM, ""
