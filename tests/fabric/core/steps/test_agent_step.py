"""One agent's step (docs/specification/agent-step.md): errors are told to the model and cost corrections, calls are executed once, outputs wait for their calls."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, broken, call, gives, planned, say, summary

WANTS_Q = {"look": lambda args: [] if isinstance(args.get("q"), str) else ["q: a string is wanted"]}


def told(world, request: int) -> str:
    """Return what the model read last before that request."""
    return world.requests[request].messages[-1].text


def test_an_answer_off_schema_is_told_field_by_field_and_one_slip_recovers():
    world = ran(lone(), {"worker": [say('{"citations": 3}'), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert len(world.requests) == 2
    assert "text is missing" in told(world, 1)
    assert "citations:" in told(world, 1)
    assert world.reactions == []
    assert world.of(ev.ModelAnswered)[0].verdict == "rejected"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (say(""), "the answer is empty"),
        (say("   \n"), "the answer is empty"),
        (say("<html><body>Bad gateway</body></html>"), "no JSON object"),
        (say('{"text": "x"', finish="length"), "the answer was cut at 20 tokens"),
    ],
)
def test_an_answer_that_is_no_output_is_told_and_costs_a_correction(answer, said):
    world = ran(lone(), {"worker": [answer, summary()]})
    assert world.end.state is RunState.COMPLETED
    assert said in told(world, 1)


def test_the_raw_text_of_a_refused_answer_is_kept():
    world = ran(lone(), {"worker": [say("<html>"), summary()]})
    assert world.content_of(ev.ModelAnswered)[0]["text"] == "<html>"


def test_three_corrections_are_allowed_and_the_fourth_ends_the_step():
    assert ran(lone(), {"worker": [*[say("no")] * 3, summary()]}).end.state is RunState.COMPLETED
    world = ran(lone(), {"worker": say("no")})
    assert world.end.state is RunState.FAILED
    assert len(world.requests) == 4
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == ("schema_grounding_fail", Cause.CORRECTIONS_SPENT)
    assert (decided.cause.evidence.limit, decided.cause.evidence.observed) == (3, 4)
    assert "did not give a usable answer in 4 turns" in world.end.reason


def test_the_number_of_corrections_is_the_fabrics():
    world = ran(lone(limits={"corrections_per_step": 1}), {"worker": say("no")})
    assert len(world.requests) == 2


def test_an_unknown_tool_is_named_with_those_that_are_offered():
    world = ran(lone(tools=("look", "find")), {"worker": [asks(call("lookup", q="x")), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert "there is no tool 'lookup'; offered are: look, find" in told(world, 1)
    refused = world.of(ev.CallRefused)[0]
    assert (refused.cause, refused.correction, world.executed) == (Cause.TOOL_CONSTRAINT, True, [])


def test_arguments_that_are_no_json_object_are_told_and_the_raw_text_is_kept():
    world = ran(lone(), {"worker": [broken(raw='{"q": '), summary()]})
    assert "the arguments are not a JSON object" in told(world, 1)
    assert world.content_of(ev.ModelAnswered)[0]["calls"][0]["raw_args"] == '{"q": '
    assert world.executed == []


def test_arguments_that_do_not_fit_the_tool_are_told():
    world = ran(lone(), {"worker": [asks(call(q=3)), asks(call(q="x")), summary()]}, validators=WANTS_Q)
    assert "q: a string is wanted" in told(world, 1)
    assert world.executed == [("look", {"q": "x"})]


def test_a_wave_with_errors_costs_one_correction_however_many_they_are():
    bad = asks(call("nope"), call("nope"), call("nope"), call(q="x"))
    world = ran(lone(), {"worker": [bad, summary()]})
    assert world.run.steps["fan_out.0.e0.r0"].corrections == 1
    assert world.executed == [("look", {"q": "x"})]


def test_a_tools_error_is_data_for_the_model_and_costs_a_correction():
    world = ran(lone(), {"worker": [asks(), summary()], "look": gives(error="no such page")})
    assert world.end.state is RunState.COMPLETED
    assert "no such page" in told(world, 1)
    assert world.run.steps["fan_out.0.e0.r0"].corrections == 1


def test_good_waves_cost_no_correction():
    waves = [asks(call(page=n)) for n in range(6)]
    world = ran(lone(), {"worker": [*waves, summary()]})
    assert world.run.steps["fan_out.0.e0.r0"].corrections == 0
    assert len(world.executed) == 6


# -- call ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [{"n": 1.0}, {"n": 2}, {"q": "y"}])
def test_a_call_id_of_an_earlier_turn_stands_for_a_new_call(second):
    world = ran(lone(), {"worker": [asks(call(call_id="c", n=1)), asks(call(call_id="c", **second)), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert world.executed == [("look", {"n": 1}), ("look", second)]
    calls = [made for m in world.requests[2].messages if m.role == "assistant" for made in m.calls]
    assert [(made.call_id, made.server_id) for made in calls] == [("c", ""), ("call-2-1", "c")]
    assert [m.call_id for m in world.requests[2].messages if m.role == "tool"] == ["c", "call-2-1"]


def test_a_reference_means_the_latest_call_of_that_id():
    again = asks(call(call_id="c", q="y"), call(call_id="d", of={"$ref": "calls.c.result"}))
    world = ran(
        lone(),
        {
            "worker": [asks(call(call_id="c", q="x")), again, summary()],
            "look": [gives("first"), gives("second"), gives("third")],
        },
    )
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "y"}), ("look", {"of": "second"})]


def test_the_same_call_twice_in_one_answer_is_one_call():
    world = ran(lone(), {"worker": [asks(call(call_id="c", q="x"), call(call_id="c", q="x")), summary()]})
    assert len(world.executed) == 1
    assert world.end.state is RunState.COMPLETED


def test_the_same_call_id_with_other_arguments_is_an_error_before_any_effect():
    world = ran(lone(), {"worker": [asks(call(call_id="c", q="x"), call(call_id="c", q="y")), summary()]})
    assert world.executed == []
    assert [fact.cause for fact in world.of(ev.CallRefused)] == [Cause.DUPLICATE_CALL] * 2
    assert "names two different calls" in told(world, 1)


@pytest.mark.parametrize("given", ["", "  ", "x" * 65])
def test_a_call_without_a_usable_id_gets_one(given):
    world = ran(lone(), {"worker": [asks(call(call_id=given, q="x"), call(q="y"), call(call_id="", q="x")), summary()]})
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "y"}), ("look", {"q": "x"})]
    proposed = next(m for m in world.requests[1].messages if m.role == "assistant").calls
    answered = [m.call_id for m in world.requests[1].messages if m.role == "tool"]
    assert [made.call_id for made in proposed] == answered
    assert (answered[0], proposed[0].server_id) == ("call-1-1", given.strip())


def test_a_made_up_id_never_takes_the_place_of_a_given_one():
    world = ran(lone(), {"worker": [asks(call(call_id="call-1-2", q="x"), call(call_id="", q="y")), summary()]})
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "y"})]
    clash = asks(call(call_id="call-1-3", q="z"), call(call_id="c", q="x"), call(call_id="c", q="y"))
    assert ran(lone(), {"worker": [clash, summary()]}).executed == [("look", {"q": "z"})]


def test_of_200_calls_in_one_answer_16_are_executed_and_the_rest_refused_with_a_reason():
    world = ran(lone(), {"worker": [asks(*[call(n=n) for n in range(200)]), summary()]})
    assert len(world.executed) == 16
    refused = world.of(ev.CallRefused)
    assert len(refused) == 184
    assert {(fact.cause, fact.problem, fact.correction) for fact in refused} == {
        (Cause.TURN_LIMIT, "only 16 calls of one answer are executed", False)
    }
    assert world.end.state is RunState.COMPLETED
    assert world.run.steps["fan_out.0.e0.r0"].corrections == 0


def test_the_run_says_at_its_end_how_many_calls_were_refused():
    world = ran(lone(), {"worker": [asks(*[call(n=n) for n in range(200)]), summary()]})
    assert world.end.reason == "finished; 184 calls were refused: an answer may have 16 (limits.calls_per_turn)"
    assert ran(lone(), {"worker": [asks(*[call(n=n) for n in range(16)]), summary()]}).end.reason == "finished"


def test_of_200_equal_calls_in_one_answer_two_are_executed():
    world = ran(lone(), {"worker": [asks(*[call(q="x") for _ in range(200)]), summary()]})
    assert len(world.executed) == 2


# -- outputs and calls together ----------------------------------------------------------------------------------------


def test_an_output_that_came_with_calls_stands_once_they_have_drained():
    world = ran(lone(), {"worker": asks(call(q="x"), text='{"text": "Found."}')})
    assert len(world.requests) == 1
    assert world.executed == [("look", {"q": "x"})]
    assert world.outcome["text"] == "Found."
    accepted = world.kinds.index("output_accepted")
    assert "tool_answered" in world.kinds[:accepted]


def test_an_output_whose_call_failed_is_not_accepted():
    script = {
        "worker": [asks(call(q="x"), text='{"text": "Found."}'), summary("Found again.")],
        "look": gives(error="no"),
    }
    world = ran(lone(), script)
    assert len(world.requests) == 2
    assert world.outcome["text"] == "Found again."
    assert world.of(ev.OutputAccepted) == []


def test_words_beside_calls_are_no_output_of_a_text_agent():
    fabric = lone(agents={"worker": {"answers": "text"}})
    world = ran(fabric, {"worker": [asks(call(q="x"), text="Let me look."), say("It is x.")]})
    assert world.outcome["text"] == "It is x."


def test_a_planner_that_gives_no_usable_plan_fails_as_a_malformed_plan():
    world = ran(spec(), {"planner": planned(exit_criteria=[])})
    assert world.end.state is RunState.ABORTED
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.reaction) == ("plan_malformed", "abort")
    assert world.asked("planner") == 3, "the same plan is not corrected again and again"
    assert "exit_criteria" in world.end.reason
