"""Circuit breakers as a judge goes by them: how one moves with the calls that it lets pass, out of semantics.md alone.

Only what an endpoint that answers 503 does to one is known here: failures that it counts, and answers between them. Of its waits only the bounds are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fabric.core.breaker.policy import Breaker, Signal, SignalName
from simulator.drills.bounds import NONE, NotComputed, Span, over

COUNTED = SignalName.SERVER_ERROR
"""The signal that a 503 is."""
SURELY_S, NO_MORE_S = 50.0, 70.0
"""What was counted so long ago is surely of the last minute, or surely not: a minute is counted to within ten seconds."""
HERD = 1.1
"""Who waits for a breaker waits up to so many times as long as it stays open."""
Passage = Literal["pass", "probe", "refuse"]


def counts(breaker: Breaker) -> bool:
    """Whether a 503 may open it."""
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
    """The calls that came back since it closed last: how long ago, and whether they failed."""
    state: Literal["closed", "open", "half_open", "stopped"] = "closed"
    age: Span = NONE
    """How long ago it opened."""
    trips: int = 0

    def passes(self, time: Span) -> None:
        """Time passes."""
        self.age = self.age.plus(time)
        self.ends = [(age.plus(time), failed) for age, failed in self.ends]

    def passage(self) -> Passage:
        """How a call meets it; one that finds its cooldown over makes it half open."""
        if self.state == "closed" and self._has_tripped():
            self._open()
        if self.state == "closed":
            return "pass"
        if self.state == "stopped":
            return "refuse"
        if self.state == "open":
            if not over(self.age, self.policy.cooldown_s, OPEN_STILL):
                return "refuse"
            self.state = "half_open"
        return "probe"

    def would_refuse(self) -> bool:
        """Whether a call would not pass now; nothing is moved by the question."""
        if self.state == "closed":
            return self._has_tripped()
        if self.state == "open":
            return not over(self.age, self.policy.cooldown_s, OPEN_STILL)
        return self.state == "stopped"

    def ended(self, *, failed: bool, probe: bool = False, ago: Span = NONE) -> None:
        """A call that it let pass has come back. A probe that fails opens it again; one that does not is not followed here."""
        if probe:
            if not failed:
                raise NotComputed("another agent's call is the probe of a circuit breaker")
            self._open()
        elif self.state == "closed":
            self.ends.append((ago, failed))
            if failed and self._has_tripped():
                self._open()

    def left(self) -> Span | None:
        """How long it is open still; None: only a person lets calls pass again."""
        return self.age.short_of(self.policy.cooldown_s) if self.state == "open" else None

    def cooled(self) -> None:
        """Somebody waited for as long as it is open, and longer."""
        self.state = "half_open"

    def _open(self) -> None:
        self.trips += 1
        self.state = "stopped" if 0 < self.policy.max_trips <= self.trips else "open"
        self.age, self.ends = NONE, []

    def _has_tripped(self) -> bool:
        return any(self._over(signal) for signal in self.policy.signals if COUNTED in signal.names)

    def _over(self, signal: Signal) -> bool:
        """Whether one signal has reached its threshold."""
        if signal.mode == "consecutive":
            good = max((n for n, (_, failed) in enumerate(self.ends) if not failed), default=-1)
            return len(self.ends) - 1 - good >= signal.threshold
        if signal.mode == "cumulative":
            return sum(failed for _, failed in self.ends) >= signal.threshold
        failures, answers = (self._within(failed=failed) for failed in (True, False))
        said = {_judged(signal, n, m) for n in failures for m in answers}
        if len(said) > 1:
            raise NotComputed(f"waits are drawn, and {WITHIN_A_MINUTE} hangs on them")
        return said.pop()

    def _within(self, *, failed: bool) -> range:
        """How many such calls may be of the last minute."""
        ages = [age for age, was in self.ends if was is failed]
        surely = sum(age.high <= SURELY_S for age in ages)
        maybe = sum(age.low < NO_MORE_S for age in ages)
        return range(surely, maybe + 1)


def _judged(signal: Signal, failures: int, answers: int) -> bool:
    """A count opens at its threshold; a share above it, and from so many calls on."""
    if signal.mode == "window":
        return failures >= signal.threshold
    calls = failures + answers
    return calls >= signal.min_calls and failures / calls > signal.threshold
