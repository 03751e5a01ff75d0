"""Lengths of time that are known to lie between two others, in seconds: waits are drawn, and a judge draws nothing."""

from __future__ import annotations

from typing import NamedTuple


class NotComputed(ValueError):
    """What the table promises in this fabric is not known to this computation; the sentence says what stands in the way."""


class Span(NamedTuple):
    """At least, and at most."""

    low: float
    high: float

    def plus(self, other: Span) -> Span:
        """Longer by so much."""
        return Span(self.low + other.low, self.high + other.high)

    def short_of(self, whole_s: float) -> Span:
        """What is left of a time that is known."""
        return Span(max(0.0, whole_s - self.high), max(0.0, whole_s - self.low))

    def times(self, low: float, high: float) -> Span:
        """Multiplied by something between the two."""
        return Span(self.low * low, self.high * high)


NONE = Span(0.0, 0.0)


def exactly(seconds: float) -> Span:
    """A time that is known."""
    return Span(seconds, seconds)


def over(lasts: Span, limit_s: float, what: str) -> bool:
    """Whether a time is at least so long. NotComputed where it may be: ``what`` names what the waits decide."""
    if lasts.low >= limit_s:
        return True
    if lasts.high < limit_s:
        return False
    raise NotComputed(f"waits are drawn, and {what} hangs on them")
