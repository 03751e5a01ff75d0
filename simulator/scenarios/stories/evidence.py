"""Puts the evidence of a drill's decision in few words, with its numbers, from the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core.events import TripRecord
from fabric.core.events.envelope import Event, fact_json
from fabric.core.values.taxonomy import Cause
from fabric.core.values.words import cut, duration, words
from fabric.selectors.runs.display import EVENT_DISPLAY
from fabric.selectors.runs.story.trips import TRIPS

Money = tuple[int, int]
"""Spending and cap of the run, in micro-dollars."""
LED_TO = frozenset({"retry_scheduled", "node_retry_scheduled", "replanned", "model_changed", "review_opened"})
"""Kinds of events that a drill's report names beside the decision that led to them."""


def seconds(amount: float) -> str:
    """Return a short time with hundredths, to show back-offs: ``0.41 s``; from ten seconds on as everywhere."""
    return f"{amount:.2f} s" if amount < 9.995 else duration(amount)


def exactly(micros: int) -> str:
    """Return money exactly, because a rounded amount would hide a small excess over a cap: ``$1.0017``."""
    if not micros:
        return "$0"
    return f"${micros / 1e6:.4f}" if micros >= 100 else f"${micros / 1e6:.6f}"


def write_evidence(decision: Event, after: Sequence[Event], money: Money) -> str:
    """Return the evidence of a ``reaction_decided`` or ``rung_skipped``. ``after``: later events that belong to it."""
    fact: Any = decision.fact
    if fact.kind == "rung_skipped":
        return cut(fact.reason)
    parts = [
        _cause(fact.cause, money),
        *(_cause(one, money) for one in fact.causes if one.mechanism == "failure_signature"),
    ]
    return "; ".join(filter(None, (*parts, *_consequence_words(decision, after))))  # fmt: skip


# -- why -------------------------------------------------------------------------------------------------------------


def _cause(trip: TripRecord, money: Money) -> str:
    found = _CAUSES.get(trip.mechanism)
    told = found(trip, money) if found is not None else ""
    if not told and trip.mechanism in TRIPS:
        told = TRIPS[trip.mechanism][1](trip)
    return told or cut(trip.message)


PLAIN = frozenset({Cause.SERVER_ERROR, Cause.RATE_LIMIT})
"""Causes that a status describes well enough."""


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
"""Words by mechanism. Others use the words of a run's margins, or their own message."""


# -- what followed ---------------------------------------------------------------------------------------------------


def _consequence_words(decision: Event, after: Sequence[Event]) -> list[str]:
    found = [_describe_deed(event) for event in after if event.fact.kind in LED_TO]
    asked = next((event for event in after if event.fact.kind == "review_opened"), None)
    answered = next((event for event in after if event.fact.kind == "review_decided"), None)
    if asked is not None and answered is not None:
        fact: Any = answered.fact
        waited = duration((answered.at - asked.at) / 1e6)
        found.append(f"no answer in {waited}" if fact.system else f"{_describe_deed(answered)} after {waited}")
    return found


def _describe_deed(event: Event) -> str:
    parts = EVENT_DISPLAY[event.fact.kind].parts(fact_json(event))
    deed = f"{parts.what} ({parts.how_much})" if parts.how_much else parts.what
    # The reason of a wait is one of the engine's own; others repeat the decision's, or quote a content.
    return f"{deed}: {parts.why}" if event.fact.kind == "retry_scheduled" else deed


ENDS = frozenset({"reaction_decided", "rung_skipped", "run_ended"})
"""Events that end the consequences of a decision."""
