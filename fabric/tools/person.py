"""Asks a person in the middle of a conversation: the built-in tool ``ask_person``.

Its call waits like one whose MCP server asks (``core/reviews/requested_input.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.graph.state import RoundWrote, Writes
from fabric.core.reviews.requested_input import question_digest
from fabric.core.texts.forms import InputRequest
from fabric.core.values.units import JSON
from fabric.tools.answers.outcome import InputAsked

DESCRIPTION = (
    "Asks a person a question, waits for the answer and returns it. List the possible answers, each under a short key; without a list the person "
    "answers in their own words."
)
PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "Question to the person."},
        "answers": {
            "type": "object",
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 200},
            "maxProperties": 20,
            "description": 'Possible answers by key, such as {"A": "Approve"}.',
        },
        "other": {"type": "boolean", "description": "True if the person may write another answer."},
        "keeps_as": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "Prefix of the context variables that keep the answer: NAME.label, NAME.selected and NAME.text.",
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
) -> RoundWrote:
    """Return the person's answer, and the context variables that keep it. Raises InputAsked until there is one.

    ``given``: arrived answers, by the digest of their question.
    """
    there = dict(answers or {})
    schema = _form(there, other or not there)
    found = given.get(question_digest(question, schema))
    if found is None:
        raise InputAsked(InputRequest(server="", message=question, schema=schema))
    said = str(found[FIELD]).strip()
    key, label = _find_answer(there, said)
    kept = {"selected": key, "label": label, "text": said if key == FREEFORM else ""}
    return RoundWrote(
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


def _find_answer(answers: Mapping[str, str], said: str) -> tuple[str, str]:
    """Return key and label of the meant answer, found by its label or its key."""
    for key, label in answers.items():
        if said.lower() in (label.lower(), key.lower()):
            return key, label
    return FREEFORM, ""
