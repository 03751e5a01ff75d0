"""A run in which nothing goes wrong: the stages in order, few events, no request more than is needed."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import RunRequested
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.tracing import parties
from fabric.runtime.journal import projection
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, plan, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, gives, planned, say, scored, summary

STAGES = list(Stage)


def test_a_clean_run_journals_28_rows_for_a_plan_and_four_workers():
    world = ran(spec(), {"planner": planned(4)})
    assert world.end.state is RunState.COMPLETED
    assert world.end.reason == "finished"
    assert (world.end.recovered, world.end.truncated, world.end.partial) == (False, False, False)
    assert world.kinds == [
        *("run_started", "stage_entered", "call_issued", "model_answered", "stage_left"),
        *("stage_entered", *["call_issued"] * 4, *["model_answered"] * 4, "stage_left"),
        *("stage_entered", "call_issued", "model_answered", "stage_left") * 3,
        "run_ended",
    ]
    assert (len(world.events), len(world.rows)) == (28, 11)
    assert world.outcome == {"text": "The answer.", "citations": []}


@pytest.mark.parametrize("tier", list(Tier))
def test_the_stages_come_in_order_in_every_tier(tier):
    world = ran(spec(), tier=tier)
    assert world.end.state is RunState.COMPLETED
    assert [fact.stage for fact in world.of(ev.StageEntered)] == STAGES
    assert [fact.stage for fact in world.of(ev.StageLeft)] == STAGES
    assert {fact.outcome for fact in world.of(ev.StageLeft)} == {"passed"}
    assert all(
        check.result in ("passed", "not_configured") for fact in world.of(ev.StageLeft) for check in fact.gate.checks
    )


def test_workers_run_side_by_side():
    world = ran(spec(), {"planner": planned(4), "worker": summary().after(10)})
    assert world.elapsed_s == pytest.approx(1 + 10 + 1 + 1 + 1)


def test_a_result_its_events_and_the_next_intent_are_one_batch():
    world = ran(spec(), {"planner": planned(4)})
    # One for the start, one an answer: 1 + planner + 4 workers + aggregator + critic + finalizer.
    assert world.batches == 9


def test_a_fixed_plan_asks_no_planner_and_no_role_that_is_left_out():
    world = ran(lone(workers=2), {"worker": [summary("One.", citations=()), summary("Two.")]})
    assert world.end.state is RunState.COMPLETED
    assert world.asked("worker") == len(world.requests) == 2
    assert world.outcome["text"] == "Part 1\nOne.\n\nPart 2\nTwo."
    assert world.of(ev.StageLeft)[0].output_ref == ""
    assert world.content_of(ev.StageLeft)[0]["output"] == plan(2)


def test_one_branch_alone_needs_no_headline():
    assert ran(lone(), {"worker": summary("One.")}).outcome == {"text": "One.", "citations": []}


def test_a_text_agent_answers_in_plain_words_and_cites_in_brackets():
    fabric = lone(agents={"worker": {"answers": "text", "tools": ()}}, gates={"citations": "exist"})
    documents = (Document("a.md", "alpha"), Document("b.md", "beta"))
    world = ran(fabric, {"worker": say("See [b.md], [nowhere.md] and [b.md] again.")}, documents=documents)
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["citations"] == ["b.md"]
    assert world.requests[0].output_schema is None


def test_a_json_answer_may_stand_in_prose():
    world = ran(lone(), {"worker": say('Here it is:\n```json\n{"text": "Found."}\n```')})
    assert world.outcome["text"] == "Found."


def test_a_well_behaved_agent_with_one_tool_call_costs_two_requests():
    world = ran(lone(), {"worker": [asks(call(q="x")), summary()], "look": gives("a result")})
    assert world.end.state is RunState.COMPLETED
    assert (len(world.requests), world.executed) == (2, [("look", {"q": "x"})])
    assert not world.end.recovered
    assert world.reactions == []


def test_the_calls_of_one_answer_run_at_once_and_the_next_request_waits_for_all():
    calls = [call(q=str(n)) for n in range(3)]
    slow = [gives(n).after(seconds) for n, seconds in enumerate((5, 1, 3))]
    world = ran(lone(), {"worker": [asks(*calls), summary()], "look": slow})
    assert world.elapsed_s == pytest.approx(1 + 5 + 1)
    told = [(message.role, message.call_id, message.text) for message in world.requests[1].messages[-3:]]
    assert told == [("tool", made.call_id, str(n)) for n, made in enumerate(calls)]


def test_branches_and_their_agents_are_those_of_the_plan():
    fabric = spec(topology={"workers": ["worker", "critic"]}, roles=("planner", "critic"))
    briefs = [{"agent": name, "title": name, "instructions": "Do."} for name in ("critic", "worker")]
    world = ran(fabric, {"planner": planned(briefs=briefs), "critic": [summary("From the critic."), scored(0.8)]})
    entered = world.of(ev.StageEntered)[1]
    assert entered.agents == ("critic", "worker")
    assert world.outcome["text"].startswith("critic\nFrom the critic.")


def test_a_second_start_changes_nothing():
    world = World(spec()).start()
    world.go(until_s=0)
    events = len(world.events)
    world.put(_again(world))
    assert world.kinds[events:] == ["input_ignored"]
    assert world.of(ev.InputIgnored)[0].reason == "the run has started already"
    assert world.go().end.state is RunState.COMPLETED


def _again(world):
    return RunRequested(input_id="another", request={"text": "again"}, deadline_at=world.run.deadline_at + 1)


def test_the_same_input_twice_is_one_input():
    world = World(spec()).start()
    world.go(until_s=0)
    rows = len(world.rows)
    world.start()
    assert len(world.rows) == rows


def test_the_run_pins_what_it_was_started_with():
    world = ran(spec(), tier=Tier.BATCH)
    started = world.facts[0]
    assert (started.fabric, started.revision, started.tier) == ("sample", world.spec.digest(), Tier.BATCH)
    assert started.requested_by == "alice"
    assert (world.events[0].input_id, world.events[1].input_id) == ("start", "")
    assert parties(started) == ("caller/alice", "flow/engine")


def test_money_and_tokens_are_those_of_the_answers():
    world = ran(lone(), {"worker": summary(input_tokens=30, output_tokens=7)})
    columns = projection.columns(world.run)
    assert (columns.cost_usd_micros, columns.tokens) == (30 + 2 * 7, 37)


def test_a_cost_that_the_provider_states_beats_the_price():
    world = ran(lone(), {"worker": summary(cost_usd_micros=5)})
    assert world.of(ev.ModelAnswered)[0].cost_usd_micros == 5
