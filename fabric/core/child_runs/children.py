"""Starts a child run for a step with a slice of the budget, stops it, and reports its end.

Above ``fan_out_inline_max`` briefs a fan-out is cut into slices, each a child of the parent's revision that begins at
the fan-out. A worker that is a supervisor itself (``CompiledFabric.nested``) is a child with a topology of its own. A
parent occupies no worker while it waits. Cancel and deadline go down, results and cost come up, each once. The parent's
decision table decides about a child's failure (docs/design.md, docs/specification/child-runs.md).

A planner's briefs are limited by the plan's own limit, and by the agents that its run and the runs above have left
(docs/specification/protections.md). The planner receives both numbers. In a root run, a plan above them costs a
correction, and is a malformed plan once the corrections are spent. In a team's run it is a malformed plan at once: many
teams plan at one time, and each of them would need the correction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabric.core import events as ev
from fabric.core.child_runs import teams
from fabric.core.decision import prompt, slices
from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import ChildEnded, ChildRequested, ChildWaits
from fabric.core.events.children import Purpose, Stop
from fabric.core.events.commands import Message, Spawn, Tell
from fabric.core.events.inputs import CancelRequested, DecisionMade, PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.mechanisms import budget, find_state, hop_limit
from fabric.core.sagas import handing_up
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.judges import is_judge
from fabric.core.state.run import Run, Step
from fabric.core.values.command_ids import read_child
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import ANSWERED, Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Evidence, Trip
from fabric.core.values.units import JSON
from fabric.core.values.words import count

ACTOR = "the parent run"
REASON_CHARS = 500
"""Most characters of a child's reason in its parent's headers, which are never erased."""
TITLE_CHARS = 120


def find_purpose(work: Work, stage: Stage, agent: str) -> Purpose | None:
    """Return why a branch is a child run; None: an agent of this run executes it."""
    if stage is not Stage.FAN_OUT:
        return None
    if slices.is_slice(agent):
        return "slice"
    return "nested" if agent in work.ctx.compiled.nested else None


def refuse_branches(work: Work, stage: Stage, agents: Iterable[str], briefs: Iterable[int]) -> list[Trip]:
    """Return the trips against branches with those agents and briefs. The family has no room for their children, or for
    the teams below them.
    """
    if not any(find_purpose(work, stage, agent) for agent in agents):
        return []
    return _family_full(work) if work.ctx.family_full else _teams_too_large(work, list(briefs))


def _family_full(work: Work) -> list[Trip]:
    limits = work.compiled_fabric.spec.policy.limits
    evidence = Evidence(
        limits.sub_agents_alive, unit="runs alive", scope="family", details=hop_limit.ancestry(work.run)
    )
    message = f"the runs of this family may be {limits.sub_agents_alive} at once and {limits.sub_agents_spawned} in all, and there are as many"
    return [Trip(hop_limit.NAME, Cause.SUB_AGENT_CAP, evidence, message)]


def _teams_too_large(work: Work, briefs: list[int]) -> list[Trip]:
    """Return the trip for a plan with a team that could not start its agents. None of its briefs goes out then,
    since the other planners' work would be lost.
    """
    planned = slices.plan(work)["briefs"] if work.ctx.compiled.nested else []
    agents = [planned[n]["agent"] for n in briefs] if planned else []
    agent, least, part, message = _too_large(work, agents, len(planned))
    if not agent:
        return []
    run = work.run
    _, limit = hop_limit.caps(work.compiled_fabric.spec.policy.limits, run)
    scope = "run" if run.family.lineage is None else "family"
    details = {"agent": agent, "spawned_limit": limit, **hop_limit.ancestry(run)}
    evidence = Evidence(part, least, "agents spawned", scope, details=details)
    return [Trip(hop_limit.NAME, Cause.SUB_AGENT_CAP, evidence, message)]


def _too_large(work: Work, agents: list[str], whole: int) -> tuple[str, int, int, str]:
    """Return the team that needs more agents than its part: its leader, the need, the part, and a sentence. Without
    one, the leader and the sentence are "". ``whole``: number of briefs of the plan.
    """
    nested, run = work.ctx.compiled.nested, work.run
    needs = {agent: teams.needed_agents(nested, agent) for agent in agents} if nested else {}
    agent = max(needs, key=lambda name: needs[name], default="")
    _, limit = hop_limit.caps(work.compiled_fabric.spec.policy.limits, run)
    left = limit - find_state(run.guards, hop_limit).spawned - len(agents)
    part = max(0, left) * 3 // max(3 * len(agents) + whole, 1)
    if not agent or needs[agent] <= part:
        return "", 0, 0, ""
    message = (
        f"the team of {agent} starts at least {count(needs[agent], 'agent')}, and its part of the {left} that may still be started "
        f"for {count(len(agents), 'brief')} is {part}"
    )
    return agent, needs[agent], part, message


TEAM_AT_WORK = 2
"""Least number of agents at work at once for a team with a planner. Otherwise it could hand out only one brief."""


def teams_without_room(work: Work, agents: list[str]) -> list[str]:
    """Return the problems of a plan whose teams would have too few agents left; empty: none. ``agents``: those of
    its briefs.
    """
    nested = work.ctx.compiled.nested
    plan = [agent for agent in agents if agent in nested and nested[agent].spec.topology.planner is not None]
    alive, _ = hop_limit.caps(work.compiled_fabric.spec.policy.limits, work.run)
    places = alive - hop_limit.count_working(work.run) - len(agents)
    deep = sum(agent in nested for agent in agents)
    if plan and 1 + max(0, places) // deep < min(TEAM_AT_WORK, alive):
        return [
            f"briefs: {len(agents)} of them leave the team of {plan[0]} a single agent at work ({count(alive, 'agent')} may work at once, limits.sub_agents_alive); hand out fewer"
        ]
    message = _too_large(work, agents, len(agents))[3]
    return [f"briefs: {message} (limits.sub_agents_spawned); hand out fewer"] if message else []


def build_id(parent_run_id: str, command_id: str) -> str:
    """Return the id of the child that answers a command. It is a UUID of version 8, computed from the
    arguments alone.
    """
    made = digest(parent_run_id, "child", command_id)
    return f"{made[:8]}-{made[8:12]}-8{made[13:16]}-a{made[17:20]}-{made[20:]}"


# -- down ------------------------------------------------------------------------------------------------------------


def spawn(work: Work, step: Step, purpose: Purpose) -> None:
    """Give a step to a child run, with a reservation and this stage's deadline, one level deeper."""
    run = work.run
    briefs = slices.open_briefs(run, step) if purpose == "slice" else (step.brief,)
    command_id = read_child(step.id)
    child_id = build_id(run.id, command_id)
    cap, tokens = _share(work, step, len(briefs))
    alive, spawned = _agents(work, step, len(briefs), purpose)
    lineage = run.family.lineage
    given = ChildRequested(
        input_id=f"start:{child_id}",
        request=_request(work, step, purpose, briefs),
        deadline_at=min(run.stages[step.stage].deadline_at, run.deadline_at),
        parent_run_id=run.id,
        root_run_id=run.id if lineage is None else lineage.root_run_id,
        command_id=command_id,
        purpose=purpose,
        depth=run.depth + 1,
        cap_usd_micros=cap,
        cap_tokens=tokens,
        briefs=briefs,
        plan=slices.find_plan(work, briefs) if purpose == "slice" else None,
        topology=step.agent if purpose == "nested" else run.topology,
        agents_alive=alive,
        agents_spawned=spawned,
        requested_by=run.requested_by,
        caused_by=run.caused_by,
    )
    work.emit(
        ev.ChildSpawned(
            command_id=command_id,
            step_id=step.id,
            child_id=child_id,
            purpose=purpose,
            briefs=briefs,
            depth=given.depth,
            deadline_at=given.deadline_at,
            reserved_usd_micros=cap,
            reserved_tokens=tokens or 0,
            agents_alive=alive,
            agents_spawned=spawned,
        )
    )
    seed = int(digest(work.ctx.seed, "child", command_id)[:15], 16)
    work.outbox.append(Spawn(run_id=child_id, title=_title(work, purpose, briefs), seed=seed, given=given))


def _share(work: Work, step: Step, weight: int) -> tuple[int, int | None]:
    """Return the micro-dollars and tokens of a child: its share, by briefs, of three quarters of its parent's
    remainder.

    The other quarter is for the parent's own calls, after the children and beside them. A child returns the rest of
    its share.
    """
    policy = work.compiled_fabric.spec.policy
    waiting = sum(
        slices.find_weight(work.run, other)
        for other in work.run.steps.values()
        if other.stage is step.stage and other.status == "active"
    )
    whole = slices.briefs_in(work)
    usd, tokens = budget.amount_left(policy.budget, find_state(work.run.guards, budget), step.stage)
    most = _own_cap(work, step)

    def part(left: int) -> int:
        return max(0, left) * 3 * weight // (3 * max(waiting, weight) + whole)

    return min(part(usd), most), None if tokens is None else part(tokens)


def _own_cap(work: Work, step: Step) -> int:
    """Return the most that a child may spend by its own cap: its team's, or that of a run."""
    within = work.ctx.compiled.nested.get(step.agent, work.compiled_fabric)
    return within.spec.policy.budget.run_usd_micros


def _agents(work: Work, step: Step, weight: int, purpose: Purpose) -> tuple[int, int]:
    """Return the agents that a child's family may have at once, and start in all. The caps cover the whole family above
    it too (docs/specification/child-runs.md).

    Each brief has its agent. The places left go to children with supervisors below them, by briefs. Of the remaining
    starts three quarters are shared, like the money; the rest is for the parent's retries.
    """
    run = work.run
    waiting = [other for other in run.steps.values() if other.stage is step.stage and other.status == "active"]
    weights = {other.id: slices.find_weight(run, other) for other in waiting}
    alive, spawned = hop_limit.caps(work.compiled_fabric.spec.policy.limits, run)
    uncounted = sum(weights.values()) - len(waiting)
    places = alive - hop_limit.count_working(run) - uncounted
    starts = max(0, spawned - find_state(run.guards, hop_limit).spawned - uncounted)
    deep = sum(weights[other.id] for other in waiting if _has_supervisor_below(work, other))
    more = max(0, places) * weight // max(deep, weight) if _has_supervisor_below(work, step) else 0
    extra = _part(work, starts, max(sum(weights.values()), weight), weight)
    return weight + more, extra + (weight if purpose == "slice" else 0)


def _part(work: Work, starts: int, waiting: int, weight: int) -> int:
    """Return a child's part of the remaining starts; it stands for ``weight`` of the ``waiting`` briefs."""
    return starts * 3 * weight // (3 * waiting + slices.briefs_in(work))


def _has_supervisor_below(work: Work, step: Step) -> bool:
    """Return True if a step is, or has below it, a worker that is a supervisor itself."""
    return bool(work.ctx.compiled.nested) and any(
        agent in work.ctx.compiled.nested for agent in slices.list_agents(work, [step])
    )


def _request(work: Work, step: Step, purpose: Purpose, briefs: tuple[int, ...]) -> JSON:
    """Return a child's request: its parent's request, or its one brief. A retry adds a note about the failure or a
    person's words.

    The note is no part of the text: answers may cite the text, and a note quotes things that they may not cite.
    """
    asked = work.ctx.contents.read(work.run.request_ref)
    told, note = asked["text"], asked.get("note", "")
    if purpose != "slice":
        brief = slices.plan(work)["briefs"][briefs[0]]
        told = f"{told}\n\nYour part: {brief['title']}\n{brief['instructions']}"
    if step.note_ref:
        note = "\n\n".join(filter(None, (note, work.ctx.contents.read(step.note_ref)["text"])))
    return {**asked, "text": told} | ({"note": note} if note else {})


def _title(work: Work, purpose: Purpose, briefs: tuple[int, ...]) -> str:
    plan = slices.plan(work)
    if purpose == "nested":
        return str(plan["briefs"][briefs[0]]["title"])[:TITLE_CHARS]
    which = f"Brief {briefs[0] + 1}" if len(briefs) == 1 else f"Briefs {briefs[0] + 1} to {briefs[-1] + 1}"
    return f"{which} of {slices.briefs_in(work)}: {plan['goal']}"[:TITLE_CHARS]


def let_go(work: Work, reason: str, step_id: str | None = None, *, how: Stop = "cancel") -> None:
    """Stop the children of one step, or all of them, and withdraw the reviews about them. The run waits for each
    until it has ended.
    """
    for command_id, child in list(work.run.family.alive.items()):
        if child.let_go in (how, "terminate") or (step_id is not None and child.fact.step_id != step_id):
            continue
        child_id = child.fact.child_id
        work.emit(ev.ChildLetGo(command_id=command_id, child_id=child_id, reason=reason, how=how))
        withdraw(work, command_id, reason)
        told = _STOP[how](input_id=f"parent:{command_id}:{how}", actor=ACTOR, reason=reason)
        work.outbox.append(Tell(run_id=child_id, given=told))


_STOP: Mapping[Stop, type[CancelRequested | TerminateRequested]] = {
    "cancel": CancelRequested,
    "terminate": TerminateRequested,
}


def hold(work: Work, given: PauseRequested | ResumeRequested) -> None:
    """Pause or resume the children with their run. A child that a person had paused separately is resumed too."""
    for command_id, child in work.run.family.alive.items():
        if child.let_go is None:
            told = replace(given, input_id=f"parent:{command_id}:{work.run.seq}")
            work.outbox.append(Tell(run_id=child.fact.child_id, given=told))


def answer(work: Work, command_id: str, given: DecisionMade) -> None:
    """Forward a person's answer about a quarantined child to the child's own review."""
    child = work.run.family.alive.get(command_id)
    asked = None if child is None else child.quarantined
    if asked is None:
        return
    own = replace(given, input_id=f"parent:{given.review_id}", review_id=asked.review_id, digest=asked.digest)
    work.outbox.append(Tell(run_id=asked.child_id, given=own))


def withdraw(work: Work, command_id: str, reason: str) -> None:
    """Close the review about a child, if there is one."""
    for key, review in list(work.run.reviews.items()):
        if review.fact.item == "child" and review.fact.scope == command_id:
            work.emit(ev.ReviewWithdrawn(review_id=key, reason=reason))


# -- up --------------------------------------------------------------------------------------------------------------


def tell_waiting(work: Work, *, waiting: bool) -> None:
    """Report to the parent, if any, that this run waits for reviews alone. Or report that it goes on."""
    lineage = work.run.family.lineage
    if lineage is None:
        return
    told = ChildWaits(
        input_id=f"waits:{lineage.parent_command}:{work.run.seq}",
        child_id=work.run.id,
        command_id=lineage.parent_command,
        waiting=waiting,
    )
    work.outbox.append(Tell(run_id=lineage.parent_run_id, given=told))


def report(work: Work) -> None:
    """Report to the parent a child's end, cost and result; do nothing for a run without a parent."""
    run, lineage = work.run, work.run.family.lineage
    if lineage is None:
        return
    ledger = find_state(run.guards, budget)
    if lineage.purpose == "slice":
        content, missing = slices.list_parts(work, lineage.briefs)
    else:
        outcome = work.ctx.output(run.outcome_ref) if run.outcome_ref else None
        content = None if outcome is None else {"output": {**outcome, "gaps": outcome.get("gaps", [])}}
        missing = () if run.state in ANSWERED else lineage.briefs
    told = ChildEnded(
        input_id=f"child:{lineage.parent_command}",
        child_id=run.id,
        command_id=lineage.parent_command,
        state=run.state,
        reason=run.reason[:REASON_CHARS],
        cause=run.trouble.cause if run.state not in ANSWERED else None,
        cost_usd_micros=ledger.spent_usd_micros,
        tokens=ledger.spent_tokens,
        missing=missing,
        content=content,
        mutations=handing_up.kept_mutations(work),
        agents_spawned=find_state(run.guards, hop_limit).spawned,
        released=run.released,
        changed_world=handing_up.changed_world(work),
    )
    work.outbox.append(Tell(run_id=lineage.parent_run_id, given=told))


def open_messages(run: Run, spec: FabricSpec, step: Step) -> tuple[Message, ...]:
    """Return the messages before the first answer. A planner's include the number of agents left."""
    opened = prompt.open_messages(run, step)
    if not _plans(step):
        return opened
    left = hop_limit.agents_left(run, spec)
    return tuple(replace(one, part=left) if one.template == "plan@1" else one for one in opened)


def too_many(work: Work, step: Step, output: JSON) -> list[str]:
    """Return the correction of a plan with more briefs than the planner may hand out; empty for any other output."""
    if not _plans(step) or work.run.family.lineage is not None:
        return []
    found = hop_limit.too_many_briefs(work.run, work.compiled_fabric.spec, len(output["briefs"]))
    return found or teams_without_room(work, [brief["agent"] for brief in output["briefs"]])


def _plans(step: Step) -> bool:
    return step.stage is Stage.PLAN and not is_judge(step)
