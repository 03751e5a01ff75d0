"""Calls that only read begin before their answer is whole. An attempt that breaks off lets go of them (S2)."""

import pytest

from fabric.core import events as ev
from fabric.core.events.commands import CallTool
from fabric.core.events.inputs import PauseRequested, ResumeRequested
from fabric.core.spec.fabric import FabricSpec
from fabric.core.steps.streamed import BEGINS
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Effect
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import asks, call, fails, gives, say, streams, summary

TWO = ("look", "find")
STEP = "fan_out.0.e0.r0"
MODEL = f"{STEP}.t1"
ONE, OTHER = call("look", "a", q="x"), call("find", "b", q="y")
DROPPED = fails(Cause.DROPPED_STREAM, "it broke off", raw="half of an answer", billed=True, partial=True)


def whole(*calls, after_s=10.0):
    """An answer that takes ten seconds, of which all calls but the last are there after one each."""
    told = ((n + 1.0, one) for n, one in enumerate(calls[:-1]))
    return streams(asks(*calls).after(after_s), *told)


def with_effect(effect, **more):
    tree = lone(tools=TWO).model_dump(mode="json", exclude_unset=True)
    next(tool for tool in tree["tools"] if tool["name"] == "look").update(effect=effect, **more)
    return FabricSpec.model_validate(tree)


def instants(world, kind):
    """Seconds since the start at which the calls of tools were issued or came back, by call id."""
    found = ((event.at, event.fact) for event in world.events if isinstance(event.fact, kind) and event.fact.call_id)
    return {fact.call_id: (at - T0) / US for at, fact in found}


def issued(world):
    return [fact for fact in world.of(ev.CallIssued) if fact.call == "tool"]


def test_a_call_begins_before_its_answer_is_whole_and_is_made_once():
    world = ran(lone(tools=TWO), {"worker": [whole(ONE, OTHER), summary()]})
    assert world.end.state is RunState.COMPLETED
    began, came = instants(world, ev.CallIssued), instants(world, ev.ToolAnswered)
    answered = next(event.at for event in world.events if isinstance(event.fact, ev.ModelAnswered) and event.fact.calls)
    assert began["a"] < came["a"] < (answered - T0) / US == began["b"]
    assert world.executed == [("look", {"q": "x"}), ("find", {"q": "y"})]
    (streamed,) = world.of(ev.CallStreamed)
    assert (streamed.call_id, streamed.index, streamed.command_id) == ("a", 0, MODEL)
    assert world.content_of(ev.CallStreamed) == [{"calls": [{"call_id": "a", "tool": "look", "args": {"q": "x"}}]}]
    answer, *results = world.requests[-1].messages[-3:]
    assert [one.call_id for one in answer.calls] == [one.call_id for one in results] == ["a", "b"]


def test_command_ids_and_keys_are_those_of_an_answer_that_came_at_once():
    at_once = ran(lone(tools=TWO), {"worker": [asks(ONE, OTHER), summary()]})
    streamed = ran(lone(tools=TWO), {"worker": [whole(ONE, OTHER), summary()]})
    named = [(fact.command_id, fact.key, fact.args_hash) for fact in issued(at_once)]
    assert [(fact.command_id, fact.key, fact.args_hash) for fact in issued(streamed)] == named
    assert at_once.run.steps[STEP].prompt_bytes == streamed.run.steps[STEP].prompt_bytes
    assert not at_once.of(ev.CallStreamed)


def test_a_call_that_nothing_follows_costs_no_row():
    world = ran(lone(tools=TWO), {"worker": [whole(ONE), summary()]})
    assert not world.of(ev.CallStreamed)


@pytest.mark.parametrize("effect", list(Effect))
def test_only_what_reads_begins_before_the_answer_is_whole(effect):
    more = {
        Effect.MUTATING: {"compensation": "find"},
        Effect.IRREVERSIBLE: {"approval": "waived", "deviation": "Small."},
    }
    world = ran(with_effect(effect, **more.get(effect, {})), {"worker": [whole(ONE, OTHER), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert bool(world.of(ev.CallStreamed)) is BEGINS[effect] is (effect is Effect.READ_ONLY)
    assert sorted(tool for tool, _ in world.executed) == ["find", "look"]


def test_the_table_of_what_begins_is_total():
    assert set(BEGINS) == set(Effect)


def ref(to):
    return {"$ref": to}


def test_a_call_that_refers_to_one_that_has_begun_begins_when_that_has_come_back():
    then = call("find", "b", of=ref("calls.a.result.id"))
    wave = whole(ONE, then, call("look", "c", q="z"))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives({"id": 7}).after(3)})
    began, came = instants(world, ev.CallIssued), instants(world, ev.ToolAnswered)
    assert began["b"] == came["a"] == 4.0 < began["c"]
    assert world.executed[1] == ("find", {"of": 7})
    assert [(fact.call_id, fact.after) for fact in world.of(ev.CallStreamed)] == [("a", ()), ("b", ("a",))]


def test_a_call_whose_reference_came_back_with_an_error_falls_with_its_wave():
    then = call("find", "b", of=ref("calls.a.result.id"))
    wave = whole(ONE, then, call("look", "c", q="z"))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives(error="no such page")})
    assert [fact.cause for fact in world.of(ev.CallRefused)] == [Cause.DEPENDENCY_FAILED]
    assert [tool for tool, _ in world.executed] == ["look", "look"]
    assert world.run.steps[STEP].corrections == 1


def test_an_error_that_the_rest_of_the_answer_asks_about_is_data_and_costs_nothing():
    wave = whole(ONE, call("find", "b", q="y"), call("find", "c", why=ref("calls.a.error.message")))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives(error="no such page")})
    assert world.end.state is RunState.COMPLETED
    assert [fact.handled for fact in world.of(ev.ModelAnswered) if fact.calls] == [("a",)]
    assert world.executed[-1] == ("find", {"why": "no such page"})
    assert world.run.steps[STEP].corrections == 0


@pytest.mark.parametrize(
    "wrong",
    [
        call("teleport", "a", to="x"),
        call("look", "a", q=7),
        call("look", "a", of=ref("calls.b.result")),
    ],
)
def test_what_is_wrong_with_a_call_is_told_with_its_wave_and_nothing_begins(wrong):
    def strings(args):
        return [] if all(isinstance(one, str | dict) for one in args.values()) else ["q: a text is wanted"]

    world = ran(lone(tools=TWO), {"worker": [whole(wrong, OTHER), summary()]}, validators={"look": strings})
    assert not world.of(ev.CallStreamed)
    (refused,) = world.of(ev.CallRefused)
    assert refused.correction
    assert [tool for tool, _ in world.executed] == ["find"]


def test_one_id_for_two_calls_is_told_and_what_began_only_read():
    world = ran(lone(tools=TWO), {"worker": [whole(ONE, call("look", "a", q="other"), OTHER), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert [fact.cause for fact in world.of(ev.CallRefused)] == [Cause.DUPLICATE_CALL]
    assert world.executed == [("look", {"q": "x"}), ("find", {"q": "y"})]


def test_what_the_step_has_asked_before_waits_for_the_whole_answer():
    again = call("look", "again", q="x")
    wave = [asks(ONE), whole(again, OTHER), summary()]
    world = ran(lone(tools=TWO), {"worker": wave})
    assert not world.of(ev.CallStreamed)
    assert [tool for tool, _ in world.executed] == ["look", "look", "find"]


def test_more_calls_than_a_turn_may_have_do_not_begin():
    many = [call("look", f"c{n}", q=f"part {n}") for n in range(4)]
    tree = lone(tools=TWO).model_dump(mode="json", exclude_unset=True)
    tree.setdefault("policy", {}).setdefault("limits", {})["calls_per_turn"] = 2
    world = ran(FabricSpec.model_validate(tree), {"worker": [whole(*many), summary()]})
    assert [fact.call_id for fact in world.of(ev.CallStreamed)] == ["c0", "c1"]
    assert [fact.cause for fact in world.of(ev.CallRefused)] == [Cause.TURN_LIMIT] * 2


def test_a_call_that_a_mechanism_objects_to_is_left_to_the_whole_answer():
    tree = lone(tools=TWO).model_dump(mode="json", exclude_unset=True)
    tree.setdefault("policy", {}).setdefault("limits", {})["pending_calls"] = 1
    world = ran(FabricSpec.model_validate(tree), {"worker": [whole(ONE, OTHER), summary()]})
    assert instants(world, ev.CallIssued)["a"] >= 10.0
    assert [fact.call_id for fact in world.of(ev.CallStreamed)] == ["a"]


# -- streams that break off --


def test_a_stream_that_breaks_off_is_a_failed_attempt_and_the_next_one_makes_its_calls_anew():
    again = asks(call("look", "other-id", q="x"), OTHER)
    script = {"worker": [streams(DROPPED.after(5), (1.0, ONE)), again, summary()], "look": gives({"id": 7})}
    world = ran(lone(tools=TWO), script)
    assert world.end.state is RunState.COMPLETED
    (failed,) = [fact for fact in world.of(ev.AttemptFailed) if fact.command_id == MODEL]
    assert (failed.cause, failed.partial) == (Cause.DROPPED_STREAM, True)
    assert (
        failed.charged_usd_micros
        == next(f for f in world.of(ev.CallIssued) if f.command_id == MODEL).reserved_usd_micros
    )
    assert world.content_of(ev.AttemptFailed) == [{"raw": "half of an answer"}]
    (retry,) = world.of(ev.RetryScheduled)
    assert (retry.command_id, retry.attempt) == (MODEL, 2)
    assert [(fact.reaction, fact.command_id) for fact in world.of(ev.ReactionDecided)] == [("retry", MODEL)]
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "x"}), ("find", {"q": "y"})]
    results = {one.call_id: one.text for one in world.requests[-1].messages if one.role == "tool"}
    assert set(results) == {"other-id", "b"}
    assert [fact.command_id for fact in issued(world)] == [f"{MODEL}.c{n}" for n in range(3)]
    assert world.run.steps[STEP].corrections == 0


def test_an_error_of_a_call_of_a_broken_answer_costs_no_correction():
    look = [gives(error="no page"), gives("now")]
    script = {"worker": [streams(DROPPED.after(5), (1.0, ONE)), asks(ONE), summary()], "look": look}
    world = ran(lone(tools=TWO), script)
    assert (world.end.state, world.run.steps[STEP].corrections) == (RunState.COMPLETED, 0)
    assert len(world.executed) == 2


def test_a_call_that_is_still_out_when_its_answer_breaks_off_is_let_go_of():
    script = {
        "worker": [streams(DROPPED.after(2), (1.0, ONE)), asks(ONE, OTHER), summary()],
        "look": [gives("late").after(15), gives("soon")],
    }
    world = ran(lone(tools=TWO), script)
    assert world.end.state is RunState.COMPLETED
    assert [fact.command_id for fact in world.of(ev.CallAborted)] == [f"{MODEL}.c0"]
    results = {one.call_id: one.text for one in world.requests[-1].messages if one.role == "tool"}
    assert set(results) == {"a", "b"}
    assert "soon" in results["a"]
    assert not world.run.pending


def test_calls_of_a_broken_answer_are_no_part_of_a_loop():
    """Only what the model newly proposed counts: the third equal call is the third proposal."""
    broken = streams(DROPPED.after(2), (1.0, ONE))
    script = {"worker": [broken, asks(ONE), asks(call("look", "again", q="x")), summary()]}
    world = ran(lone(tools=TWO), script)
    assert world.end.state is RunState.COMPLETED
    assert not world.of(ev.CallRefused)
    assert world.executed == [("look", {"q": "x"})] * 3


def test_the_next_answer_begins_nothing_early():
    first = streams(DROPPED.after(3), (1.0, ONE))
    world = ran(lone(tools=TWO), {"worker": [first, whole(call("look", "a", q="other"), OTHER), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert [(fact.attempt, fact.call_id) for fact in world.of(ev.CallStreamed)] == [(1, "a")]
    assert [fact.command_id for fact in issued(world)] == [f"{MODEL}.c{n}" for n in range(3)]
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "other"}), ("find", {"q": "y"})]


def test_a_call_that_still_waited_when_its_answer_broke_off_is_made_for_the_next():
    then = call("find", "b", of=ref("calls.a.result"))
    first = streams(DROPPED.after(3), (1.0, ONE), (2.0, then))
    look = [gives("late").after(9), gives("x")]
    world = ran(lone(tools=TWO), {"worker": [first, asks(ONE, then).after(2), summary()], "look": look})
    assert world.end.state is RunState.COMPLETED
    assert [fact.call_id for fact in world.of(ev.CallStreamed)] == ["a", "b"]
    assert world.executed[-1] == ("find", {"of": "x"})


def test_an_answer_that_contradicts_what_it_had_streamed_is_malformed():
    lies = streams(asks(call("look", "a", q="else"), OTHER).after(5), (1.0, ONE))
    world = ran(lone(tools=TWO), {"worker": [lies, asks(ONE, OTHER), summary()]})
    failed = world.of(ev.AttemptFailed)[0]
    assert (failed.cause, failed.partial) == (Cause.MALFORMED_ANSWER, True)
    assert "'a', which it had streamed, reads otherwise in it" in failed.message
    assert world.executed == [("look", {"q": "x"}), ("look", {"q": "x"}), ("find", {"q": "y"})]


def test_a_break_before_anything_had_come_is_no_partial_answer():
    world = ran(lone(tools=TWO), {"worker": [fails(Cause.DROPPED_STREAM, "it hung up", billed=True), summary()]})
    assert [fact.partial for fact in world.of(ev.AttemptFailed)] == [False]


def test_a_call_that_fails_while_its_answer_comes_in_is_tried_again_like_any():
    script = {"worker": [whole(ONE, OTHER, after_s=20.0), summary()], "look": [fails(Cause.SERVER_ERROR), gives("now")]}
    world = ran(lone(tools=TWO), script)
    assert world.end.state is RunState.COMPLETED
    assert [(fact.command_id, fact.attempt) for fact in world.of(ev.RetryScheduled)] == [(f"{MODEL}.c0", 2)]
    assert [fact.attempt for fact in issued(world) if fact.call_id == "a"] == [1, 2]


def test_a_withheld_answer_changes_nothing_but_what_was_read():
    withheld = streams(say("", ONE, OTHER, finish="content_filter").after(5), (1.0, ONE))
    world = ran(lone(tools=TWO), {"worker": [withheld, summary()]})
    assert world.executed == [("look", {"q": "x"})]
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.CONTENT_FILTER


# -- owners, people, ends --


def test_a_process_that_dies_in_mid_stream_takes_what_began_with_it():
    look = [gives("x").after(8), gives("y")]
    script = {"worker": [whole(ONE, OTHER), asks(ONE, OTHER), summary()], "look": look}
    world = World(lone(tools=TWO), script).start().go(until_s=5)
    assert [fact.call_id for fact in world.of(ev.CallStreamed)] == ["a"]
    world.crash().go()
    assert world.end.state is RunState.COMPLETED
    assert [fact.command_id for fact in world.of(ev.CallAborted)] == [f"{MODEL}.c0"]
    assert [fact.command_id for fact in world.of(ev.AttemptInterrupted)] == [MODEL]
    assert [fact.command_id for fact in issued(world)] == [f"{MODEL}.c{n}" for n in range(3)]


def test_a_run_that_is_held_begins_nothing():
    held = World(lone(tools=TWO), {"worker": [whole(OTHER, ONE), summary()]}).start().go(until_s=0.5)
    held.put(PauseRequested(input_id="pause", actor="alice"))
    held.go(until_s=8)
    assert not held.of(ev.CallStreamed)
    held.go()
    held.put(ResumeRequested(input_id="resume", actor="alice"))
    held.go()
    assert held.end.state is RunState.COMPLETED
    assert [tool for tool, _ in held.executed] == ["find", "look"]


def test_a_cancel_in_mid_stream_lets_go_of_the_answer_and_of_what_began():
    world = World(lone(tools=TWO), {"worker": whole(ONE, OTHER), "look": gives("x").after(30)}).start().go(until_s=5)
    world.cancel()
    assert world.end.state is RunState.CANCELLED
    assert {fact.command_id for fact in world.of(ev.CallAborted)} == {MODEL, f"{MODEL}.c0"}


def test_a_call_that_streams_in_for_an_attempt_that_is_over_changes_nothing():
    late = streams(DROPPED.after(2), (1.0, call("teleport", "x")), (3.0, ONE))
    world = ran(lone(tools=TWO), {"worker": [late, asks(OTHER), summary()]})
    assert not world.of(ev.CallStreamed)
    assert [tool for tool, _ in world.executed] == ["find"]


def test_the_command_of_a_call_that_began_reads_its_arguments_where_they_stand_by_themselves():
    world = World(lone(tools=TWO), {"worker": whole(ONE, OTHER)}).start().go(until_s=3)
    command = next(one for one in world.performed if isinstance(one, CallTool))
    (event,) = [event for event in world.events if isinstance(event.fact, ev.CallStreamed)]
    assert command.args_ref == event.content_ref
