"""Trials of conditions: invariants on what a stage passes on, and what an oracle asks of a finished outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters import invariants
from fabric.adapters.expressions import evaluated_here
from fabric.core import judging
from fabric.core.flow import Stage
from fabric.core.gates import Gates, Invariant, OracleCheck
from fabric.core.mechanisms import validation_gate
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.run import Run
from fabric.core.taxonomy import Tier
from fabric.core.templates import NoValue
from fabric.services.fabric_yaml import Problem
from fabric.services.trying import parts, samples, verdicts
from fabric.services.trying.shapes import Draft, Given, SampleField, Trial, Tried, TriedLine

JSON = Any
_RUN: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "tier": str,
    "epoch": int,
    "depth": int,
    "request": str,
    "documents": list,
}
"""The fields of ``run`` in expressions; those of ``invariants.RUN``, by test."""
_ANSWERS: Mapping[str, JSON] = {
    "tool": {"passed": True},
    "http": {"url": "", "status": 200, "content_type": "application/json", "text": '{"passed": true}'},
}
"""What a tool and an address might answer."""


def _run_field(draft: Draft) -> SampleField:
    return SampleField("run", "json", "Run", samples.shown(samples.run(draft)), hint="What is left out stays as it is.")


def _asked(draft: Draft, given: Given, stage: Stage, payload: JSON, **more: JSON) -> tuple[Proposal, View]:
    """A proposal and what its gate sees of the run, with the facts of the sample."""
    facts = samples.run(draft) | samples.object_of("run", given["run"], _RUN, ", ".join(_RUN))
    if facts["tier"] not in tuple(Tier):
        raise samples.refused("run.tier", f"there is no {facts['tier'][:40]!r}; write {', '.join(Tier)}")
    if not all(isinstance(one, str) for one in facts["documents"]):
        raise samples.refused("run.documents", "they are no list of names")
    run = Run(facts["id"], tier=Tier(facts["tier"]), epoch=facts["epoch"], depth=facts["depth"])
    about = {"request": facts["request"], "documents": tuple(facts["documents"])}
    return parts.output(stage, payload, **about, **more), parts.view_of(parts.sketch(draft, Gates()), run)


def _compiled(path: str, asked: Invariant | OracleCheck) -> invariants.Asks:
    try:
        return invariants.asks_of(asked, evaluated_here)
    except invariants.ExpressionProblem as problem:
        raise parts.PartBroken(Problem(f"{path}.expression", f"{asked.name} {problem}")) from None


def _shape(proposal: Proposal, view: View) -> list[TriedLine]:
    """What the schema says of the same payload: its gate asks that first."""
    found = dict(validation_gate.POST_CHECKS)["schema"](validation_gate.Config(), proposal, view).problems
    if not found:
        return []
    said = f"In a run it would not come so far: the schema of {proposal.stage} is asked first, and says {found[0]}."
    return [TriedLine("note", said, "payload")]


def _said(answered: invariants.Answered, expression: str, holds: str) -> TriedLine:
    if not answered.said:
        return TriedLine("passes", holds, against=expression)
    return TriedLine("fails" if answered.evaluated else "error", answered.said, against=expression)


# -- invariants --------------------------------------------------------------------------------------------------------


def _invariant_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    written = parts.found_at(draft, f"{path}.stage")
    stage = Stage(written) if written in tuple(Stage) else Stage.FINALIZE
    payload = samples.shown(samples.payload(draft, stage))
    return (SampleField("payload", "json", f"What {stage} passes on", payload), _run_field(draft))


def _invariant_tried(draft: Draft, path: str, given: Given) -> Tried:
    one: Invariant = parts.part(draft, path, Invariant)
    asks = _compiled(path, one)
    proposal, view = _asked(draft, given, one.stage, given["payload"])
    answered = asks(validation_gate.of_payload(proposal, view))
    line = _said(answered, one.expression, f"{one.name} holds.")
    verdict: Any = line.mark
    return Tried(verdict, (line, *_shape(proposal, view)))


INVARIANT = Trial("Does this condition hold?", ("gates.invariants.N",), _invariant_fields, _invariant_tried, apart=True)


# -- the oracle --------------------------------------------------------------------------------------------------------


def _way(draft: Draft, path: str) -> str:
    """How a check asks: ``tool``, ``http``, ``critic``, or by its expression alone."""
    return next((way for way in ("critic", "tool", "http") if parts.found_at(draft, f"{path}.{way}")), "")


def _oracle_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    way = _way(draft, path)
    if way == "critic":
        return verdicts.fields(draft, path)
    criteria = samples.shown(samples.payload(draft, Stage.PLAN)["exit_criteria"])
    found = [
        SampleField("outcome", "json", "Outcome", samples.shown(samples.payload(draft, Stage.FINALIZE))),
        SampleField("exit_criteria", "json", "Exit criteria of the plan", criteria),
        _run_field(draft),
    ]
    if way:
        hint = "It is not asked here: write what it might say. A drill asks it."
        label = "What the tool answers" if way == "tool" else "What the address answers"
        found.append(SampleField("answer", "json", label, samples.shown(_ANSWERS[way]), hint=hint))
    return tuple(found)


def _oracle_tried(draft: Draft, path: str, given: Given) -> Tried:
    if _way(draft, path) == "critic":
        parts.part(draft, path, OracleCheck)
        return verdicts.tried(draft, path, given)
    one: OracleCheck = parts.part(draft, path, OracleCheck)
    asks = _compiled(path, one) if one.expression is not None else None
    proposal, view = _asked(draft, given, Stage.FINALIZE, given["outcome"], exit_criteria=_criteria(given))
    about = validation_gate.of_outcome(proposal, view)
    lines: tuple[TriedLine, ...] = ()
    if one.asks_world:
        try:
            arguments = samples.shown(judging.arguments_of(one, about))
        except NoValue as missing:
            said = f"check {one.name} could not be asked: {missing}."
            return Tried("fails", (TriedLine("fails", said, "outcome"), *_shape(proposal, view)))
        whom = one.tool if one.tool is not None else "the address"
        lines = (
            TriedLine("note", f"A run asks {whom} with this; here its answer is the one above.", "asked", arguments),
        )
        if none := _no_answer(one, given["answer"]):
            return Tried("fails", (TriedLine("fails", none, "answer", "an answer of 2xx"), *lines))
        about = judging.with_answer(one, about, given["answer"])
    found = _said(asks(about), one.expression or "", f"{one.name} holds.") if asks else _yes(one, given)
    verdict: Any = found.mark
    return Tried(verdict, (found, *lines, *_shape(proposal, view)))


def _no_answer(one: OracleCheck, answer: JSON) -> str:
    """What is said of an address that answers with an error or leads elsewhere: that is a no (``tools/web.py``)."""
    if one.http is None:
        return ""
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, int) or not isinstance(answer.get("text"), str):
        raise samples.refused("answer", 'it is no answer of an address; write {"status": 200, "text": "..."}')
    return "" if 200 <= status < 300 else f"check {one.name} has no answer: HTTP {status}"


def _yes(one: OracleCheck, given: Given) -> TriedLine:
    if judging.says_yes(one, given["answer"]):
        return TriedLine("passes", f"{one.name} holds.", "answer")
    return TriedLine("fails", f"check {one.name}: {one.message}", "answer", 'true, or {"passed": true}')


def _criteria(given: Given) -> tuple[str, ...]:
    found = given["exit_criteria"]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise samples.refused("exit_criteria", "they are no list of sentences")
    return tuple(found)


ORACLE = Trial("Does this outcome keep the check?", ("gates.oracle.N",), _oracle_fields, _oracle_tried, apart=True)
