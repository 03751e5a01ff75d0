"""Child runs: a step that is a run of its own. Spawned with a slice of the budget, told to stop, and reporting to its parent when it ends.

Above ``fan_out_inline_max`` briefs a fan-out is cut into slices, each a child of the same revision that begins at the fan-out; and a worker that is a
supervisor itself (``Compiled.nested``) is a child with a topology of its own. A parent holds nothing while it waits. Cancel and deadline go
down, results and cost come up, each once; what a child's failure means is the parent's decision table's question (design.md 4.8, semantics.md 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core import handing_up, mutation_keys, teams
from fabric.core.child_inputs import ChildEnded, ChildRequested, ChildWaits
from fabric.core.command_ids import child_of
from fabric.core.events.children import Purpose, Stop
from fabric.core.fingerprint import digest
from fabric.core.flow import ANSWERED, Stage
from fabric.core.frozen import replace
from fabric.core.inputs import CancelRequested, DecisionMade, PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.mechanisms import budget, hop_limit, state_of
from fabric.core.outbox import Spawn, Tell
from fabric.core.run import Step
from fabric.core.taxonomy import Cause
from fabric.core.topologies import slices
from fabric.core.verdict import Evidence, Trip
from fabric.core.words import count
from fabric.core.work import Work

JSON = Any
ACTOR = "the parent run"
REASON_CHARS = 500
"""Of a child's reason, as its parent keeps it in a header that is never erased."""
TITLE_CHARS = 120


def purpose_of(work: Work, stage: Stage, agent: str) -> Purpose | None:
    """Why a branch is a run of its own; None: an agent of this run does it."""
    if stage is not Stage.FAN_OUT:
        return None
    if slices.is_slice(agent):
        return "slice"
    return "nested" if agent in work.ctx.compiled.nested else None


def refused(work: Work, stage: Stage, agents: Iterable[str], briefs: Iterable[int]) -> list[Trip]:
    """What speaks against branches for those agents, which do those briefs: the family has no room for children, or not for the teams that they lead."""
    if not any(purpose_of(work, stage, agent) for agent in agents):
        return []
    return _family_full(work) if work.ctx.family_full else _teams_too_large(work, list(briefs))


def _family_full(work: Work) -> list[Trip]:
    limits = work.compiled.spec.policy.limits
    evidence = Evidence(
        limits.sub_agents_alive, unit="runs alive", scope="family", details=hop_limit.ancestry(work.run)
    )
    message = f"the runs of this family may be {limits.sub_agents_alive} at once and {limits.sub_agents_spawned} in all, and there are as many"
    return [Trip(hop_limit.NAME, Cause.SUB_AGENT_CAP, evidence, message)]


def _teams_too_large(work: Work, briefs: list[int]) -> list[Trip]:
    """A brief whose team could not start whom it needs is not handed out, and nor are those beside it: planners would be asked for nothing."""
    planned = slices.plan(work)["briefs"] if work.ctx.compiled.nested else []
    agents = [planned[n]["agent"] for n in briefs] if planned else []
    agent, least, part, message = _too_large(work, agents, len(planned))
    if not agent:
        return []
    run = work.run
    _, limit = hop_limit.caps(work.compiled.spec.policy.limits, run)
    scope = "run" if run.family.lineage is None else "family"
    details = {"agent": agent, "spawned_limit": limit, **hop_limit.ancestry(run)}
    evidence = Evidence(part, least, "agents spawned", scope, details=details)
    return [Trip(hop_limit.NAME, Cause.SUB_AGENT_CAP, evidence, message)]


def _too_large(work: Work, agents: list[str], whole: int) -> tuple[str, int, int, str]:
    """Of briefs for those agents: whose team needs more than its part, how many it needs, the part, and a sentence; no name: nobody's. ``whole``: briefs of their plan."""
    nested, run = work.ctx.compiled.nested, work.run
    needs = {agent: teams.needed(nested, agent) for agent in agents} if nested else {}
    agent = max(needs, key=lambda name: needs[name], default="")
    _, limit = hop_limit.caps(work.compiled.spec.policy.limits, run)
    left = limit - state_of(run.guards, hop_limit).spawned - len(agents)
    part = max(0, left) * 3 // max(3 * len(agents) + whole, 1)
    if not agent or needs[agent] <= part:
        return "", 0, 0, ""
    message = (
        f"the team of {agent} starts at least {count(needs[agent], 'agent')}, and its part of the {left} that may still be started "
        f"for {count(len(agents), 'brief')} is {part}"
    )
    return agent, needs[agent], part, message


TEAM_AT_WORK = 2
"""Agents that a team which plans must be able to have at work at once: it could hand out one brief alone otherwise."""


def teams_without_room(work: Work, agents: list[str]) -> list[str]:
    """The problems of a plan whose teams would have too few agents left; empty: none. ``agents``: those of its briefs."""
    nested = work.ctx.compiled.nested
    plan = [agent for agent in agents if agent in nested and nested[agent].spec.topology.planner is not None]
    alive, _ = hop_limit.caps(work.compiled.spec.policy.limits, work.run)
    places = alive - hop_limit.working(work.run) - len(agents)
    deep = sum(agent in nested for agent in agents)
    if plan and 1 + max(0, places) // deep < min(TEAM_AT_WORK, alive):
        return [
            f"briefs: {len(agents)} of them leave the team of {plan[0]} a single agent at work ({count(alive, 'agent')} may work at once, limits.sub_agents_alive); hand out fewer"
        ]
    message = _too_large(work, agents, len(agents))[3]
    return [f"briefs: {message} (limits.sub_agents_spawned); hand out fewer"] if message else []


def id_of(parent_run_id: str, command_id: str) -> str:
    """The id of the child that answers a command: the same whoever works it out, a UUID of a kind of our own (version 8)."""
    made = digest(parent_run_id, "child", command_id)
    return f"{made[:8]}-{made[8:12]}-8{made[13:16]}-a{made[17:20]}-{made[20:]}"


# -- down --------------------------------------------------------------------------------------------------------------


def spawn(work: Work, step: Step, purpose: Purpose) -> None:
    """Gives a step to a run of its own: reserved, with this stage's deadline, one level deeper."""
    run = work.run
    briefs = slices.open_briefs(run, step) if purpose == "slice" else (step.brief,)
    command_id = child_of(step.id)
    child_id = id_of(run.id, command_id)
    cap, tokens = _share(work, step, len(briefs))
    alive, spawned = _agents(work, step, len(briefs), purpose)
    lineage, keys = run.family.lineage, mutation_keys.of_child(run, step, purpose, child_id)
    down = handing_up.down(work, step, purpose, briefs)
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
        plan=slices.plan_of(work, briefs) if purpose == "slice" else None,
        topology=step.agent if purpose == "nested" else run.topology,
        agents_alive=alive,
        agents_spawned=spawned,
        requested_by=run.requested_by,
        caused_by=run.caused_by,
        keys=keys,
        mutations=down,
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
            keys=keys,
            handed_down=tuple(one.key for one in down),
        )
    )
    seed = int(digest(work.ctx.seed, "child", command_id)[:15], 16)
    work.outbox.append(Spawn(run_id=child_id, title=_title(work, purpose, briefs), seed=seed, given=given))


def _share(work: Work, step: Step, weight: int) -> tuple[int, int | None]:
    """Micro-dollars and tokens of a child: by its briefs, of three quarters of what its parent has left for all of them.

    The other quarter is for what the parent does itself, after the children and beside them. What a child does not spend comes back.
    """
    policy = work.compiled.spec.policy
    waiting = sum(
        slices.weight_of(work.run, other)
        for other in work.run.steps.values()
        if other.stage is step.stage and other.status == "active"
    )
    whole = slices.briefs_in(work)
    usd, tokens = budget.left(policy.budget, state_of(work.run.guards, budget), step.stage)
    most = _own_cap(work, step)

    def part(left: int) -> int:
        return max(0, left) * 3 * weight // (3 * max(waiting, weight) + whole)

    return min(part(usd), most), None if tokens is None else part(tokens)


def _own_cap(work: Work, step: Step) -> int:
    """Most that a child may spend by itself: its team's cap, or that of a run."""
    within = work.ctx.compiled.nested.get(step.agent, work.compiled)
    return within.spec.policy.budget.run_usd_micros


def _agents(work: Work, step: Step, weight: int, purpose: Purpose) -> tuple[int, int]:
    """How many agents a child and those below it may have at once, and start in all: the caps are the whole tree's (semantics.md 4).

    Each brief has its agent. What is left beside those goes to children that have supervisors below them, by briefs; and of what may still be started three
    quarters, as of the money: the rest is for what the parent starts again itself.
    """
    run = work.run
    waiting = [other for other in run.steps.values() if other.stage is step.stage and other.status == "active"]
    weights = {other.id: slices.weight_of(run, other) for other in waiting}
    alive, spawned = hop_limit.caps(work.compiled.spec.policy.limits, run)
    uncounted = sum(weights.values()) - len(waiting)
    places = alive - hop_limit.working(run) - uncounted
    starts = max(0, spawned - state_of(run.guards, hop_limit).spawned - uncounted)
    deep = sum(weights[other.id] for other in waiting if _supervised(work, other))
    more = max(0, places) * weight // max(deep, weight) if _supervised(work, step) else 0
    extra = _part(work, starts, max(sum(weights.values()), weight), weight)
    return weight + more, extra + (weight if purpose == "slice" else 0)


def _part(work: Work, starts: int, waiting: int, weight: int) -> int:
    """How many of what may still be started are a child's, which stands for ``weight`` of the ``waiting`` briefs."""
    return starts * 3 * weight // (3 * waiting + slices.briefs_in(work))


def _supervised(work: Work, step: Step) -> bool:
    """Whether a step is, or has below it, a worker that is a supervisor itself."""
    return bool(work.ctx.compiled.nested) and any(
        agent in work.ctx.compiled.nested for agent in slices.agents_of(work, [step])
    )


def _request(work: Work, step: Step, purpose: Purpose, briefs: tuple[int, ...]) -> JSON:
    """What a child is asked: the same as its parent, or its one brief; where it is tried once more, with a note of what was wrong or what a person said of it.

    The note is no part of the text: answers may rest on that, and a note quotes what they may not rest on.
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
    """Tells the children of one step, or all of them, to stop. Each is waited for until it has; what was asked about one is asked no more."""
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
    """A run that is paused, or goes on, has its children do the same. One that somebody had paused by itself goes on too."""
    for command_id, child in work.run.family.alive.items():
        if child.let_go is None:
            told = replace(given, input_id=f"parent:{command_id}:{work.run.seq}")
            work.outbox.append(Tell(run_id=child.fact.child_id, given=told))


def answer(work: Work, command_id: str, given: DecisionMade) -> None:
    """What a person says about a quarantined child is the answer to its own question."""
    child = work.run.family.alive.get(command_id)
    asked = None if child is None else child.quarantined
    if asked is None:
        return
    own = replace(
        given, input_id=f"parent:{given.escalation_id}", escalation_id=asked.escalation_id, digest=asked.digest
    )
    work.outbox.append(Tell(run_id=asked.child_id, given=own))


def withdraw(work: Work, command_id: str, reason: str) -> None:
    """Closes the question about a child, where there is one."""
    for key, question in list(work.run.questions.items()):
        if question.fact.item == "child" and question.fact.scope == command_id:
            work.emit(ev.EscalationWithdrawn(escalation_id=key, reason=reason))


# -- up ----------------------------------------------------------------------------------------------------------------


def tell_waiting(work: Work, *, waiting: bool) -> None:
    """Tells the parent, where there is one, that nothing is live here but questions to people, or that it goes on."""
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
    """Tells the parent how a child ended, what it cost, and what it brings. Nothing to do for a run without one."""
    run, lineage = work.run, work.run.family.lineage
    if lineage is None:
        return
    ledger = state_of(run.guards, budget)
    if lineage.purpose == "slice":
        content, missing = slices.parts_of(work, lineage.briefs)
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
        cause=run.family.trouble if run.state not in ANSWERED else None,
        cost_usd_micros=ledger.spent_usd_micros,
        tokens=ledger.spent_tokens,
        missing=missing,
        content=content,
        mutations=handing_up.kept(work),
        agents_spawned=state_of(run.guards, hop_limit).spawned,
        released=run.released,
        keys_spent=mutation_keys.spent(work),
    )
    work.outbox.append(Tell(run_id=lineage.parent_run_id, given=told))
