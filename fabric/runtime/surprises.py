"""What models billed above their reservations of late, as one worker process saw it: a new run reserves by it from its first call on.

It lives in memory: another worker, or this one after a restart, is surprised once more. So no decision waits for a store, and one freak bill is
forgotten after an hour. Belongs to the loop thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core.grants import NEVER, Billed
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run

LATELY_US = 3_600 * 1_000_000
"""A bill is forgotten after so long."""
MODELS_MAX = 1_000
"""Models of revisions that are remembered: the ones that surprised last."""

Key = tuple[str, str]
"""A revision of a fabric, and its name for the model."""


class Surprises:
    """The bills of all runs of this process."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[int, Billed]] = {}

    def of(self, fabric: str, revision: str) -> OfRevision:
        """Those of one revision's models."""
        return OfRevision(self, f"{fabric} {revision}")

    def dearest(self, key: Key, now: int) -> Billed:
        """The dearest bill of the last hour; ``NEVER``: there was none. ``now``: microseconds since the epoch."""
        if key not in self._seen:
            return NEVER
        at, found = self._seen[key]
        return found if now - at < LATELY_US else NEVER

    def add(self, key: Key, found: Billed, now: int) -> None:
        """Takes a bill in, which is the latest one."""
        known = self.dearest(key, now)
        self._seen.pop(key, None)
        self._seen[key] = now, known.with_dearer(found)
        if len(self._seen) > MODELS_MAX:
            del self._seen[next(iter(self._seen))]


@dataclass(frozen=True, slots=True)
class OfRevision:
    """A run's view: the models of its own revision (``grants.Lately``)."""

    _all: Surprises = field(default_factory=Surprises)
    _revision: str = ""

    def dearest(self, model: str, now: int) -> Billed:
        """See ``grants.Lately``."""
        return self._all.dearest((self._revision, model), now)

    def note(self, before: Run, after: Run, now: int) -> None:
        """Takes in what a run was billed between two states of it."""
        known, found = (state_of(run.guards, budget).surprises for run in (before, after))
        if found is known:  # As nearly always.
            return
        for model, billed in found.items():
            if known.get(model) != billed:
                self._all.add((self._revision, model), billed, now)
