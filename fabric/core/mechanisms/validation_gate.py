"""Validation gates between stages: schema, policy, semantic invariants, grounding, in that order (S0 "Validation Gates Between Stages").

Stops: a payload that the next stage could not use, that names agents or documents which do not exist, or that cites nothing where it must. The first
failure stops; what was checked so far is kept in the GateResult. Policy asks the guardrails. Does not stop: a false statement with a true
citation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from fabric.core.events.parts import Check, GateResult
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.grounding import numbers, quotes
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.payloads import Aggregate, Outcome, Part, Plan
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "validation_gate"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """The contract that a plan must keep for the next stage: most briefs."""

    plan_branches: int


@value()
class State:
    """A gate judges each payload alone."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config(policy.limits.plan_branches)


def observe(state: State, event: Event) -> State:
    """Observes nothing."""
    return state


STAGE_OUTPUT: Mapping[Stage, TypeAdapter[Any]] = {
    Stage.PLAN: TypeAdapter(Plan),
    Stage.FAN_OUT: TypeAdapter(list[Part]),
    Stage.FAN_IN: TypeAdapter(Aggregate),
    Stage.VALIDATE: TypeAdapter(Aggregate),
    Stage.FINALIZE: TypeAdapter(Outcome),
}
"""What each stage passes on."""

FAILURE_CAUSE: Mapping[str, Cause] = {
    "schema": Cause.SCHEMA_INVALID,
    "policy": Cause.POLICY_DENIED,
    "invariants": Cause.INVARIANT,
    "grounding": Cause.GROUNDING,
}
"""What a failed check is called; in the plan stage every failure but policy's is ``plan_gate``."""


def problems_of(error: ValidationError) -> tuple[str, ...]:
    """Pydantic's errors as ``path: sentence``, without the offending values."""
    return tuple(
        f"{'.'.join(str(part) for part in item['loc']) or 'answer'}: {item['msg']}" for item in error.errors()[:20]
    )


def _schema(config: Config, proposal: Proposal, view: View) -> list[str]:
    try:
        STAGE_OUTPUT[proposal.stage].validate_python(proposal.payload)
    except ValidationError as error:
        return list(problems_of(error))
    return []


def _allowed(config: Config, proposal: Proposal, view: View) -> list[str]:
    found = view.evaluators.hits(proposal.stage, proposal.payload)
    for one in proposal.said:
        found += view.evaluators.hits(proposal.stage, one)
    return found


def _invariants(config: Config, proposal: Proposal, view: View) -> list[str]:
    found = _built_in(config, proposal, view)
    if found or proposal.stage not in view.evaluators.invariants:
        return found
    run = view.run
    about = {"id": run.id, "tier": str(run.tier), "epoch": run.epoch, "depth": run.depth}
    about |= {"request": proposal.request, "documents": list(proposal.documents)}
    given = {"payload": proposal.payload, "run": about, "stage": str(proposal.stage)}
    return view.evaluators.broken(proposal.stage, given)


def _built_in(config: Config, proposal: Proposal, view: View) -> list[str]:
    if proposal.stage is Stage.PLAN:
        return _plan_contract(config, proposal, view)
    limit = view.spec.gates.max_outcome_chars
    if proposal.stage is Stage.FINALIZE and limit is not None and len(proposal.payload["text"]) > limit:
        return [f"text: {len(proposal.payload['text']):,} characters, at most {limit:,} are allowed"]
    return []


def _plan_contract(config: Config, proposal: Proposal, view: View) -> list[str]:
    briefs = proposal.payload["briefs"]
    workers = view.spec.topology.workers
    found = [
        f"briefs.{n}.agent: {brief['agent']!r} is not one of the workers ({', '.join(workers)})"
        for n, brief in enumerate(briefs)
        if brief["agent"] not in workers
    ]
    if len(briefs) > config.plan_branches:
        found.append(f"briefs: {len(briefs)} of them, at most {config.plan_branches} are allowed")
    return found


def _grounding(config: Config, proposal: Proposal, view: View) -> list[str]:
    level, grounding = view.spec.gates.citations, view.spec.gates.grounding
    if (level == "off" and grounding is None) or proposal.stage not in (Stage.FAN_IN, Stage.FINALIZE):
        return []
    cited = proposal.payload.get("citations", [])
    found = [f"citations: no document is named {name!r}" for name in cited if name not in proposal.documents]
    if level == "required" and not cited and proposal.documents:
        found.append("citations: at least one of the attached documents must be cited")
    if found or not view.spec.gates.reads_sources:
        return found
    assert proposal.sources is not None  # stages.py gathers them for each gate that asks
    text = proposal.payload["text"]
    found = quotes.problems(text, proposal.sources)
    return found if found or grounding == "quotes" else numbers.problems(text, proposal.sources)


POST_CHECKS: tuple[tuple[str, Callable[[Config, Proposal, View], list[str]]], ...] = (
    ("schema", _schema),
    ("policy", _allowed),
    ("invariants", _invariants),
    ("grounding", _grounding),
)
"""The four checks of S0, in order."""


def judge(config: Config, proposal: Proposal, view: View) -> GateResult:
    """The post-gate of a stage over what it wants to pass on."""
    done: list[Check] = []
    for name, function in POST_CHECKS:
        problems = tuple(function(config, proposal, view))
        done.append(Check(name=name, passed=not problems, problems=problems))
        if problems:
            malformed = proposal.stage is Stage.PLAN and name != "policy"
            cause = Cause.PLAN_GATE if malformed else FAILURE_CAUSE[name]
            return GateResult(gate="post", checks=tuple(done), cause=cause)
    return GateResult(gate="post", checks=tuple(done))


def trip_of(result: GateResult, stage: Stage) -> Trip | None:
    """A failed gate as a trip; None when it passed."""
    if result.cause is None:
        return None
    failed = result.checks[-1]
    shown = "; ".join(failed.problems[:3])
    evidence = Evidence(scope=f"stage:{stage}", details={"check": failed.name, "problems": list(failed.problems)})
    return Trip(NAME, result.cause, evidence, f"{result.gate}-gate of {stage}, check {failed.name}: {shown}")


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """The gate as a verdict."""
    return trip_of(judge(config, proposal, view), proposal.stage) or PASS


def pre_gate(
    stage: Stage, *, payload: Any, upstream: type[BaseModel] | None, headroom: int, artifacts: list[str]
) -> GateResult:
    """The pre-gate: schema of the input, policy scope, budget headroom (micro-dollars), required upstream artifacts."""
    schema: list[str] = []
    if upstream is not None:
        try:
            upstream.model_validate(payload)
        except ValidationError as error:
            schema = list(problems_of(error))
    budget = [] if headroom >= 0 else [f"the run has overspent its budget by {-headroom:,} micro-dollars"]
    found: tuple[tuple[str, list[str]], ...]
    found = (("schema", schema), ("policy", []), ("budget", budget), ("artifacts", artifacts))
    causes = {"schema": Cause.SCHEMA_INVALID, "budget": Cause.BUDGET_GATE, "artifacts": Cause.INVARIANT}
    done: list[Check] = []
    for name, problems in found:
        done.append(Check(name=name, passed=not problems, problems=tuple(problems)))
        if problems:
            return GateResult(gate="pre", checks=tuple(done), cause=causes[name])
    return GateResult(gate="pre", checks=tuple(done))
