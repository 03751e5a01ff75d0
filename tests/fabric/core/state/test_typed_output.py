"""Data of the author's own schema in the answers of workers, aggregators and finalizers: held to it, told what misfits, and carried on (docs/specification/stages.md)."""

from __future__ import annotations

import itertools
import json

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.calls.test_guardrail_runs import SECRET, guarded, said
from tests.fabric.core.engine.test_policy_runs import cause_of, forbidding
from tests.fabric.core.fabrics import PRICES, agent, lone, plan, spec, tree
from tests.fabric.core.family_scenes import household
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, asks, call, say, summary

TOTAL = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 0}, "lines": {"type": "array", "items": {"type": "string"}}},
    "required": ["total"],
    "additionalProperties": False,
}
HELD = {"output_schema": TOTAL}


def typed(data, text="Found it.", **more):
    return say(json.dumps({"text": text, "citations": [], "data": data, **more}))


FITS, MISFITS = typed({"total": 40}), typed({"total": "forty", "lines": [1]})


def data_of(world, name):
    """Return what of the prompts of an agent speaks of data, the wanted shape aside."""
    texts = [one.text for request in world.requests if request.agent == name for one in request.messages]
    return [line for text in texts for line in text.splitlines() if line.startswith("Data: ")]


# -- held to it ------------------------------------------------------------------------------------------------------


def test_data_that_does_not_fit_costs_a_correction_and_is_told_with_its_paths():
    world = ran(lone(agents={"worker": HELD}), {"worker": [MISFITS, FITS]})
    refused, taken = world.of(ev.ModelAnswered)
    assert (refused.verdict, taken.verdict) == ("rejected", "output")
    assert set(refused.problems) == {
        'data.total: it is not of type "integer"',
        'data.lines[0]: it is not of type "string"',
    }
    told = world.requests[1].messages[-1].text
    assert all(f"- {problem}" in told for problem in refused.problems)
    assert "forty" not in str(world.facts), "a fact is kept for good, whatever is erased"
    assert world.content_of(ev.ModelAnswered)[1]["output"]["data"] == {"total": 40}
    assert world.run.steps["fan_out.0.e0.r0"].corrections == 1


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        (summary(), ("data is missing",)),
        (typed(None), ('data: it is not of type "object"',)),
        (typed({}), ('data: "total" is a required property',)),
        (say('{"data": {"total": -1}}'), ("text is missing", "data.total: it is less than the minimum of 0")),
    ],
)
def test_each_problem_of_an_answer_is_told_whether_of_the_stage_or_of_the_author(answer, problems):
    world = ran(lone(agents={"worker": HELD}), {"worker": [answer, FITS]})
    assert world.of(ev.ModelAnswered)[0].problems == problems
    assert world.end.state is RunState.COMPLETED


def test_when_corrections_are_spent_it_is_the_row_of_schema_and_grounding():
    numbers = itertools.count()
    world = ran(lone(agents={"worker": HELD}), {"worker": lambda _: typed({"lines": [1], "total": -next(numbers)})})
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.CORRECTIONS_SPENT)
    assert 'data.lines[0]: it is not of type "string"' in decided.cause.evidence.details["problems"]
    spent = world.run.steps["fan_out.0.e0.r0"].corrections
    assert spent == world.spec.policy.limits.corrections_per_step + 1


def test_the_model_is_told_the_whole_schema_and_the_endpoint_asked_for_what_it_can_take():
    schema = {**TOTAL, "description": "Sums.", "properties": {**TOTAL["properties"], "at": {"format": "date"}}}
    world = ran(lone(agents={"worker": {"output_schema": schema}}), {"worker": [MISFITS, FITS]})
    first, second = world.requests
    assert json.dumps(schema, separators=(",", ":")) in first.messages[0].text
    assert first.data_schema == schema
    wanted = first.output_schema
    assert wanted["required"] == ["text", "data"]
    assert wanted["properties"]["data"] == {
        **TOTAL,
        "properties": {**TOTAL["properties"], "at": {}},
    }
    assert "data" in second.messages[-1].text
    assert first.output == "summary"


def test_without_a_schema_nothing_is_asked_for_and_what_comes_is_left_out():
    world = ran(lone(), {"worker": typed({"total": 1})})
    assert "data" not in world.content_of(ev.ModelAnswered)[0]["output"]
    assert world.requests[0].data_schema is None
    assert "data" not in world.requests[0].output_schema["properties"]
    assert "data" not in world.requests[0].messages[0].text
    assert "data" not in world.outcome


def test_an_answer_with_calls_counts_only_where_its_data_fits():
    eager = [asks(call(q="x"), text=json.dumps({"text": "It is.", "data": {"total": "x"}})), FITS]
    world = ran(lone(agents={"worker": HELD}), {"worker": eager})
    assert world.asked("worker") == 2
    assert world.content_of(ev.ModelAnswered)[-1]["output"]["data"] == {"total": 40}


def test_a_run_with_data_is_derived_and_replayed_the_same():
    fabric = spec(agents=dict.fromkeys(("worker", "aggregator", "finalizer"), HELD))
    script = {"worker": [MISFITS, FITS], "aggregator": FITS, "finalizer": [MISFITS, FITS]}
    one, other = ran(fabric, script), ran(fabric, script)
    assert [(row.header, row.payload, row.hash) for row in one.rows] == [
        (row.header, row.payload, row.hash) for row in other.rows
    ]


def test_a_process_that_dies_between_the_answers_asks_for_the_same_again():
    from tests.fabric.core.harness import World

    world = World(lone(agents={"worker": HELD}), {"worker": [MISFITS, FITS.after(5)]}).start().go(until_s=2)
    before = world.requests[-1]
    world.crash().go()
    assert (world.requests[-1].output_schema, world.requests[-1].messages) == (before.output_schema, before.messages)
    assert world.end.state is RunState.COMPLETED


def test_an_agent_that_takes_over_a_step_keeps_what_its_role_promised():
    rungs = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "abort"}]}
    made = tree(
        roles=(),
        agents={"worker": HELD},
        topology={"handover": "lead"},
        table={"schema_grounding_fail": {str(tier): rungs for tier in Tier}},
    )
    made["agents"].append(agent("lead"))
    world = ran(FabricSpec.model_validate(made), {"worker": [MISFITS, summary()], "lead": [summary(), FITS]})
    assert world.reactions == ["handover"]
    assert (world.asked("lead"), world.end.state) == (2, RunState.COMPLETED)
    assert world.content_of(ev.ModelAnswered)[-1]["output"]["data"] == {"total": 40}
    lead = next(request for request in world.requests if request.agent == "lead")
    assert lead.data_schema == TOTAL


def test_a_schema_that_was_not_compiled_is_no_schema_that_everything_fits():
    with pytest.raises(ValueError, match="the output schema of agent worker is not compiled"):
        compile_spec(lone(agents={"worker": HELD}), prices=PRICES)


# -- carried on ------------------------------------------------------------------------------------------------------


def test_data_is_shown_to_the_agent_that_merges_judges_or_words_it():
    script = {"worker": typed({"total": 1}), "aggregator": typed({"total": 2}, "All of it.")}
    world = ran(spec(agents={"worker": HELD, "aggregator": HELD}), script)
    assert data_of(world, "aggregator") == ['Data: {"total":1}']
    assert data_of(world, "critic") == ['Data: {"total":2}']
    assert data_of(world, "finalizer") == ['Data: {"total":2}']
    assert "data" not in world.outcome, "the author of the answer writes its data"


def test_data_of_the_finalizer_or_of_the_aggregate_that_is_the_answer_is_the_outcomes():
    last = ran(spec(agents={"finalizer": HELD}), {"finalizer": typed({"total": 3}, "The answer.")})
    assert last.outcome == {"text": "The answer.", "citations": [], "data": {"total": 3}}
    passed = ran(spec(roles=("aggregator", "critic"), agents={"aggregator": HELD}), {"aggregator": typed({"total": 2})})
    assert passed.outcome["data"] == {"total": 2}


def test_an_outcome_with_gaps_keeps_its_data():
    fabric = spec(workers=2, roles=("aggregator",), agents={"aggregator": HELD}, fan_in={"mode": "best_effort"})
    fails = iter((summary(), HANGS))
    world = ran(fabric, {"worker": lambda _: next(fails, HANGS), "aggregator": typed({"total": 1})})
    assert (world.outcome["data"], len(world.outcome["gaps"])) == ({"total": 1}, 1)


def test_summaries_that_the_engine_joins_have_no_data_together():
    world = ran(lone(workers=2, agents={"worker": HELD}), {"worker": FITS})
    assert "data" not in world.outcome
    assert [one["output"]["data"] for one in world.content_of(ev.ModelAnswered)] == [{"total": 40}] * 2


def test_slices_bring_data_with_their_summaries():
    family = household(3, {"worker": FITS}, inline=2, agents={"worker": HELD}).go()
    assert len(family.runs) == 3
    asked = [request for _, request in family.requests if request.agent == "aggregator"]
    lines = [line for one in asked for message in one.messages for line in message.text.splitlines()]
    assert lines.count('Data: {"total":40}') == 3


def test_a_grounding_critic_is_not_shown_data_and_grounding_does_not_look_at_it():
    made = tree(
        roles=("finalizer",),
        agents={"finalizer": HELD},
        gates={"grounding": "numbers", "citations": "off", "grounding_critic": "judge"},
    )
    made["agents"].append(agent("judge"))
    accepts = say(json.dumps({"accept": True, "evidence": ["It says so."]}))
    script = {"worker": summary("The balance is 40 euros."), "judge": accepts}
    script["finalizer"] = typed({"total": 4711}, "The balance is 40 euros.")
    documents = (Document("ledger.md", "The balance is 40 euros."),)
    world = ran(FabricSpec.model_validate(made), script, documents=documents)
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["data"] == {"total": 4711}
    assert "4711" not in "".join(m.text for r in world.requests if r.agent == "judge" for m in r.messages)


# -- looked at -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "passes"), [(4, True), (3, False)])
def test_invariants_look_at_data(total, passes):
    own = {"stage": "finalize", "name": "own", "expression": "payload.data.total > 3", "message": "It is too little."}
    world = ran(spec(agents={"finalizer": HELD}, gates={"invariants": [own]}), {"finalizer": typed({"total": total})})
    assert (cause_of(world) is None) is passes
    assert passes or "It is too little." in cause_of(world).message


def test_an_invariant_on_data_that_is_no_whole_number_holds_too():
    own = {"stage": "finalize", "name": "own", "expression": "payload.data.share < 0.5", "message": "Too much."}
    schema = {"type": "object", "properties": {"share": {"type": "number"}, "none": {"type": "null"}}}
    fabric = spec(agents={"finalizer": {"output_schema": schema}}, gates={"invariants": [own]})
    assert cause_of(ran(fabric, {"finalizer": typed({"share": 0.25, "none": None})})) is None
    assert "Too much." in cause_of(ran(fabric, {"finalizer": typed({"share": 0.75})})).message


@pytest.mark.parametrize("name", ["worker", "aggregator", "finalizer"])
def test_guardrails_look_at_data(name):
    open_schema = {"output_schema": {"type": "object"}}
    world = ran(
        spec(agents={name: open_schema}, **guarded("fan_out", "fan_in", "finalize")),
        {name: typed({"note": {"deep": f"The token is {SECRET}."}})},
    )
    decided = world.of(ev.ReactionDecided)[0]
    assert decided.failure_type is FailureType.UNSAFE_OUTPUT
    assert "data.note.deep: looks like credentials.github_token" in decided.cause.message
    assert SECRET not in said(world)


@pytest.mark.parametrize(("total", "denied"), [(4, True), (3, False)])
def test_policies_look_at_data(total, denied):
    when = "context has payload && context.payload has data && context.payload.data.total > 3"
    fabric = spec(agents={"finalizer": HELD}, **forbidding("output", when))
    world = ran(fabric, {"finalizer": typed({"total": total})})
    assert (cause_of(world) is not None) is denied
    assert not denied or cause_of(world).cause is Cause.POLICY_DENIED


# -- written by a person ---------------------------------------------------------------------------------------------


def asked_about():
    own = {"stage": "finalize", "name": "own", "expression": "payload.data.total > 3", "message": "It is too little."}
    asks_a_person = {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}
    fabric = spec(
        agents={"finalizer": HELD}, gates={"invariants": [own]}, table={"schema_grounding_fail": asks_a_person}
    )
    return ran(fabric, {"finalizer": typed({"total": 1}, "The answer.")})


def test_what_a_person_writes_in_place_of_it_is_held_to_the_schema_too():
    world = asked_about()
    shown = world.content_of(ev.ReviewOpened)[0]
    assert shown["edit_schema"]["properties"]["data"] == TOTAL
    assert shown["edit_initial"]["data"] == {"total": 1}
    world.decide("edit", edited={"text": "Mine.", "citations": [], "data": {"total": "five"}}).go()
    world.decide("edit", edited={"text": "Mine.", "citations": []}, input_id="second").go()
    assert [one.reason for one in world.of(ev.InputIgnored)] == [
        'the edited content does not fit: data.total: it is not of type "integer"',
        "the edited content does not fit: data is missing",
    ]
    world.decide("edit", edited={"text": "Mine.", "citations": [], "data": {"total": 5}}, input_id="third").go()
    assert world.end.state is RunState.COMPLETED
    assert (world.outcome["text"], world.outcome["data"]) == ("Mine.", {"total": 5})


# -- byte for byte as before -----------------------------------------------------------------------------------------


def test_a_schema_is_part_of_the_digest():
    plain, held = lone(), lone(agents={"worker": HELD})
    assert plain.digest() == lone(agents={"worker": {"output_schema": None}}).digest()
    assert plain.digest() != held.digest()
    assert held.model_dump(mode="json")["agents"][0]["output_schema"] == TOTAL
    assert plan(1)["briefs"][0]["agent"] == "worker"
