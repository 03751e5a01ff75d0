"""Supervisor: the briefs of a plan go to N agents at once; the fan-in policy says when they are enough (S0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.core import calls
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.policy import FanIn
from fabric.core.run import Step
from fabric.core.taxonomy import Cause
from fabric.core.topologies import slices
from fabric.core.topologies.shape import Concluded, parts
from fabric.core.verdict import Details, Evidence, Trip
from fabric.core.work import Work

JSON = Any


def plan(work: Work) -> JSON:
    """The fixed plan."""
    fixed = work.compiled.spec.topology.plan
    assert fixed is not None  # the spec has a planner or a fixed plan
    return fixed.model_dump(mode="json")


def begins(work: Work) -> tuple[str, ...]:
    """An agent for each brief; of a fan-out that is too large to be done inline, its slices."""
    briefs = slices.plan(work)["briefs"]
    cut = slices.cut(len(briefs), work.compiled.spec.policy.limits.fan_out_inline_max)
    return cut or tuple(brief["agent"] for brief in briefs)


def joined(work: Work) -> Concluded:
    """Without an aggregator the summaries stand one after the other, each under its title."""
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    read = work.ctx.contents.read
    given = [(part["title"], slices.output_of(read(part["ref"]), part["branch"])) for part in parts if part["ref"]]
    text = (
        given[0][1]["text"] if len(given) == 1 else "\n\n".join(f"{title}\n{found['text']}" for title, found in given)
    )
    cited = list(dict.fromkeys(name for _, found in given for name in found["citations"]))
    return Concluded({"text": text or "No branch came back with a result.", "citations": cited})


def concluded(work: Work, steps: list[Step]) -> Concluded | Failure | None:
    """All branches over, or the policy decided early: then the others are let go."""
    policy = work.compiled.spec.policy.fan_in
    tally = _tally(work, steps)
    if slices.in_slice(work.run):
        return _slice(work, steps, policy, tally)
    needed = _needed(policy, tally.branches, tally.accepted)
    if tally.branches - tally.failed < needed:
        cancel_rest(work, steps, "the fan-in policy cannot be met any more")
        return _partial(work, policy, tally, needed)
    enough = policy.mode == "quorum" and tally.done >= needed
    if not enough and not tally.over:
        return None
    if enough:
        cancel_rest(work, steps, "the quorum is met")
    return Concluded(parts(work))


def _slice(work: Work, steps: list[Step], policy: FanIn, tally: Tally) -> Concluded | None:
    """A slice judges nothing: it gives its parent what it has, at once where a missing branch is one too many."""
    if tally.failed > tally.accepted and policy.mode == "all":
        cancel_rest(work, steps, "the fan-in policy cannot be met any more")
    elif not tally.over:
        return None
    return Concluded(parts(work))


@value()
class Tally:
    """How a fan-out stands, in branches: a step that is a slice counts by what it brought."""

    branches: int
    done: int
    failed: int
    accepted: int
    """Of those that failed: the ones whose gap the fabric accepts once their retries are exhausted."""
    why: tuple[tuple[str, str], ...]
    """``(agent, cause)`` of the first that failed."""

    @property
    def over(self) -> bool:
        """Nothing is to be waited for."""
        return self.done + self.failed == self.branches


def _tally(work: Work, steps: list[Step]) -> Tally:
    branches = done = failed = accepted = 0
    why: list[tuple[str, str]] = []
    for step in steps:
        stands_for, have = 1, int(step.status == "done")
        if slices.is_slice(step.agent):
            stands_for, have = len(slices.briefs_of(step)), len(slices.brought(work.run, step))
        branches += stands_for
        if step.status not in ("done", "failed"):
            continue
        done, failed, accepted = done + have, failed + stands_for - have, accepted + slices.accepted(work, step)
        if have < stands_for and len(why) < 3:
            why.append((step.agent, step.message or slices.gap(work, step)))
    return Tally(branches, done, failed, accepted, tuple(why))


def _needed(policy: FanIn, branches: int, accepted: int) -> int:
    """How many branches must have come back with a result: one at least, since nothing at all is no part of anything."""
    if policy.mode == "all":
        return max(1, branches - accepted)
    return min(policy.k or 1, branches) if policy.mode == "quorum" else 1


def cancel_rest(work: Work, steps: list[Step], reason: str) -> None:
    """Lets go of the branches that are not over."""
    for step in steps:
        if step.status in ("active", "delegated", "parked"):
            asked = [q.fact for q in work.run.questions.values() if q.fact.step_id == step.id]
            calls.let_go_all(work, reason, step.id)
            for question in [one for one in asked if one.escalation_id in work.run.questions]:
                work.emit(ev.EscalationWithdrawn(escalation_id=question.escalation_id, reason=reason))
            # What went wrong in a branch stays its cause, whatever became of the others.
            message = f"{asked[0].reason}; {reason}" if asked else reason
            work.emit(ev.StepFailed(step_id=step.id, cause=Cause.PARTIAL_FAN_IN, message=message))


def failed_parts(why: Sequence[tuple[str, str]], failed: int, of: int, needed: int, parts: str = "agents") -> str:
    """Returns the sentence of work that lacks results: the causes first. ``why``: ``(who, cause)`` of the first that failed."""
    if of == 1 and why:
        return why[0][1]
    causes = "; ".join(f"{agent}: {cause}" for agent, cause in why)
    return f"{causes} ({failed} of {of} {parts} brought no result, and {'all' if needed == of else needed} must)"


def _partial(work: Work, policy: FanIn, tally: Tally, needed: int) -> Failure:
    details: Details = {"mode": policy.mode, "branches": tally.branches}
    evidence = Evidence(needed, tally.done, "branches", "stage:fan_out", details=details)
    message = failed_parts(tally.why, tally.failed, tally.branches, needed)
    return Failure((Trip("fan_in", Cause.PARTIAL_FAN_IN, evidence, message),), Stage.FAN_OUT)
