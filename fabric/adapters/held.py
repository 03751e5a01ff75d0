"""Runs that a host let go of while their rows are still its incarnation's: kept from everybody for a while, then given back."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.adapters.owned import given_back
from fabric.adapters.timers import Timers
from fabric.runtime.ports import Batch, Claimed


class Held:
    """Each held run's releasing batch, and when it goes out. Used on the host's loop alone."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._batches: dict[str, tuple[int, Batch]] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._batches

    def hold(self, claimed: Claimed, durable: Batch | None, at: int, batch: Batch | None = None) -> None:
        """Keeps a run until ``at`` (microseconds since the epoch). ``durable``: the last batch that committed since it was claimed.

        ``batch``: what releases it, where that is more than giving it back.
        """
        self._batches[claimed.run_id] = at, batch or given_back(claimed, durable, at)
        self._timers.set(at, claimed.run_id)

    def freed(self, run_id: str, at: int) -> Batch | None:
        """The batch that gives the run back, when it is its turn; None: it is not held, or for longer."""
        if run_id in self._batches and self._batches[run_id][0] == at:
            return self._batches.pop(run_id)[1]
        return None

    def instants(self) -> Iterator[tuple[int, str]]:
        """When which run is given back."""
        return ((at, run_id) for run_id, (at, _) in self._batches.items())

    def clear(self) -> None:
        """Forgets them all: the incarnation that held them is gone."""
        self._batches.clear()
