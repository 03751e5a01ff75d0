"""Say what was tried before a run failed, and what was not tried and why. Pure functions of a run's story.

The numbers are those of the decision that the run's reason names. Instants are microseconds since the epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fabric.core.budgets.grants import FABRIC
from fabric.core.events import RungSkipped, TripRecord
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import US
from fabric.core.values.words import count, duration

DECISIONS_KEPT = 8
"""So many of a run's last decisions can be named by its reason."""
SAID_CHARS = 80
"""Characters of a sentence that a run's row keeps in any case."""
SHOWN_MAX = 3
"""Reasons for skipped reactions that are worth a sentence."""

NOT_DONE: Mapping[Reaction, str] = {
    Reaction.HALT: "Not halted",
    Reaction.ABORT: "Not aborted",
    Reaction.ESCALATE: "No person was asked",
    Reaction.SURFACE: "Not ended with what there was",
    Reaction.TERMINATE: "The agent was not asked for a last answer",
    Reaction.REPLAN: "Not planned again",
    Reaction.HANDOVER: "Not handed over",
    Reaction.SAFE_FALLBACK: "No fallback answer",
    Reaction.ACCEPT_PARTIAL: "No gap was accepted",
    Reaction.ROUTE: "Not routed on",
    Reaction.GO_BACK: "Not sent back",
    Reaction.RETRY_NODE: "The step was not started again",
    Reaction.FALLBACK_MODEL: "No other model was asked",
    Reaction.CHEAPER_MODEL: "No cheaper model was asked",
    Reaction.WAIT_FOR_BREAKER: "Not waited for the breaker",
    Reaction.INJECT: "No correction was sent",
    Reaction.RETRY: "Not retried",
}
"""The beginning of a sentence about a skipped reaction; total over ``Reaction``, by test."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A reaction that the decision skipped, and why."""

    reaction: Reaction
    reason: str
    trip: TripRecord | None


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with what came before it."""

    seq: int
    cause: Cause
    message: str
    attempts: int
    """Attempts of the call that had failed by then; 0: no attempt was sent."""
    waited_us: int
    """Microseconds of back-off between these attempts."""
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class Tries:
    """The failed calls of a story, and the last decisions about them."""

    skipped: list[Skipped] = field(default_factory=list)
    """Reactions that were skipped since the last decision."""
    decisions: deque[Decided] = field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT))
    """The last decisions, in order."""
    attempts: dict[str, int] = field(default_factory=dict)
    """The last failed attempt of each call that failed, by command id."""
    buckets: dict[str, float] = field(default_factory=dict)
    """Retry tokens left in each shared retry budget when it was last read, by its scope."""


def skip_of(fact: RungSkipped) -> Skipped:
    """Return what a skipped rung says."""
    said = fact.reason if fact.trip is None else fact.trip.message
    return Skipped(Reaction(fact.reaction), said, fact.trip)


def find_decision(decisions: Iterable[Decided], reason: str) -> Decided | None:
    """Return the newest decision that a reason names. None: it names none, as where a person ended the run.

    A fan-in that lacks results repeats the words of what failed in it, so that one is preferred.
    """
    newest = reversed(list(decisions))
    named = [one for one in newest if one.message and one.message[:SAID_CHARS] in reason]
    finest = [one for one in named if one.cause is not Cause.PARTIAL_FAN_IN] or named
    return finest[0] if finest else None


def tried_words(decided: Decided, fabric: str) -> str:
    """Return in sentences what was tried, and what was not. Empty: the decision says nothing of either."""
    return " ".join((*_tried(decided), *_not_tried(decided, fabric)))


def _tried(decided: Decided) -> Iterator[str]:
    if decided.attempts:
        waits = f", with {duration(decided.waited_us / US)} of waits" if decided.waited_us else ""
        yield f"Tried {'once' if decided.attempts == 1 else count(decided.attempts, 'time')}{waits}."


def _not_tried(decided: Decided, fabric: str) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for one in decided.skipped:
        said, what = by_reason.setdefault(why_words(one, fabric), []), NOT_DONE[one.reaction]
        if what not in said:
            said.append(what)
    for why, (first, *others) in list(by_reason.items())[:SHOWN_MAX]:
        yield f"{', '.join([first, *(f'{what[:1].lower()}{what[1:]}' for what in others)])}: {why}."


def why_words(skipped: Skipped, fabric: str) -> str:
    """Return why a reaction was skipped. A retry budget that runs share is named by its runs."""
    level = shared_level(skipped.trip)
    if level is None:
        return skipped.reason.strip().rstrip(".")
    kind, _, name = level[0].partition(":")
    whose = f"runs of {fabric}" if kind == FABRIC else f"all calls to {name}"
    return f"the retry budget that {whose} share is empty"


def shared_level(trip: TripRecord | None) -> tuple[str, float, float] | None:
    """Return ``(bucket, level, size)`` of the shared retry budget that a trip found empty, in retry tokens.

    None: it is about another thing, or the budget could not be read.
    """
    if trip is None or trip.cause is not Cause.RETRY_BUDGET_EMPTY:
        return None
    seen = trip.evidence
    bucket = seen.details.get("bucket")
    if not isinstance(bucket, str) or not seen.limit or seen.observed is None:
        return None
    return bucket, float(seen.observed), float(seen.limit)
