"""A person's gate of Fabro end to end: imported, published, asked by `run`, answered by `decide`; a context variable that a person writes from outside."""

from __future__ import annotations

import json

import pytest

from fabric.composition import engine as wiring
from fabric.core import events as ev
from fabric.models import Review, Run
from fabric.selectors.runs.lookup import run_events
from fabric.services.importers.graphs.files import graph_read, yaml_text
from fabric.services.runs.start import run_start
from tests.fabric.management.console import command, shown
from tests.fabric.services.world import HeardNudge

FLOW = """digraph PlanImplement {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  plan [label="Plan"]
  approve [shape=hexagon, label="Approve the plan?"]
  implement [label="Implement"]
  start -> plan -> approve
  approve -> implement [label="[A] Approve"]
  approve -> plan [label="[R] Revise"]
  approve -> give_up [condition="outcome=failed"]
  implement -> exit
  give_up -> exit
}
"""
REST = """
name: gated
title: A plan that a person lets pass
policy: {budget: {run_usd_micros: 1000000}, limits: {hops: 9}}
reviewers: [owner]
safe_fallback: No.
"""
OWN = """
  - {name: script, provider: scripted, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
"""
AGENTS = "".join(
    f"  - {{name: {name}, model: script, instructions: Do it.}}\n" for name in ("plan", "implement", "give_up")
)


@pytest.fixture
def gated(actor, tmp_path):
    """The fabric that the import's parts and the author's own make."""
    text = (
        yaml_text(graph_read(FLOW))
        .replace("\nmodels:\n", f"\nmodels:{OWN}", 1)
        .replace("\nagents:\n", f"\nagents:\n{AGENTS}", 1)
    )
    (tmp_path / "gated.yaml").write_text(REST + text)
    published = command("fabric", "publish", str(tmp_path / "gated.yaml"))
    assert published.code == 0, published.err
    return "gated"


def turns(actor):
    run = Run.objects.get()
    return [one.fact["from_agent"] for one in run_events(actor, run.id, limit=400) if one.kind == ev.SpeakerChosen.kind]


def answered(tmp_path, answer):
    item = Review.objects.get(decided_at=None)
    (tmp_path / "answer.json").write_text(json.dumps({"answer": answer}))
    return command("decide", item.id, "edit", *shown(item.id), "--payload", str(tmp_path / "answer.json"), "--json")


def test_a_person_is_asked_and_each_answer_leads_where_its_edge_does(actor, tmp_path, gated):
    asked = command("run", "start", gated, "--input", "Build it.", "--json")
    assert asked.code == 3, asked.err
    assert "Approve the plan?" in asked.err
    item = Review.objects.get()
    again = answered(tmp_path, "Revise")
    assert (again.code, again.err.count("Approve the plan?") > 0) == (3, True)
    assert turns(actor) == ["plan", "approve", "plan"]
    done = answered(tmp_path, "Approve")
    assert (done.code, done.last["state"]) == (0, "completed"), done.last
    assert turns(actor) == ["plan", "approve", "plan", "approve", "implement"]
    assert Review.objects.get(id=item.id).verb == "edit"


def test_an_answer_that_no_edge_has_is_refused_and_approval_is_none(tmp_path, gated):
    command("run", "start", gated, "--input", "Build it.")
    refused = answered(tmp_path, "Perhaps")
    assert (refused.code, refused.out) == (2, "")
    item = Review.objects.get()
    approved = command("decide", item.id, "approve", *shown(item.id))
    assert approved.code == 2
    assert "the form is not filled in yet" in approved.err
    assert Review.objects.get().decided_at is None


def test_the_gate_costs_nothing_and_asks_no_model(actor, tmp_path, gated):
    command("run", "start", gated, "--input", "Build it.")
    answered(tmp_path, "Approve")
    run = Run.objects.get()
    mine = [
        one.fact
        for one in run_events(actor, run.id, limit=400)
        if one.kind == "model_answered" and one.fact["model"] == "no-model"
    ]
    assert [(one["cost_usd_micros"], one["input_tokens"], one["output_tokens"]) for one in mine] == [(0, 0, 0)] * 2


# -- variables from outside ------------------------------------------------------------------------------------------


def test_a_context_variable_is_written_by_command(actor, gated):
    started = run_start(
        store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=gated, text="Build it.", documents=()
    )
    said = command("run", "context", started.run_id, "--set", "flag=true", "--set", "note=as it is", "--delete", "old")
    assert said.code == 3, said.err
    (written,) = [one for one in run_events(actor, started.run_id, limit=400) if one.kind == "context_written"]
    assert (written.fact["actor"], written.fact["writes"]) == ("owner", 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "nothing is written: set a variable, or delete one"),
        (("--set", "flag"), "'flag' names no value; write NAME=VALUE"),
        (("--set", "=1"), "the name of a variable has 1 to 200 characters"),
        (("--set", "outcome=success"), "'outcome' is written by the engine after each turn; take another name"),
    ],
)
def test_what_is_no_change_is_one_sentence(actor, gated, words, sentence):
    started = run_start(
        store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=gated, text="Build it.", documents=()
    )
    said = command("run", "context", started.run_id, *words)
    assert (said.code, said.err.strip()) == (2, sentence)
