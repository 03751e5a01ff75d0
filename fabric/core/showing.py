"""What a person is shown of a failure: facts with their numbers, in the words of the engine, and what each answer does. An approval is bound to these bytes."""

from __future__ import annotations

from typing import Any

from fabric.core import calls, consequences, edits, raised_cap, swap
from fabric.core import events as ev
from fabric.core.failure import Failure, record
from fabric.core.ladder import Choice
from fabric.core.mechanisms import budget, state_of
from fabric.core.taxonomy import FailureType
from fabric.core.verdict import Trip
from fabric.core.work import Work

JSON = Any


NOBODY_LETS_IT = "the call may not be made again, and the next reaction of the fabric's decision table follows"


def shown(work: Work, failure: Failure, choice: Choice, item: str, let_pass: str) -> dict[str, JSON]:
    """What the person sees: the facts of the decision, the money, the payload in question, what each verb does."""
    takes_cap = raised_cap.takes_cap(work, item, choice.failure_type)
    found = facts(work, failure, choice.trip, choice.failure_type)
    others = raised_cap.offered(work, failure.stage, found["agent"]) if takes_cap else []
    needs = raised_cap.needed(work, choice.trip, failure.stage, found["agent"]) if takes_cap else None
    edit = edits.offered(work, failure, item)
    return {
        **found,
        "item": item,
        **edit,
        **consequences.of_failure(work, failure, choice.failure_type, item, edit, let_pass=bool(let_pass)),
        **({"releases": let_pass} if let_pass else {}),
        "takes_cap": takes_cap,
        **({"takes_caps": others} if others else {}),
        **({"needs_cap": needs} if needs else {}),
        "expiry": NOBODY_LETS_IT if choice.rung.poll else "rejected by the system",
    }


def facts(work: Work, failure: Failure, of: Trip, failure_type: FailureType | None) -> dict[str, JSON]:
    """What is known of a failure: what tripped with its numbers, the gate with its checks, the payload, the money and what is left."""
    ledger = state_of(work.run.guards, budget)
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
        "cap_usd_micros": budget.cap(work.compiled.spec.policy.budget, ledger),
        "left": consequences.left(work, failure.stage),
        "payload": failure.payload,
    }


def _gate(failure: Failure) -> JSON:
    """The checks of the gate that did not pass something on, in their order, each with what came of it; None: it was no gate."""
    gate = failure.gate
    if gate is None:
        return None
    checks = [{"name": one.name, "result": one.result, "problems": list(one.problems)} for one in gate.checks]
    return {"gate": gate.gate, "checks": checks, "score": gate.score, "tau": gate.tau}


def takes_model(work: Work, failure: Failure, other: str) -> dict[str, JSON]:
    """What a person is told about the model that may answer in place of the one that failed. An approval is bound to these bytes."""
    step = work.run.steps[failure.step_id]
    return {
        "takes_model": {
            "model": other,
            "before": calls.model_of(work, step),
            "needs": sorted(swap.needs(work, step, anew=True)),
            "more_usd_micros": swap.more_usd_micros(work, step, failure, other),
        }
    }


def _problems(trip: ev.TripRecord) -> list[str]:
    found = trip.evidence.details.get("problems", [])
    return [str(problem) for problem in found] if isinstance(found, list) else []
