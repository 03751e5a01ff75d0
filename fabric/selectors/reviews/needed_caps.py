"""Reads from the review of a spent budget which cap carries its run on. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.spec.policies.budgets import RUN, CapUnit, amount_words, cap_key, cap_words
from fabric.selectors.reviews.review_view import ReviewView

HEADROOM = 4
"""The suggested cap exceeds the least one by a part of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapNeed:
    """A spent cap, in its unit: micro-dollars or tokens."""

    scope: str
    unit: CapUnit
    cap: int
    """Present cap."""
    used: int
    """Spent and reserved at the refusal."""
    worst: int
    """Worst case of the refused call."""

    @property
    def least(self) -> int:
        """Return the least cap under which the refused call is made."""
        return self.used + self.worst

    @property
    def suggested(self) -> int:
        """Return the least cap with some headroom, rounded up to two digits."""
        wanted = self.least + self.least // HEADROOM
        step = 10 ** max(0, len(str(wanted)) - 2)
        return -(-wanted // step) * step

    @property
    def key(self) -> str:
        """Return the cap's key among those that an answer names."""
        return cap_key(self.scope, self.unit)

    @property
    def of_money(self) -> bool:
        """Return True for the run's money."""
        return (self.scope, self.unit) == (RUN, "usd_micros")

    def describe(self) -> str:
        """Return the need in one sentence: ``Spent $1.50 of $0.90; the next call needs up to $0.04``."""
        whose = "" if self.scope == RUN else f" by {cap_words(self.scope)}"
        used, cap = (amount_words(amount, self.unit) for amount in (self.used, self.cap))
        return f"Spent {used} of {cap}{whose}; the next call needs up to {amount_words(self.worst, self.unit)}"

    def problem(self, cap: int) -> str:
        """Return why a new cap does not carry the run on; empty if it does."""
        if cap >= self.least:
            return ""
        said, least = amount_words(cap, self.unit), amount_words(self.least, self.unit)
        return f"the new cap of {cap_words(self.scope)}, {said}, does not carry the next call: it needs {least} or more"


def find_cap_need(item: ReviewView) -> CapNeed | None:
    """Return the spent cap that an approval has to raise; None: there is none, or it is unknown."""
    given, needs = item.given, item.given.get("needs_cap")
    details, limit, observed = given.get("details"), given.get("limit"), given.get("observed")
    worst = details.get("worst_case") if isinstance(details, dict) else None
    if not needs or limit is None or observed is None or worst is None:
        return None
    unit: CapUnit = "tokens" if needs["unit"] == "tokens" else "usd_micros"
    used = int(observed) - int(worst)
    return CapNeed(scope=str(needs["scope"]), unit=unit, cap=int(limit), used=used, worst=int(worst))
