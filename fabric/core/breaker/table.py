"""States of a circuit breaker and their transitions: a total table without exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from fabric.core.spec.policies.breakers import Breaker
from fabric.core.values.frozen import replace, value


class BreakerState(StrEnum):
    """State of a breaker (S0 "Circuit Breaker"; STOPPED: docs/specification/protections.md)."""

    CLOSED = "closed"
    """Calls pass, signals are counted."""
    OPEN = "open"
    """No call passes until the cooldown is over."""
    HALF_OPEN = "half_open"
    """A limited number of probes may pass at once."""
    STOPPED = "stopped"
    """No call passes until a person resets it."""


class BreakerHappening(StrEnum):
    """Happening that moves a breaker."""

    TRIPPED = "tripped"
    """A signal reached its threshold."""
    COOLED = "cooled"
    """The cooldown is over and a call wants to pass."""
    PROBE_PASSED = "probe_passed"
    """Enough probes succeeded."""
    PROBE_FAILED = "probe_failed"
    FORCED_OPEN = "forced_open"
    """A person opened it."""
    RESET = "reset"
    """A person closed it."""


_C, _O, _H, _S = BreakerState
TRANSITIONS: Mapping[tuple[BreakerState, BreakerHappening], BreakerState] = {
    (_C, BreakerHappening.TRIPPED): _O,
    (_C, BreakerHappening.COOLED): _C,
    (_C, BreakerHappening.PROBE_PASSED): _C,
    (_C, BreakerHappening.PROBE_FAILED): _C,
    (_C, BreakerHappening.FORCED_OPEN): _O,
    (_C, BreakerHappening.RESET): _C,
    (_O, BreakerHappening.TRIPPED): _O,
    (_O, BreakerHappening.COOLED): _H,
    (_O, BreakerHappening.PROBE_PASSED): _O,
    (_O, BreakerHappening.PROBE_FAILED): _O,
    (_O, BreakerHappening.FORCED_OPEN): _O,
    (_O, BreakerHappening.RESET): _C,
    (_H, BreakerHappening.TRIPPED): _H,
    (_H, BreakerHappening.COOLED): _H,
    (_H, BreakerHappening.PROBE_PASSED): _C,
    (_H, BreakerHappening.PROBE_FAILED): _O,
    (_H, BreakerHappening.FORCED_OPEN): _O,
    (_H, BreakerHappening.RESET): _C,
    (_S, BreakerHappening.TRIPPED): _S,
    (_S, BreakerHappening.COOLED): _S,
    (_S, BreakerHappening.PROBE_PASSED): _S,
    (_S, BreakerHappening.PROBE_FAILED): _S,
    (_S, BreakerHappening.FORCED_OPEN): _S,
    (_S, BreakerHappening.RESET): _C,
}
"""Next state by state and happening. ``max_trips`` turns an opening into STOPPED (``after``)."""
OPENINGS = frozenset({BreakerHappening.TRIPPED, BreakerHappening.PROBE_FAILED})
"""Happenings that count as a trip when they open a breaker. A person's opening is none."""


FORCED = "forced"
"""The signal of a breaker that a person opened."""


@value(kw_only=True)
class Standing:
    """State of one breaker: the text in its row, besides its generation."""

    state: BreakerState = BreakerState.CLOSED
    trips: int = 0
    """Openings since it closed last, or ever (``reset_on_success``)."""
    early: int = 0
    """Failed probes after a wait that the endpoint named and that was shorter than the cooldown. They are no trips."""
    signal: str = ""
    """The signal that opened it; of a group, its most frequent one. ``forced``: a person did."""
    failures: int = 0
    """Number of failures at the trip, over all its signals."""
    threshold: float = 0.0
    """Threshold at which it opened."""
    passed: int = 0
    """Probes that succeeded since it is half open."""
    by: str = ""
    """Person who last forced or reset it."""
    reason: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    """Count of each signal where several are counted together; empty otherwise."""

    @property
    def signal_words(self) -> str:
        """The counted signals in words: ``3 times server error, 2 times timeout``; "" if none was counted."""
        parts = self.parts or (((self.signal, self.failures),) if self.failures else ())
        return ", ".join(f"{n} times {name.replace('_', ' ')}" for name, n in parts)

    @property
    def held(self) -> bool:
        """True if only a person closes it: it stopped for good, or a person opened it."""
        return self.state is BreakerState.STOPPED or (self.state is BreakerState.OPEN and self.signal == FORCED)


CLOSED = Standing()
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Standing).decode


def encode_standing(standing: Standing) -> str:
    """Return the text for a guard row's state."""
    return _encode(standing).decode()


def decode_standing(state: str) -> Standing:
    """Return the state from a guard row's text; CLOSED for a row that was never changed. Raises msgspec.DecodeError
    for malformed text.
    """
    return _decode(state) if state else CLOSED


def apply_happening(
    policy: Breaker,
    standing: Standing,
    happened: BreakerHappening,
    *,
    signal: str = "",
    failures: int = 0,
    threshold: float = 0.0,
    parts: tuple[tuple[str, int], ...] = (),
    by: str = "",
    reason: str = "",
    early: bool = False,
) -> Standing:
    """Return the state after a happening; the argument itself if nothing changes, so that nothing is written.

    A passed probe counts; the breaker closes after ``success_threshold`` of them. The ``max_trips``-th opening stops
    it for good. A person can keep an open breaker open. ``early``: the probe went out before the cooldown, at the
    endpoint's instant; its failure is no trip.
    """
    if happened is BreakerHappening.PROBE_PASSED and standing.state is BreakerState.HALF_OPEN:
        passed = standing.passed + 1
        if passed < policy.success_threshold:
            return replace(standing, passed=passed)
    reached = TRANSITIONS[standing.state, happened]
    if reached is standing.state and (
        happened is not BreakerHappening.FORCED_OPEN or standing.held or reached is not BreakerState.OPEN
    ):
        return standing
    if reached is BreakerState.CLOSED:
        forgets = policy.reset_on_success or happened is BreakerHappening.RESET
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
    if happened is BreakerHappening.FORCED_OPEN:
        return replace(opened, signal=FORCED, by=by, reason=reason, parts=())
    if happened is BreakerHappening.TRIPPED:
        return replace(opened, signal=signal, failures=failures, threshold=threshold, by="", reason=reason, parts=parts)
    return opened  # A failed probe opens it for its earlier reason.
