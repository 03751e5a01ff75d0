"""Rules are tables, and every table is total: nothing that can be named is without its row."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise, product
from typing import get_args

import pytest

from fabric.core import events as ev
from fabric.core import evolve, handlers
from fabric.core.decision import prompt
from fabric.core.events import envelope
from fabric.core.events.child_inputs import HandedUp
from fabric.core.events.inputs import INBOX, InboxInput, Input, Kept
from fabric.core.ladders import ladder
from fabric.core.mechanisms import ORDER, validation_gate
from fabric.core.reactions import react as reactions
from fabric.core.schema.payloads import AGENT_OUTPUT
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.spec.policies.decision_table import DIRECT, GRAVITY, Reaction
from fabric.core.spec.topologies.kinds import BY_KIND
from fabric.core.spec.topologies.kinds import KINDS as TOPOLOGY_KINDS
from fabric.core.state import demands
from fabric.core.topologies import shell
from fabric.core.values import flow, tracing
from fabric.core.values.flow import End, RunState, Stage, StageOutcome
from fabric.core.values.saga import Effect, Status
from fabric.core.values.taxonomy import CLASSIFY, Cause, Direct, ErrorClass, FailureClass, FailureType, FlowClass, Tier

FACTS = get_args(ev.Fact)
KINDS = [fact.kind for fact in FACTS]


# -- stages ------------------------------------------------------------------------------------------------------------


def test_every_stage_has_a_way_out_for_every_outcome():
    assert set(flow.TRANSITIONS) == set(product(Stage, StageOutcome))


def test_stages_follow_each_other_replans_begin_anew_and_endings_stop():
    order = [*Stage, End.COMPLETE]
    assert list(Stage) == ["plan", "fan_out", "fan_in", "validate", "finalize"]
    for stage, after in pairwise(order):
        assert flow.TRANSITIONS[stage, StageOutcome.PASSED] is after
        assert flow.TRANSITIONS[stage, StageOutcome.REPLAN] is Stage.PLAN
        assert flow.TRANSITIONS[stage, StageOutcome.ENDED] is End.STOP


def test_the_five_terminal_states():
    assert flow.ANSWERED | {RunState.FAILED, RunState.ABORTED, RunState.CANCELLED} == flow.TERMINAL
    assert {RunState.COMPLETED, RunState.STOPPED} == flow.ANSWERED


@pytest.mark.parametrize(
    "table",
    [prompt.OUTPUT, demands.INPUT, demands.REQUIRED, validation_gate.STAGE_OUTPUT],
    ids=["OUTPUT", "INPUT", "REQUIRED", "STAGE_OUTPUT"],
)
def test_every_stage_has_a_row_in(table):
    assert set(table) == set(Stage)


def test_every_stage_asks_for_a_shape_that_exists_and_takes_what_the_one_before_left():
    assert set(prompt.OUTPUT.values()) <= set(AGENT_OUTPUT)
    assert [before[-1:] for before in demands.REQUIRED.values()] == [(), *((stage,) for stage in list(Stage)[:-1])]
    for before, after in pairwise(Stage):
        assert demands.INPUT[after]._type == validation_gate.STAGE_OUTPUT[before]._type


def test_every_stage_without_an_agent_is_concluded_by_the_engine():
    assert set(shell._CONCLUDE) | {Stage.FAN_OUT} == set(Stage)


def test_every_kind_of_topology_has_its_module():
    assert set(shell.TOPOLOGIES) == set(BY_KIND)
    assert {kind.model_fields["kind"].default for kind in TOPOLOGY_KINDS} == set(BY_KIND)


# -- events and inputs -------------------------------------------------------------------------------------------------


def test_every_fact_folds():
    assert set(evolve.EVOLVE) == set(KINDS)


def test_every_fact_has_an_envelope():
    assert set(envelope.KINDS) == set(KINDS)
    assert {envelope.fact_class(fact.kind) for fact in FACTS} == set(FACTS)


def test_no_two_facts_share_a_kind_and_every_one_has_a_version():
    assert len(set(KINDS)) == len(FACTS)
    assert all(isinstance(fact.version, int) and fact.version >= 1 for fact in FACTS)


def test_every_fact_is_exported_and_explained():
    assert {fact.__name__ for fact in FACTS} <= set(ev.__all__)
    assert all(fact.__doc__ and fact.__doc__[0].isupper() for fact in FACTS)


def test_every_fact_is_frozen_and_named_by_keyword():
    assert all(fact.__struct_config__.frozen for fact in FACTS)
    assert all(field.kw_only for fact in FACTS for field in fields(fact))


def test_mechanisms_observe_kinds_that_exist():
    assert {kind for module in ORDER for kind in module.OBSERVES} <= set(KINDS)


def test_every_party_that_is_told_apart_is_a_kind():
    source = tracing.parties.__code__.co_consts
    named = {text for text in source if isinstance(text, str) and text.isidentifier() and "_" in text}
    assert named - {"requested_by", "required_role", "step_id"} <= set(KINDS)


def test_every_input_has_a_handler():
    assert set(handlers.HANDLERS) == set(get_args(Input))


def test_every_input_from_outside_survives_the_inbox():
    assert set(get_args(InboxInput)) < set(get_args(Input))
    samples = {"request": {"text": "x"}, "deadline_at": 1, "verb": "approve", "origin_seq": 3}
    samples |= {
        "stages": (("plan", "ref"),),
        "branches": ((0, "one", "ref"),),
        "parts": ((0, "ref", (0,), (1,)),),
        "work": (),
    }
    samples |= {"contents": (Kept(what="plan", content={"output": 1}),), "purpose": "slice", "depth": 2}
    samples |= {
        "released": ("a" * 32,),
        "cap_usd_micros": 1,
        "cap_tokens": 1,
        "briefs": (0, 1),
        "plan": {},
        "waiting": True,
        "changed_world": True,
        "state": "failed",
        "stopped": ("a sentence",),
    }
    samples |= {"cost_usd_micros": 1, "tokens": 1, "cause": "timeout", "missing": (0,), "content": {}, "stuck": True}
    change = {"key": "k", "command_id": "c", "tool": "t", "effect": Effect.MUTATING, "compensation": "u"}
    change |= {"status": Status.EXECUTED, "deadline_at": 1, "args": {}}
    samples |= {"mutations": (HandedUp(**change),), "agents_alive": 3, "agents_spawned": 9}
    samples |= {
        "caps": (NamedCap("stage:plan", "tokens", 5),),
        "set": {"k": 1},
        "delete": ("old",),
        "caused_by": ("ann", "bob"),
    }
    for kind in get_args(InboxInput):
        given = {f.name: samples.get(f.name, f"a {f.name}") for f in fields(kind) if f.name not in ("kind", "version")}
        one = kind(**given)
        assert INBOX.validate_json(INBOX.dump_json(one)) == one


# -- failures ----------------------------------------------------------------------------------------------------------


def test_every_cause_is_classified_once():
    assert set(CLASSIFY) == set(Cause)


def test_every_cause_goes_to_a_row_or_to_a_reaction_of_its_own():
    assert {row.goes_to for row in CLASSIFY.values()} == set(FailureType) | set(Direct)


def test_every_direct_reaction_is_said_for_every_tier():
    assert set(DIRECT) == set(product(Direct, Tier))
    assert [str(DIRECT[Direct.ABORT, tier]) for tier in Tier] == ["abort", "abort", "escalate"]
    assert {str(DIRECT[Direct.ESCALATE, tier]) for tier in Tier} == {"escalate"}


def test_a_wrong_configuration_enters_at_the_last_rung_and_nothing_else_does():
    last = {cause for cause, row in CLASSIFY.items() if row.last_rung}
    assert last == {Cause.AUTH, Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION, Cause.UNKNOWN_MODEL}


def test_every_mechanism_answers_a_cluster_of_mast():
    assert all(module.CLASSES and set(module.CLASSES) <= set(FailureClass) for module in ORDER)


def test_the_words_of_the_taxonomy_are_as_many_as_the_documents_have():
    assert (len(FailureType), len(FailureClass), len(ErrorClass), len(FlowClass)) == (8, 3, 6, 5)


# -- reactions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [reactions.REACTIONS, ladder.APPLIES], ids=["REACTIONS", "APPLIES"])
def test_every_reaction_has_a_row_in(table):
    assert set(table) == set(Reaction)


def test_what_a_run_may_still_do_after_its_last_word_only_ends_it():
    assert set(GRAVITY[: GRAVITY.index(Reaction.TERMINATE)]) == reactions.ENDINGS
