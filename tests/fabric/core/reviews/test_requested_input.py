"""The server of a tool asks a person in the middle of a call: a review opens, and the call goes out once more with the answer."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import ToolFinished
from fabric.core.reviews import requested_input
from fabric.core.texts.forms import InputRequest
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.bookings import Desk, booking, go, travel
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, Answer, asks, summary

SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
DONE = {"id": "b-1"}


def wants(
    message: str = "Which floor?", schema: Any = SURE, said: str = "", outcome: Outcome = Outcome.REJECTED
) -> Answer:
    """A server that asks a person."""
    request = InputRequest(server="hotel", message=message, schema=schema, said=said)
    return Answer(
        lambda c: ToolFinished(
            command_id=c.command_id,
            attempt=c.attempt,
            result=None,
            error="MCP server 'hotel' asks a person, and nobody is asked here",
            outcome=outcome,
            requested=request,
        ),
        after_s=0.1,
    )


def done() -> Answer:
    return Answer(lambda c: ToolFinished(command_id=c.command_id, attempt=c.attempt, result=DONE), after_s=0.1)


def hotel(
    *answers: Answer, tool: str = "book", tier: Tier = Tier.INTERACTIVE, worker: Any = None, **fields: Any
) -> World:
    """A run whose worker books once, or pays, and whose tool answers so in turn; every attempt is kept in ``sent``."""
    desk, left, sent = Desk(), list(answers), []

    def answer(command: Any) -> Answer:
        sent.append(command)
        return left.pop(0)

    script = {"worker": worker or [asks(booking(1, tool)), summary()], **desk.script(), tool: answer}
    world = World(travel(**fields), script, tier=tier)
    desk.world = world
    world.start()
    world.sent = sent  # type: ignore[attr-defined]
    return go(world, desk)


def decide(world: World, verb: str, **fields: Any) -> World:
    world.decide(verb, **fields)
    return world.go()


def answers(world: World, command: Any) -> dict[str, Any]:
    return {said["asked"]: said["answer"] for said in map(world.contents, command.answers)}


def test_a_person_sees_the_call_the_question_and_its_form():
    world = hotel(wants(said="it was cancelled"), done())
    fact, shown = world.review.fact, world.content_of(ev.ReviewOpened)[0]
    assert (fact.item, fact.scope) == ("pre_action", "fan_out.0.e0.r0.t1.c0")
    assert fact.reason == "MCP server hotel asks in the middle of book: Which floor?"
    assert shown["args"] == {"room": 1}
    assert shown["asks"] == {
        "server": "hotel",
        "message": "Which floor?",
        "schema": SURE,
        "said": "it was cancelled",
    }
    assert (shown["payload"], shown["edit_schema"], shown["edit_of"]) == ({}, SURE, "answer")
    assert world.of(ev.ToolAnswered) == []


def test_an_answer_goes_out_with_the_call_once_more_under_its_old_key():
    world = hotel(wants(), done())
    decide(world, "edit", edited={"sure": True})
    first, second = world.sent
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key
    asked = requested_input.question_digest("Which floor?", SURE)
    assert (answers(world, first), answers(world, second)) == ({}, {asked: {"sure": True}})
    assert world.of(ev.InputGiven)[0].actor == "bob"
    assert world.end.state is RunState.COMPLETED
    assert [str(fact.status) for fact in world.of(ev.MutationSettled)] == ["not_executed", "executed"]


def test_a_form_with_defaults_is_approved_as_it_stands():
    schema = {"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}, "required": ["sure"]}
    world = decide(hotel(wants(schema=schema), done()), "approve")
    assert list(answers(world, world.sent[1]).values()) == [{"sure": True}]
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize(
    ("verb", "edited", "says"),
    [
        ("approve", None, "the form is not filled in yet; edit it: sure: fill it in"),
        ("edit", {}, "the answer does not fit the form: sure: fill it in"),
        ("edit", {"sure": "yes"}, "the answer does not fit the form: sure: true or false is wanted"),
        ("edit", {"sure": True, "floor": 2}, "floor: the form has no such field; it has: sure"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(verb, edited, says):
    world = decide(hotel(wants(), done()), verb, edited=edited)
    assert says in world.of(ev.InputIgnored)[-1].reason
    assert len(world.sent) == 1
    assert len(world.run.reviews) == 1


def test_the_agent_goes_on_with_a_persons_words_in_place_of_the_call():
    world = decide(hotel(wants()), "respond", message="the hotel is closed")
    assert len(world.sent) == 1
    assert world.content_of(ev.CallResponded)[0] == {"result": "the hotel is closed"}
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("by", ["person", "time"])
def test_a_rejection_calls_nothing_again(by):
    world = hotel(wants(), tier=Tier.BATCH)
    if by == "person":
        decide(world, "reject", message="too dear")
    else:
        world.wait(90_000).go()
    assert len(world.sent) == 1
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")


def test_each_new_question_is_asked_and_the_fourth_one_fails_the_call():
    messages = ["one?", "two?", "three?", "four?"]
    world = hotel(*(wants(message) for message in messages))
    for number in range(3):
        assert world.review.fact.reason.endswith(messages[number])
        decide(world, "edit", edited={"sure": number == 1})
    assert [command.attempt for command in world.sent] == [1, 2, 3, 4]
    assert list(answers(world, world.sent[3]).values()) == [{"sure": False}, {"sure": True}, {"sure": False}]
    assert world.of(ev.ToolAnswered)[0].error
    assert world.end.state is RunState.COMPLETED


def test_an_irreversible_call_is_approved_first_and_then_asked_about():
    world = hotel(wants(), done(), tool="pay")
    assert world.sent == []
    decide(world, "approve")
    assert "asks in the middle of pay" in world.review.fact.reason
    decide(world, "edit", edited={"sure": True})
    assert [command.attempt for command in world.sent] == [1, 2]
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("tool", ["book", "pay"])
def test_a_server_that_went_on_without_an_answer_leaves_it_unknown_until_the_call_is_done(tool):
    fabric = {"pay": {"approval": "waived", "deviation": "small sums"}}
    world = hotel(wants(said="booked all the same", outcome=Outcome.UNKNOWN), done(), tool=tool, **fabric)
    assert world.content_of(ev.ReviewOpened)[0]["asks"]["said"] == "booked all the same"
    decide(world, "edit", edited={"sure": True})
    assert [command.attempt for command in world.sent] == [1, 2]
    assert [str(fact.status) for fact in world.of(ev.MutationSettled)] == ["unknown", "executed"]
    assert world.end.state is RunState.COMPLETED


def test_what_a_server_may_have_done_without_an_answer_is_asked_about_before_a_person_answers():
    world = hotel(wants(outcome=Outcome.UNKNOWN), done(), book={"reconcile": "find"})
    assert world.of(ev.ReconciliationEnded)[0].found == "not_executed"
    assert "asks in the middle of book" in world.review.fact.reason
    decide(world, "edit", edited={"sure": True})
    assert world.end.state is RunState.COMPLETED


def test_what_a_server_may_have_done_without_an_answer_is_undone_after_a_rejection():
    world = decide(hotel(wants(outcome=Outcome.UNKNOWN)), "reject", message="too dear")
    assert [fact.tool for fact in world.of(ev.CompensationIssued)] == ["cancel"]
    assert world.end.state is RunState.ABORTED


def test_a_person_is_asked_while_the_rest_of_the_wave_is_out():
    world = hotel(wants(), done(), done(), worker=[asks(booking(1), booking(2)), summary()])
    assert [fact.kind for fact in world.facts if fact.kind in ("tool_answered", "review_opened")] == [
        "review_opened",
        "tool_answered",
    ]
    decide(world, "edit", edited={"sure": True})
    assert world.end.state is RunState.COMPLETED


def test_a_process_that_takes_the_run_over_sends_the_same_call_with_its_answer():
    world = hotel(wants(), HANGS, done(), book={"effect": "idempotent", "compensation": None})
    world.decide("edit", edited={"sure": True})
    world.go(until_s=1)
    world.crash().go()
    assert [command.attempt for command in world.sent] == [1, 2, 3]
    assert answers(world, world.sent[1]) == answers(world, world.sent[2]) != {}


@pytest.mark.parametrize(
    "schema", [{}, {"properties": {"a": {"type": "object"}}}, {"properties": {}, "required": ["a"]}], ids=str
)
def test_a_form_that_the_protocol_does_not_have_is_an_error_for_the_model(schema):
    world = hotel(wants(schema=schema))
    assert world.of(ev.ReviewOpened) == []
    assert world.of(ev.ToolAnswered)[0].error


def test_where_two_have_to_agree_one_answers_and_another_lets_it_pass():
    world = hotel(wants(), done(), tier=Tier.HIGH_STAKES)
    decide(world, "edit", edited={"sure": True}, message="yes")
    assert len(world.sent) == 1
    decide(world, "approve", actor="second", message="yes")
    assert list(answers(world, world.sent[1]).values()) == [{"sure": True}]
    assert world.end.state is RunState.COMPLETED
