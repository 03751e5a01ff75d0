"""Every check of a fabric can be tried on a sample: what passes, what fails, what cannot be judged, and what is no sample."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.mechanisms.permissions import CONTEXT, NAMED
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.gates import Gates
from fabric.core.values.flow import Stage
from fabric.policies.expressions.invariants import RUN
from fabric.services.errors import Refused
from fabric.services.fabrics.trials import conditions, policies, samples
from fabric.services.fabrics.trials.shapes import TrialResult
from fabric.services.fabrics.trials.table import TRIALS, build_sample, kind_at, list_fields, triable, try_check_here
from tests.fabric.core import fabrics
from tests.fabric.services.fabrics.trials.drafts import CASES, SECRET, Case, as_json, draft, put, verdict

KINDS = pytest.mark.parametrize("kind", TRIALS)


def said(found: TrialResult) -> str:
    return "\n".join(f"{one.what}: {one.said}" for one in found.lines)


def outcome(tree: Any, path: str) -> str:
    """The verdict of the example, or the code of the refusal."""
    try:
        return try_check_here(tree, path, build_sample(tree, path)).verdict
    except Refused as refused:
        return refused.code


def broken(case: Case) -> Any:
    found = draft()
    for path, value in case.broken.items():
        put(found, path, value)
    return found


# -- the table ---------------------------------------------------------------------------------------------------------


def test_every_field_of_the_gates_can_be_tried_and_every_kind_has_its_cases():
    roots = {path.split(".")[1] for trial in TRIALS.values() for path in trial.paths if path.startswith("gates.")}
    assert roots == set(Gates.model_fields) - {"unguarded", "unscreened"}, "a reason is nothing to try"
    assert set(CASES) == set(TRIALS)


def test_every_action_of_policies_has_its_kind_of_resource_and_every_field_its_type():
    assert set(policies.ON) == set(NAMED)
    assert set(policies._TYPES) == {*CONTEXT, *(one for more in NAMED.values() for one in more)}
    assert set(conditions._RUN) == set(RUN) == set(samples.run({}))


@KINDS
def test_a_path_leads_to_its_kind_and_another_one_to_a_sentence(kind):
    assert kind_at(CASES[kind].path) == kind
    with pytest.raises(Refused, match="names no check that can be tried") as refused:
        kind_at(f"{CASES[kind].path}.other")
    assert (refused.value.code, refused.value.field) == ("not_found", "path")


def test_what_a_fabric_has_to_try_is_named_item_by_item():
    found = triable(draft())
    assert {kind_at(path) for path in found} == set(TRIALS)
    assert [path for path in found if path.startswith("gates.oracle")] == [f"gates.oracle.{n}" for n in range(4)]
    bare = triable(draft(gates={}, tools=[], memories=[], topology={"workers": ["worker"], "planner": "planner"}))
    assert bare == (*(f"stages.{stage}" for stage in Stage), "policy.tau")


# -- what passes, what fails, what cannot be judged --------------------------------------------------------------------


@KINDS
def test_a_sample_passes(kind):
    found = try_check_here(draft(), CASES[kind].path, CASES[kind].passes)
    assert found.verdict == "passes", said(found)
    assert {one.mark for one in found.lines} <= {"passes", "note"}


@KINDS
def test_a_sample_fails_and_it_is_said_with_what(kind):
    found = try_check_here(draft(), CASES[kind].path, CASES[kind].fails)
    assert found.verdict == "fails", said(found)
    assert CASES[kind].fails_with in said(found)


@KINDS
def test_what_cannot_be_judged_is_neither(kind):
    found = try_check_here(broken(CASES[kind]), CASES[kind].path, CASES[kind].errs)
    assert found.verdict == "error", said(found)
    assert CASES[kind].errs_with in said(found)


@KINDS
def test_the_example_of_each_box_can_be_tried_in_every_fabric(kind):
    for tree in (draft(), {}, draft(agents=[], tools=[], topology={}, tiers=None, example=7)):
        for path in (path for path in (*triable(tree), CASES[kind].path) if kind_at(path) == kind):
            assert outcome(tree, path) in ("passes", "fails", "error", "not_found")
    assert try_check_here(draft(), CASES[kind].path, build_sample(draft(), CASES[kind].path)).lines


def test_a_whole_spec_is_tried_as_its_yaml_is():
    spec = FabricSpec.model_validate(draft())
    for case in CASES.values():
        assert try_check_here(spec, case.path, case.fails) == try_check_here(draft(), case.path, case.fails)


# -- a draft with problems elsewhere -----------------------------------------------------------------------------------

ELSEWHERE = {
    "stage": {"models": [], "gates": {"citations": "never"}},
    "policies": {"models": None, "gates.invariants": [{}], "policy": {}},
    "guardrails": {"topology": {}, "agents": 4},
    "invariants": {"topology": None, "gates.oracle": [{}]},
    "length": {"name": "No Name", "gates.policies": []},
    "grounding": {"policy.tau": 7, "agents": [{"name": "worker"}]},
    "oracle": {"agents": [], "gates.guardrails": [{"places": []}]},
    "verdict": {"title": "", "gates.grounding": "words"},
    "confidence": {"policy.budget": {}, "gates": []},
    "arguments": {"tools.0.name": "look", "agents": "x"},
    "remembered": {"gates": 1, "topology": 2},
}


@KINDS
def test_what_is_wrong_elsewhere_keeps_no_author_from_trying(kind):
    tree = draft()
    for path, value in ELSEWHERE[kind].items():
        put(tree, path, value)
    with pytest.raises(ValueError):
        FabricSpec.model_validate(tree)
    assert try_check_here(tree, CASES[kind].path, CASES[kind].passes).verdict == "passes"
    assert try_check_here(tree, CASES[kind].path, CASES[kind].fails).verdict == "fails"


JUNK: list[Any] = [None, 5, "x", [], {}, [5], [{}], {"x": {}}, [[]], True, -1.5, {"name": []}]
PARTS = ("name", "tiers", "models", "tools", "memories", "agents", "topology", "gates", "policy", "example")


@pytest.mark.parametrize("part", PARTS)
def test_whatever_stands_in_a_part_is_told_in_a_sentence(part):
    inside = {f"{part}.{name}" for name in draft()[part]} if isinstance(draft().get(part), dict) else set()
    for path in {part, *inside}:
        for junk in JUNK:
            tree = draft()
            put(tree, path, junk)
            assert "policy.tau" in triable(tree)
            for case in CASES.values():
                assert outcome(tree, case.path) in ("passes", "fails", "error", "not_found", "invalid")


# -- what is no sample -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sample", "field", "sentence"),
    [
        ("stages.plan", {"payload": '{"goal": '}, "payload", "payload: no JSON, line 1, column 10"),
        ("stages.plan", {"payload": " "}, "payload", "it is empty"),
        ("stages.plan", {"payload": "[" * 100 + "]" * 100}, "payload", "nested deeper than 64 levels"),
        ("stages.plan", {"payload": "[NaN]"}, "payload", "NaN is no JSON number"),
        ("stages.plan", {"load": "1"}, "sample", "there is no box 'load' here; there are: payload"),
        ("stages.plan", {"payload": f'"{"x" * 300_000}"'}, "sample", "at most 262,144 are tried"),
        ("stages.nowhere", {}, "path", "no stage is named 'nowhere'"),
        ("gates.policies", {"action": "fly"}, "action", "'fly' cannot be chosen"),
        ("gates.policies", {"action": "enter"}, "resource", "enter needs a Stage"),
        ("gates.policies", {"context": "[]"}, "context", "it is no JSON object"),
        ("gates.policies", {"context": '{"colour": 1}'}, "context", "there is no 'colour'; there are: tier"),
        ("gates.policies", {"context": '{"tier": "slow"}'}, "context.tier", "there is no 'slow'"),
        ("gates.policies", {"context": '{"epoch": true}'}, "context.epoch", "of another type"),
        ("gates.policies.9", {}, "path", "nothing stands at gates.policies.9"),
        ("gates.invariants.9", {}, "path", "nothing stands at gates.invariants.9"),
        ("gates.invariants.0", {"run": '{"day": 1}'}, "run", "there is no 'day'"),
        ("gates.invariants.0", {"run": '{"documents": [1]}'}, "run.documents", "they are no list of names"),
        ("gates.guardrails", {"place": "plan"}, "place", "'plan' cannot be chosen; there are: finalize, arguments"),
        ("gates.grounding", {"citations": "{}"}, "citations", "they are no list of names"),
        ("gates.grounding", {"documents": '{"a": 1}'}, "documents", "texts by name"),
        ("gates.grounding", {"results": "1"}, "results", "they are no JSON list"),
        ("gates.grounding", {"calculations": "[1]"}, "calculations.0", "it is no JSON object"),
        ("gates.oracle.0", {"exit_criteria": "1"}, "exit_criteria", "they are no list of sentences"),
        ("gates.oracle.2", {"answer": "1"}, "answer", "it is no answer of an address"),
        ("policy.tau", {"score": "high"}, "score", "'high' is no number"),
        ("policy.tau", {"score": "nan"}, "score", "'nan' is no number"),
        ("tools.0", {"arguments": "[]"}, "arguments", "they are no JSON object"),
    ],
)
def test_a_sample_that_is_none_is_refused_with_its_box(path, sample, field, sentence):
    with pytest.raises(Refused) as refused:
        try_check_here(draft(), path, sample)
    assert refused.value.field == field
    assert sentence in refused.value.message
    assert "\n" not in refused.value.message


# -- kind by kind ------------------------------------------------------------------------------------------------------


def test_of_policies_each_one_says_what_part_it_had():
    found = try_check_here(draft(), "gates.policies", CASES["policies"].fails)
    told = {one.what: one.mark for one in found.lines}
    assert (told["everything"], told["few"]) == ("note", "fails")
    passed = {one.what: one.mark for one in try_check_here(draft(), "gates.policies.0", CASES["policies"].passes).lines}
    assert (passed["everything"], passed["few"]) == ("passes", "note")


def test_policies_that_cannot_be_published_are_tried_and_it_is_said():
    tree = draft(gates__policies=[{"name": "only", "text": 'forbid(principal == Agent::"ghost", action, resource);'}])
    found = try_check_here(tree, "gates.policies", CASES["policies"].passes)
    assert found.verdict == "fails"
    assert "Denied: no policy permits it." in said(found)
    assert "Publication refuses it: policy 'only' names Agent::\"ghost\"" in said(found)


def test_a_context_is_completed_and_cut_to_what_the_action_has():
    sample = {**CASES["policies"].passes, "action": "enter", "resource": 'Stage::"plan"'}
    found = try_check_here(draft(), "gates.policies", sample)
    assert found.verdict == "passes"
    assert "context.args: Left out: a run says nothing of it when it asks about enter." in said(found)
    assert 'context.tier: Not given: "interactive" is taken.' in said(found)


def test_what_a_guardrail_finds_is_never_told_whole():
    found = try_check_here(
        draft(), "gates.guardrails", {"place": "arguments", "text": as_json({"q": [SECRET], SECRET: 1})}
    )
    assert {one.what for one in found.lines} == {"q.0", "<key>"}
    assert {one.against for one in found.lines} == {"keys, tokens, passwords and private keys"}
    assert SECRET not in said(found)


def test_a_group_that_does_not_compile_is_named_by_its_own_place():
    groups = [{"rules": ["credentials"]}, {"rules": ["credentials", "nothing"]}]
    for path in ("gates.guardrails", "gates.guardrails.1"):
        found = try_check_here(draft(gates__guardrails=groups), path, {"text": "So."})
        assert [(one.mark, one.what) for one in found.lines] == [("error", "gates.guardrails.1.rules.1")]
    assert try_check_here(draft(gates__guardrails=groups), "gates.guardrails.0", {"text": "So."}).verdict == "passes"


def test_each_citation_quotation_and_number_says_what_it_was_held_against():
    answer = 'It "is 40 euros" [ledger.md], (40 + 2) / 2 = 21, so 21 and 7, or 480 a year.'
    more = {"results": as_json([{"rows": 7}]), "calculations": as_json([{"expression": "40 * 12", "value": "480"}])}
    found = try_check_here(draft(), "gates.grounding", {**CASES["grounding"].passes, "answer": answer, **more})
    assert found.verdict == "passes", said(found)
    assert [(one.what, one.against) for one in found.lines] == [
        ("citation", "attached: ledger.md"),
        ("quotation", "ledger.md"),
        ("formula", "its own result"),
        ("number", "ledger.md"),
        ("number", "calculations and formulas"),
        ("number", "answer of tool 1"),
        ("number", "calculations and formulas"),
    ]


def test_a_level_is_looked_at_once_those_before_it_hold():
    wrong = {**CASES["grounding"].fails, "answer": 'It "is 41 euros".'}
    assert "Numbers are looked at once the quotations hold." in said(try_check_here(draft(), "gates.grounding", wrong))
    ghost = try_check_here(draft(), "gates.grounding", {**wrong, "citations": as_json(["ghost.md"])})
    assert "Quotations and numbers are looked at once the citations hold." in said(ghost)
    required = try_check_here(draft(gates__citations="required"), "gates.citations", {**wrong, "citations": "[]"})
    assert "at least one of the attached documents must be cited" in said(required)
    nothing = try_check_here(draft(gates={}), "gates.grounding", {"citations": as_json(["ghost.md"])})
    assert (nothing.verdict, nothing.lines[0].mark) == ("passes", "note")


@pytest.mark.parametrize(
    ("path", "sample", "verdict_", "sentence"),
    [
        ("gates.oracle.1", {"answer": "true"}, "passes", "looked-up holds."),
        ("gates.oracle.1", {"answer": '{"passed": 1}'}, "fails", "check looked-up: It is not on file."),
        (
            "gates.oracle.1",
            {"outcome": "{}"},
            "fails",
            "check looked-up could not be asked: {outcome.text} has no value",
        ),
        ("gates.oracle.2", {"answer": as_json({"status": 200, "text": '{"total": 40}'})}, "passes", "on-line holds."),
        (
            "gates.oracle.2",
            {"answer": as_json({"status": 200, "text": '{"total": 41}'})},
            "fails",
            "The total is another one.",
        ),
        ("gates.oracle.2", {"answer": as_json({"status": 200, "text": "none"})}, "error", "could not be evaluated"),
        ("gates.oracle.2", {"answer": as_json({"status": 404, "text": "none"})}, "fails", "no answer: HTTP 404"),
        ("gates.oracle.3", {"verdict": verdict(accept=False, findings=["No."])}, "fails", "findings.0: No."),
        ("gates.oracle.3", {"verdict": verdict(score=0.4)}, "fails", "It needs a review: the score is 0.40"),
        ("gates.oracle.3", {"verdict": verdict()}, "passes", "Without a score there is no confidence check."),
    ],
)
def test_of_a_check_that_asks_the_world_a_sample_of_the_answer_is_judged(path, sample, verdict_, sentence):
    found = try_check_here(draft(), path, sample)
    assert found.verdict == verdict_, said(found)
    assert sentence in said(found)


def test_what_a_tool_or_an_address_would_be_asked_with_is_shown_and_not_asked():
    found = try_check_here(draft(), "gates.oracle.2", {"run": '{"id": "a/b"}'})
    assert [one.against for one in found.lines if one.what == "asked"] == [
        '{\n  "url": "https://books.example/a%2Fb"\n}'
    ]
    assert any("A drill asks it" in field.hint for field in list_fields(draft(), "gates.oracle.2"))


def test_a_payload_that_its_schema_would_stop_first_is_tried_and_it_is_said():
    found = try_check_here(draft(), "gates.invariants.0", {"payload": as_json({"text": "Forty euros.", "gaps": 4})})
    assert found.verdict == "passes"
    assert "the schema of finalize comes first and says gaps: " in said(found)


def test_a_missing_score_is_held_against_tau_all_the_same():
    tree = draft(gates={}, topology={"workers": ["worker"], "planner": "planner"}, policy__tau=0.5)
    found = try_check_here(tree, "policy.tau", {"score": "0.5"})
    assert (found.verdict, found.lines[0].against) == ("passes", "tau 0.50")
    assert "This fabric has no critic" in said(found)


@pytest.mark.parametrize("roles", [("aggregator", "finalizer"), ("aggregator",)])
def test_a_sample_of_what_a_typed_agent_writes_has_data_that_its_schema_takes(roles):
    own = {"stage": "finalize", "name": "own", "expression": "payload.data.total >= 3", "message": "It is too little."}
    total = {"type": "object", "properties": {"total": {"type": "integer", "minimum": 3}}, "required": ["total"]}
    tree = fabrics.tree(roles=roles, agents={roles[-1]: {"output_schema": total}}, gates={"invariants": [own]})
    assert outcome(tree, "gates.invariants.0") == "passes"
    assert "data" not in samples.payload(fabrics.tree(roles=roles), Stage.FINALIZE)
