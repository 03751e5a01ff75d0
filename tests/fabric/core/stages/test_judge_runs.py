"""Judges beside the author: an agent on the plan before its gate passes it, one on grounding, and the oracle by tool, address and agent (docs/specification/stages.md)."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.events.envelope import split_rows
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import agent, plan, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, gives, planned, say, summary

PLAN_CRITIC = {"plan_critic": "judge"}
LEDGER = (Document("ledger.md", "The balance is 40 euros."),)


def judged(*, topology=None, gates=None, tools=("look",), roles=("planner", "finalizer"), judge=None, **more):
    """A fabric with one more agent, who judges. ``judge``: fields of it."""
    found = tree(roles=roles, tools=tools, topology=topology or {}, gates=gates or {}, **more)
    found["agents"].append(agent("judge", **(judge or {})))
    return FabricSpec.model_validate(found)


def verdict(accept=True, *findings, score=None, evidence=("It says so.",)):
    return say(json.dumps({"accept": accept, "score": score, "findings": findings, "evidence": evidence}))


ACCEPTS, REFUSES = verdict(), verdict(False, "Nobody looks at the costs.")


def gate_of(world, stage):
    return [one.gate for one in world.of(ev.StageLeft) if one.stage is stage][-1]


def calls_of(world, name):
    return [one for one in world.of(ev.CallIssued) if one.agent == name]


def prompts_of(world, name):
    return ["\n".join(m.text for m in one.messages) for one in world.requests if one.agent == name]


# -- the plan --------------------------------------------------------------------------------------------------------


def test_a_plan_goes_out_once_its_critic_has_accepted_it_and_its_gate_says_so():
    world = ran(judged(topology=PLAN_CRITIC), {"judge": ACCEPTS})
    assert world.end.state is RunState.COMPLETED
    assert [(check.name, check.result) for check in gate_of(world, Stage.PLAN).checks][-2] == ("critic", "passed")
    assert [one.agent for one in world.of(ev.CallIssued)] == ["planner", "judge", "worker", "finalizer"]


def test_findings_are_the_row_of_the_malformed_plan_and_reach_the_planner_word_for_word():
    plans = [planned(goal="Find it."), planned(goal="Find it with its costs.")]
    world = ran(judged(topology=PLAN_CRITIC), {"planner": plans, "judge": [REFUSES, ACCEPTS]}, tier=Tier.BATCH)
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.PLAN_MALFORMED, Cause.PLAN_GATE)
    assert decided.cause.evidence.details == {"check": "critic", "problems": ["Nobody looks at the costs."]}
    assert "Nobody looks at the costs." in prompts_of(world, "planner")[1]
    assert [one.reaction for one in world.of(ev.ReactionDecided)] == [Reaction.REPLAN]
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)


@pytest.mark.parametrize(
    ("tier", "reactions", "state"),
    [
        (Tier.INTERACTIVE, ["abort"], RunState.ABORTED),
        (Tier.BATCH, ["replan", "replan", "abort"], RunState.ABORTED),
        (Tier.HIGH_STAKES, ["abort"], RunState.ABORTED),
    ],
)
def test_a_critic_that_is_never_content_is_bounded_by_the_rows_replans(tier, reactions, state):
    world = ran(judged(topology=PLAN_CRITIC), {"judge": REFUSES}, tier=tier)
    assert (world.reactions, world.end.state) == (reactions, state)
    assert len(calls_of(world, "judge")) == len(reactions)


def test_a_score_below_tau_is_put_to_a_person_with_the_plan_and_an_approval_lets_that_plan_out():
    world = ran(judged(topology=PLAN_CRITIC), {"judge": verdict(score=0.4)})
    (asked,) = world.of(ev.ReviewOpened)
    assert (asked.item, asked.stage, world.of(ev.ReactionDecided)[0].cause.cause) == (
        "post_stage",
        Stage.PLAN,
        Cause.BELOW_TAU,
    )
    assert world.content_of(ev.ReviewOpened)[0]["payload"]["briefs"] == plan()["briefs"]
    world.decide("approve").go()
    assert (world.end.state, len(calls_of(world, "judge"))) == (RunState.COMPLETED, 1)


@pytest.mark.parametrize("silent", [HANGS, fails(Cause.SERVER_ERROR), say("Looks fine to me.")])
def test_a_critic_that_cannot_be_heard_never_lets_a_plan_pass(silent):
    world = ran(judged(topology=PLAN_CRITIC), {"judge": silent})
    assert world.end.state is not RunState.COMPLETED
    assert not calls_of(world, "worker")


def test_a_cheap_check_that_fails_costs_no_critic():
    world = ran(judged(topology=PLAN_CRITIC), {"planner": planned(agent="nobody"), "judge": ACCEPTS})
    assert world.end.state is RunState.ABORTED
    assert not calls_of(world, "judge")


def test_unless_a_critic_is_named_nothing_is_asked():
    world = ran(judged(), {"judge": ACCEPTS})
    assert not calls_of(world, "judge")
    assert len(gate_of(world, Stage.PLAN).checks) == 5


@pytest.mark.parametrize("wrong", [verdict(True, "But."), verdict(False), verdict(evidence=())])
def test_a_verdict_that_says_two_things_or_rests_on_nothing_costs_a_correction(wrong):
    world = ran(judged(topology=PLAN_CRITIC), {"judge": [wrong, ACCEPTS]})
    assert [one.verdict for one in world.of(ev.ModelAnswered) if one.step_id.startswith("plan.1")] == [
        "rejected",
        "output",
    ]
    assert world.end.state is RunState.COMPLETED


# -- grounding -------------------------------------------------------------------------------------------------------

GROUNDED = {"grounding": "citations", "grounding_critic": "judge"}


def test_what_agents_wrote_is_judged_against_the_sources_on_top_of_the_level():
    script = {"worker": [asks(call(q="balance")), summary("It is 40.")], "look": gives("40 euros"), "judge": ACCEPTS}
    world = ran(judged(gates=GROUNDED), script, documents=LEDGER)
    assert world.end.state is RunState.COMPLETED
    assert [one.step_id.partition(".e")[0] for one in calls_of(world, "judge")] == ["fan_in.1", "finalize.1"]
    assert "40 euros" in prompts_of(world, "judge")[0]
    assert "It is 40." in prompts_of(world, "judge")[0]


def test_a_statement_without_a_source_fails_the_gate_by_the_row_of_grounding():
    world = ran(judged(gates=GROUNDED), {"judge": verdict(False, "40 stands nowhere.")}, documents=LEDGER)
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.GROUNDING)
    assert decided.cause.evidence.details == {"check": "grounding_critic", "problems": ["40 stands nowhere."]}


def test_an_outcome_that_the_engine_passes_on_is_not_judged_twice():
    world = ran(judged(gates=GROUNDED, roles=("planner",)), {"judge": ACCEPTS}, documents=LEDGER)
    assert [one.step_id.partition(".e")[0] for one in calls_of(world, "judge")] == ["fan_in.1"]


LONG = Document(
    "terms.md",
    "\n\n".join(f"{n}. Nobody had any wish to speak of the weather." for n in range(60))
    + "\n\nIt costs 90 euros in Ostrava.",
)


def shown_of(chars: int, answer: str = "In Ostrava it costs 90 euros.", said=None, **fields):
    """A run whose critic is shown so much of a long document."""
    judge = {"inline_document_chars": chars}
    script = {"worker": summary(answer), "finalizer": summary(answer), "judge": said or ACCEPTS}
    return ran(judged(gates={**GROUNDED, "grounding": "quotes"}, judge=judge), script, documents=(LONG,), **fields)


def given_to(world, name):
    """Return what a judge's steps were opened with."""
    rows = zip(split_rows(world.rows), world.events, strict=True)
    return [
        json.loads(row.payload)
        for row, one in rows
        if getattr(one.fact, "agent", "") == name and one.fact.kind == "step_opened"
    ]


def test_a_critic_is_shown_what_is_nearest_to_the_claims_and_it_is_journaled_what_was_left_out():
    world = shown_of(200)
    first = prompts_of(world, "judge")[0]
    assert "It costs 90 euros in Ostrava." in first
    assert "[...]" in first
    assert "59. Nobody" not in first.partition("Left out")[0]
    (told,) = given_to(world, "judge")[0]["left_out"]
    assert told.startswith("terms.md: ")
    assert told.endswith(f" of {len(LONG.text):,} characters were shown, the nearest to what is claimed")
    assert told in first
    assert world.end.state is RunState.COMPLETED


def test_a_document_that_fits_is_shown_whole_and_nothing_was_left_out():
    world = shown_of(len(LONG.text))
    assert LONG.text in prompts_of(world, "judge")[0]
    assert "Left out" not in prompts_of(world, "judge")[0]
    assert "left_out" not in given_to(world, "judge")[0]
    one_less = shown_of(len(LONG.text) - 1)
    assert LONG.text not in prompts_of(one_less, "judge")[0]


def test_what_the_critic_found_says_what_it_was_not_shown():
    world = shown_of(200, said=verdict(False, "90 stands nowhere."))
    details = world.of(ev.ReactionDecided)[0].cause.evidence.details
    assert details["problems"] == ["90 stands nowhere."]
    assert details["left_out"][0].startswith("terms.md: ")


def test_a_quote_that_the_critic_could_not_be_shown_is_no_success_whatever_it_says():
    answer = 'It says "It costs 90 euros in Ostrava."'
    assert shown_of(60, answer).end.state is RunState.COMPLETED
    world = shown_of(30, answer)
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.GROUNDING)
    assert decided.cause.evidence.details["problems"] == [
        (
            "terms.md: the quoted passage 'It costs 90 euros in Ostrava.' does not fit into what critic judge is shown; "
            "raise the agent's inline_document_chars"
        )
    ]
    assert world.end.state is not RunState.COMPLETED


def test_a_critic_that_reads_documents_by_tools_is_told_their_names():
    first = prompts_of(shown_of(0), "judge")[0]
    assert "Attached documents: terms.md" in first
    assert "Ostrava." not in first.partition("Result:")[0]


# -- the oracle ------------------------------------------------------------------------------------------------------


def oracle(*checks, **more):
    named = [{"name": f"own-{n}", "message": f"Not {n}.", **one} for n, one in enumerate(checks)]
    return judged(gates={"oracle": named}, tools=("look", "probe"), **more)


BY_TOOL = {"tool": "probe", "arguments": {"text": "{outcome.text}", "note": "by {run.tier}, {exit_criteria.0}"}}


def test_a_tool_is_asked_once_with_the_outcome_in_its_arguments_and_its_yes_is_a_success():
    world = ran(oracle(BY_TOOL), {"finalizer": summary("Yes."), "probe": gives({"passed": True})})
    assert world.end.state is RunState.COMPLETED
    (asked,) = [args for name, args in world.executed if name == "probe"]
    assert asked == {"text": "Yes.", "note": "by interactive, It answers the request."}
    assert [(check.name, check.result) for check in gate_of(world, Stage.FINALIZE).checks][-2] == ("oracle", "passed")


@pytest.mark.parametrize(
    ("more", "answer", "said"),
    [
        ({}, gives({"passed": False}), "check own-0: Not 0."),
        ({}, gives("yes"), "check own-0: Not 0."),
        ({}, gives(error="no such record"), "check own-0 has no answer: no such record"),
        ({"expression": "answer.count > 3"}, gives({"count": 3}), "check own-0: Not 0."),
        (
            {"expression": "answer.count > 3"},
            gives({}),
            "check own-0 could not be evaluated: KeyError: 'count'",
        ),
    ],
)
def test_whatever_is_no_yes_is_no_success(more, answer, said):
    world = ran(oracle({**BY_TOOL, **more}), {"probe": answer})
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.INVARIANT)
    assert decided.cause.evidence.details == {"check": "oracle", "problems": [said]}
    assert world.end.state is RunState.FAILED


def test_one_that_does_not_answer_is_tried_again_by_the_ladder_and_is_never_a_success():
    silent = ran(oracle(BY_TOOL), {"probe": HANGS})
    assert silent.end.state is RunState.FAILED
    assert silent.of(ev.ReactionDecided)[0].failure_type is FailureType.PROVIDER
    back = ran(oracle(BY_TOOL), {"probe": [fails(Cause.SERVER_ERROR), gives(True)]})
    assert (back.end.state, back.reactions) == (RunState.COMPLETED, ["retry"])
    assert [one.attempt for one in back.of(ev.CallIssued) if one.target == "probe"] == [1, 2]


def test_an_address_is_asked_with_the_outcome_escaped_and_its_json_can_be_held_to_an_expression():
    check = {
        "http": {"url": "https://tests.example/run/{outcome.text}?by={run.tier}"},
        "expression": "answer.status == 200 && answer.json.ok",
    }
    page = {"status": 200, "content_type": "application/json", "text": '{"ok": true}'}
    world = ran(oracle(check), {"finalizer": summary("a/b?c&d"), "oracle:own-0": gives(page)})
    assert [args for _, args in world.executed] == [{"url": "https://tests.example/run/a%2Fb%3Fc%26d?by=interactive"}]
    assert world.end.state is RunState.COMPLETED
    no = ran(oracle(check), {"oracle:own-0": gives({**page, "text": "{"})})
    assert no.end.state is RunState.FAILED


def test_a_place_without_a_value_is_no_success_and_nothing_is_asked():
    world = ran(oracle({"http": {"url": "https://tests.example/{outcome.citations.0}"}}))
    assert world.end.state is RunState.FAILED
    assert not world.executed
    problems = world.of(ev.ReactionDecided)[0].cause.evidence.details["problems"]
    assert problems == ["check own-0 could not be asked: {outcome.citations.0} has no value"]


def test_an_agent_that_is_no_author_judges_the_outcome_with_evidence():
    world = ran(oracle({"critic": "judge"}), {"judge": ACCEPTS})
    assert world.end.state is RunState.COMPLETED
    assert "It does not if: Not 0." in prompts_of(world, "judge")[0]
    no = ran(oracle({"critic": "judge"}), {"judge": verdict(False, "It names no balance.")})
    assert no.of(ev.ReactionDecided)[0].cause.evidence.details == {
        "check": "oracle",
        "problems": ["It names no balance."],
    }


def test_checks_are_asked_in_their_order_expressions_first_and_the_first_no_ends_it():
    checks = ({"critic": "judge"}, BY_TOOL, {"expression": "outcome.text == 'Yes.'"})
    world = ran(oracle(*checks), {"finalizer": summary("No.")})
    assert not calls_of(world, "judge")
    world = ran(oracle(*checks), {"finalizer": summary("Yes."), "judge": REFUSES, "probe": gives(True)})
    assert calls_of(world, "judge")
    assert not world.executed


def test_what_is_written_anew_is_judged_anew():
    answers = [summary("No."), summary("Yes.")]
    world = ran(
        oracle({"critic": "judge"}, BY_TOOL), {"finalizer": answers, "judge": [REFUSES, ACCEPTS], "probe": gives(True)}
    )
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, ["retry"])
    assert ["No." in text for text in prompts_of(world, "judge")] == [True, False]


def test_a_tool_that_no_policy_permits_is_not_asked():
    permits = [{"name": "all", "text": 'permit(principal, action, resource) unless { resource == Tool::"probe" };'}]
    found = tree(
        roles=("planner",),
        tools=("look", "probe"),
        gates={"oracle": [{"name": "own", "message": "No.", **BY_TOOL}], "policies": permits},
    )
    world = ran(FabricSpec.model_validate(found), {"probe": gives(True)})
    assert not world.executed
    assert world.of(ev.ReactionDecided)[0].failure_type is FailureType.UNSAFE_OUTPUT


def test_a_partial_result_is_never_what_a_judge_said():
    fabric = judged(gates=GROUNDED, roles=("planner", "aggregator"))
    world = ran(fabric, {"aggregator": summary("Merged."), "judge": REFUSES}, documents=LEDGER)
    assert (world.end.state, world.end.partial) == (RunState.FAILED, True)
    assert world.outcome["text"] == "Merged."


@pytest.mark.parametrize("steps", range(1, 400, 7))
def test_a_process_may_die_at_any_step_and_the_verdicts_still_hold(steps):
    fabric = oracle({"critic": "judge"}, BY_TOOL, topology=PLAN_CRITIC)
    world = World(fabric, {"judge": ACCEPTS, "probe": gives(True)}).start().go(steps=steps)
    if world.driver is not None and not world.run.terminal:
        world.crash()
    world.go()
    assert world.end.state is RunState.COMPLETED
