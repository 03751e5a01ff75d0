"""Validation gates between stages: schema, policy, semantic invariants, grounding, in that order (S0 "Validation Gates Between Stages").

Stops: a payload that the next stage could not begin with, that names agents or documents which do not exist, or that cites nothing where it must. The
first failure stops. The GateResult has every check: what it found, or that it was not reached or asks nothing. Policy asks the policies and the guardrails. Does not stop: a false statement with a true
citation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from fabric.core import demands, permissions, releases
from fabric.core.events.parts import Check, CheckResult, GateResult
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.grounding import citations, numbers, quotes
from fabric.core.judges import FIRST, GROUNDING_CRITIC, judges_of
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.payloads import Aggregate, Outcome, Part, Plan
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Details, Evidence, Trip, Verdict
from fabric.core.words import words

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "validation_gate"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """Nothing to set: what a gate demands stands in the fabric."""


@value()
class State:
    """A gate judges each payload alone."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config()


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


@value()
class Found:
    """What one check found: nothing, where it passed."""

    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    """Names of the policies that decided, where one was asked."""
    awaits: int = 0
    """Branch of the judge who has to be heard first; 0: nobody has."""
    configured: bool = True
    """False: the fabric asks nothing here."""
    accepted: bool = False
    """A person let pass what was wrong."""


@value()
class Awaited:
    """A gate that cannot be judged before somebody was heard."""

    branch: int


PRE_CHECKS: Mapping[str, Cause] = {
    "schema": Cause.SCHEMA_INVALID,
    "policy": Cause.POLICY_DENIED,
    "budget": Cause.BUDGET_GATE,
    "artifacts": Cause.INVARIANT,
}
"""The checks of a pre-gate in their order (semantics.md 1), and what each one's failure is called."""
FAILURE_CAUSE: Mapping[str, Cause] = {
    "schema": Cause.SCHEMA_INVALID,
    "policy": Cause.POLICY_DENIED,
    "invariants": Cause.INVARIANT,
    "grounding": Cause.GROUNDING,
    "critic": Cause.PLAN_GATE,
    "grounding_critic": Cause.GROUNDING,
    "oracle": Cause.INVARIANT,
}
"""What a failed check is called; in the plan stage every failure but policy's is ``plan_gate``."""


def _schema(config: Config, proposal: Proposal, view: View) -> Found:
    try:
        STAGE_OUTPUT[proposal.stage].validate_python(proposal.payload)
    except ValidationError as error:
        return Found(demands.problems_of(error))
    found = demands.unmet_next(proposal.stage, proposal.payload, view.spec)
    return Found(tuple(found) or proposal.too_many)


def _allowed(config: Config, proposal: Proposal, view: View) -> Found:
    found = view.evaluators.hits(proposal.stage, proposal.payload)
    for one in proposal.said:
        found += view.evaluators.hits(proposal.stage, one)
    ruled = permissions.ruling(proposal, view)
    denied = (f"answer: passing it on was denied: {ruled.why}",) if ruled is not None and ruled.why else ()
    policies = () if ruled is None else ruled.policies
    problems = (*denied, *found)
    if problems and releases.key(releases.shown(proposal.said, proposal.payload), problems) in view.run.released:
        return Found(policies=policies, accepted=True)
    configured = view.evaluators.rules is not None or proposal.stage in view.evaluators.guardrails
    return Found(problems, policies, configured=configured)


def released(proposal: Proposal, view: View) -> bool:
    """Whether a person let exactly this pass, whatever is wrong with it now."""
    return not _allowed(Config(), proposal, view).problems


def _invariants(config: Config, proposal: Proposal, view: View) -> Found:
    limited = proposal.stage is Stage.FINALIZE and view.spec.gates.max_outcome_chars is not None
    own = proposal.stage in view.evaluators.invariants
    found = tuple(_too_long(proposal, view)) if limited else proposal.too_many
    if own and not found:
        found = tuple(view.evaluators.broken(proposal.stage, of_payload(proposal, view)))
    return Found(found, configured=limited or own or bool(found))


def of_payload(proposal: Proposal, view: View) -> dict[str, Any]:
    """What invariants may name."""
    return {"payload": proposal.payload, "run": _run(proposal, view), "stage": str(proposal.stage)}


def of_outcome(proposal: Proposal, view: View) -> dict[str, Any]:
    """What the expressions of an oracle may name."""
    criteria = list(proposal.exit_criteria)
    return {"outcome": proposal.payload, "exit_criteria": criteria, "run": _run(proposal, view)}


def _run(proposal: Proposal, view: View) -> dict[str, Any]:
    run = view.run
    about = {"id": run.id, "tier": str(run.tier), "epoch": run.epoch, "depth": run.depth}
    return about | {"request": proposal.request, "documents": list(proposal.documents)}


def _oracle(config: Config, proposal: Proposal, view: View) -> Found:
    found = tuple(view.evaluators.unmet(of_outcome(proposal, view)))
    if found:
        return Found(found)
    for judge in judges_of(view.spec, proposal.stage):
        if judge.check is None:
            continue
        said = proposal.judged.get(judge.branch)
        if said is None or said:
            return Found(awaits=judge.branch) if said is None else Found(said)
    return Found()


def _judged(config: Config, proposal: Proposal, view: View) -> Found:
    said = proposal.judged.get(FIRST)
    return Found(awaits=FIRST) if said is None else Found(said)


def _too_long(proposal: Proposal, view: View) -> list[str]:
    limit, size = view.spec.gates.max_outcome_chars or 0, len(proposal.payload["text"])
    return [f"text: {size:,} characters, at most {limit:,} are allowed"] if size > limit else []


def _grounding(config: Config, proposal: Proposal, view: View) -> Found:
    level, grounding = view.spec.gates.citations, view.spec.gates.grounding
    if (level == "off" and grounding is None) or proposal.stage not in (Stage.FAN_IN, Stage.FINALIZE):
        return Found(configured=False)
    return Found(tuple(_ungrounded(proposal, view)))


def _ungrounded(proposal: Proposal, view: View) -> list[str]:
    level, grounding = view.spec.gates.citations, view.spec.gates.grounding
    cited = proposal.payload.get("citations", [])
    said = (citations.problem(one, proposal.documents, proposal.sources) for one in cited)
    found = [sentence for sentence in said if sentence]
    if level == "required" and not cited and proposal.documents:
        found.append("citations: at least one of the attached documents must be cited")
    if found or not view.spec.gates.matches_sources:
        return found
    assert proposal.sources is not None  # stages.py gathers them for each gate that asks
    text = proposal.payload["text"]
    found = quotes.problems(text, proposal.sources)
    return found if found or grounding == "quotes" else numbers.problems(text, proposal.sources)


POST_CHECKS: tuple[tuple[str, Callable[[Config, Proposal, View], Found]], ...] = (
    ("schema", _schema),
    ("policy", _allowed),
    ("invariants", _invariants),
    ("grounding", _grounding),
)
"""The four checks of S0, in order."""


def _checks(proposal: Proposal, view: View) -> tuple[tuple[str, Callable[[Config, Proposal, View], Found]], ...]:
    """The four, what an agent beside the author says, and the oracle last."""
    judges = tuple((one.name, _judged) for one in judges_of(view.spec, proposal.stage) if one.check is None)
    oracle = view.spec.gates.oracle and proposal.stage is Stage.FINALIZE
    return (*POST_CHECKS, *judges, *((("oracle", _oracle),) if oracle else ()))


def judge(config: Config, proposal: Proposal, view: View) -> GateResult | Awaited:
    """The post-gate of a stage over what it wants to pass on; or who has to be heard first, where all checks before theirs have passed."""
    done: list[Check] = []
    cause: Cause | None = None
    for name, function in _checks(proposal, view):
        if cause is not None:
            done.append(Check(name=name, result="not_reached"))
            continue
        found = function(config, proposal, view)
        if found.awaits:
            return Awaited(found.awaits)
        done.append(_checked(name, found))
        if found.problems:
            malformed = proposal.stage is Stage.PLAN and name != "policy"
            cause = Cause.PLAN_GATE if malformed else FAILURE_CAUSE[name]
    return GateResult(gate="post", checks=tuple(done), cause=cause)


def _said(gate: str, stage: Stage, check: str, problems: str) -> str:
    what = (
        f"stage {words(stage)} could not begin" if gate == "pre" else f"the output of stage {words(stage)} was refused"
    )
    return f"{what} by its check {words(check)}: {problems}"


def trip_of(result: GateResult, stage: Stage, left_out: tuple[str, ...] = ()) -> Trip | None:
    """A failed gate as a trip; None when it passed. ``left_out``: what the stage's grounding critic was not shown."""
    if result.cause is None:
        return None
    failed = next(check for check in result.checks if check.result == "failed")
    shown = "; ".join(failed.problems[:3])
    details: Details = {"check": failed.name, "problems": list(failed.problems)}
    if failed.policies:
        details["policies"] = list(failed.policies)
    if left_out and failed.name == GROUNDING_CRITIC:
        details["left_out"] = list(left_out)
    evidence = Evidence(scope=f"stage:{stage}", details=details)
    return Trip(NAME, result.cause, evidence, _said(result.gate, stage, failed.name, shown))


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """The gate as a verdict."""
    result = judge(config, proposal, view)
    if isinstance(result, Awaited):
        evidence = Evidence(scope=f"stage:{proposal.stage}")
        return Trip(
            NAME, Cause.INVARIANT, evidence, f"the output of stage {words(proposal.stage)} has not been judged yet"
        )
    return trip_of(result, proposal.stage) or PASS


def pre_gate(checks: Mapping[str, Callable[[], Found]]) -> GateResult:
    """The pre-gate: what ``PRE_CHECKS`` names, in that order. A check is made only when those before it have passed."""
    done: list[Check] = []
    failed: Cause | None = None
    for name, cause in PRE_CHECKS.items():
        if failed is not None:
            done.append(Check(name=name, result="not_reached"))
            continue
        found = checks[name]()
        done.append(_checked(name, found))
        failed = cause if found.problems else None
    return GateResult(gate="pre", checks=tuple(done), cause=failed)


def _checked(name: str, found: Found) -> Check:
    result: CheckResult
    result = "failed" if found.problems else "accepted" if found.accepted else "passed"
    if result == "passed" and not found.configured:
        result = "not_configured"
    return Check(name=name, result=result, problems=found.problems, policies=found.policies)
