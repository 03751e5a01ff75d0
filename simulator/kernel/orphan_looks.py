"""A virtual process's looks for runs that are its own without its knowing (``adapters/orphans.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric.adapters.orphans import Orphans
from fabric.runtime.ports import Written
from simulator.kernel.clock import US

ORPHANS_S = 10.0
"""design.md 5."""


class OrphanLooks:
    """The real process looks all the time; in the virtual world nothing happens that nobody asked for, so ``sweep_at`` is asked for a sweep."""

    def __init__(self, now: Callable[[], int], sweep_at: Callable[[int], None]) -> None:
        self.found = Orphans()
        self._now, self._sweep_at = now, sweep_at
        self._last = 0

    def soon(self) -> None:
        """Something may be this process's without its knowing."""
        self._sweep_at(self._now() + int(ORPHANS_S * US))

    def refused(self, run_id: str, at: int, fate: Written) -> None:
        """A run that was refused a batch is asked for from ``at`` on; one whose children were, with that in mind."""
        if fate is Written.FAMILY_FULL:
            self.found.crowded(run_id)
        self.found.suspect(run_id, at)

    def look(self, owned_by: Callable[[], Sequence[str]], knows: Callable[[str], bool]) -> None:
        """Compares what the rows say with what the process knows, as often as the real one does."""
        now = self._now()
        if now - self._last >= int(ORPHANS_S * US):
            self._last = now
            self.found.looked(owned_by(), knows, now)
        if self.found:
            self.soon()
