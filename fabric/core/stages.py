"""Entering and leaving stages: gates, deadlines, and the end of the run when the last one passes."""

from __future__ import annotations

from typing import Any

from fabric.core import children, demands, ends, guard, judging, permissions, releases, rests
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import End, RunState, Stage, StageOutcome
from fabric.core.frozen import replace
from fabric.core.graph.conversation import MAX_TURNS
from fabric.core.judges import is_judge
from fabric.core.mechanisms import budget, escalation, hop_limit, state_of, validation_gate
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.validation_gate import Awaited, Found
from fabric.core.run import step_id
from fabric.core.taxonomy import Cause
from fabric.core.topologies import shell, slices
from fabric.core.topologies.shape import Concluded, steps_of
from fabric.core.verdict import Trip
from fabric.core.words import count
from fabric.core.work import US, Work

JSON = Any


def enter(work: Work, stage: Stage) -> Failure | None:
    """Opens a stage behind its pre-gate; gives back what stopped it."""
    gate = _pre_gate(work, stage)
    visits = guard.judge(Proposal(kind="visit", stage=stage), work.view, work.compiled.spec.policy)
    names = () if gate.cause else shell.agents(work, stage)
    trips: list[Trip] = []
    if stage is Stage.FAN_OUT and not gate.cause:
        told, named = slices.briefs_in(work), slices.agents_in(work)
        branches = told if names else len(named)  # Whoever has several turns is one agent.
        below = any(children.purpose_of(work, stage, name) for name in names)  # Their runs are one level deeper.
        depth = work.run.depth + below
        spawn = Proposal(kind="spawn", stage=stage, branches=branches, agents=named, depth=depth)
        trips = guard.judge(spawn, work.view, work.compiled.spec.policy)
        trips = trips or children.refused(work, stage, names, range(told))
        trips += _passed_on(work, stage)
    timeout = work.policy_in(stage).deadlines_of(work.run.tier).stage_s
    deadline = min(work.ctx.now + int(timeout * US), work.run.deadline_at)
    trips = list(guard.in_order([*visits, *trips]))
    agents = () if trips else names
    work.emit(ev.StageEntered(stage=stage, epoch=work.run.epoch, deadline_at=deadline, agents=agents, gate=gate))
    _keep_branches(work, stage)
    failed = validation_gate.trip_of(gate, stage)
    if failed is not None:
        trips = [failed]
    return Failure(tuple(trips), stage, gate=gate if failed is not None else None) if trips else None


def _passed_on(work: Work, stage: Stage) -> list[Trip]:
    """What speaks against handing out the plan that an agent of this run wrote."""
    planned = work.run.stages[Stage.PLAN]
    if not planned.agents:
        return []
    dispatch = Proposal(kind="dispatch", stage=stage, agent=planned.agents[0], payload=slices.plan(work))
    return guard.judge(dispatch, work.view, work.compiled.spec.policy)


def _keep_branches(work: Work, stage: Stage) -> None:
    """In a fork the branches that were done in its origin are done here, unless it was replanned since."""
    fork = work.run.control.forked
    if fork is None or stage is not Stage.FAN_OUT or work.run.epoch:
        return
    for kept in fork.branches:
        key = step_id(stage, kept.branch, 0, 0)
        if key in work.run.steps:
            work.emit(ev.OutputKept(step_id=key, answer_ref=kept.output_ref))


def _pre_gate(work: Work, stage: Stage) -> ev.GateResult:
    before = demands.REQUIRED[stage]
    refs = {one: work.run.stages[one].output_ref if one in work.run.stages else "" for one in before}
    ref = refs[before[-1]] if before else work.run.request_ref

    def schema() -> Found:
        if not ref:
            return Found(configured=False)  # There is nothing to look at: the artifacts say so.
        payload = work.ctx.output(ref) if before else work.ctx.contents.read(ref)
        return Found(tuple(demands.unmet(stage, payload, work.compiled.spec)))

    def policy() -> Found:
        ruled = permissions.entering(stage, _agents(work, stage) if ref else (), work.view)
        if ruled is None:
            return Found(configured=False)
        return Found((f"entering stage {stage} was denied: {ruled.why}",) if ruled.why else (), ruled.policies)

    def artifacts() -> Found:
        missing = [f"stage {one} left no output" for one, found in refs.items() if not found]
        return Found(tuple(missing if before or ref else ["the run has no request"]))

    checks = {"schema": schema, "policy": policy, "budget": lambda: _headroom(work, stage), "artifacts": artifacts}
    return validation_gate.pre_gate(checks)


def _agents(work: Work, stage: Stage) -> tuple[str, ...]:
    return slices.agents_in(work) if stage is Stage.FAN_OUT else shell.agents(work, stage)


def _headroom(work: Work, stage: Stage) -> Found:
    """Nothing is overdrawn, in money and in tokens."""
    config, ledger = budget.config(work.compiled.spec.policy), state_of(work.run.guards, budget)
    usd = budget.cap(config, ledger) - ledger.spent_usd_micros
    _, tokens = budget.left(config, ledger, stage)
    found = [f"the run has overspent its budget by {-usd:,} micro-dollars"] if usd < 0 else []
    if tokens is not None and tokens < 0:
        found.append(f"the run has overspent its budget by {-tokens:,} tokens")
    return Found(tuple(found))


def leave(work: Work, stage: Stage, done: Concluded) -> Failure | None:
    """Takes a stage's output past its post-gate; enters what follows, or gives back what failed."""
    proposal = _proposal(work, stage, done)
    heard = judging.heard(work, stage, proposal)
    score = min((one for one in (done.score, heard.score) if one is not None), default=None)
    proposal = replace(
        proposal,
        judged=heard.problems,
        left_out=heard.left_out,
        score=score,
        accepted=work.run.approved_stage == stage,
    )
    gate = _post_gate(work, proposal, score)
    if isinstance(gate, Awaited):
        return judging.ask(work, stage, gate.branch, proposal)
    failure = _gate_failure(work, gate, proposal) or _goal_failure(work, stage)
    if failure is not None:
        return failure
    work.emit(
        ev.StageLeft(stage=stage, epoch=work.run.epoch, outcome=StageOutcome.PASSED, output_ref=done.ref, gate=gate),
        None if done.ref else {"output": done.payload},
    )
    following = slices.following(work.run, stage)
    if following is End.COMPLETE:
        if work.run.family.alive:  # Let go of, and not ended yet: the result stands, the end waits for what they cost.
            reason = "it is done, and waits for its children to stop"
            work.emit(ev.RunEnding(state=ends.end_of(work.run), reaction="finalize", reason=reason))
        else:
            complete(work)
        return None
    assert isinstance(following, Stage)
    return enter(work, following)


def _proposal(work: Work, stage: Stage, done: Concluded) -> Proposal:
    request = work.ctx.contents.read(work.run.request_ref)
    asks = work.compiled.spec.gates.reads_sources and stage in (Stage.FAN_IN, Stage.FINALIZE)
    oracle = work.compiled.spec.gates.oracle and stage is Stage.FINALIZE
    step_id, agent, said = _said(work) if stage is Stage.FAN_OUT else (done.step_id, _author(work, stage, done), ())
    return Proposal(
        kind="output",
        stage=stage,
        step_id=step_id,
        agent=agent,
        payload=done.payload,
        too_many=_too_many(work, done.payload) if stage is Stage.PLAN and agent else (),
        said=said,
        request=request.get("text", ""),
        documents=tuple(request.get("documents", ())),
        exit_criteria=tuple(slices.plan(work)["exit_criteria"]) if oracle else (),
        sources=rests.sources(work) if asks else None,
    )


def _too_many(work: Work, plan: JSON) -> tuple[str, ...]:
    return tuple(hop_limit.too_many_briefs(work.run, work.compiled.spec, len(plan.get("briefs", ()))))


def _author(work: Work, stage: Stage, done: Concluded) -> str:
    """The agent that made a stage's output; empty: the engine did. What is validated was made before, and its critic is no author."""
    return work.run.steps[done.step_id].agent if done.step_id and stage is not Stage.VALIDATE else ""


def _said(work: Work) -> tuple[str, str, tuple[JSON, ...]]:
    """The first branch whose words a guardrail or a policy objects to, its agent and those words: it is that branch that fails, not the stage."""
    evaluators = work.compiled.evaluators
    if Stage.FAN_OUT not in evaluators.guardrails and evaluators.rules is None:
        return "", "", ()
    for step in steps_of(work, Stage.FAN_OUT):
        for agent, said in slices.said_in(work, step) if step.status == "done" else ():
            asked = Proposal(kind="output", stage=Stage.FAN_OUT, agent=agent, said=(said,))
            ruled = permissions.ruling(asked, work.view)
            hits = evaluators.hits(Stage.FAN_OUT, said)
            if (hits or (ruled is not None and ruled.why)) and not validation_gate.released(asked, work.view):
                return step.id, agent, (said,)
    return "", "", ()


def _post_gate(work: Work, proposal: Proposal, score: float | None) -> ev.GateResult | Awaited:
    policy = work.policy_in(proposal.stage)
    result = validation_gate.judge(validation_gate.config(policy), proposal, work.view)
    if isinstance(result, Awaited):
        return result
    unsure = _unsure(work, proposal)
    problems: tuple[str, ...] = ()
    found: ev.CheckResult = "not_configured" if score is None else "passed"
    if result.cause is not None:
        found = "not_reached"
    elif unsure is not None:
        found, problems = "failed", (unsure.message,)
        result = replace(result, cause=unsure.cause)
    elif score is not None and score < policy.tau:
        found = "accepted"
    confidence = ev.Check(name="confidence", result=found, problems=problems)
    tau = None if score is None else policy.tau
    return replace(result, checks=(*result.checks, confidence), score=score, tau=tau)


def _unsure(work: Work, proposal: Proposal) -> Trip | None:
    config = escalation.config(work.policy_in(proposal.stage))
    verdict = escalation.check(config, escalation.State(), proposal, work.view)
    return verdict if isinstance(verdict, Trip) else None


def _gate_failure(work: Work, gate: ev.GateResult, proposal: Proposal) -> Failure | None:
    """The failure of the gate, by its failed check; None: it passed."""
    if gate.cause is Cause.BELOW_TAU and (unsure := _unsure(work, proposal)) is not None:
        return Failure((unsure,), proposal.stage, payload=proposal.payload, gate=gate)
    trip = validation_gate.trip_of(gate, proposal.stage, proposal.left_out)
    if trip is None:
        return None
    payload = releases.shown(proposal.said, proposal.payload)
    return Failure((trip,), proposal.stage, proposal.step_id, payload=payload, gate=gate)


def _goal_failure(work: Work, stage: Stage) -> Failure | None:
    """What the goal gates say before the run exits. A slice has no goals: they are its parent's."""
    policy = work.compiled.spec.policy
    last = slices.following(work.run, stage) is End.COMPLETE
    if not last or not policy.goal_gates.nodes or slices.in_slice(work.run):
        return None
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    trips = guard.judge(Proposal(kind="exit", stage=stage, payload=parts), work.view, policy)
    return Failure(tuple(trips), stage) if trips else None


def _calls_refused(work: Work) -> str:
    """The end of a reason: how many calls were refused because their answers had too many; empty: none was."""
    refused: dict[int, int] = {}
    for step in work.run.steps.values():
        allowed = work.policy_in(step.stage).limits.calls_per_turn
        if many := sum(max(0, len(turn.calls) - allowed) for turn in step.history):
            refused[allowed] = refused.get(allowed, 0) + many
    if not refused:
        return ""
    most = " or ".join(str(allowed) for allowed in sorted(refused))
    many = sum(refused.values())
    return f"; {count(many, 'call was', 'calls were')} refused: an answer may have {most} (limits.calls_per_turn)"


def complete(work: Work) -> None:
    """The run's good end."""
    run = work.run
    output, ref = _outcome(work)
    parts = [part for part in work.ctx.output(run.stages[Stage.FAN_OUT].output_ref) if part["gap"]]
    gaps = [f"{part['title']} ({part['agent']}): {part['gap']}" for part in parts]
    outcome = {**output, "gaps": gaps} if gaps or not ref else None
    partial = any(part.get("accepted") for part in parts)
    finished = "finished as a partial success" if partial else "finished"
    closed = f", its conversation was cut short: {run.talk.closed}" if run.talk.closed == MAX_TURNS else ""
    closed += _calls_refused(work)
    stopped = ends.stop_reason(run)
    state, reason = ends.end_of(run), stopped or finished
    work.emit(
        ev.RunEnded(
            state=state,
            reason=(reason if not gaps else f"{reason}, with {len(gaps)} of the branches missing") + closed,
            reaction="finalize",
            truncated=bool(stopped),
            recovered=run.recovered and state is RunState.COMPLETED,
            outcome_ref="" if outcome else ref,
            partial=partial,
        ),
        {"output": outcome} if outcome else None,
    )


def complete_with_fallback(work: Work, ending: ev.RunEnding) -> None:
    """The end of a run whose outcome is the fabric's static answer: nothing that its agents said is in it."""
    answer = work.compiled.spec.safe_fallback
    work.emit(
        ev.RunEnded(state=ending.state, reason=ending.reason, reaction=ending.reaction, recovered=work.run.recovered),
        {"output": {"text": answer, "citations": [], "gaps": []}},
    )


def _outcome(work: Work) -> tuple[JSON, str]:
    """What a run comes to, and where it stands; a slice has no such content, and says what its branches said."""
    if slices.in_slice(work.run):
        return shell.joined(work).payload, ""
    ref = work.run.stages[Stage.FINALIZE].output_ref
    return work.ctx.output(ref), ref


ANSWERS = (Stage.FAN_OUT, Stage.FAN_IN, Stage.FINALIZE)
"""Stages whose agents' outputs read as an answer."""


def partial_outcome(work: Work) -> JSON | None:
    """The best there is when a run is stopped: the newest stage output that reads as an answer, else the summaries so far.

    What was blocked is withheld, even where it was made of what is not; and so is what any stage's guardrail would have blocked, or no policy lets the
    engine pass on as an outcome.
    """
    found = _newest_answer(work)
    if found is None or work.compiled.evaluators.leaks(found):
        return None
    ruled = permissions.ruling(Proposal(kind="output", stage=Stage.FINALIZE, payload=found), work.view)
    return None if ruled is not None and ruled.why else found


def _newest_answer(work: Work) -> JSON | None:
    for stage in (Stage.FINALIZE, Stage.VALIDATE, Stage.FAN_IN):
        reached = work.run.stages.get(stage)
        if reached is not None and reached.output_ref:
            return work.ctx.output(reached.output_ref)
    if f"stage:{work.run.stage}" in work.run.withheld:
        return None
    steps = [s for s in work.run.steps.values() if s.stage in ANSWERS and not is_judge(s)]
    steps = [step for step in steps if slices.refs_of(work.run, step) and step.id not in work.run.withheld]
    if not steps:
        return None
    newest = max(steps, key=lambda step: list(Stage).index(step.stage))
    outputs = [one for step in steps if step.stage == newest.stage for one in slices.outputs_of(work, step)]
    cited = list(dict.fromkeys(name for output in outputs for name in output["citations"]))
    return {"text": "\n\n".join(output["text"] for output in outputs), "citations": cited}
