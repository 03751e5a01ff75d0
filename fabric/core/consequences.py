"""What follows from each answer, said before it is given: where the run goes on, what is left of its money and its replans, what is undone.

A person decides on these sentences, so each is worked out from what the engine will do, at the moment that the question is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import kept_steps, ladder
from fabric.core.failure import Failure
from fabric.core.flow import End, Stage
from fabric.core.let_pass import about
from fabric.core.mechanisms import budget, state_of
from fabric.core.saga import UNWINDS, Unwinds, by_key, undo_order
from fabric.core.taxonomy import Cause, FailureType, Tier
from fabric.core.topologies import slices
from fabric.core.work import Work

JSON = Any
CENT = 10_000
"""Micro-dollars."""


def left(work: Work, stage: Stage) -> dict[str, JSON]:
    """What the run has left: micro-dollars, and replans of a stage (None: the plan is its parent's)."""
    ledger = state_of(work.run.guards, budget)
    usd = budget.cap(work.compiled.spec.policy.budget, ledger) - ledger.spent_usd_micros
    return {"usd_micros": usd, "replans": _replans(work, stage)}


def _replans(work: Work, stage: Stage) -> int | None:
    if slices.in_slice(work.run):
        return None
    return max(0, work.compiled.spec.policy.limits.replans_per_stage - work.run.replans.get(stage, 0))


def resumes(work: Work, stage: Stage | End, of: Stage) -> str:
    """Where the run goes on, and with what: ``resumes at validate, $0.31 and 1 replan left``."""
    has = left(work, of)
    money, replans = dollars(has["usd_micros"]), has["replans"]
    counted = "" if replans is None else f" and {replans or 'no'} replan{'' if replans == 1 else 's'}"
    where = f"resumes at {stage}" if isinstance(stage, Stage) else "the run is complete with it"
    return f"{where}, {money}{counted} left"


def dollars(usd_micros: int) -> str:
    """An amount as people read it: to the cent, and further where that would say nothing."""
    sign, amount = ("-", -usd_micros) if usd_micros < 0 else ("", usd_micros)
    return f"{sign}${amount / 1_000_000:,.{2 if amount == 0 or amount >= CENT else 6}f}"


def rejected(work: Work) -> str:
    """What rejecting does: the run is aborted, and what it did is undone as far as that goes."""
    said = "the run is aborted"
    order = [by_key(work.run.saga, key) for key in undo_order(work.run.saga.mutations, replan=False)]
    if not order or UNWINDS["reject"] is not Unwinds.YES:
        return said
    undone = [one.compensation for one in order if one is not None and one.compensation]
    stays = [one.tool for one in order if one is not None and not one.compensation]
    if undone:
        many = "1 compensation" if len(undone) == 1 else f"{len(undone)} compensations"
        said += f"; runs {many}: {', '.join(undone)}"
    return f"{said}; what stays: {', '.join(stays)}" if stays else said


def of_failure(
    work: Work,
    failure: Failure,
    failure_type: FailureType | None,
    item: str,
    edit: Mapping[str, JSON],
    *,
    let_pass: bool,
) -> dict[str, str]:
    """What each verb would do about a failure, by verb; one that is missing is not offered."""
    stage = failure.stage
    onward = resumes(work, slices.following(work.run, stage), stage)
    again = resumes(work, stage, stage)
    if let_pass:
        said = {"approve": f"exactly what is shown here goes on, and nothing else: {again}"}
    elif item == "post_stage":
        said = {"approve": f"the run goes on with this result: {onward}"}
    else:
        said = {"approve": f"{_approved(work, failure, failure_type)}: {_where(work, failure, again)}"}
    if edit:
        what = (
            "your version stands in its place, behind the same gates"
            if edit["edit_of"] == "payload"
            else "the branch runs once more with your brief, if it passes what the plan had to pass"
        )
        second = "; somebody else has to approve it first" if work.run.tier is Tier.HIGH_STAKES else ""
        said["edit"] = f"{what}: {again}{second}"
    if answerable(work, failure, item):
        said["respond"] = _responded(work, failure, item)
    return said | {"reject": rejected(work)}


def _approved(work: Work, failure: Failure, failure_type: FailureType | None) -> str:
    passing = _passing(failure)
    if not kept_steps.keeps(work.run, failure_type, failure.step_id):
        return f"{_again(work, failure)}{f', and {passing}' if passing else ''}"
    done = sum(call.state == "done" for turn in work.run.steps[failure.step_id].history for call in turn.calls)
    stands = f"what it did before stands ({done} tool call{'' if done == 1 else 's'})"
    return f"the agent {passing}, and {stands}" if passing else f"the failed call is made again, and {stands}"


def _again(work: Work, failure: Failure) -> str:
    found = ladder.rerunnable(work, failure)
    if not found:
        return "the run is planned anew, which costs one replan"
    return "the failed step runs once more" if len(found) == 1 else f"the {len(found)} failed steps run once more"


def _passing(failure: Failure) -> str:
    tools = dict.fromkeys(tool for tool, _ in about(failure.trips)) if failure.step_id else ()
    return f"may go on making the same call of {' and '.join(tools)}" if tools else ""


def _where(work: Work, failure: Failure, again: str) -> str:
    return again if ladder.rerunnable(work, failure) else resumes(work, Stage.PLAN, failure.stage)


def answerable(work: Work, failure: Failure, item: str) -> bool:
    """Whether a failure can be answered with words: that costs one replan, and there has to be one left, and somebody who is told."""
    if work.run.ending is not None or ladder.replans_spent(work, failure.stage):
        return False
    if item == "failure" and ladder.rerunnable(work, failure):
        return True
    late = any(trip.cause is Cause.RUN_DEADLINE for trip in failure.trips)
    return work.compiled.spec.topology.planner is not None and not late


def _responded(work: Work, failure: Failure, item: str) -> str:
    has = _replans(work, failure.stage)
    cost = "which costs one replan" if has is None else f"which costs one of {has} replan{'' if has == 1 else 's'} left"
    if item == "failure" and ladder.rerunnable(work, failure):
        return f"{_again(work, failure)} with your words, {cost}"
    return f"the planner is told your words and plans anew, {cost}"
