"""Enters and leaves stages: gates, deadlines, and the end of the run when the last one passes.

A gate gets the sources that an answer may cite, from the run's state: the request, the documents, and the results of
tools in this epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.conversations.expectations import TTL, TURN_WITHIN
from fabric.core.decision import guard, slices
from fabric.core.decision.work import Work
from fabric.core.graph.conversation import MAX_TURNS
from fabric.core.grounding.sources import Calculation, Sources
from fabric.core.mechanisms import budget, escalation, find_state, hop_limit, permissions, validation_gate
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.validation_gate import CheckFinding, JudgeAwaited
from fabric.core.stages import judging
from fabric.core.state import demands, let_pass
from fabric.core.state.failure import Failure
from fabric.core.state.judges import is_judge
from fabric.core.state.run import Run, Step, list_sentences, step_id
from fabric.core.topologies import shell
from fabric.core.topologies.shape import StageOutput, list_steps
from fabric.core.values.flow import End, RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.units import JSON, US
from fabric.core.values.words import count

# -- ends --------------------------------------------------------------------------------------------------------------

OUT_OF_TIME: Mapping[str, str] = {
    TTL: "the conversation's time ended before an agent ended it",
    TURN_WITHIN: "a turn of the conversation took longer than it may",
}
"""Ends of a conversation that stop a run early, and the sentence of each."""


def stop_reason(run: Run) -> str:
    """Return why a run ends as stopped; "": nothing stopped it."""
    found = list_sentences(run, run.steps)
    if run.talk.closed in OUT_OF_TIME:
        found.append(OUT_OF_TIME[run.talk.closed])
    if not found:
        return ""
    others = len(found) - 1
    return found[0] + (f"; {count(others, 'other agent was', 'other agents were')} stopped too" if others else "")


def find_end(run: Run) -> RunState:
    """Return the state of a run whose outcome passed the gates."""
    return RunState.STOPPED if stop_reason(run) else RunState.COMPLETED


# -- passage -----------------------------------------------------------------------------------------------------------


def enter(work: Work, stage: Stage) -> Failure | None:
    """Open a stage behind its pre-gate; return the failure that stopped it."""
    gate = _pre_gate(work, stage)
    visits = guard.judge(Proposal(kind="visit", stage=stage), work.view, work.compiled_fabric.spec.policy)
    names = () if gate.cause else shell.agents(work, stage)
    trips: list[Trip] = []
    if stage is Stage.FAN_OUT and not gate.cause:
        told, named = slices.briefs_in(work), slices.agents_in(work)
        branches = told if names else len(named)  # An agent with several turns counts once.
        below = any(children.find_purpose(work, stage, name) for name in names)  # Their runs are one level deeper.
        depth = work.run.depth + below
        spawn = Proposal(kind="spawn", stage=stage, branches=branches, agents=named, depth=depth)
        trips = guard.judge(spawn, work.view, work.compiled_fabric.spec.policy)
        trips = trips or children.refuse_branches(work, stage, names, range(told))
        trips += _judge_plan(work, stage)
    timeout = work.policy_in(stage).deadlines_of(work.run.tier).stage_s
    deadline = min(work.ctx.now + int(timeout * US), work.run.deadline_at)
    trips = list(guard.in_order([*visits, *trips]))
    agents = () if trips else names
    work.emit(ev.StageEntered(stage=stage, epoch=work.run.epoch, deadline_at=deadline, agents=agents, gate=gate))
    _keep_branches(work, stage)
    failed = validation_gate.find_trip(gate, stage)
    if failed is not None:
        trips = [failed]
    return Failure(tuple(trips), stage, gate=gate if failed is not None else None) if trips else None


def _judge_plan(work: Work, stage: Stage) -> list[Trip]:
    """Return the trips against handing out the plan that an agent of this run wrote."""
    planned = work.run.stages[Stage.PLAN]
    if not planned.agents:
        return []
    dispatch = Proposal(kind="dispatch", stage=stage, agent=planned.agents[0], payload=slices.plan(work))
    return guard.judge(dispatch, work.view, work.compiled_fabric.spec.policy)


def _keep_branches(work: Work, stage: Stage) -> None:
    """Take over a fork's finished branches from its origin, unless it has replanned since."""
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

    def schema() -> CheckFinding:
        if not ref:
            return CheckFinding(configured=False)  # There is nothing to check: the artifacts say so.
        payload = work.ctx.output(ref) if before else work.ctx.contents.read(ref)
        return CheckFinding(tuple(demands.unmet(stage, payload, work.compiled_fabric.spec)))

    def policy() -> CheckFinding:
        ruled = permissions.judge_entry(stage, _agents(work, stage) if ref else (), work.view)
        if ruled is None:
            return CheckFinding(configured=False)
        return CheckFinding((f"entering stage {stage} was denied: {ruled.why}",) if ruled.why else (), ruled.policies)

    def artifacts() -> CheckFinding:
        missing = [f"stage {one} left no output" for one, found in refs.items() if not found]
        return CheckFinding(tuple(missing if before or ref else ["the run has no request"]))

    checks = {"schema": schema, "policy": policy, "budget": lambda: _headroom(work, stage), "artifacts": artifacts}
    return validation_gate.pre_gate(checks)


def _agents(work: Work, stage: Stage) -> tuple[str, ...]:
    return slices.agents_in(work) if stage is Stage.FAN_OUT else shell.agents(work, stage)


def _headroom(work: Work, stage: Stage) -> CheckFinding:
    """Check that nothing is overdrawn, in money and in tokens."""
    config, ledger = budget.config(work.compiled_fabric.spec.policy), find_state(work.run.guards, budget)
    usd = budget.cap(config, ledger) - ledger.spent_usd_micros
    tokens = budget.tokens_left(config, ledger, stage)
    found = [f"the run has overspent its budget by {-usd:,} micro-dollars"] if usd < 0 else []
    if tokens is not None and tokens < 0:
        found.append(f"the run has overspent its budget by {-tokens:,} tokens")
    return CheckFinding(tuple(found))


def leave(work: Work, stage: Stage, done: StageOutput) -> Failure | None:
    """Take a stage's output past its post-gate; enter the next stage, or return the failure."""
    proposal = _proposal(work, stage, done)
    heard = judging.hear_verdicts(work, stage, proposal)
    score = min((one for one in (done.score, heard.score) if one is not None), default=None)
    proposal = replace(
        proposal,
        judged=heard.problems,
        left_out=heard.left_out,
        score=score,
        accepted=work.run.approved_stage == stage,
    )
    gate = _post_gate(work, proposal, score)
    if isinstance(gate, JudgeAwaited):
        return judging.ask(work, stage, gate.branch, proposal)
    failure = _gate_failure(work, gate, proposal) or _goal_failure(work, stage)
    if failure is not None:
        return failure
    work.emit(
        ev.StageLeft(stage=stage, epoch=work.run.epoch, outcome=StageOutcome.PASSED, output_ref=done.ref, gate=gate),
        None if done.ref else {"output": done.payload},
    )
    following = slices.find_next_stage(work.run, stage)
    if following is End.COMPLETE:
        if work.run.family.alive:  # Stopped, and not ended yet: the result stands, and the end waits for their cost.
            reason = "it is done, and waits for its children to stop"
            work.emit(ev.RunEnding(state=find_end(work.run), reaction="finalize", reason=reason))
        else:
            complete(work)
        return None
    assert isinstance(following, Stage)
    return enter(work, following)


def _proposal(work: Work, stage: Stage, done: StageOutput) -> Proposal:
    request = work.ctx.contents.read(work.run.request_ref)
    asks = work.compiled_fabric.spec.gates.reads_sources and stage in (Stage.FAN_IN, Stage.FINALIZE)
    oracle = work.compiled_fabric.spec.gates.oracle and stage is Stage.FINALIZE
    step_id, agent, said = (
        _objected_words(work) if stage is Stage.FAN_OUT else (done.step_id, _author(work, stage, done), ())
    )
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
        sources=sources(work) if asks else None,
    )


def _too_many(work: Work, plan: JSON) -> tuple[str, ...]:
    return tuple(hop_limit.too_many_briefs(work.run, work.compiled_fabric.spec, len(plan.get("briefs", ()))))


def _author(work: Work, stage: Stage, done: StageOutput) -> str:
    """Return the agent that made a stage's output; "" if the engine did. The validate stage's output was made
    before, and its critic is no author.
    """
    return work.run.steps[done.step_id].agent if done.step_id and stage is not Stage.VALIDATE else ""


def _objected_words(work: Work) -> tuple[str, str, tuple[JSON, ...]]:
    """Return the first branch to whose words a guardrail or policy objects, with its agent and those words. That branch
    fails, not the stage.
    """
    evaluators = work.compiled_fabric.evaluators
    if Stage.FAN_OUT not in evaluators.guardrails and evaluators.rules is None:
        return "", "", ()
    for step in list_steps(work, Stage.FAN_OUT):
        for agent, said in slices.list_summaries(work, step) if step.status == "done" else ():
            asked = Proposal(kind="output", stage=Stage.FAN_OUT, agent=agent, said=(said,))
            ruled = permissions.judge_call(asked, work.view)
            hits = evaluators.hits(Stage.FAN_OUT, said)
            if (hits or (ruled is not None and ruled.why)) and not validation_gate.is_released(asked, work.view):
                return step.id, agent, (said,)
    return "", "", ()


def _post_gate(work: Work, proposal: Proposal, score: float | None) -> ev.GateResult | JudgeAwaited:
    policy = work.policy_in(proposal.stage)
    result = validation_gate.judge(validation_gate.config(policy), proposal, work.view)
    if isinstance(result, JudgeAwaited):
        return result
    unsure = _unsure_trip(work, proposal)
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


def _unsure_trip(work: Work, proposal: Proposal) -> Trip | None:
    config = escalation.config(work.policy_in(proposal.stage))
    verdict = escalation.check(config, escalation.State(), proposal, work.view)
    return verdict if isinstance(verdict, Trip) else None


def _gate_failure(work: Work, gate: ev.GateResult, proposal: Proposal) -> Failure | None:
    """Return the failure of the gate, by its failed check; None: it passed."""
    if gate.cause is Cause.BELOW_TAU and (unsure := _unsure_trip(work, proposal)) is not None:
        return Failure((unsure,), proposal.stage, payload=proposal.payload, gate=gate)
    trip = validation_gate.find_trip(gate, proposal.stage, proposal.left_out)
    if trip is None:
        return None
    payload = let_pass.shown_form(proposal.said, proposal.payload)
    return Failure((trip,), proposal.stage, proposal.step_id, payload=payload, gate=gate)


def _goal_failure(work: Work, stage: Stage) -> Failure | None:
    """Return the failure of the goal gates before the run exits; None if they pass. A slice has no goals: its parent
    has them.
    """
    policy = work.compiled_fabric.spec.policy
    if not policy.goal_gates.nodes:
        return None
    last = slices.find_next_stage(work.run, stage) is End.COMPLETE
    if not last or slices.in_slice(work.run):
        return None
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    trips = guard.judge(Proposal(kind="exit", stage=stage, payload=parts), work.view, policy)
    return Failure(tuple(trips), stage) if trips else None


def _calls_refused(work: Work) -> str:
    """Return the end of a reason: the number of refused calls, from answers with too many calls. "": none was
    refused.
    """
    refused: dict[int, int] = {}
    for step in work.run.steps.values():
        allowed = work.policy_in(step.stage).limits.calls_per_turn
        if many := sum([max(0, len(turn.calls) - allowed) for turn in step.history]):
            refused[allowed] = refused.get(allowed, 0) + many
    if not refused:
        return ""
    most = " or ".join(str(allowed) for allowed in sorted(refused))
    many = sum(refused.values())
    return f"; {count(many, 'call was', 'calls were')} refused: an answer may have {most} (limits.calls_per_turn)"


def complete(work: Work) -> None:
    """End the run as completed."""
    run = work.run
    output, ref = _outcome(work)
    parts = [part for part in work.ctx.output(run.stages[Stage.FAN_OUT].output_ref) if part["gap"]]
    gaps = [f"{part['title']} ({part['agent']}): {part['gap']}" for part in parts]
    outcome = {**output, "gaps": gaps} if gaps or not ref else None
    partial = any(part.get("accepted") for part in parts)
    finished = "finished as a partial success" if partial else "finished"
    closed = f", its conversation was cut short: {run.talk.closed}" if run.talk.closed == MAX_TURNS else ""
    closed += _calls_refused(work)
    stopped = stop_reason(run)
    state, reason = find_end(run), stopped or finished
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
    """End a run with the fabric's static answer as its outcome; nothing from its agents is in it."""
    answer = work.compiled_fabric.spec.safe_fallback
    work.emit(
        ev.RunEnded(state=ending.state, reason=ending.reason, reaction=ending.reaction, recovered=work.run.recovered),
        {"output": {"text": answer, "citations": [], "gaps": []}},
    )


def _outcome(work: Work) -> tuple[JSON, str]:
    """Return a run's outcome and its reference. A slice has no such content, and returns its branches' answers."""
    if slices.in_slice(work.run):
        return shell.join_outputs(work).payload, ""
    ref = work.run.stages[Stage.FINALIZE].output_ref
    return work.ctx.output(ref), ref


ANSWERS = (Stage.FAN_OUT, Stage.FAN_IN, Stage.FINALIZE)
"""Stages whose agents' outputs read as an answer."""


def partial_outcome(work: Work) -> JSON | None:
    """Return the best partial result of a stopped run. It is the newest stage output that reads as an answer, or else
    the summaries so far. Blocked outputs are left out, even if their parts were not blocked. So are outputs that any
    stage's guardrail would block, or that no policy lets the engine pass on as an outcome.
    """
    found = _newest_answer(work)
    if found is None or work.compiled_fabric.evaluators.leaks(found):
        return None
    ruled = permissions.judge_call(Proposal(kind="output", stage=Stage.FINALIZE, payload=found), work.view)
    return None if ruled is not None and ruled.why else found


def _newest_answer(work: Work) -> JSON | None:
    for stage in (Stage.FINALIZE, Stage.VALIDATE, Stage.FAN_IN):
        reached = work.run.stages.get(stage)
        if reached is not None and reached.output_ref:
            return work.ctx.output(reached.output_ref)
    if f"stage:{work.run.stage}" in work.run.withheld:
        return None
    steps = [s for s in work.run.steps.values() if s.stage in ANSWERS and not is_judge(s)]
    steps = [step for step in steps if slices.list_refs(work.run, step) and step.id not in work.run.withheld]
    if not steps:
        return None
    newest = max(steps, key=lambda step: list(Stage).index(step.stage))
    outputs = [one for step in steps if step.stage == newest.stage for one in slices.list_outputs(work, step)]
    cited = list(dict.fromkeys(name for output in outputs for name in output["citations"]))
    return {"text": "\n\n".join(output["text"] for output in outputs), "citations": cited}


CALCULATOR = "calculator"


def sources(work: Work) -> Sources:
    """Return all sources of the run. Raises MissingContent when one was erased; Raises ValueError when the documents
    were not read with the claim.
    """
    if work.ctx.documents is None:
        raise ValueError("the documents of the run were not read, and its gates ask for them")
    results: list[JSON] = []
    calculations: list[Calculation] = []
    authors = [step for step in work.run.steps.values() if not is_judge(step)]
    # The author never saw the results that a judge looked up.
    answered = (*_kept_answers(work), *(answer for step in authors for answer in _answers(work, step)))
    for tool, result in answered:
        if _calculates(work, tool) and isinstance(result, dict):
            calculations.append(Calculation(str(result.get("expression", "")), str(result.get("value", ""))))
        else:
            results.append(result)
    for step in authors:
        if step.stage is Stage.FAN_OUT and slices.from_child(work.run, step):
            # The tools' answers are in the child run; its output, judged there for a team, replaces them here.
            results += slices.list_outputs(work, step)
    request = work.ctx.contents.read(work.run.request_ref).get("text", "")
    return Sources(
        request=request, documents=work.ctx.documents, results=tuple(results), calculations=tuple(calculations)
    )


def _kept_answers(work: Work) -> list[tuple[str, JSON]]:
    """Return the tools' answers kept from a fork's origin; none once the fork has replanned."""
    kept = () if work.run.epoch else work.run.control.answers
    return [(tool, work.ctx.contents.read(ref).get("result")) for _, tool, ref in kept]


def _answers(work: Work, step: Step) -> list[tuple[str, JSON]]:
    """Return the answer of each tool call of a step, in the order of the calls. Errors are left out."""
    done = [call for turn in step.history for call in turn.calls if call.state == "done" and not call.error]
    return [(call.tool, work.ctx.contents.read(call.result_ref).get("result")) for call in done if call.result_ref]


def _calculates(work: Work, tool: str) -> bool:
    one = work.compiled_fabric.spec.tool(tool)
    return one.kind == "builtin" and (one.target or one.name) == CALCULATOR
