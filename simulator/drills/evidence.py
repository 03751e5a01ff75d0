"""What a decision of a drill rests on, in the fewest words that hold its numbers: out of the journal's own evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core.envelope import Event
from fabric.core.events import TripRecord
from fabric.core.taxonomy import Cause
from fabric.core.words import cut, duration, words
from fabric.selectors.display.decisions import DECIDED_AS
from fabric.selectors.story_trips import TRIPS

Money = tuple[int, int]
"""What the run has spent, and its cap; micro-dollars."""
_SOURCES = {
    "backoff": "back-off {}",
    "retry_after": "waits {}, as the provider asks",
    "breaker": "waits {} for the breaker",
    "named": "waits {}, as the provider asks",
    "failover": "at once",
}


def seconds(amount: float) -> str:
    """A short time with hundredths, as back-offs are told apart: ``0.41 s``; from ten seconds on as everywhere."""
    return f"{amount:.2f} s" if amount < 9.995 else duration(amount)


def exactly(micros: int) -> str:
    """Money next to a cap, where a rounded number would hide by how little it was passed: ``$1.0017``."""
    if not micros:
        return "$0"
    return f"${micros / 1e6:.4f}" if micros >= 100 else f"${micros / 1e6:.6f}"


def evidence_of(decision: Event, after: Sequence[Event], money: Money) -> str:
    """Of a ``reaction_decided`` or a ``rung_skipped``. ``after``: the events behind it, as far as they belong to it."""
    fact: Any = decision.fact
    if fact.kind == "rung_skipped":
        return cut(fact.reason)
    parts = [
        _cause(fact.cause, money),
        *(_cause(one, money) for one in fact.causes if one.mechanism == "failure_signature"),
    ]
    return "; ".join(filter(None, (*parts, *_followed(decision, after))))  # fmt: skip


# -- why ---------------------------------------------------------------------------------------------------------------


def _cause(trip: TripRecord, money: Money) -> str:
    found = _CAUSES.get(trip.mechanism)
    told = found(trip, money) if found is not None else ""
    if not told and trip.mechanism in TRIPS:
        told = TRIPS[trip.mechanism][1](trip)
    return told or cut(trip.message)


PLAIN = frozenset({Cause.SERVER_ERROR, Cause.RATE_LIMIT})
"""Causes that a status says well enough."""


def _provider(trip: TripRecord, _: Money) -> str:
    details = trip.evidence.details
    said = str(details.get("status") or "")
    if not said or trip.cause not in PLAIN:
        said = f"{words(trip.cause)} ({said})" if said else words(trip.cause)
    return f"{said}, attempt {details['attempt']}" if details.get("attempt") else said


def _loop(trip: TripRecord, _: Money) -> str:
    seen = trip.evidence
    cycle = seen.details.get("cycle")
    names = " -> ".join(map(str, cycle)) if isinstance(cycle, list | tuple) else str(seen.details.get("tool", ""))
    if seen.observed is None:
        return ""
    many = f"cycle {names}, {seen.observed:g} of {seen.limit or 0:g}" if len(cycle or ()) > 1 else ""  # type: ignore[arg-type]
    return many or f"same call {seen.observed:g} of last {seen.window or 'all'}: {names}".replace(" calls:", ":")


def _deadlock(trip: TripRecord, _: Money) -> str:
    seen = trip.evidence
    cycle = seen.details.get("cycle")
    round_ = " -> ".join(map(str, cycle)) if isinstance(cycle, list | tuple) else ""
    if not round_ or seen.observed is None:
        return ""
    return f"{round_}, {words(trip.cause)} {seen.observed:g} of {seen.limit or 0:g} times"


def _gate(trip: TripRecord, money: Money) -> str:
    details = trip.evidence.details
    if details.get("check") == "budget":
        return f"{exactly(money[0])} of {exactly(money[1])} spent"
    problems = details.get("problems")
    return cut(str(problems[0])) if isinstance(problems, list | tuple) and problems else ""


def _progress(trip: TripRecord, _: Money) -> str:
    seen = trip.evidence
    return f"{seen.observed:g} of {seen.limit:g} turns came to the same" if seen.observed and seen.limit else ""


_CAUSES: Mapping[str, Callable[[TripRecord, Money], str]] = {
    "provider": _provider,
    "loop_detector": _loop,
    "deadlock_monitor": _deadlock,
    "validation_gate": _gate,
    "progress": _progress,
}
"""By mechanism; the others are told as the margins of a run tell them, or by their own message."""


# -- what followed -----------------------------------------------------------------------------------------------------


def _followed(decision: Event, after: Sequence[Event]) -> list[str]:
    found = [_FOLLOWED[event.fact.kind](event.fact) for event in after if event.fact.kind in _FOLLOWED]
    asked = next((event for event in after if event.fact.kind == "escalation_opened"), None)
    answered = next((event for event in after if event.fact.kind == "escalation_decided"), None)
    if asked is not None and answered is not None:
        fact: Any = answered.fact
        waited = duration((answered.at - asked.at) / 1e6)
        found.append(f"{DECIDED_AS[fact.verb]} after {waited}" if not fact.system else f"nobody answered in {waited}")
    return list(filter(None, found))


def _retry(fact: Any) -> str:
    told = _SOURCES[fact.source].format(seconds(fact.delay_s))
    return told if fact.source in ("breaker", "named") else f"{told}, {fact.tokens_left / 1_000:g} tokens left"


_FOLLOWED: Mapping[str, Callable[[Any], str]] = {
    "retry_scheduled": _retry,
    "node_retry_scheduled": lambda fact: (
        f"the node again in {seconds(fact.delay_s)}, {fact.attempt} of {fact.attempts}"
    ),
    "replanned": lambda fact: f"epoch {fact.epoch + 1}" + (f", planned by {fact.planner}" if fact.planner else ""),
    "model_changed": lambda fact: f"{fact.model} in place of {fact.before}",
    "escalation_opened": lambda fact: f"{fact.required_role} asked",
}
"""Events that say what a decision led to."""
ENDS = frozenset({"reaction_decided", "rung_skipped", "run_ended"})
"""Events with which what follows from a decision is over."""
