"""Models circuit breakers for the judge, from docs/specification/README.md alone.

It models only an endpoint that answers 503: counted failures, and answers between them. Only the bounds of waits are
known. Fabrics whose breakers the failure moves in a way that the judge does not compute are named, a sentence each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import Breaker, BreakerScope, Signal, SignalName
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType
from simulator.scenarios.promises.layers import NONE, NotComputed, Option, Span, reaches_limit

COUNTED = SignalName.SERVER_ERROR
"""Signal of a 503."""
SURELY_S, NO_MORE_S = 50.0, 70.0
"""Ages in seconds up to which a count surely belongs to the last minute, or surely does not.

A minute is counted to within ten seconds.
"""
HERD = 1.1
"""Largest wait for a breaker, as a multiple of its open time."""
Passage = Literal["pass", "probe", "refuse"]


def counts(breaker: Breaker) -> bool:
    """Return True if a 503 may open it."""
    return any(COUNTED in signal.names for signal in breaker.signals)


OPEN_STILL, WITHIN_A_MINUTE = (
    "whether a circuit breaker is open still",
    "whether a circuit breaker counts enough within a minute",
)


@dataclass(slots=True)
class Shield:
    """One breaker in front of one name of its scope."""

    policy: Breaker
    ends: list[tuple[Span, bool]] = field(default_factory=list)
    """Calls that returned since it closed last: age, and True if failed."""
    state: Literal["closed", "open", "half_open", "stopped"] = "closed"
    age: Span = NONE
    """Time since it opened."""
    trips: int = 0

    def passes(self, time: Span) -> None:
        """Advance the time."""
        self.age = self.age.plus(time)
        self.ends = [(age.plus(time), failed) for age, failed in self.ends]

    def passage(self) -> Passage:
        """Return how a call meets it. A call after the cooldown makes it half open."""
        if self.state == "closed" and self._has_tripped():
            self._open()
        if self.state == "closed":
            return "pass"
        if self.state == "stopped":
            return "refuse"
        if self.state == "open":
            if not reaches_limit(self.age, self.policy.cooldown_s, OPEN_STILL):
                return "refuse"
            self.state = "half_open"
        return "probe"

    def would_refuse(self) -> bool:
        """Return True if it would refuse a call now; its state stays."""
        if self.state == "closed":
            return self._has_tripped()
        if self.state == "open":
            return not reaches_limit(self.age, self.policy.cooldown_s, OPEN_STILL)
        return self.state == "stopped"

    def record_end(self, *, failed: bool, probe: bool = False, ago: Span = NONE) -> None:
        """Record the return of an admitted call. A failed probe opens it again; the model does not follow a
        successful one.
        """
        if probe:
            if not failed:
                raise NotComputed("another agent's call is the probe of a circuit breaker")
            self._open()
        elif self.state == "closed":
            self.ends.append((ago, failed))
            if failed and self._has_tripped():
                self._open()

    def measure_rest(self) -> Span | None:
        """Return its remaining open time; None if only a person can close it."""
        return self.age.short_of(self.policy.cooldown_s) if self.state == "open" else None

    def half_open(self) -> None:
        """Half-open it after a wait of at least its open time."""
        self.state = "half_open"

    def _open(self) -> None:
        self.trips += 1
        self.state = "stopped" if 0 < self.policy.max_trips <= self.trips else "open"
        self.age, self.ends = NONE, []

    def _has_tripped(self) -> bool:
        return any(self._has_reached(signal) for signal in self.policy.signals if COUNTED in signal.names)

    def _has_reached(self, signal: Signal) -> bool:
        """Return True if a signal has reached its threshold."""
        if signal.mode == "consecutive":
            good = max((n for n, (_, failed) in enumerate(self.ends) if not failed), default=-1)
            return len(self.ends) - 1 - good >= signal.threshold
        if signal.mode == "cumulative":
            return sum(failed for _, failed in self.ends) >= signal.threshold
        failures, answers = (self._count_range(failed=failed) for failed in (True, False))
        said = {_signal_opens(signal, n, m) for n in failures for m in answers}
        if len(said) > 1:
            raise NotComputed(f"waits are drawn, and {WITHIN_A_MINUTE} hangs on them")
        return said.pop()

    def _count_range(self, *, failed: bool) -> range:
        """Return the possible numbers of such calls in the last minute."""
        ages = [age for age, was in self.ends if was is failed]
        surely = sum(age.high <= SURELY_S for age in ages)
        maybe = sum(age.low < NO_MORE_S for age in ages)
        return range(surely, maybe + 1)


def _signal_opens(signal: Signal, failures: int, answers: int) -> bool:
    """Return True if it opens: a count at its threshold, a share above it and with enough calls."""
    if signal.mode == "window":
        return failures >= signal.threshold
    calls = failures + answers
    return calls >= signal.min_calls and failures / calls > signal.threshold


OF_OTHERS = frozenset({BreakerScope.PROVIDER, BreakerScope.FABRIC})
"""Scopes whose breakers stand before planners, too."""
HANGS_ON_IT = frozenset({Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.SAFE_FALLBACK})
"""Reactions that treat a breaker's refusal differently from a failure."""


def _thresholds(spec: FabricSpec, name: SignalName, scopes: Iterable[BreakerScope] = BreakerScope) -> Iterator[float]:
    """Yield the thresholds at which a signal opens a breaker of these scopes."""
    for breaker in spec.policy.breakers:
        if breaker.scope in scopes:
            yield from (signal.threshold for signal in breaker.signals if name in signal.names)


def _of_a_loop(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    detector = spec.policy.of_stage(Stage.FAN_OUT).loop_detector
    stops_at = (
        detector.identical_threshold if detector.preset is None and "identical_calls" in detector.detectors else None
    )
    found = list(_thresholds(spec, SignalName.IDENTICAL_CALL))
    if not found or (stops_at is not None and min(found) >= stops_at):
        return ""
    return "a circuit breaker opens by the same calls that the loop detector stops, and may come first"


def _of_searching(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    known = all(threshold > 1 for threshold in _thresholds(spec, SignalName.IDENTICAL_CALL))
    return "" if known else "a circuit breaker opens by a single call"


def _of_answers(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    """Return why the answer's form matters: without checks of citations a breaker may count it. Empty if it does
    not.
    """
    if spec.gates.citations != "off":
        return ""
    most = spec.policy.of_stage(Stage.FINALIZE).limits.corrections_per_step + 1
    plans = spec.topology.planner is not None and any(rung.reaction is Reaction.REPLAN for rung in rungs)
    if plans and any(one <= most for one in _thresholds(spec, SignalName.SCHEMA_INVALID, OF_OTHERS)):
        return "a circuit breaker that answers without the promised form open stands before those who plan, too"
    hangs = any(rung.reaction in HANGS_ON_IT for rung in rungs[:-1])
    if hangs and any(one <= most for one in _thresholds(spec, SignalName.SCHEMA_INVALID)):
        return "a circuit breaker opens by answers without the promised form, and a rung of the cell hangs on it"
    return ""


UNKNOWN: Mapping[FailureType, Callable[[FabricSpec, tuple[Option, ...]], str]] = {
    FailureType.TOOL_LOOP: _of_a_loop,
    FailureType.NO_PROGRESS: _of_searching,
    FailureType.SCHEMA_GROUNDING: _of_answers,
}
"""Obstacle to a promise, by failure; empty for none. Other failures move breakers only as ``shields`` models it."""


def require_known(spec: FabricSpec, failure: FailureType, rungs: tuple[Option, ...]) -> None:
    """Raise NotComputed if the judge cannot compute a promise for this failure."""
    told = UNKNOWN.get(failure)
    if told is not None and (why := told(spec, rungs)):
        raise NotComputed(f"policy.breakers: {why}")
