"""Values in their order, so that whether one lies in a range is asked in a few comparisons however many there are."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal


class Values:
    """A growing set of values that counts what it compares: a hostile text must not make it more than its length times a logarithm."""

    def __init__(self, given: Iterable[Decimal] = ()) -> None:
        self._held = set(given)
        self._sorted: list[Decimal] | None = None
        self.compared = 0

    def __contains__(self, value: Decimal) -> bool:
        self.compared += 1
        return value in self._held

    def add(self, value: Decimal) -> None:
        """One more."""
        if value not in self._held:
            self._held.add(value)
            if self._sorted is not None:
                self._sorted.insert(self._place(value, self._sorted), value)

    def within(self, low: Decimal, high: Decimal) -> bool:
        """Whether one lies between these two or is one of them."""
        if self._sorted is None:
            self._sorted = sorted(self._held)
        place = self._place(low, self._sorted)
        return place < len(self._sorted) and self._sorted[place] <= high

    def _place(self, value: Decimal, held: list[Decimal]) -> int:
        """The first place whose value is not less."""
        low, high = 0, len(held)
        while low < high:
            self.compared += 1
            middle = (low + high) // 2
            if held[middle] < value:
                low = middle + 1
            else:
                high = middle
        return low
