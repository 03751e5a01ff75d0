"""Each reaction does its work, cell by cell where it matters, with the events that explain it (docs/specification/decision-table.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.windows import CONFIG, SAME_CALLS
from tests.fabric.core.scripts import HANGS, asks, call, fails, gives, planned, say, scored, summary

LOOP = {"worker": lambda command: asks(call(q="x"))}
UNHEARD_S = 25 * 3_600
"""Longer than any review waits."""
LEDGER = (Document("ledger.md", "numbers"),)


def loops_then(*answers):
    """The same call three times, then those answers."""
    return [asks(call(q="x")) for _ in range(3)] + list(answers)


# -- inject, terminate -----------------------------------------------------------------------------------------------


def test_inject_blocks_the_call_tells_the_model_and_goes_on():
    world = ran(lone(), {"worker": loops_then(summary())})
    assert world.end.state is RunState.COMPLETED
    assert (world.end.recovered, world.end.truncated) == (True, False)
    assert len(world.executed) == 2
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.reaction, decided.rung) == (FailureType.TOOL_LOOP, "inject", 0)
    assert (decided.cause.mechanism, decided.cause.evidence.observed, decided.bound) == ("loop_detector", 3, 1)
    tool, note = world.requests[3].messages[-2:]
    assert (tool.role, note.role) == ("tool", "user")
    assert "was not executed" in tool.text
    assert SAME_CALLS in note.text


def test_terminate_strips_the_tools_and_lets_the_agent_answer_once():
    world = ran(lone(), {"worker": loops_then(asks(call(q="x")), summary("What I have."))}).wait(UNHEARD_S)
    assert world.reactions == ["inject", "escalate", "terminate"]
    assert (world.end.state, world.end.truncated, world.end.recovered) == (RunState.STOPPED, True, False)
    assert world.outcome["text"] == "What I have."
    assert world.requests[-1].tools == ()
    assert world.requests[-1].messages[-1].text.startswith("You may not use any more tools.")
    assert world.of(ev.CallIssued)[-1].final


def test_a_terminated_agent_that_does_not_answer_is_surfaced_with_the_cause_named():
    world = ran(lone(), LOOP).wait(UNHEARD_S)
    assert world.reactions[:4] == ["inject", "escalate", "terminate", "surface"]
    assert world.end.state is RunState.FAILED
    assert "asked for look" in world.end.reason


def test_a_last_word_in_plain_words_counts_even_beside_a_call():
    fabric = lone(agents={"worker": {"answers": "text"}})
    world = ran(fabric, {"worker": loops_then(asks(call(q="x")), asks(call(q="x"), text="It is x."))})
    world.wait(UNHEARD_S)
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)
    assert world.outcome["text"] == "It is x."


def test_a_last_word_that_fails_its_gate_is_surfaced():
    fabric = lone(gates={"citations": "required"})
    world = ran(fabric, {"worker": loops_then(asks(call(q="x")), summary())}, documents=LEDGER).wait(UNHEARD_S)
    assert world.end.state is RunState.FAILED
    assert world.reactions == ["inject", "escalate", "terminate", "surface"]


def test_a_transient_error_does_not_cost_the_last_word():
    world = ran(lone(), {"worker": loops_then(asks(call(q="x")), fails(Cause.RATE_LIMIT), summary("Said."))})
    world.wait(UNHEARD_S)
    assert world.reactions == ["inject", "escalate", "terminate", "retry"]
    assert world.outcome["text"] == "Said."


def test_a_branch_that_was_terminated_takes_no_rung_from_another():
    turns = {}

    def worker(command):
        turn = turns[command.step_id] = turns.get(command.step_id, 0) + 1
        return summary(command.step_id) if turn == 5 else asks(call(q="x"))

    world = ran(lone(workers=2), {"worker": worker}).wait(UNHEARD_S)
    assert world.end.state is RunState.STOPPED
    assert sorted(world.reactions) == [*("escalate", "escalate"), *("inject", "inject"), *("terminate", "terminate")]


def test_a_limit_has_no_inject_rung():
    world = ran(lone(limits={"turns": 2}), {"worker": [asks(call(q="x")), asks(call(q="y")), summary("Late.")]})
    assert world.reactions == ["terminate"]
    assert world.of(ev.RungSkipped)[0].reason == "a limit is reached, and telling the agent does not raise it"
    assert world.end.truncated
    assert "agent worker has used up its turns (limit 2)" in world.of(ev.ReactionDecided)[0].cause.message


def test_calls_that_were_let_pass_in_the_same_wave_are_executed():
    wave = asks(call(q="x"), call(q="new"))
    world = ran(lone(), {"worker": [asks(call(q="x")), asks(call(q="x")), wave, summary()]})
    assert world.executed[-1] == ("look", {"q": "new"})
    assert world.end.state is RunState.COMPLETED


# -- replan ----------------------------------------------------------------------------------------------------------


def test_replan_raises_the_epoch_and_tells_the_planner_why():
    script = {"worker": [*loops_then(asks(call(q="x"))), summary()]}
    world = ran(spec(), script, tier=Tier.BATCH).wait(UNHEARD_S)
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["inject", "escalate", "replan"]
    assert (world.run.epoch, world.run.replans) == (1, {"fan_out": 1})
    assert [(fact.stage, fact.epoch) for fact in world.of(ev.StageEntered)][:4] == [
        *(("plan", 0), ("fan_out", 0), ("plan", 1), ("fan_out", 1)),
    ]
    assert world.of(ev.StageLeft)[1].outcome == "replan"
    told = next(r for r in reversed(world.requests) if r.agent == "planner").messages[-1].text
    assert "An earlier plan failed in stage fan_out: agent worker asked for look" in told


def test_rungs_spent_survive_a_replan_retries_excepted():
    world = ran(spec(), LOOP, tier=Tier.BATCH).wait(UNHEARD_S)
    # The branch was injected once, asked about once and replanned once before; none of it comes again.
    assert world.reactions == ["inject", "escalate", "replan", "abort"]
    assert world.end.state is RunState.ABORTED
    flaky = [fails(), fails(), *loops_then(asks(call(q="x"))), fails(), fails(), summary()]
    again = ran(spec(), {"worker": flaky}, tier=Tier.BATCH).wait(UNHEARD_S)
    assert again.end.state is RunState.COMPLETED
    assert [f.spent for f in again.of(ev.ReactionDecided) if f.reaction == "retry"] == [0, 1, 0, 1]


def test_what_was_cut_short_in_an_older_epoch_is_no_mark_on_the_new_one():
    table = {"infinite_tool_loop": {"batch": {"rungs": [{"reaction": "terminate"}]}}}
    script = {"worker": [*loops_then(summary("Cut.")), summary("Whole.")], "critic": [*[say("no")] * 4, scored(0.9)]}
    world = ran(spec(table=table), script, tier=Tier.BATCH)
    assert world.reactions == ["terminate", "replan"]
    assert (world.end.state, world.end.truncated, world.end.reason) == (RunState.COMPLETED, False, "finished")


def test_a_fixed_plan_has_nothing_to_replan():
    world = ran(lone(), LOOP, tier=Tier.BATCH).wait(UNHEARD_S)
    assert world.of(ev.RungSkipped)[0].reason == "the plan is fixed, so there is nothing to replan"
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "abort")


def test_a_stage_is_replanned_at_most_twice():
    world = ran(spec(), {"worker": say("no")}, tier=Tier.BATCH)
    assert world.end.state is RunState.ABORTED
    assert world.run.epoch == 2
    assert world.asked("planner") == 3


def test_a_row_may_not_replan_more_often_than_the_limit():
    table = {"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "replan", "times": 5}, {"reaction": "abort"}]}}}
    world = ran(spec(table=table), {"worker": say("no")}, tier=Tier.BATCH)
    assert world.run.epoch == 2
    assert "stage fan-out has used all its replans (limit 2)" in {fact.reason for fact in world.of(ev.RungSkipped)}


def test_results_of_an_older_epoch_are_journaled_as_late_and_ignored_as_data():
    # Two branches: one loops and is replanned while the other's answer is still under way.
    def worker(command):
        if command.step_id.startswith("fan_out.1.e0"):
            return summary("From the old plan.").after(60)
        return summary("New.") if ".e1" in command.step_id else asks(call(q="x"))

    table = {"infinite_tool_loop": {"batch": {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "abort"}]}}}
    fabric = spec(table=table)
    world = ran(fabric, {"planner": planned(2), "worker": worker}, tier=Tier.BATCH, late=True)
    assert world.end.state is RunState.COMPLETED
    assert [abort.command_id for abort in world.aborted] == ["fan_out.1.e0.r0.t1"]
    late = World(fabric, {"planner": planned(2), "worker": worker, "critic": HANGS}, Tier.BATCH, late=True).start().go()
    ignored = late.of(ev.LateResultIgnored)
    assert [(f.command_id, f.reason) for f in ignored] == [("fan_out.1.e0.r0.t1", "its plan was replaced")]
    assert all(f.epoch == 1 for f in late.of(ev.StageEntered)[2:])
    assert "From the old plan." not in str(
        [request.messages for request in late.requests if request.agent == "aggregator"]
    )


def test_a_replan_lets_go_of_what_is_out_and_charges_it_at_worst_case():
    def worker(command):
        return (
            HANGS
            if command.step_id.startswith("fan_out.1.e0")
            else summary()
            if ".e1" in command.step_id
            else say("no")
        )

    world = ran(spec(), {"planner": planned(2), "worker": worker}, tier=Tier.BATCH)
    aborted = world.of(ev.CallAborted)[0]
    issued = next(f for f in world.of(ev.CallIssued) if f.command_id == aborted.command_id)
    assert aborted.charged_usd_micros == issued.reserved_usd_micros > 0


# -- surface, abort, halt --------------------------------------------------------------------------------------------


def test_surface_keeps_the_partial_result():
    world = ran(spec(), {"critic": fails(Cause.AUTH, "the key was refused")})
    assert (world.end.state, world.end.reaction, world.end.partial) == (RunState.FAILED, "surface", True)
    assert world.end.reason == "the key was refused"
    assert world.outcome == {"text": "All of it.", "citations": []}


def test_what_branches_found_is_kept_when_another_ends_the_run():
    def worker(command):
        return fails(Cause.AUTH).after(5) if command.step_id.startswith("fan_out.2") else summary(command.step_id)

    world = ran(spec(), {"planner": planned(3), "worker": worker})
    assert world.end.state is RunState.FAILED
    assert world.outcome["text"] == "fan_out.0.e0.r0\n\nfan_out.1.e0.r0"


def test_a_run_without_any_result_has_no_outcome():
    world = ran(spec(), {"planner": fails(Cause.AUTH)})
    assert (world.end.partial, world.outcome) == (False, None)


def test_abort_lets_calls_in_flight_finish_and_issues_nothing_more():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    fabric = lone(workers=2, table=table)
    world = ran(fabric, {"worker": [fails(Cause.SERVER_ERROR), summary("Late but there.").after(20)]})
    ending = world.kinds.index("run_ending")
    assert world.kinds[ending + 1 :] == ["model_answered", "stage_left", "run_ended"]
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "abort")
    assert world.outcome["text"] == "Late but there."
    assert world.aborted == []


def test_a_call_of_an_ending_run_that_fails_is_not_tried_again():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = ran(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), fails(Cause.SERVER_ERROR).after(9)]})
    assert world.end.state is RunState.ABORTED
    assert len(world.requests) == 2


def test_a_call_of_an_ending_run_that_proposes_more_is_the_last():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = ran(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), asks().after(9)]})
    assert world.end.state is RunState.ABORTED
    assert world.executed == []


def test_a_filtered_answer_cannot_change_how_an_ending_run_ends():
    table = {"provider_failure": {"batch": {"rungs": [{"reaction": "abort"}]}}}
    filtered = say("bad", finish="content_filter").after(9)
    world = ran(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), filtered]}, tier=Tier.BATCH)
    assert world.end.state is RunState.ABORTED
    assert (world.end.reaction, len(world.of(ev.RunEnding))) == ("abort", 1)


def test_halt_lets_nothing_finish():
    script = {"worker": [say("bad", finish="content_filter"), summary().after(20)]}
    world = ran(lone(workers=2), script, tier=Tier.BATCH)
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "halt")
    assert [abort.command_id for abort in world.aborted] == ["fan_out.1.e0.r0.t1"]
    assert world.elapsed_s == pytest.approx(1)
    assert world.of(ev.ReactionDecided)[0].accompanies == ("block",)


def test_safe_fallback_surfaces_where_none_is_configured_and_the_payload_is_withheld():
    world = ran(lone(), {"worker": say("bad", finish="content_filter")})
    assert world.end.state is RunState.FAILED
    assert world.reactions[0] == "safe_fallback"
    assert world.outcome is None


def test_a_blocked_payload_never_leaves_the_run():
    fabric = spec(gates={"citations": "required"})
    world = ran(fabric, {"aggregator": summary("Blocked words.")}, tier=Tier.HIGH_STAKES, documents=LEDGER)
    assert world.reactions == ["escalate"]
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED
    assert world.outcome == {"text": "Found it.", "citations": []}
    joined = ran(lone(gates={"citations": "required"}), tier=Tier.HIGH_STAKES, documents=LEDGER).decide("reject").go()
    assert joined.outcome is None


# -- gates -----------------------------------------------------------------------------------------------------------


def test_a_step_whose_output_fails_its_gate_runs_once_more_with_the_reason():
    fabric = spec(gates={"citations": "required"})
    cites = summary("With a source.", citations=("ledger.md",))
    world = ran(fabric, {"aggregator": [summary(), cites], "finalizer": cites}, documents=LEDGER)
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["retry"]
    opened = world.of(ev.StepOpened)[0]
    assert (opened.step_id, opened.round, opened.approved) == ("fan_in.0.e0.r1", 1, False)
    notes = [m.text for r in world.requests if r.agent == "aggregator" for m in r.messages]
    assert any("at least one of the attached documents must be cited" in text for text in notes)


def test_a_gate_that_fails_twice_surfaces():
    script = {"aggregator": [summary("First."), summary("Second.")]}
    world = ran(spec(gates={"citations": "required"}), script, documents=LEDGER)
    assert world.asked("aggregator") == 2
    assert world.outcome["text"] == "Second.", "what ran again stands for what it replaced"
    assert world.reactions == ["retry", "surface"]
    assert world.end.state is RunState.FAILED
    assert "at least one of the attached documents must be cited" in world.end.reason


def test_a_plan_for_an_unknown_worker_takes_the_plan_row():
    world = ran(spec(), {"planner": planned(agent="stranger")})
    assert (world.end.state, world.reactions) == (RunState.ABORTED, ["abort"])
    assert "'stranger' is not one of the workers (worker)" in world.end.reason
    batch = ran(spec(), {"planner": [planned(agent="stranger"), planned()]}, tier=Tier.BATCH)
    assert (batch.end.state, batch.reactions) == (RunState.COMPLETED, ["replan"])
    high = ran(spec(), {"planner": planned(agent="stranger")}, tier=Tier.HIGH_STAKES)
    assert high.end.state is RunState.ABORTED
    assert high.of(ev.RungSkipped) == []
    assert [fact.item for fact in high.of(ev.ReviewOpened)] == ["follow_up"]


# -- several trips, custom cells -------------------------------------------------------------------------------------


def test_the_gravest_reaction_wins_and_the_other_trips_are_causes_of_the_same_decision():
    # A wave trips the loop detector (inject) and, for a tool that mutates, the saga (surface, graver).
    fabric = lone(tools=("look", "write"))
    tools = [tool.model_copy(update={"effect": "mutating"}) if tool.name == "write" else tool for tool in fabric.tools]
    fabric = fabric.model_copy(update={"tools": tuple(tools)})
    looped = [asks(call(q="x")), asks(call(q="x")), asks(call(q="x"), call("write", to="y"))]
    world = ran(fabric, {"worker": looped})
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.reaction, decided.cause.mechanism) == ("safe_fallback", "saga")
    assert [trip.mechanism for trip in decided.causes] == ["loop_detector"]
    assert ("write", {"to": "y"}) not in world.executed


def test_a_decision_names_its_table_cell_rung_and_numbers():
    world = ran(lone(), {"worker": loops_then(summary())})
    decided = world.of(ev.ReactionDecided)[0]
    assert decided.table == world.compiled.table_version
    assert (decided.tier, decided.rung, decided.spent, decided.scope) == (Tier.INTERACTIVE, 0, 0, "step:fan_out.0")
    evidence = decided.cause.evidence
    assert (evidence.limit, evidence.observed, evidence.unit, evidence.window) == (
        3,
        3,
        "calls",
        f"{CONFIG.identical_window} calls",
    )
    assert evidence.details["detector"] == "identical_calls"


def test_a_fabrics_own_cell_is_the_one_that_acts():
    table = {"infinite_tool_loop": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = ran(lone(table=table), LOOP)
    assert (world.reactions, world.end.state) == (["abort"], RunState.ABORTED)
    assert world.of(ev.ReactionDecided)[0].table != ran(lone(), LOOP).of(ev.ReactionDecided)[0].table


@pytest.mark.parametrize("where", ["model", "tool"])
def test_terminate_after_a_failed_call_still_gets_its_last_word(where):
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "terminate"}]}}}
    failing = fails(Cause.SERVER_ERROR, "the service is down")
    script = {"worker": [failing, summary("What I know.")]}
    if where == "tool":
        script = {"worker": [asks(), summary("What I know.")], "look": failing}
    world = ran(lone(table=table), script)
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)
    assert world.outcome["text"] == "What I know."
    if where == "tool":
        assert "the service is down" in next(m.text for m in world.requests[-1].messages if m.role == "tool")


def test_an_unused_tool_result_is_no_reason_to_wait():
    world = ran(lone(), {"worker": [asks(), summary()], "look": gives({"rows": []})})
    assert world.requests[1].messages[-1].text == '{"rows":[]}'
