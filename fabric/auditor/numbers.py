"""The auditor judges the numbers of a refused rung again: a deadline, retry tokens, a cap.

The recorded numbers stand in the refusal. Deadlines in force and tokens left are counted here from the facts before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US

UNITS = 1_000
"""Thousandths of a retry token."""
FLOOR_S, SHARE = 2.0, 0.1
"""Least time of an attempt: the greater of so many seconds and this share of its time. It is never more than its time.
"""
TAKES_NO_TOKEN = ("breaker", "named")
"""Sources of a wait that takes no retry token."""
SLACK_S = 1.0
"""Largest distance of a refusal from its fact. A fact is no older than the one before it, so its instant may lie a
little later.
"""
Scheduled = ev.RetryScheduled | ev.NodeRetryScheduled


@dataclass(slots=True)
class Numbers:
    """Deadlines in force and retry tokens of one run. ``note`` changes it in place."""

    run_at: int = 0
    stage_at: int = 0
    level: int | None = None
    """Thousandths of a retry token after the last retry; None: the bucket is full."""
    first_attempts: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    """By stage."""

    @property
    def deadline_at(self) -> int:
        """The nearer deadline of those in force, microseconds since the epoch."""
        return min(self.run_at, self.stage_at or self.run_at)

    def tokens(self, policy: FlowPolicy) -> int:
        """Return the thousandths of a retry token that the run has left."""
        size = policy.retry.bucket * UNITS
        earned = round(policy.retry.earn * UNITS) * self.first_attempts
        return min(size, (size if self.level is None else self.level) + earned)


def note(numbers: Numbers, fact: ev.Fact) -> None:
    """Take one more fact in."""
    act = TAKES.get(fact.kind)
    if act is not None:
        act(numbers, fact)


def _record_start(numbers: Numbers, fact: ev.RunStarted) -> None:
    numbers.run_at = fact.deadline_at


def _stage_entered(numbers: Numbers, fact: ev.StageEntered) -> None:
    numbers.stage_at = fact.deadline_at


def _record_deadlines(numbers: Numbers, fact: ev.DeadlinesReissued) -> None:
    numbers.run_at, numbers.stage_at = fact.run_deadline_at, fact.stage_deadline_at


def _record_call(numbers: Numbers, fact: ev.CallIssued) -> None:
    numbers.first_attempts += fact.attempt == 1


def _record_retry(numbers: Numbers, fact: ev.RetryScheduled) -> None:
    if fact.source not in TAKES_NO_TOKEN:
        _node_retried(numbers, fact)


def _node_retried(numbers: Numbers, fact: Scheduled) -> None:
    numbers.level, numbers.first_attempts = fact.tokens_left, 0
    numbers.retries[stage_of_retry(fact)] += 1


TAKES: Mapping[str, Callable[[Numbers, Any], None]] = {
    "run_started": _record_start,
    "stage_entered": _stage_entered,
    "deadlines_reissued": _record_deadlines,
    "call_issued": _record_call,
    "retry_scheduled": _record_retry,
    "node_retry_scheduled": _node_retried,
}
"""One function for each kind of fact that changes a number."""


def stage_of_retry(fact: Scheduled) -> str:
    """Return the stage in which a retry takes its token."""
    return (fact.step_id if isinstance(fact, ev.NodeRetryScheduled) else fact.command_id).partition(".")[0]


def needed_s(policy: FlowPolicy, tier: Tier) -> float:
    """Return the seconds that must remain for one more attempt of a call."""
    call_s = policy.deadlines_of(tier).call_s
    return min(call_s, max(FLOOR_S, SHARE * call_s))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recorded refusal, with the counts of the run before it."""

    numbers: Numbers
    policy: FlowPolicy
    tier: Tier
    at: int
    """When it was journaled, microseconds since the epoch."""
    trip: ev.TripRecord


def judge_refusal(refusal: Refusal) -> bool | None:
    """Return True where the facts before a refusal bear its numbers out; None: its mechanism has no rule."""
    rule = REFUSES.get(refusal.trip.mechanism)
    return None if rule is None else rule(refusal)


def _late(refusal: Refusal) -> bool:
    evidence, end = refusal.trip.evidence, refusal.numbers.deadline_at
    left_s = (end - refusal.at) / US
    if evidence.details.get("deadline_at") != end or evidence.limit != needed_s(refusal.policy, refusal.tier):
        return False
    if refusal.trip.cause is not Cause.DEADLINE_NEAR:
        return left_s <= SLACK_S
    # An attempt starts now or later, so no more can remain for it than remains now.
    return _number(evidence.observed) <= _number(evidence.limit) and _number(evidence.observed) <= left_s + SLACK_S


def _no_token(refusal: Refusal) -> bool:
    evidence, numbers = refusal.trip.evidence, refusal.numbers
    kind, _, stage = evidence.scope.partition(":")
    if kind == "stage":
        before, most = numbers.retries[stage], refusal.policy.retry.stage_retries
        return most is not None and before >= most and (evidence.limit, evidence.observed) == (most, before + 1)
    if evidence.scope != "run":
        return _number(evidence.observed) < 1 and _number(evidence.limit) >= 1
    left = round(numbers.tokens(refusal.policy) / UNITS, 3)
    return evidence.limit == refusal.policy.retry.bucket and evidence.observed == left and left < 1


def _is_over(refusal: Refusal) -> bool:
    return _number(refusal.trip.evidence.observed) > _number(refusal.trip.evidence.limit)


def _number(given: float | None) -> float:
    return float("nan") if given is None else given


REFUSES: Mapping[str, Callable[[Refusal], bool]] = {
    "deadline": _late,
    "retry_budget": _no_token,
    "run_caps": _is_over,
}
"""One rule a mechanism. A refusal of any other (one agent more than a family may have) is believed."""
