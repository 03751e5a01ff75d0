"""What was spent lately, in buckets of time: bounded, the same from events alone, never less than what it was.

Instants are microseconds since the epoch, money is micro-dollars. A bucket counts as long as any part of it lies in the window, so a sum may hold up
to one bucket too much and never anything too little.
"""

from __future__ import annotations

from fabric.core.frozen import replace, value

US = 1_000_000
MINUTE_US, BUCKET_US = 60 * US, 5 * US
HOUR_US, HOUR_BUCKET_US = 3_600 * US, 60 * US


@value()
class Bucket:
    """What was spent in one piece of time."""

    number: int
    """How many pieces lie between the epoch and it."""
    usd_micros: int
    tokens: int


Buckets = tuple[Bucket, ...]


def added(buckets: Buckets, at: int, usd_micros: int, tokens: int, *, window: int, width: int) -> Buckets:
    """The buckets after something was spent at ``at``, without those that no later window reaches."""
    kept = _within(buckets, at, window, width)
    number = at // width
    if kept and kept[-1].number >= number:
        last = kept[-1]
        return (*kept[:-1], Bucket(last.number, last.usd_micros + usd_micros, last.tokens + tokens))
    return (*kept, Bucket(number, usd_micros, tokens))


def total(buckets: Buckets, now: int, *, window: int, width: int) -> tuple[int, int]:
    """Micro-dollars and tokens of the last ``window``, and of what its oldest bucket holds from before."""
    usd_micros = tokens = 0
    for one in _within(buckets, now, window, width):
        usd_micros += one.usd_micros
        tokens += one.tokens
    return usd_micros, tokens


def _within(buckets: Buckets, now: int, window: int, width: int) -> Buckets:
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
    """How many completed runs it was learned over."""


@value()
class Spending:
    """What a run, a stage or an agent has spent."""

    usd_micros: int = 0
    tokens: int = 0
    calls: int = 0
    """Calls that cost and came back since the rate was last decided about."""
    recent: Buckets = ()
    """Of the last minute."""
    peak_usd_micros: int = 0
    """Of the busiest minute so far."""
    peak_tokens: int = 0

    def plus(self, at: int, usd_micros: int, tokens: int) -> Spending:
        """After one more call that cost something."""
        recent = added(self.recent, at, usd_micros, tokens, window=MINUTE_US, width=BUCKET_US)
        minute_usd, minute_tokens = total(recent, at, window=MINUTE_US, width=BUCKET_US)
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
        """After something that was spent over some time before, such as a child run's money: no rate is known of it."""
        return replace(self, usd_micros=self.usd_micros + usd_micros, tokens=self.tokens + tokens)

    def anew(self) -> Spending:
        """What was spent stays; the rate is counted from now on."""
        return replace(self, calls=0, recent=()) if self.calls or self.recent else self

    def last_minute(self, now: int) -> tuple[int, int]:
        """Micro-dollars and tokens."""
        return total(self.recent, now, window=MINUTE_US, width=BUCKET_US)


NOTHING = Spending()
