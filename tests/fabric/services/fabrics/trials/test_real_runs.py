"""A trial gives the verdict of a run's gate on the same payload: the engine is driven with it, and both verdicts are laid side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.journal import Document
from fabric.services.fabrics.trials.shapes import TrialResult
from fabric.services.fabrics.trials.table import TRIALS, try_check_here
from fabric.tools.runner import build_validator
from tests.fabric.core.fabrics import agent, lone, plan, spec, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.recollections import remembering, started, told, turns, write
from tests.fabric.core.scripts import asks, call, gives, planned, say, scored, summary
from tests.fabric.services.fabrics.trials.drafts import FEW, PERMIT, QUERY, SECRET, as_json

LEDGER = (Document("ledger.md", "The balance is 40 euros."),)
DOCUMENTS = as_json({"ledger.md": "The balance is 40 euros."})
RUN = as_json({"id": "run-1", "request": "What is it?", "documents": ["ledger.md"]})
COMPARED: set[str] = set()
"""Kinds that a test here holds against a run."""


def of_kind(kind: str) -> Any:
    """Marks a test as the one that holds a kind against runs."""
    COMPARED.add(kind)
    return lambda test: test


def problems(world: World) -> list[str]:
    """Return what the gate that failed first says; empty when the run completed."""
    decided = world.of(ev.ReactionDecided)
    if not decided:
        assert world.end.state is RunState.COMPLETED
        return []
    found = decided[0].cause.evidence.details["problems"]
    assert isinstance(found, list)
    return found


def agrees(world: World, tried: TrialResult, *, prefix: str = "") -> None:
    """The same verdict, and word for word the same problems."""
    said = [
        one.said if not one.what else f"{one.what}: {one.said}" for one in tried.lines if one.mark in ("fails", "error")
    ]
    found = problems(world)
    assert (tried.verdict == "passes") == (not found)
    assert [one.removeprefix(prefix) for one in found] == said


def test_every_kind_is_held_against_a_run():
    assert set(TRIALS) == COMPARED


@of_kind("stage")
@pytest.mark.parametrize("name", ["worker", "ghost"])
def test_a_plan_at_its_gate(name):
    fabric, written = spec(), plan(agent=name)
    world = ran(fabric, {"planner": planned(agent=name)})
    agrees(world, try_check_here(fabric, "stages.plan", {"payload": as_json(written)}))


@of_kind("invariants")
@pytest.mark.parametrize(
    "expression",
    [
        "run.request == 'What is it?' && run.documents == ['ledger.md'] && run.id == 'run-1' && stage == 'finalize'",
        "size(payload.text) > 30 || run.tier != 'interactive' || run.epoch != 0 || run.depth != 1",
        "payload.missing == 1",
        "payload.text",
    ],
)
def test_an_invariant(expression):
    one = {"stage": "finalize", "name": "own", "expression": expression, "message": "No."}
    fabric = spec(gates={"invariants": [one]})
    world = ran(fabric, {"finalizer": summary("Found.")}, documents=LEDGER)
    sample = {"payload": as_json({"text": "Found.", "citations": []}), "run": RUN}
    agrees(world, try_check_here(fabric, "gates.invariants.0", sample))


@of_kind("length")
@pytest.mark.parametrize("text", ["Found.", "Found it all."])
def test_a_length(text):
    fabric = spec(gates={"max_outcome_chars": 6})
    agrees(
        ran(fabric, {"finalizer": summary(text)}), try_check_here(fabric, "gates.max_outcome_chars", {"answer": text})
    )


@of_kind("guardrails")
@pytest.mark.parametrize("text", ["Nothing.", f"The token is {SECRET}.", "password: hunter2hunter2"])
def test_a_guardrail_at_a_stage(text):
    fabric = spec(gates={"guardrails": [{"rules": ["credentials"], "places": ["finalize"]}]})
    world = ran(fabric, {"finalizer": summary(text)})
    agrees(world, try_check_here(fabric, "gates.guardrails.0", {"place": "finalize", "text": text}))


@pytest.mark.parametrize("q", ["who", f"who has {SECRET}"])
def test_a_guardrail_at_the_arguments_of_a_call(q):
    fabric = lone(gates={"guardrails": [{"rules": ["credentials"]}]})
    world = ran(fabric, {"worker": [asks(call(q=q)), summary()]})
    tried = try_check_here(fabric, "gates.guardrails", {"place": "arguments", "text": as_json({"q": q})})
    agrees(world, tried)


@of_kind("policies")
@pytest.mark.parametrize("args", [{"n": 3}, {"n": 4}, {"q": "who"}, {"n": "many"}, {"n": None}])
def test_policies_on_a_call(args):
    fabric = lone(gates={"policies": [PERMIT, FEW]})
    world = ran(fabric, {"worker": [asks(call(**args)), summary()]})
    sample = {"principal": 'Agent::"worker"', "action": "tool", "resource": 'Tool::"look"'}
    tried = try_check_here(fabric, "gates.policies", {**sample, "context": as_json({"args": args})})
    refused = world.of(ev.CallRefused)
    assert (tried.verdict == "passes") == (not refused) == bool(world.executed)
    said = tried.lines[0].said
    if refused:
        assert f"{refused[0].problem.partition('. ')[0]}." == said.replace("Denied: ", "calling look was denied: ")
        decided = world.of(ev.ReactionDecided)[0].cause.evidence.details["policies"]
        assert decided == [one.what for one in tried.lines[1:] if one.mark in ("fails", "error")]


@pytest.mark.parametrize(
    ("policy", "action", "principal", "resource"),
    [
        ('principal == Agent::"finalizer"', "output", 'Agent::"finalizer"', 'Stage::"finalize"'),
        ('context.payload.text like "*40*"', "output", 'Agent::"finalizer"', 'Stage::"finalize"'),
        ('context.payload.text like "*41*"', "output", 'Agent::"finalizer"', 'Stage::"finalize"'),
        ('context.stage == "finalize"', "enter", 'Agent::"finalizer"', 'Stage::"finalize"'),
        ("context.branches > 0", "spawn", 'Agent::"planner"', 'Agent::"worker"'),
        ("context.branches > 1", "spawn", 'Agent::"planner"', 'Agent::"worker"'),
    ],
)
def test_policies_on_outputs_stages_and_spawns(policy, action, principal, resource):
    text = f'forbid(principal, action == Action::"{action}", resource == {resource}) when {{ {policy} }};'
    fabric = spec(gates={"policies": [PERMIT, {"name": "own", "text": text}]})
    world = ran(fabric, {"finalizer": summary("It is 40.")})
    stage = "fan_out" if action == "spawn" else "finalize"
    more = {"output": {"payload": {"text": "It is 40.", "citations": []}}, "spawn": {"branches": 1}}.get(action, {})
    sample = {"principal": principal, "action": action, "resource": resource}
    tried = try_check_here(fabric, "gates.policies", {**sample, "context": as_json({"stage": stage, **more})})
    decided = world.of(ev.ReactionDecided)
    assert (tried.verdict == "passes") == (not decided)
    if decided:
        assert decided[0].cause.cause is Cause.POLICY_DENIED
        assert tried.lines[0].said.removeprefix("Denied: ").removesuffix(".") in decided[0].cause.message


@of_kind("grounding")
@pytest.mark.parametrize("level", ["citations", "quotes", "numbers"])
@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("It is 40.", ["ledger.md"]),
        ("It is 41.", ["ledger.md"]),
        ('It "is 40 euros".', []),
        ('It "is 41 euros" and more.', []),
        ("It is 40.", ["ghost.md"]),
        ("It is 4711, 2 * 40 = 80, 3 * 40 = 121.", []),
    ],
)
def test_a_level_of_grounding(level, text, cited):
    fabric = lone(gates={"grounding": level})
    script = {"worker": [asks(call(q="x")), summary(text, citations=tuple(cited))], "look": gives({"rows": 4711})}
    sample = {"answer": text, "citations": as_json(cited), "documents": DOCUMENTS}
    if level != "citations":
        sample |= {"request": "What is it?", "results": as_json([{"rows": 4711}])}
    tried = try_check_here(fabric, "gates.grounding", sample)
    found = problems(ran(fabric, script, documents=LEDGER))
    assert (tried.verdict == "passes") == (not found)
    wrong = [one.said for one in tried.lines if one.mark == "fails"]
    assert [one.partition(": ")[2] for one in found] == wrong


def with_judge(**gates: JSON) -> FabricSpec:
    found = tree(roles=("planner", "finalizer"), gates=gates)
    found["agents"].append(agent("judge"))
    return FabricSpec.model_validate(found)


@of_kind("oracle")
@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("outcome.text.contains('euros') && exit_criteria == ['It is done.']", "40 euros"),
        ("outcome.text.contains('euros')", "40"),
        ("outcome.total > 4", "40 euros"),
    ],
)
def test_an_oracles_expression(expression, text):
    fabric = spec(gates={"oracle": [{"name": "own", "expression": expression, "message": "No."}]})
    world = ran(fabric, {"planner": planned(exit_criteria=["It is done."]), "finalizer": summary(text)})
    outcome = as_json({"text": text, "citations": []})
    sample = {"outcome": outcome, "exit_criteria": as_json(["It is done."]), "run": RUN}
    agrees(world, try_check_here(fabric, "gates.oracle.0", sample))


@pytest.mark.parametrize("answer", [True, {"passed": True}, False, {"passed": 1}, "yes"])
@pytest.mark.parametrize("expression", [None, "answer.passed == true", "answer == true"])
def test_an_oracles_tool(expression, answer):
    check = {"name": "own", "tool": "look", "arguments": {"q": "{outcome.text}"}, "message": "No."}
    fabric = spec(gates={"oracle": [check | ({"expression": expression} if expression else {})]})
    world = ran(fabric, {"look": gives(answer), "finalizer": summary("40 euros")})
    sample = {"outcome": as_json({"text": "40 euros", "citations": []}), "answer": as_json(answer)}
    tried = try_check_here(fabric, "gates.oracle.0", sample)
    assert [json.loads(one.against) for one in tried.lines if one.what == "asked"] == [world.executed[-1][1]]
    found = problems(world)
    assert (tried.verdict == "passes") == (not found)
    assert [one.said for one in tried.lines if one.mark in ("fails", "error")] == found


@of_kind("verdict")
@pytest.mark.parametrize("path", ["gates.grounding_critic", "gates.oracle.0"])
@pytest.mark.parametrize(
    ("accept", "findings", "score"),
    [(True, [], None), (True, [], 0.7), (True, [], 0.4), (False, ["40 is in no source."], 0.9)],
)
def test_a_judges_verdict(path, accept, findings, score):
    check = {"name": "met", "critic": "judge", "message": "Not met."}
    gates = {"oracle": [check]} if "oracle" in path else {"grounding": "citations", "grounding_critic": "judge"}
    fabric = with_judge(**gates)
    said = {"accept": accept, "score": score, "findings": findings, "evidence": ["It says so."]}
    world = ran(fabric, {"judge": say(as_json(said))})
    tried = try_check_here(fabric, path, {"verdict": as_json(said)})
    decided = world.of(ev.ReactionDecided)
    assert (tried.verdict == "passes") == (not decided)
    wrong = [one.said for one in tried.lines if one.mark == "fails"]
    if decided and decided[0].cause.cause is Cause.BELOW_TAU:
        assert wrong == [f"It needs a review: {decided[0].cause.message}."]
    elif decided:
        assert decided[0].cause.evidence.details["problems"] == wrong


def test_a_verdict_that_is_none_costs_a_correction():
    said = as_json({"accept": True, "findings": ["But."], "evidence": ["It says so."]})
    fabric = with_judge(grounding="citations", grounding_critic="judge")
    tried = try_check_here(fabric, "gates.grounding_critic", {"verdict": said})
    world = ran(fabric, {"judge": say(said)})
    rejected = [one for one in world.of(ev.ModelAnswered) if one.verdict == "rejected"]
    assert (tried.verdict, bool(rejected)) == ("error", True)
    assert any(tried.lines[0].said in one.problems[0] for one in rejected)


@of_kind("confidence")
@pytest.mark.parametrize("score", [0.0, 0.49, 0.5, 1.0])
def test_a_critics_score(score):
    fabric = spec(tau=0.5)
    world = ran(fabric, {"critic": scored(score)})
    tried = try_check_here(fabric, "policy.tau", {"score": str(score)})
    asked = world.of(ev.ReviewOpened)
    assert (tried.verdict == "fails") == bool(asked)
    if asked:
        decided = world.of(ev.ReactionDecided)[0].cause
        assert (decided.cause, tried.lines[0].said) == (Cause.BELOW_TAU, f"It needs a review: {decided.message}.")


@of_kind("arguments")
@pytest.mark.parametrize("args", [{"q": "who"}, {"q": 4}, {}, {"q": "who", "n": 0.5}])
def test_arguments_of_a_call(args):
    tool = {"kind": "http", "target": "https://x.example", "description": "Looks.", "parameters": QUERY}
    fabric = lone(tool=tool)
    validators = {one.name: build_validator(one) for one in fabric.all_tools}
    world = ran(fabric, {"worker": [asks(call(**args)), summary()]}, validators=validators)
    tried = try_check_here(fabric, "tools.0", {"arguments": as_json(args)})
    refused = world.of(ev.CallRefused)
    assert (tried.verdict == "passes") == (not refused) == bool(world.executed)
    for one in tried.lines:
        assert not refused or one.said in refused[0].problem


@of_kind("remembered")
@pytest.mark.parametrize("value", ["40 euros", "40 euros and 7 cents"])
def test_a_value_for_a_memory(value):
    fabric = remembering("fabric", memory={"value_bytes": 12})
    world, shelf = started(fabric, turns(write("balance", value, call_id="own")))
    world.go()
    tried = try_check_here(fabric, "memories.0", {"key": "balance", "value": as_json(value)})
    said = told(world, "own")
    assert (tried.verdict == "passes") == ("error" not in said) == bool(shelf.stands())
    if "error" in said:
        assert tried.lines[0].said == said["error"]["message"]
