"""Recent spending in buckets of time: bounded, computed from events alone, never too low.

Instants are microseconds since the epoch, money is micro-dollars. A bucket counts as long as any part of it lies in
the window, so a sum may have up to one bucket too much and never anything too little.
"""

from __future__ import annotations

from fabric.core.values.frozen import replace, value
from fabric.core.values.units import US

MINUTE_US, BUCKET_US = 60 * US, 5 * US
HOUR_US, HOUR_BUCKET_US = 3_600 * US, 60 * US


@value()
class Bucket:
    """Spending in one piece of time."""

    number: int
    """Number of pieces between the epoch and it."""
    usd_micros: int
    tokens: int


Buckets = tuple[Bucket, ...]


def add_spending(buckets: Buckets, at: int, usd_micros: int, tokens: int, *, window: int, width: int) -> Buckets:
    """Return the buckets after an amount was spent at ``at``, without those that no later window reaches."""
    kept = _select_window(buckets, at, window, width) if buckets else buckets
    number = at // width
    if kept and kept[-1].number >= number:
        last = kept[-1]
        return (*kept[:-1], Bucket(last.number, last.usd_micros + usd_micros, last.tokens + tokens))
    return (*kept, Bucket(number, usd_micros, tokens))


def total(buckets: Buckets, now: int, *, window: int, width: int) -> tuple[int, int]:
    """Return the micro-dollars and tokens of the last ``window``, including all of its oldest bucket."""
    usd_micros = tokens = 0
    for one in _select_window(buckets, now, window, width) if buckets else ():
        usd_micros += one.usd_micros
        tokens += one.tokens
    return usd_micros, tokens


def _select_window(buckets: Buckets, now: int, window: int, width: int) -> Buckets:
    oldest = (now - window) // width  # The piece of time in which the window begins; what lies before it is over.
    if not buckets or buckets[0].number >= oldest:  # They stand in order of time.
        return buckets
    return tuple([one for one in buckets if one.number >= oldest])


@value(kw_only=True)
class UsualRate:
    """The busiest minute that is usual of one scope, learned over the fabric's last completed runs."""

    scope: str
    """``run``, ``stage:<name>`` or ``agent:<name>``."""
    usd_micros: int
    tokens: int
    runs: int
    """Number of completed runs behind the rate."""


@value()
class Spending:
    """Spending of a run, a stage or an agent."""

    usd_micros: int = 0
    tokens: int = 0
    calls: int = 0
    """Calls that cost and came back since the rate was last decided about."""
    recent: Buckets = ()
    """Buckets of the last minute."""
    peak_usd_micros: int = 0
    """Micro-dollars of the busiest minute so far."""
    peak_tokens: int = 0

    def plus(self, at: int, usd_micros: int, tokens: int) -> Spending:
        """Return the spending after one more call with a cost."""
        recent = add_spending(self.recent, at, usd_micros, tokens, window=MINUTE_US, width=BUCKET_US)
        minute_usd = minute_tokens = 0
        for one in recent:  # All of them lie in the window.
            minute_usd += one.usd_micros
            minute_tokens += one.tokens
        return replace(
            self,
            usd_micros=self.usd_micros + usd_micros,
            tokens=self.tokens + tokens,
            calls=self.calls + 1,
            recent=recent,
            peak_usd_micros=max(self.peak_usd_micros, minute_usd),
            peak_tokens=max(self.peak_tokens, minute_tokens),
        )

    def lump(self, usd_micros: int, tokens: int) -> Spending:
        """Return the spending after an amount of some earlier time, such as a child run's. It counts for no rate."""
        return replace(self, usd_micros=self.usd_micros + usd_micros, tokens=self.tokens + tokens)

    def anew(self) -> Spending:
        """Return the spending with a rate that counts from now on; the sums stay."""
        return replace(self, calls=0, recent=()) if self.calls or self.recent else self

    def last_minute(self, now: int) -> tuple[int, int]:
        """Return the micro-dollars and tokens."""
        return total(self.recent, now, window=MINUTE_US, width=BUCKET_US)


NOTHING = Spending()
