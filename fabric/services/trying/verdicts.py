"""Trials of what judges say: their findings, and scores against tau. No model is asked; the sample is what it might have answered."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from fabric.core.demands import problems_of
from fabric.core.flow import Stage
from fabric.core.gates import Gates
from fabric.core.mechanisms import escalation
from fabric.core.payloads import AGENT_OUTPUT
from fabric.core.policy import FlowPolicy
from fabric.core.verdict import Trip
from fabric.services.trying import parts, samples
from fabric.services.trying.shapes import Draft, Given, SampleField, Trial, Tried, TriedLine, at_path

JSON = Any
_VERDICT = {"accept": True, "score": 0.9, "findings": [], "evidence": ["Each statement is in the ledger."]}
_CORRECTED = "In a run that is no answer: the judge is told, and asked again while it has corrections left."


def fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    """The one box of a judge's verdict."""
    hint = "It is not asked here: write what it might say. A drill asks it."
    return (SampleField("verdict", "json", "What the judge answers", samples.shown(_VERDICT), hint=hint),)


def tried(draft: Draft, path: str, given: Given) -> Tried:
    """A verdict as its gate reads it, then its score against tau."""
    tau = _tau(draft, JUDGES_IN.get(path.partition(".")[2].partition(".")[0], Stage.FINALIZE))
    said = _answer("judgement", "verdict", given["verdict"])
    if isinstance(said, Tried):
        return said
    findings = () if said["accept"] else said["findings"]
    lines = [TriedLine("fails", one, f"findings.{n}") for n, one in enumerate(findings)]
    if lines:
        return Tried(
            "fails", (*lines, TriedLine("note", "The gate fails with them, whatever the score says.", "score"))
        )
    passed = TriedLine("passes", "It is accepted.", "accept")
    if said["score"] is None:
        return Tried("passes", (passed, TriedLine("note", "Without a score there is no confidence check.", "score")))
    scored = _scored(draft, said["score"], tau)
    return Tried(scored.verdict, (passed, *scored.lines))


def _answer(shape: str, field: str, given: JSON) -> JSON | Tried:
    """What an agent answered, as its shape has it; or why it is no such answer."""
    model: type[BaseModel] = AGENT_OUTPUT[shape]
    try:
        return model.model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        lines = [at_path(one, "error") for one in problems_of(error)]
        return Tried("error", (*lines, TriedLine("note", _CORRECTED, field)))


JUDGES_IN = {"plan_critic": Stage.PLAN, "grounding_critic": Stage.FAN_IN, "critic": Stage.VALIDATE}
"""The stage of each judge, by the field that names it; an oracle's is the last one."""


def _tau(draft: Draft, stage: Stage) -> float:
    """The threshold of a stage: its own, else the fabric's."""
    own = parts.found_at(draft, f"policy.stages.{stage}.tau")
    given = isinstance(own, int | float) and not isinstance(own, bool)
    return float(own if given else parts.field_part(draft, "policy.tau", FlowPolicy))


def _scored(draft: Draft, score: float, tau: float) -> Tried:
    """A score against tau, as the gate of a stage asks it."""
    proposal = parts.output(Stage.VALIDATE, None, score=score)
    view = parts.view_of(parts.sketch(draft, Gates()))
    found = escalation.check(escalation.Config(tau), escalation.State(), proposal, view)
    if isinstance(found, Trip):
        return Tried("fails", (TriedLine("fails", f"A person is asked: {found.message}.", "score", f"tau {tau:.2f}"),))
    said = f"It passes: {score:.2f} is not below tau."
    return Tried("passes", (TriedLine("passes", said, "score", f"tau {tau:.2f}"),))


# -- confidence --------------------------------------------------------------------------------------------------------


def _score_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    return (SampleField("score", "number", "Score of the critic, 0 to 1", "0.65"),)


def _score_tried(draft: Draft, path: str, given: Given) -> Tried:
    tau = _tau(draft, Stage.VALIDATE)
    said = _answer("critique", "score", {"score": given["score"], "reasons": []})
    if isinstance(said, Tried):
        return said
    found = _scored(draft, said["score"], tau)
    judges = ("topology.critic", "topology.plan_critic", "gates.grounding_critic", "gates.oracle")
    if any(parts.found_at(draft, one) for one in judges):
        return found
    nobody = "Nobody scores in this fabric, so nothing is held against tau: name a critic."
    return Tried(found.verdict, (*found.lines, TriedLine("note", nobody, "topology.critic")))


CONFIDENCE = Trial("Is this score sure enough?", ("policy.tau", "topology.critic"), _score_fields, _score_tried)
VERDICT = Trial("Does this verdict let it pass?", ("gates.grounding_critic", "topology.plan_critic"), fields, tried)
