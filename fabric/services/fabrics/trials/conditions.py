"""Tries conditions and judges: invariants, the oracle's checks, findings and scores.

A judge's findings, and its score against tau, come from the sample, which is its possible answer. No model is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from fabric.core.mechanisms import escalation, validation_gate
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.schema.payloads import AGENT_OUTPUT
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.gates import Gates, Invariant, OracleCheck
from fabric.core.stages import judging
from fabric.core.state.demands import list_problems
from fabric.core.state.run import Run
from fabric.core.texts.templates import NoValue
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier, Trip
from fabric.core.values.units import JSON
from fabric.policies.expressions import invariants
from fabric.policies.expressions.evaluation import evaluated_here
from fabric.services.fabrics.trials import parts, samples
from fabric.services.fabrics.trials.shapes import (
    CheckTrial,
    Draft,
    Given,
    SampleField,
    TrialResult,
    TriedLine,
    place_sentence,
)
from fabric.services.fabrics.yaml.document import FabricProblem

_RUN: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "tier": str,
    "epoch": int,
    "depth": int,
    "request": str,
    "documents": list,
}
"""Fields of ``run`` in expressions; a test shows that they are those of ``invariants.RUN``."""
_ANSWERS: Mapping[str, JSON] = {
    "tool": {"passed": True},
    "http": {"url": "", "status": 200, "content_type": "application/json", "text": '{"passed": true}'},
}
"""Sample answers of a tool and of an address."""


def _run_field(draft: Draft) -> SampleField:
    return SampleField(
        "run", "json", "Run", samples.box_text(samples.run(draft)), hint="Fields that are left out keep their value."
    )


def _make_proposal(draft: Draft, given: Given, stage: Stage, payload: JSON, **more: JSON) -> tuple[Proposal, View]:
    """Return a proposal and its gate's view of the run, with the facts of the sample."""
    facts = samples.run(draft) | samples.build_object("run", given["run"], _RUN, ", ".join(_RUN))
    if facts["tier"] not in tuple(Tier):
        raise samples.refuse_box("run.tier", f"there is no {facts['tier'][:40]!r}; write {', '.join(Tier)}")
    if not all(isinstance(one, str) for one in facts["documents"]):
        raise samples.refuse_box("run.documents", "they are no list of names")
    run = Run(facts["id"], tier=Tier(facts["tier"]), epoch=facts["epoch"], depth=facts["depth"])
    about = {"request": facts["request"], "documents": tuple(facts["documents"])}
    return parts.output(stage, payload, **about, **more), parts.build_view(parts.sketch(draft, Gates()), run)


def _compile_condition(path: str, asked: Invariant | OracleCheck) -> invariants.Asks:
    try:
        return invariants.build_asks(asked, evaluated_here)
    except invariants.ExpressionProblem as problem:
        raise parts.PartBroken(FabricProblem(f"{path}.expression", f"{asked.name} {problem}")) from None


def _shape(proposal: Proposal, view: View) -> list[TriedLine]:
    """Return the schema's objection to this payload as a note, since the schema's gate comes first."""
    found = dict(validation_gate.POST_CHECKS)["schema"](validation_gate.Config(), proposal, view).problems
    if not found:
        return []
    said = f"A run would not get this far: the schema of {proposal.stage} comes first and says {found[0]}."
    return [TriedLine("note", said, "payload")]


def _answer_line(answered: invariants.ConditionAnswer, expression: str, holds: str) -> TriedLine:
    if not answered.said:
        return TriedLine("passes", holds, against=expression)
    return TriedLine("fails" if answered.evaluated else "error", answered.said, against=expression)


# -- invariants --------------------------------------------------------------------------------------------------------


def _invariant_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    written = parts.found_at(draft, f"{path}.stage")
    stage = Stage(written) if written in tuple(Stage) else Stage.FINALIZE
    payload = samples.box_text(samples.payload(draft, stage))
    return (SampleField("payload", "json", f"Output of {stage}", payload), _run_field(draft))


def _invariant_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    one: Invariant = parts.part(draft, path, Invariant)
    asks = _compile_condition(path, one)
    proposal, view = _make_proposal(draft, given, one.stage, given["payload"])
    answered = asks(validation_gate.payload_values(proposal, view))
    line = _answer_line(answered, one.expression, f"{one.name} holds.")
    verdict: Any = line.mark
    return TrialResult(verdict, (line, *_shape(proposal, view)))


INVARIANT = CheckTrial(
    "Does this condition hold?", ("gates.invariants.N",), _invariant_fields, _invariant_tried, apart=True
)


# -- the oracle --------------------------------------------------------------------------------------------------------


def _way(draft: Draft, path: str) -> str:
    """Return the means of a check: ``tool``, ``http``, ``critic``, or empty for its expression alone."""
    return next((way for way in ("critic", "tool", "http") if parts.found_at(draft, f"{path}.{way}")), "")


def _oracle_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    way = _way(draft, path)
    if way == "critic":
        return fields(draft, path)
    criteria = samples.box_text(samples.payload(draft, Stage.PLAN)["exit_criteria"])
    found = [
        SampleField("outcome", "json", "Outcome", samples.box_text(samples.payload(draft, Stage.FINALIZE))),
        SampleField("exit_criteria", "json", "Exit criteria of the plan", criteria),
        _run_field(draft),
    ]
    if way:
        hint = "It is not asked here: write what it might say. A drill asks it."
        label = "Answer of the tool" if way == "tool" else "Answer of the address"
        found.append(SampleField("answer", "json", label, samples.box_text(_ANSWERS[way]), hint=hint))
    return tuple(found)


def _oracle_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    if _way(draft, path) == "critic":
        parts.part(draft, path, OracleCheck)
        return try_verdict(draft, path, given)
    one: OracleCheck = parts.part(draft, path, OracleCheck)
    asks = _compile_condition(path, one) if one.expression is not None else None
    proposal, view = _make_proposal(draft, given, Stage.FINALIZE, given["outcome"], exit_criteria=_criteria(given))
    about = validation_gate.outcome_values(proposal, view)
    lines: tuple[TriedLine, ...] = ()
    if one.asks_world:
        try:
            arguments = samples.box_text(judging.find_arguments(one, about))
        except NoValue as missing:
            said = f"check {one.name} could not be asked: {missing}."
            return TrialResult("fails", (TriedLine("fails", said, "outcome"), *_shape(proposal, view)))
        whom = one.tool if one.tool is not None else "the address"
        lines = (
            TriedLine("note", f"A run asks {whom} with this; here its answer is the one above.", "asked", arguments),
        )
        if none := _no_answer(one, given["answer"]):
            return TrialResult("fails", (TriedLine("fails", none, "answer", "an answer of 2xx"), *lines))
        about = judging.add_answer(one, about, given["answer"])
    found = _answer_line(asks(about), one.expression or "", f"{one.name} holds.") if asks else _yes(one, given)
    verdict: Any = found.mark
    return TrialResult(verdict, (found, *lines, *_shape(proposal, view)))


def _no_answer(one: OracleCheck, answer: JSON) -> str:
    """Return the sentence for an address that answers with an error or redirects, which counts as a no
    (``tools/http/exchange.py``).
    """
    if one.http is None:
        return ""
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, int) or not isinstance(answer.get("text"), str):
        raise samples.refuse_box("answer", 'it is no answer of an address; write {"status": 200, "text": "..."}')
    return "" if 200 <= status < 300 else f"check {one.name} has no answer: HTTP {status}"


def _yes(one: OracleCheck, given: Given) -> TriedLine:
    if judging.says_yes(one, given["answer"]):
        return TriedLine("passes", f"{one.name} holds.", "answer")
    return TriedLine("fails", f"check {one.name}: {one.message}", "answer", 'true, or {"passed": true}')


def _criteria(given: Given) -> tuple[str, ...]:
    found = given["exit_criteria"]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise samples.refuse_box("exit_criteria", "they are no list of sentences")
    return tuple(found)


_VERDICT = {"accept": True, "score": 0.9, "findings": [], "evidence": ["Each statement is in the ledger."]}
_CORRECTED = "In a run this is no answer: the judge gets the error and answers again while it has corrections left."


def fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    """Return the one box of a judge's verdict."""
    hint = "It is not asked here: write what it might say. A drill asks it."
    return (SampleField("verdict", "json", "Answer of the judge", samples.box_text(_VERDICT), hint=hint),)


def try_verdict(draft: Draft, path: str, given: Given) -> TrialResult:
    """Try a verdict as its gate reads it, then its score against tau."""
    tau = _tau(draft, JUDGES_IN.get(path.partition(".")[2].partition(".")[0], Stage.FINALIZE))
    said = _answer("judgement", "verdict", given["verdict"])
    if isinstance(said, TrialResult):
        return said
    findings = () if said["accept"] else said["findings"]
    lines = [TriedLine("fails", one, f"findings.{n}") for n, one in enumerate(findings)]
    if lines:
        return TrialResult("fails", (*lines, TriedLine("note", "The gate fails with them at any score.", "score")))
    passed = TriedLine("passes", "It is accepted.", "accept")
    if said["score"] is None:
        return TrialResult(
            "passes", (passed, TriedLine("note", "Without a score there is no confidence check.", "score"))
        )
    scored = _try_score(draft, said["score"], tau)
    return TrialResult(scored.verdict, (passed, *scored.lines))


def _answer(shape: str, field: str, given: JSON) -> JSON | TrialResult:
    """Return an agent's answer in its shape, or the result that explains why it has another shape."""
    model: type[BaseModel] = AGENT_OUTPUT[shape]
    try:
        return model.model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        lines = [place_sentence(one, "error") for one in list_problems(error)]
        return TrialResult("error", (*lines, TriedLine("note", _CORRECTED, field)))


JUDGES_IN = {"plan_critic": Stage.PLAN, "grounding_critic": Stage.FAN_IN, "critic": Stage.VALIDATE}
"""The stage of each judge, by the field that names it; an oracle's is the last one."""


def _tau(draft: Draft, stage: Stage) -> float:
    """Return the threshold of a stage: its own, else the fabric's."""
    own = parts.found_at(draft, f"policy.stages.{stage}.tau")
    given = isinstance(own, int | float) and not isinstance(own, bool)
    return float(own if given else parts.field_part(draft, "policy.tau", FlowPolicy))


def _try_score(draft: Draft, score: float, tau: float) -> TrialResult:
    """Try a score against tau, as the gate of a stage does."""
    proposal = parts.output(Stage.VALIDATE, None, score=score)
    view = parts.build_view(parts.sketch(draft, Gates()))
    found = escalation.check(escalation.Config(tau), escalation.State(), proposal, view)
    if isinstance(found, Trip):
        return TrialResult(
            "fails", (TriedLine("fails", f"It needs a review: {found.message}.", "score", f"tau {tau:.2f}"),)
        )
    said = f"It passes: {score:.2f} is not below the needed score."
    return TrialResult("passes", (TriedLine("passes", said, "score", f"tau {tau:.2f}"),))


ORACLE = CheckTrial("Does this outcome keep the check?", ("gates.oracle.N",), _oracle_fields, _oracle_tried, apart=True)


# -- confidence --------------------------------------------------------------------------------------------------------


def _score_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    return (SampleField("score", "number", "Score of the critic, 0 to 1", "0.65"),)


def _score_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    tau = _tau(draft, Stage.VALIDATE)
    said = _answer("critique", "score", {"score": given["score"], "reasons": []})
    if isinstance(said, TrialResult):
        return said
    found = _try_score(draft, said["score"], tau)
    judges = ("topology.critic", "topology.plan_critic", "gates.grounding_critic", "gates.oracle")
    if any(parts.found_at(draft, one) for one in judges):
        return found
    no_critic = "This fabric has no critic, so there is no score to compare: name a critic."
    return TrialResult(found.verdict, (*found.lines, TriedLine("note", no_critic, "topology.critic")))


CONFIDENCE = CheckTrial("Is this score sure enough?", ("policy.tau", "topology.critic"), _score_fields, _score_tried)
VERDICT = CheckTrial(
    "Does this verdict let it pass?", ("gates.grounding_critic", "topology.plan_critic"), fields, try_verdict
)
