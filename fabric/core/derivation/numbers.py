"""The numbers that a rung was judged on, judged again: a deadline, retry tokens, a cap. They stand in the journal, in the refusal or in the retry that
was scheduled; what they are held against (the deadlines in force, what is left in the run's bucket) is counted anew from the facts before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.policy import FlowPolicy
from fabric.core.taxonomy import Cause, Tier

US = 1_000_000
UNITS = 1_000
"""Thousandths of a retry token."""
FLOOR_S, SHARE = 2.0, 0.1
"""What must remain for an attempt: so many seconds, or this share of its own time, and never more than that (semantics.md 4)."""
TAKES_NO_TOKEN = ("breaker", "named")
"""Sources of a wait after which nobody is asked again of one's own accord."""
SLACK_S = 1.0
"""A fact is no older than the one before it, so its instant may lie a little after the one that was judged."""
Scheduled = ev.RetryScheduled | ev.NodeRetryScheduled


@dataclass(slots=True)
class Numbers:
    """What refusals of clocks and retry tokens rest on, counted anew. Changed in place by ``noted``."""

    run_at: int = 0
    stage_at: int = 0
    level: int | None = None
    """Thousandths of a retry token after the last retry; None: the bucket is full."""
    first_attempts: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    """By stage."""

    @property
    def deadline_at(self) -> int:
        """The nearer one of the deadlines in force."""
        return min(self.run_at, self.stage_at or self.run_at)

    def tokens(self, policy: FlowPolicy) -> int:
        """Thousandths of a retry token that the run has left."""
        size = policy.retry.bucket * UNITS
        earned = round(policy.retry.earn * UNITS) * self.first_attempts
        return min(size, (size if self.level is None else self.level) + earned)


def noted(numbers: Numbers, fact: ev.Fact) -> None:
    """Takes one more fact in."""
    act = TAKES.get(fact.kind)
    if act is not None:
        act(numbers, fact)


def _started(numbers: Numbers, fact: ev.RunStarted) -> None:
    numbers.run_at = fact.deadline_at


def _stage_entered(numbers: Numbers, fact: ev.StageEntered) -> None:
    numbers.stage_at = fact.deadline_at


def _reissued(numbers: Numbers, fact: ev.DeadlinesReissued) -> None:
    numbers.run_at, numbers.stage_at = fact.run_deadline_at, fact.stage_deadline_at


def _issued(numbers: Numbers, fact: ev.CallIssued) -> None:
    numbers.first_attempts += fact.attempt == 1


def _retried(numbers: Numbers, fact: ev.RetryScheduled) -> None:
    if fact.source not in TAKES_NO_TOKEN:
        _node_retried(numbers, fact)


def _node_retried(numbers: Numbers, fact: Scheduled) -> None:
    numbers.level, numbers.first_attempts = fact.tokens_left, 0
    numbers.retries[stage_of_retry(fact)] += 1


TAKES: Mapping[str, Callable[[Numbers, Any], None]] = {
    "run_started": _started,
    "stage_entered": _stage_entered,
    "deadlines_reissued": _reissued,
    "call_issued": _issued,
    "retry_scheduled": _retried,
    "node_retry_scheduled": _node_retried,
}
"""What a kind of fact changes; a kind that is not here changes none of the numbers."""


def stage_of_retry(fact: Scheduled) -> str:
    """The stage that it takes its token in."""
    return (fact.step_id if isinstance(fact, ev.NodeRetryScheduled) else fact.command_id).partition(".")[0]


def needed_s(policy: FlowPolicy, tier: Tier) -> float:
    """Seconds that must remain for one more attempt of a call."""
    call_s = policy.deadlines_of(tier).call_s
    return min(call_s, max(FLOOR_S, SHARE * call_s))


@dataclass(frozen=True, slots=True)
class Judged:
    """A recorded refusal, and what it is held against."""

    numbers: Numbers
    policy: FlowPolicy
    tier: Tier
    at: int
    """When it was journaled, microseconds since the epoch."""
    trip: ev.TripRecord


def refuses(judged: Judged) -> bool | None:
    """Whether the recorded numbers, and the facts before them, speak against the rung as the refusal says; None: they are not known here."""
    rule = REFUSES.get(judged.trip.mechanism)
    return None if rule is None else rule(judged)


def _late(judged: Judged) -> bool:
    evidence, end = judged.trip.evidence, judged.numbers.deadline_at
    left_s = (end - judged.at) / US
    if evidence.details.get("deadline_at") != end or evidence.limit != needed_s(judged.policy, judged.tier):
        return False
    if judged.trip.cause is not Cause.DEADLINE_NEAR:
        return left_s <= SLACK_S
    # An attempt starts now or later, so no more can remain for it than remains now.
    return _number(evidence.observed) <= _number(evidence.limit) and _number(evidence.observed) <= left_s + SLACK_S


def _no_token(judged: Judged) -> bool:
    evidence, numbers = judged.trip.evidence, judged.numbers
    kind, _, stage = evidence.scope.partition(":")
    if kind == "stage":
        before, most = numbers.retries[stage], judged.policy.retry.stage_retries
        return most is not None and before >= most and (evidence.limit, evidence.observed) == (most, before + 1)
    if evidence.scope != "run":
        return _number(evidence.observed) < 1 and _number(evidence.limit) >= 1
    left = round(numbers.tokens(judged.policy) / UNITS, 3)
    return evidence.limit == judged.policy.retry.bucket and evidence.observed == left and left < 1


def _over(judged: Judged) -> bool:
    return _number(judged.trip.evidence.observed) > _number(judged.trip.evidence.limit)


def _number(given: float | None) -> float:
    return float("nan") if given is None else given


REFUSES: Mapping[str, Callable[[Judged], bool]] = {
    "deadline": _late,
    "retry_budget": _no_token,
    "run_caps": _over,
}
"""By mechanism. Of what is not here (an agent more than a family may have, the price of a model that stands in) the refusal is taken as recorded."""
