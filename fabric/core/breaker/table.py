"""The states of a circuit breaker and how one follows from another: a table, total, from which nothing else departs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from fabric.core.breaker.policy import Breaker
from fabric.core.frozen import replace, value


class BreakerState(StrEnum):
    """Where a breaker stands (S0 "Circuit Breaker"; STOPPED: semantics.md 4)."""

    CLOSED = "closed"
    """Calls pass, signals are counted."""
    OPEN = "open"
    """No call passes until the cooldown is over."""
    HALF_OPEN = "half_open"
    """As many calls pass at once as may probe."""
    STOPPED = "stopped"
    """No call passes until a person resets it."""


class Happened(StrEnum):
    """What moves a breaker."""

    TRIPPED = "tripped"
    """A signal reached its threshold."""
    COOLED = "cooled"
    """The cooldown is over and somebody wants to call."""
    PROBE_PASSED = "probe_passed"
    """As many probes succeeded as must."""
    PROBE_FAILED = "probe_failed"
    FORCED_OPEN = "forced_open"
    """A person opened it."""
    RESET = "reset"
    """A person closed it."""


_C, _O, _H, _S = BreakerState
TRANSITIONS: Mapping[tuple[BreakerState, Happened], BreakerState] = {
    (_C, Happened.TRIPPED): _O,
    (_C, Happened.COOLED): _C,
    (_C, Happened.PROBE_PASSED): _C,
    (_C, Happened.PROBE_FAILED): _C,
    (_C, Happened.FORCED_OPEN): _O,
    (_C, Happened.RESET): _C,
    (_O, Happened.TRIPPED): _O,
    (_O, Happened.COOLED): _H,
    (_O, Happened.PROBE_PASSED): _O,
    (_O, Happened.PROBE_FAILED): _O,
    (_O, Happened.FORCED_OPEN): _O,
    (_O, Happened.RESET): _C,
    (_H, Happened.TRIPPED): _H,
    (_H, Happened.COOLED): _H,
    (_H, Happened.PROBE_PASSED): _C,
    (_H, Happened.PROBE_FAILED): _O,
    (_H, Happened.FORCED_OPEN): _O,
    (_H, Happened.RESET): _C,
    (_S, Happened.TRIPPED): _S,
    (_S, Happened.COOLED): _S,
    (_S, Happened.PROBE_PASSED): _S,
    (_S, Happened.PROBE_FAILED): _S,
    (_S, Happened.FORCED_OPEN): _S,
    (_S, Happened.RESET): _C,
}
"""What follows. ``max_trips`` turns an opening into STOPPED (``after``)."""
OPENINGS = frozenset({Happened.TRIPPED, Happened.PROBE_FAILED})
"""What is a trip when it opens a breaker. A person's opening is none."""


FORCED = "forced"
"""The signal of a breaker that a person opened."""


@value(kw_only=True)
class Standing:
    """Where one breaker stands: what its row holds as text, beside its generation."""

    state: BreakerState = BreakerState.CLOSED
    trips: int = 0
    """Openings since it closed last, or ever (``reset_on_success``)."""
    early: int = 0
    """Probes that failed after a wait which the endpoint named and which was shorter than the cooldown. They are no trips."""
    signal: str = ""
    """The signal that opened it; of a group, its most frequent one. ``forced``: a person did."""
    failures: int = 0
    """How often it had failed, whatever of its signals it was."""
    threshold: float = 0.0
    """At which it opened."""
    passed: int = 0
    """Probes that succeeded since it is half open."""
    by: str = ""
    """Who forced or reset it last."""
    reason: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    """Of several signals that are counted together: how often each was; else empty."""

    @property
    def counted(self) -> str:
        """The counted signals in words: ``3 times server error, 2 times timeout``; empty: none was counted."""
        parts = self.parts or (((self.signal, self.failures),) if self.failures else ())
        return ", ".join(f"{n} times {name.replace('_', ' ')}" for name, n in parts)

    @property
    def held(self) -> bool:
        """Whether only a person lets calls pass again: it stopped for good, or a person opened it."""
        return self.state is BreakerState.STOPPED or (self.state is BreakerState.OPEN and self.signal == FORCED)


CLOSED = Standing()
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Standing).decode


def encoded(standing: Standing) -> str:
    """As a guard row's state."""
    return _encode(standing).decode()


def decoded(state: str) -> Standing:
    """Of a guard row's state; CLOSED for one that was never changed. msgspec.DecodeError for anything else."""
    return _decode(state) if state else CLOSED


def after(
    policy: Breaker,
    standing: Standing,
    happened: Happened,
    *,
    signal: str = "",
    failures: int = 0,
    threshold: float = 0.0,
    parts: tuple[tuple[str, int], ...] = (),
    by: str = "",
    reason: str = "",
    early: bool = False,
) -> Standing:
    """Where it stands then; the same object when nothing changes, so that nothing need be written.

    A probe that passed counts; it closes the breaker when ``success_threshold`` have. The ``max_trips``-th opening stops it for good. One that opened by
    itself can be held open by a person. ``early``: the probe went out before the cooldown, when the endpoint had said; its failure is no trip.
    """
    if happened is Happened.PROBE_PASSED and standing.state is BreakerState.HALF_OPEN:
        passed = standing.passed + 1
        if passed < policy.success_threshold:
            return replace(standing, passed=passed)
    reached = TRANSITIONS[standing.state, happened]
    if reached is standing.state and (
        happened is not Happened.FORCED_OPEN or standing.held or reached is not BreakerState.OPEN
    ):
        return standing
    if reached is BreakerState.CLOSED:
        forgets = policy.reset_on_success or happened is Happened.RESET
        return Standing(trips=0 if forgets else standing.trips, by=by, reason=reason)
    if reached is BreakerState.HALF_OPEN:
        return replace(standing, state=reached, passed=0)
    trip = happened in OPENINGS and not early
    trips = standing.trips + trip
    stopped = trip and 0 < policy.max_trips <= trips
    opened = replace(
        standing,
        state=BreakerState.STOPPED if stopped else reached,
        trips=trips,
        early=standing.early + early,
        passed=0,
    )
    if happened is Happened.FORCED_OPEN:
        return replace(opened, signal=FORCED, by=by, reason=reason, parts=())
    if happened is Happened.TRIPPED:
        return replace(opened, signal=signal, failures=failures, threshold=threshold, by="", reason=reason, parts=parts)
    return opened  # A probe that failed: for what opened it before.
