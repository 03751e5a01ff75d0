"""Writes a review's content: facts of the failure with their numbers, and a sentence on the effect of each answer.

A person decides on these sentences, so each is computed from the engine's rules at the moment that the review opens. An
approval is bound to these bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.calls import issue
from fabric.core.decision import slices
from fabric.core.decision.work import Work
from fabric.core.evolve import calls
from fabric.core.ladders import fallback_model, ladder
from fabric.core.ladders.choice import Choice
from fabric.core.mechanisms import budget, find_state
from fabric.core.reviews import edits, raised_cap
from fabric.core.state.failure import Failure, record
from fabric.core.state.let_pass import list_calls
from fabric.core.values.flow import End, Stage
from fabric.core.values.saga import UNWINDS, Unwinds, find_by_key, undo_order
from fabric.core.values.taxonomy import Cause, FailureType, Tier, Trip
from fabric.core.values.units import JSON

CENT = 10_000
"""Micro-dollars."""

SECOND_FIRST = "a second person must approve it first"
"""Part of the sentence about an edit in high-stakes; pages look for it."""


def left_means(work: Work, stage: Stage) -> dict[str, JSON]:
    """Return the micro-dollars and the replans of a stage that the run has left (None: the parent owns the plan)."""
    ledger = find_state(work.run.guards, budget)
    usd = budget.cap(work.compiled_fabric.spec.policy.budget, ledger) - ledger.spent_usd_micros
    return {"usd_micros": usd, "replans": _replans(work, stage)}


def _replans(work: Work, stage: Stage) -> int | None:
    if slices.in_slice(work.run):
        return None
    return max(0, work.compiled_fabric.spec.policy.limits.replans_per_stage - work.run.replans.get(stage, 0))


def resumes(work: Work, stage: Stage | End, of: Stage) -> str:
    """Return where the run goes on, with its remaining means: ``resumes at validate, $0.31 and 1 replan left``."""
    has = left_means(work, of)
    money, replans = left_words(has["usd_micros"]), has["replans"]
    counted = "" if replans is None else f" and {replans or 'no'} replan{'' if replans == 1 else 's'}"
    where = f"resumes at {stage}" if isinstance(stage, Stage) else "the run is complete with it"
    return f"{where}, {money}{counted} left"


def left_words(usd_micros: int) -> str:
    """Return the money that a run has left. A run may have spent more than its cap: an endpoint bills what it wants."""
    return dollars(usd_micros) if usd_micros >= 0 else "no money"


def dollars(usd_micros: int) -> str:
    """Return an amount in words: to the cent, or with further digits for less."""
    sign, amount = ("-", -usd_micros) if usd_micros < 0 else ("", usd_micros)
    return f"{sign}${amount / 1_000_000:,.{2 if amount == 0 or amount >= CENT else 6}f}"


def rejection_sentence(work: Work) -> str:
    """Return a sentence on a rejection: the run is aborted, and its mutations are undone as far as possible."""
    said = "the run is aborted"
    order = [find_by_key(work.run.saga, key) for key in undo_order(work.run.saga.mutations, replan=False)]
    if not order or UNWINDS["reject"] is not Unwinds.YES:
        return said
    undone = [one.compensation for one in order if one is not None and one.compensation]
    stays = [one.tool for one in order if one is not None and not one.compensation]
    if undone:
        many = "1 compensation" if len(undone) == 1 else f"{len(undone)} compensations"
        said += f"; runs {many}: {', '.join(undone)}"
    return f"{said}; not undone: {', '.join(stays)}" if stays else said


def failure_consequences(
    work: Work,
    failure: Failure,
    failure_type: FailureType | None,
    item: str,
    edit: Mapping[str, JSON],
    *,
    let_pass: bool,
) -> dict[str, str]:
    """Return the consequence of each verb for a failure, by verb; a missing verb is not offered."""
    stage = failure.stage
    onward = resumes(work, slices.find_next_stage(work.run, stage), stage)
    again = resumes(work, stage, stage)
    if let_pass:
        said = {"approve": f"exactly this content continues: {again}"}
    elif item == "post_stage":
        said = {"approve": f"the run continues with this result: {onward}"}
    else:
        said = {"approve": f"{_describe_approval(work, failure, failure_type)}: {_where(work, failure, again)}"}
    if edit:
        what = (
            "your version replaces it and passes the same gates"
            if edit["edit_of"] == "payload"
            else "the branch runs once more with your brief, if it passes what the plan had to pass"
        )
        second = f"; {SECOND_FIRST}" if work.run.tier is Tier.HIGH_STAKES else ""
        said["edit"] = f"{what}: {again}{second}"
    if answerable(work, failure, item):
        said["respond"] = _describe_response(work, failure, item)
    return said | {"reject": rejection_sentence(work)}


def _describe_approval(work: Work, failure: Failure, failure_type: FailureType | None) -> str:
    passing = _describe_passing(failure)
    if not calls.keeps(work.run, failure_type, failure.step_id):
        return f"{_again(work, failure)}{f', and {passing}' if passing else ''}"
    done = sum(call.state == "done" for turn in work.run.steps[failure.step_id].history for call in turn.calls)
    stands = f"its earlier changes stay ({done} tool call{'' if done == 1 else 's'})"
    return f"the agent {passing}, and {stands}" if passing else f"the failed call is made again, and {stands}"


def _again(work: Work, failure: Failure) -> str:
    found = ladder.rerunnable(work, failure)
    if not found:
        return "the run replans, which costs one replan"
    again = "the failed step runs once more" if len(found) == 1 else f"the {len(found)} failed steps run once more"
    if ladder.child_changed_world(work, failure):
        again += " in a new child run, which may change the world again"
    return again


def _describe_passing(failure: Failure) -> str:
    tools = dict.fromkeys(tool for tool, _ in list_calls(failure.trips)) if failure.step_id else ()
    return f"may repeat the same call of {' and '.join(tools)}" if tools else ""


def _where(work: Work, failure: Failure, again: str) -> str:
    return again if ladder.rerunnable(work, failure) else resumes(work, Stage.PLAN, failure.stage)


def answerable(work: Work, failure: Failure, item: str) -> bool:
    """Return True if a failure can be answered with words. That costs a replan, which must be left, and needs an agent
    that reads them.
    """
    if work.run.ending is not None or ladder.replans_spent(work, failure.stage):
        return False
    if item == "failure" and ladder.rerunnable(work, failure):
        return True
    late = any(trip.cause is Cause.RUN_DEADLINE for trip in failure.trips)
    return work.compiled_fabric.spec.topology.planner is not None and not late


def _describe_response(work: Work, failure: Failure, item: str) -> str:
    has = _replans(work, failure.stage)
    cost = "which costs one replan" if has is None else f"which costs one of {has} replan{'' if has == 1 else 's'} left"
    if item == "failure" and ladder.rerunnable(work, failure):
        return f"{_again(work, failure)} with your words, {cost}"
    return f"the planner reads your message and replans, {cost}"


POLL_EXPIRY = "the call may not be made again, and the next reaction of the fabric's decision table follows"


def review_content(work: Work, failure: Failure, choice: Choice, item: str, let_pass: str) -> dict[str, JSON]:
    """Return the review's content: the facts of the decision, the money, the payload in question, the effect of each
    verb.
    """
    takes_cap = raised_cap.takes_cap(work, item, choice.failure_type)
    found = facts(work, failure, choice.trip, choice.failure_type)
    others = raised_cap.offered_caps(work, failure.stage, found["agent"]) if takes_cap else []
    needs = raised_cap.needed_cap(work, choice.trip, failure.stage, found["agent"]) if takes_cap else None
    edit = edits.offered_edit(work, failure, item)
    return {
        **found,
        "item": item,
        **edit,
        **failure_consequences(work, failure, choice.failure_type, item, edit, let_pass=bool(let_pass)),
        **({"releases": let_pass} if let_pass else {}),
        "takes_cap": takes_cap,
        **({"takes_caps": others} if others else {}),
        **({"needs_cap": needs} if needs else {}),
        "expiry": POLL_EXPIRY if choice.rung.poll else "rejected by the system",
    }


def facts(work: Work, failure: Failure, of: Trip, failure_type: FailureType | None) -> dict[str, JSON]:
    """Return the facts of a failure: the trip's numbers, the gate's checks, the payload, the money and the rest."""
    ledger = find_state(work.run.guards, budget)
    trip = record(of)
    return {
        "stage": failure.stage,
        "agent": work.run.steps[failure.step_id].agent if failure.step_id else "",
        "failure_type": failure_type,
        "mechanism": trip.mechanism,
        "cause": trip.cause,
        "message": trip.message,
        "limit": trip.evidence.limit,
        "observed": trip.evidence.observed,
        "unit": trip.evidence.unit,
        "details": dict(trip.evidence.details),
        "problems": _problems(trip),
        "gate": _gate(failure),
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": budget.cap(work.compiled_fabric.spec.policy.budget, ledger),
        "left": left_means(work, failure.stage),
        "payload": failure.payload,
    }


def _gate(failure: Failure) -> JSON:
    """Return the checks of the gate that kept the output back, in order, with their results. None: the failure is no
    gate's.
    """
    gate = failure.gate
    if gate is None:
        return None
    checks = [{"name": one.name, "result": one.result, "problems": list(one.problems)} for one in gate.checks]
    return {"gate": gate.gate, "checks": checks, "score": gate.score, "tau": gate.tau}


def takes_model(work: Work, failure: Failure, other: str) -> dict[str, JSON]:
    """Return the reviewer's information on the fallback for the failed model. An approval is bound to these bytes."""
    step = work.run.steps[failure.step_id]
    return {
        "takes_model": {
            "model": other,
            "before": issue.find_model(work, step),
            "needs": sorted(fallback_model.needs(work, step, anew=True)),
            "more_usd_micros": fallback_model.more_usd_micros(work, step, failure, other),
        }
    }


def _problems(trip: ev.TripRecord) -> list[str]:
    found = trip.evidence.details.get("problems", [])
    return [str(problem) for problem in found] if isinstance(found, list) else []
