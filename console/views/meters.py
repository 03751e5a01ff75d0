"""A margin as it is drawn: its number, its bar, its tone and its words."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from django.urls import reverse

from console.templatetags.figures import span, thousands, usd
from fabric.core.breaker.table import BreakerState
from fabric.selectors.breaker_margin import WORDS
from fabric.selectors.margin import US, Margin

NOTCHES_MAX = 10
"""A count up to here is drawn as so many notches."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A margin as it is drawn: notches for a small count, a bar for everything else."""

    margin: Margin

    @property
    def shown(self) -> str:
        """What is read first: where it stands, a count, a share, or what is left."""
        if self.margin.standing:
            return self.margin.standing
        match self.margin.unit:
            case "count":
                return thousands(round(self.margin.observed))
            case "retry_tokens":
                return f"{self.margin.left:g}"
        share = round(100 * self.margin.share)
        return f"{share} %" if share < 1_000 else "over 999 %"

    @property
    def of(self) -> str:
        """What it is of, beside it."""
        match self.margin.unit:
            case "count":
                return f"/ {thousands(round(self.margin.limit))}"
            case "retry_tokens":
                return f"of {self.margin.limit:g} left"
        return ""

    @property
    def tripped(self) -> str:
        """That it tripped, and how often where that was more than once; empty when it did not."""
        fired = self.margin.fired
        if fired is None:
            return ""
        return "tripped" if fired.times == 1 else f"tripped {fired.times:,} ×"

    @property
    def says(self) -> str:
        """What happened at the limit, where it tripped, and where a count stands; else what would happen there."""
        margin = self.margin
        where = f"{margin.where}: " if margin.where else ""
        if margin.fired is not None:
            stands = "" if self.told else f"; it stands at {self.shown} {self.of}"
            return f"{where}{margin.fired.told}{stands}"
        return "; ".join(part for part in (self.told, f"{where}{self._at}{margin.at_limit}") if part)

    @property
    def _at(self) -> str:
        """At which number that happens, before what happens: a count that is far from it must not read as if it had happened. Shared breakers say it themselves."""
        if self.margin.shared is not None:
            return ""
        match self.margin.unit:
            case "count":
                return f"at {thousands(round(self.margin.limit))} "
            case "retry_tokens":
                return "at 0 "
        return ""

    @property
    def told(self) -> str:
        """Amounts, where the share alone would not say it."""
        if self.margin.unit in ("count", "retry_tokens", "share"):
            return ""
        return f"{_amount(self.margin, self.margin.observed)} of {_amount(self.margin, self.margin.limit)}"

    @property
    def percent(self) -> int:
        """Of the way to the limit, 0 to 100."""
        return max(0, min(100, round(100 * self.margin.share)))

    @property
    def notches(self) -> list[tuple[float, float, bool]]:
        """``(x, width, filled)`` in percent, where the limit is a small count."""
        count = round(self.margin.limit)
        if self.margin.unit != "count" or count > NOTCHES_MAX:
            return []
        width = 100 / count
        return [(round(n * width + 0.6, 2), round(width - 1.2, 2), n < self.margin.observed) for n in range(count)]

    @property
    def tone(self) -> str:
        """Grey until it is near: the next one trips, or seven tenths of the way. Red at the limit and where a trip ended the run."""
        margin = self.margin
        if margin.fired is not None:
            return "danger" if margin.fired.ended else "warn"
        if margin.standing:
            return "warn" if margin.standing == WORDS[BreakerState.HALF_OPEN] else "danger"
        if margin.unit == "share":
            return "warn" if margin.share >= 0.7 else ""
        if margin.unit == "usd_micros_a_minute":
            return "warn" if margin.share >= 0.7 else ""
        if margin.share > 1 or (margin.share == 1 and (margin.trips_at_limit or margin.unit != "count")):
            return "danger"
        if margin.unit == "count" and margin.limit <= NOTCHES_MAX:
            return "warn" if margin.observed and margin.left <= 1 else ""
        return "warn" if margin.share >= 0.7 else ""

    @property
    def icon(self) -> str:
        """A mark beside the colour."""
        if self.margin.fired is not None:
            return "flag"
        return {"danger": "xc", "warn": "alert"}.get(self.tone, "")

    @property
    def href(self) -> str:
        """Where everything that it is counted with stands; empty where that is the run's own page."""
        if self.margin.shared is None:
            return ""
        scope, kind = self.margin.shared
        return f"{reverse('breakers')}#{quote('-'.join(('b', scope, kind.partition(':')[2])))}"


def _amount(margin: Margin, value: float) -> str:
    match margin.unit:
        case "usd_micros":
            return usd(round(value))
        case "usd_micros_a_minute":
            return f"{usd(round(value))}/min"
        case "seconds":
            return span(round(value * US))
    return thousands(round(value))
