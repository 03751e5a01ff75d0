"""Runs a supervisor: N agents take a plan's briefs at once, and the fan-in policy ends the wait (S0)."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.decision import slices
from fabric.core.decision.work import Work
from fabric.core.spec.policies.limits import FanIn
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.topologies.shape import StageOutput, parts
from fabric.core.values.branches import MET, UNMET
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, Details, Evidence, Trip
from fabric.core.values.units import JSON


def plan(work: Work) -> JSON:
    """Return the fixed plan."""
    fixed = work.compiled_fabric.spec.topology.plan
    assert fixed is not None  # the spec has a planner or a fixed plan
    return fixed.model_dump(mode="json")


def begins(work: Work) -> tuple[str, ...]:
    """Return an agent for each brief; for a fan-out that is too large to run inline, its slices."""
    briefs = slices.plan(work)["briefs"]
    cut = slices.cut(len(briefs), work.compiled_fabric.spec.policy.limits.fan_out_inline_max)
    return cut or tuple(brief["agent"] for brief in briefs)


def join_outputs(work: Work) -> StageOutput:
    """Conclude, without an aggregator, with the summaries one after another, each under its title."""
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    read = work.ctx.contents.read
    given = [(part["title"], slices.read_output(read(part["ref"]), part["branch"])) for part in parts if part["ref"]]
    text = (
        given[0][1]["text"] if len(given) == 1 else "\n\n".join(f"{title}\n{found['text']}" for title, found in given)
    )
    cited = list(dict.fromkeys(name for _, found in given for name in found["citations"]))
    return StageOutput({"text": text or "No branch came back with a result.", "citations": cited})


def conclude_fan_out(work: Work, steps: list[Step]) -> StageOutput | Failure | None:
    """Conclude once all branches are over, or the policy decides early; then the other branches are cancelled."""
    policy = work.compiled_fabric.spec.policy.fan_in
    tally = _tally(work, steps)
    if slices.in_slice(work.run):
        return _slice(work, steps, policy, tally)
    needed = _count_needed(policy, tally.branches, tally.accepted)
    if tally.branches - tally.failed < needed:
        cancel_rest(work, steps, UNMET)
        return _partial(work, policy, tally, needed)
    enough = policy.mode == "quorum" and tally.done >= needed
    if not enough and not tally.over:
        return None
    if enough:
        cancel_rest(work, steps, MET)
    return StageOutput(parts(work))


def _slice(work: Work, steps: list[Step], policy: FanIn, tally: BranchCounts) -> StageOutput | None:
    """Conclude a slice, which applies no policy and passes its parts to its parent. It does so at once if too many
    branches failed.
    """
    if tally.failed > tally.accepted and policy.mode == "all":
        cancel_rest(work, steps, UNMET)
    elif not tally.over:
        return None
    return StageOutput(parts(work))


@value()
class BranchCounts:
    """Counts of a fan-out's branches; a step that is a slice counts as many as it brought."""

    branches: int
    done: int
    failed: int
    accepted: int
    """Failed branches whose gap the fabric accepts once their retries are exhausted."""
    why: tuple[tuple[str, str], ...]
    """``(agent, cause)`` of the first that failed."""

    @property
    def over(self) -> bool:
        """True if no branch is awaited."""
        return self.done + self.failed == self.branches


def _tally(work: Work, steps: list[Step]) -> BranchCounts:
    branches = done = failed = accepted = 0
    why: list[tuple[str, str]] = []
    for step in steps:
        stands_for, have = 1, int(step.status == "done")
        if slices.is_slice(step.agent):
            stands_for, have = len(slices.find_briefs(step)), len(slices.brought_parts(work.run, step))
        branches += stands_for
        if step.status not in ("done", "failed"):
            continue
        done, failed, accepted = done + have, failed + stands_for - have, accepted + slices.accepted_gaps(work, step)
        if have < stands_for and len(why) < 3:
            why.append((step.agent, step.message or slices.gap(work, step)))
    return BranchCounts(branches, done, failed, accepted, tuple(why))


def _count_needed(policy: FanIn, branches: int, accepted: int) -> int:
    """Return the number of branches that need a result; at least one."""
    if policy.mode == "all":
        return max(1, branches - accepted)
    return min(policy.k or 1, branches) if policy.mode == "quorum" else 1


def cancel_rest(work: Work, steps: list[Step], reason: str) -> None:
    """Abort the branches that are not over."""
    for step in steps:
        if step.status in ("active", "delegated", "parked"):
            asked = [q.fact for q in work.run.reviews.values() if q.fact.step_id == step.id]
            calls.let_go_all(work, reason, step.id)
            for review in [one for one in asked if one.review_id in work.run.reviews]:
                work.emit(ev.ReviewWithdrawn(review_id=review.review_id, reason=reason))
            # A branch's own failure stays its cause, whatever happens to the others.
            message = f"{asked[0].reason}; {reason}" if asked else reason
            work.emit(ev.StepFailed(step_id=step.id, cause=Cause.PARTIAL_FAN_IN, message=message))


def failed_parts(why: Sequence[tuple[str, str]], failed: int, of: int, needed: int, parts: str = "agents") -> str:
    """Return the sentence of work that lacks results: the causes first. ``why``: ``(who, cause)`` of the first that
    failed.
    """
    if of == 1 and why:
        return why[0][1]
    causes = "; ".join(f"{agent}: {cause}" for agent, cause in why)
    return f"{causes} ({failed} of {of} {parts} brought no result, and {'all' if needed == of else needed} must)"


def _partial(work: Work, policy: FanIn, tally: BranchCounts, needed: int) -> Failure:
    details: Details = {"mode": policy.mode, "branches": tally.branches}
    evidence = Evidence(needed, tally.done, "branches", "stage:fan_out", details=details)
    message = failed_parts(tally.why, tally.failed, tally.branches, needed)
    return Failure((Trip("fan_in", Cause.PARTIAL_FAN_IN, evidence, message),), Stage.FAN_OUT)
