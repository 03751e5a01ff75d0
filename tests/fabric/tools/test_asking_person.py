"""The built-in tool that asks a person: its form, and which answer was meant."""

from __future__ import annotations

import pytest

from fabric.core.reviews.requested_input import question_digest
from fabric.core.spec.tools import ToolSpec
from fabric.core.texts import forms
from fabric.tools.answers.outcome import InputAsked
from fabric.tools.person import ask_person
from tests.fabric.tools.asking import run

TOOL = ToolSpec(name="ask_person")
GATE = {"question": "Approve?", "answers": {"A": "Approve", "R": "Revise"}, "keeps_as": "human.gate"}


def form(**more):
    with pytest.raises(InputAsked) as asked:
        ask_person({}, **{**GATE, **more})
    return asked.value.requested.schema


def answered(answer, **more):
    args = {**GATE, **more}
    key = question_digest(args["question"], form(**more))
    return run(TOOL, args, answers={key: {"answer": answer}})


def test_without_an_answer_a_person_is_asked():
    said = run(TOOL, GATE)
    assert (said.requested.server, said.requested.message) == ("", "Approve?")
    assert said.error == "a person is asked, and no person is asked here"
    assert forms.schema_problem(said.requested.schema) == ""


def test_the_form_holds_the_answers_or_a_text():
    assert form()["properties"]["answer"]["enum"] == ["Approve", "Revise"]
    assert "enum" not in form(other=True)["properties"]["answer"]
    assert "enum" not in form(answers={})["properties"]["answer"]


@pytest.mark.parametrize(
    ("answer", "more", "selected", "label", "text"),
    [
        ("Approve", {}, "A", "Approve", ""),
        ("r", {}, "R", "Revise", ""),
        ("Use blue.", {"other": True}, "freeform", "", "Use blue."),
        ("approve", {"other": True}, "A", "Approve", ""),
        ("Anything", {"answers": {}}, "freeform", "", "Anything"),
    ],
)
def test_the_answer_is_kept_in_context_variables(answer, more, selected, label, text):
    said = answered(answer, **more)
    kept = {"human.gate.selected": selected, "human.gate.label": label, "human.gate.text": text}
    assert said.writes.set == kept
    assert said.result == {"answer": label or text}


def test_arguments_that_do_not_fit_ask_no_person():
    said = run(TOOL, {"answers": ["A"]})
    assert said.requested is None
    assert said.error.startswith("the arguments do not fit")
