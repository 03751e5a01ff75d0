"""Caps on the spending with the keys of one endpoint, for a day and for a calendar month (UTC). The owner of the
keys sets them, and no author of a fabric.

Each period has a budget of its own, which begins with the cap when the period's first call needs it:
``key_day:OWNER:ORIGIN:2026-11-28``. Every call to the origin counts, whichever key it uses. Money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from fabric.core.values.frozen import value

KEY_DAY, KEY_MONTH = "key_day", "key_month"
"""Kinds of scopes of a key's budgets."""
KINDS = frozenset({KEY_DAY, KEY_MONTH})
DAY_US = 86_400 * 1_000_000
ENVIRONMENT = "environment"
"""The owner of the caps that the operator sets; of the others it is a workspace's id."""


@value()
class KeyCap:
    """Caps on the spending at one origin. None: no cap for that period."""

    owner: str
    """A workspace's id, or ``ENVIRONMENT``: its workspaces share it."""
    origin: str
    """Scheme, host and port, as ``https://api.openai.com:443``."""
    day_usd_micros: int | None = None
    month_usd_micros: int | None = None

    def scopes(self, now: int) -> tuple[str, ...]:
        """Return the budgets of the periods that an instant lies in. ``now``: microseconds since the epoch."""
        return tuple(f"{kind}:{self.owner}:{self.origin}:{period}" for kind, period, _ in self._periods(now))

    def cap_of(self, scope: str) -> int | None:
        """Return the initial amount of this cap's budget; None: the scope is another cap's."""
        kind, _, rest = scope.partition(":")
        own = f"{self.owner}:{self.origin}:"
        return (
            {KEY_DAY: self.day_usd_micros, KEY_MONTH: self.month_usd_micros}.get(kind) if rest.startswith(own) else None
        )

    def _periods(self, now: int) -> Iterable[tuple[str, str, int]]:
        day = datetime.fromtimestamp(now / 1_000_000, UTC)
        if self.day_usd_micros is not None:
            yield KEY_DAY, f"{day:%Y-%m-%d}", self.day_usd_micros
        if self.month_usd_micros is not None:
            yield KEY_MONTH, f"{day:%Y-%m}", self.month_usd_micros


def ahead(now: int) -> tuple[int, int]:
    """Return an instant of tomorrow and one of the next month, UTC. ``now``: microseconds since the epoch."""
    today = datetime.fromtimestamp(now / 1_000_000, UTC)
    # No month is shorter than 28 days: four days after the 28th is the next one.
    month = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return now + DAY_US, round(month.timestamp() * 1_000_000)


def current_periods(now: int) -> tuple[str, str]:
    """Return how the scopes of the day and of the month end that an instant lies in."""
    day = datetime.fromtimestamp(now / 1_000_000, UTC)
    return f":{day:%Y-%m-%d}", f":{day:%Y-%m}"


KeyCaps = Mapping[str, tuple[KeyCap, ...]]
"""The caps that the calls of a model fall under, by the model's name in its fabric."""


def begins_with(caps: KeyCaps, scope: str) -> int | None:
    """Return the initial amount of a key's budget; None: it belongs to none of these caps."""
    found = (one.cap_of(scope) for held in caps.values() for one in held)
    return next((cap for cap in found if cap is not None), None)
