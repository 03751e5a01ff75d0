"""Validation gates between stages: schema, policy, semantic invariants, grounding, in that order (S0 "Validation
Gates Between Stages").

Stops: a payload that the next stage could not begin with, that names agents or documents which do not exist, or that
lacks a required citation. The first failure stops. The GateResult has every check with its finding, or that it was
not reached or checks nothing. The policy check applies the policies and the guardrails. Does not stop: a false
statement with a true citation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from fabric.core.events.parts import Check, CheckResult, GateResult
from fabric.core.grounding import numbers, quotes, sources
from fabric.core.mechanisms import permissions
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.schema.payloads import Aggregate, Outcome, Part, Plan
from fabric.core.state import demands, let_pass
from fabric.core.state.judges import FIRST, GROUNDING_CRITIC, list_judges
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.words import words

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "validation_gate"
TITLE = "Validation gates"
STOPS = "payloads that are malformed, denied, untrue or without a source"
PAGE = "docs/specification/stages.md"
CLASSES = (FailureClass.SPECIFICATION, FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ()
UNCOUNTED = "judges each payload alone; the gates are on the timeline"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"output"})
OBSERVES: frozenset[str] = frozenset()


@value()
class Config:
    """No settings: the fabric has the gates' demands."""


@value()
class State:
    """A gate judges each payload alone."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config()


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


STAGE_OUTPUT: Mapping[Stage, TypeAdapter[Any]] = {
    Stage.PLAN: TypeAdapter(Plan),
    Stage.FAN_OUT: TypeAdapter(list[Part]),
    Stage.FAN_IN: TypeAdapter(Aggregate),
    Stage.VALIDATE: TypeAdapter(Aggregate),
    Stage.FINALIZE: TypeAdapter(Outcome),
}
"""Type of the output of each stage."""


@value()
class CheckFinding:
    """The findings of one check; no problems if it passed."""

    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    """Names of the policies that decided, if any did."""
    awaits: int = 0
    """Branch of the judge whose verdict the check awaits; 0: no judge."""
    configured: bool = True
    """False: the fabric has no such check."""
    accepted: bool = False
    """True: a person accepted the problems."""


@value()
class JudgeAwaited:
    """A gate that cannot be judged before a judge's verdict has arrived."""

    branch: int


PRE_CHECKS: Mapping[str, Cause] = {
    "schema": Cause.SCHEMA_INVALID,
    "policy": Cause.POLICY_DENIED,
    "budget": Cause.BUDGET_GATE,
    "artifacts": Cause.INVARIANT,
}
"""The checks of a pre-gate in their order (docs/specification/stages.md), and what each one's failure is called."""
FAILURE_CAUSE: Mapping[str, Cause] = {
    "schema": Cause.SCHEMA_INVALID,
    "policy": Cause.POLICY_DENIED,
    "invariants": Cause.INVARIANT,
    "grounding": Cause.GROUNDING,
    "critic": Cause.PLAN_GATE,
    "grounding_critic": Cause.GROUNDING,
    "oracle": Cause.INVARIANT,
}
"""Cause of a failed check; in the plan stage every failure but policy's is ``plan_gate``."""


def _schema(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    try:
        STAGE_OUTPUT[proposal.stage].validate_python(proposal.payload)
    except ValidationError as error:
        return CheckFinding(demands.list_problems(error))
    found = demands.unmet_next(proposal.stage, proposal.payload, view.spec)
    return CheckFinding(tuple(found) or proposal.too_many)


def _check_policies(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    found = view.evaluators.hits(proposal.stage, proposal.payload)
    for one in proposal.said:
        found += view.evaluators.hits(proposal.stage, one)
    ruled = permissions.judge_call(proposal, view)
    denied = (f"answer: passing it on was denied: {ruled.why}",) if ruled is not None and ruled.why else ()
    policies = () if ruled is None else ruled.policies
    problems = (*denied, *found)
    if problems and let_pass.key(let_pass.shown_form(proposal.said, proposal.payload), problems) in view.run.released:
        return CheckFinding(policies=policies, accepted=True)
    configured = view.evaluators.rules is not None or proposal.stage in view.evaluators.guardrails
    return CheckFinding(problems, policies, configured=configured)


def is_released(proposal: Proposal, view: View) -> bool:
    """Return True if a person accepted exactly this output despite its problems."""
    return not _check_policies(Config(), proposal, view).problems


def _invariants(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    limited = proposal.stage is Stage.FINALIZE and view.spec.gates.max_outcome_chars is not None
    own = proposal.stage in view.evaluators.invariants
    found = tuple(_too_long(proposal, view)) if limited else proposal.too_many
    if own and not found:
        found = tuple(view.evaluators.list_broken(proposal.stage, payload_values(proposal, view)))
    return CheckFinding(found, configured=limited or own or bool(found))


def payload_values(proposal: Proposal, view: View) -> dict[str, Any]:
    """Return the names that invariants may use."""
    return {"payload": proposal.payload, "run": _run(proposal, view), "stage": str(proposal.stage)}


def outcome_values(proposal: Proposal, view: View) -> dict[str, Any]:
    """Return the names that an oracle's expressions may use."""
    criteria = list(proposal.exit_criteria)
    return {"outcome": proposal.payload, "exit_criteria": criteria, "run": _run(proposal, view)}


def _run(proposal: Proposal, view: View) -> dict[str, Any]:
    run = view.run
    about = {"id": run.id, "tier": str(run.tier), "epoch": run.epoch, "depth": run.depth}
    return about | {"request": proposal.request, "documents": list(proposal.documents)}


def _oracle(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    found = tuple(view.evaluators.unmet(outcome_values(proposal, view)))
    if found:
        return CheckFinding(found)
    for judge in list_judges(view.spec, proposal.stage):
        if judge.check is None:
            continue
        said = proposal.judged.get(judge.branch)
        if said is None or said:
            return CheckFinding(awaits=judge.branch) if said is None else CheckFinding(said)
    return CheckFinding()


def _check_judge(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    said = proposal.judged.get(FIRST)
    return CheckFinding(awaits=FIRST) if said is None else CheckFinding(said)


def _too_long(proposal: Proposal, view: View) -> list[str]:
    limit, size = view.spec.gates.max_outcome_chars or 0, len(proposal.payload["text"])
    return [f"text: {size:,} characters, at most {limit:,} are allowed"] if size > limit else []


def _check_grounding(config: Config, proposal: Proposal, view: View) -> CheckFinding:
    level, grounding = view.spec.gates.citations, view.spec.gates.grounding
    if (level == "off" and grounding is None) or proposal.stage not in (Stage.FAN_IN, Stage.FINALIZE):
        return CheckFinding(configured=False)
    return CheckFinding(tuple(_list_ungrounded(proposal, view)))


def _list_ungrounded(proposal: Proposal, view: View) -> list[str]:
    level, grounding = view.spec.gates.citations, view.spec.gates.grounding
    cited = proposal.payload.get("citations", [])
    said = (sources.problem(one, proposal.documents, proposal.sources) for one in cited)
    found = [sentence for sentence in said if sentence]
    if level == "required" and not cited and proposal.documents:
        found.append("citations: at least one of the attached documents must be cited")
    if found or not view.spec.gates.matches_sources:
        return found
    assert proposal.sources is not None  # stages/passage.py gathers them for each gate that asks
    text = proposal.payload["text"]
    found = quotes.problems(text, proposal.sources)
    return found if found or grounding == "quotes" else numbers.problems(text, proposal.sources)


POST_CHECKS: tuple[tuple[str, Callable[[Config, Proposal, View], CheckFinding]], ...] = (
    ("schema", _schema),
    ("policy", _check_policies),
    ("invariants", _invariants),
    ("grounding", _check_grounding),
)
"""The four checks of S0, in order."""


def _checks(proposal: Proposal, view: View) -> tuple[tuple[str, Callable[[Config, Proposal, View], CheckFinding]], ...]:
    """Return the checks in order: the four, the judges beside the author, and the oracle last."""
    judges = tuple((one.name, _check_judge) for one in list_judges(view.spec, proposal.stage) if one.check is None)
    oracle = view.spec.gates.oracle and proposal.stage is Stage.FINALIZE
    return (*POST_CHECKS, *judges, *((("oracle", _oracle),) if oracle else ()))


def judge(config: Config, proposal: Proposal, view: View) -> GateResult | JudgeAwaited:
    """Judge a stage's output at its post-gate. Return ``JudgeAwaited`` if a judge's verdict is missing and all checks
    before it passed.
    """
    done: list[Check] = []
    cause: Cause | None = None
    for name, function in _checks(proposal, view):
        if cause is not None:
            done.append(Check(name=name, result="not_reached"))
            continue
        found = function(config, proposal, view)
        if found.awaits:
            return JudgeAwaited(found.awaits)
        done.append(_build_check(name, found))
        if found.problems:
            malformed = proposal.stage is Stage.PLAN and name != "policy"
            cause = Cause.PLAN_GATE if malformed else FAILURE_CAUSE[name]
    return GateResult(gate="post", checks=tuple(done), cause=cause)


def _failure_sentence(gate: str, stage: Stage, check: str, problems: str) -> str:
    what = (
        f"stage {words(stage)} could not begin" if gate == "pre" else f"the output of stage {words(stage)} was refused"
    )
    return f"{what} by its check {words(check)}: {problems}"


def find_trip(result: GateResult, stage: Stage, left_out: tuple[str, ...] = ()) -> Trip | None:
    """Return a failed gate as a trip; None when it passed. ``left_out``: parts of the sources that the stage's
    grounding critic did not see.
    """
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
    return Trip(NAME, result.cause, evidence, _failure_sentence(result.gate, stage, failed.name, shown))


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Return the gate as a verdict."""
    result = judge(config, proposal, view)
    if isinstance(result, JudgeAwaited):
        evidence = Evidence(scope=f"stage:{proposal.stage}")
        return Trip(
            NAME, Cause.INVARIANT, evidence, f"the output of stage {words(proposal.stage)} has not been judged yet"
        )
    return find_trip(result, proposal.stage) or PASS


CHECKS_KEPT = 256
"""Results of checks that are cached. Nearly all of them are that a check found nothing."""


def pre_gate(checks: Mapping[str, Callable[[], CheckFinding]]) -> GateResult:
    """Return the result of the pre-gate: the checks in ``PRE_CHECKS``, in order. A check is made only when those
    before it have passed.
    """
    done: list[Check] = []
    failed: Cause | None = None
    for name, cause in PRE_CHECKS.items():
        if failed is not None:
            done.append(Check(name=name, result="not_reached"))
            continue
        found = checks[name]()
        done.append(_build_check(name, found))
        failed = cause if found.problems else None
    return GateResult(gate="pre", checks=tuple(done), cause=failed)


@lru_cache(maxsize=CHECKS_KEPT)
def _build_check(name: str, found: CheckFinding) -> Check:
    result: CheckResult
    result = "failed" if found.problems else "accepted" if found.accepted else "passed"
    if result == "passed" and not found.configured:
        result = "not_configured"
    return Check(name=name, result=result, problems=found.problems, policies=found.policies)
