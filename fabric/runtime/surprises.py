"""Shares bills above reservations within the last hour, by model: a new run reserves by them from its first call on.

The bills of a fabric's revision stand in a guard row that all workers share. A worker reads it with each claim of a run of that revision, and adds to it
when one of its runs is surprised. Between two claims it goes by its memory, so that no decision waits for a store. Belongs to the loop thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from fabric.core.grants import NEVER, Billed
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run

LATELY_US = 3_600 * 1_000_000
"""A bill is forgotten after so long."""
MODELS_MAX = 1_000
"""Models of revisions that are remembered, in memory and in one row: the ones that surprised last."""
KIND = "billed_above"
"""Of the guard rows; the scope of one is its ``scope_of``."""

Key = tuple[str, str]
"""A revision of a fabric, and its name for the model."""
Seen = dict[str, tuple[int, Billed]]
"""By model: when it last surprised (microseconds since the epoch), and its dearest bill."""
Merge = Callable[[str], str]
"""A row's state with a bill, from its state without."""
Tell = Callable[[str, Merge], None]
"""Has a row changed, by its scope; it may take its time."""


def scope_of(fabric: str, revision: str) -> str:
    """The revision's row."""
    return f"{fabric} {revision}"


class Surprises:
    """The bills that this process knows. ``tell`` None: it shares them with no other process."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._seen: dict[Key, tuple[int, Billed]] = {}
        self._tell = tell

    def of(self, fabric: str, revision: str) -> OfRevision:
        """Those of one revision's models."""
        return OfRevision(self, scope_of(fabric, revision))

    def dearest(self, key: Key, now: int) -> Billed:
        """The dearest bill of the last hour; ``NEVER``: there was none. ``now``: microseconds since the epoch."""
        return _lately(self._seen.get(key), now)

    def add(self, key: Key, found: Billed, now: int) -> None:
        """Takes in a bill of a run of this process, and shares it with the others."""
        scope, model = key
        self._keep(key, now, found)
        if self._tell is not None:
            self._tell(scope, lambda state: _with_bill(state, model, found, now))

    def learn(self, scope: str, state: str) -> None:
        """Takes in the bills of the revision's row."""
        for model, (at, found) in _read(state).items():
            self._keep((scope, model), at, found)

    def _keep(self, key: Key, at: int, found: Billed) -> None:
        self._seen[key] = _after(self._seen.pop(key, None), at, found)
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
        """Takes in the bills of a run between two of its states."""
        known, found = (state_of(run.guards, budget).surprises for run in (before, after))
        if found is known:  # As nearly always.
            return
        for model, billed in found.items():
            if known.get(model) != billed:
                self._all.add((self._revision, model), billed, now)


def _lately(known: tuple[int, Billed] | None, now: int) -> Billed:
    return known[1] if known is not None and now - known[0] < LATELY_US else NEVER


def _after(known: tuple[int, Billed] | None, at: int, found: Billed) -> tuple[int, Billed]:
    """Two bills as one: the later instant, and the dearer amounts of those within an hour of each other."""
    if known is None:
        return at, found
    (_, older), (late, newer) = sorted((known, (at, found)), key=lambda one: one[0])
    return late, newer.with_dearer(older) if abs(known[0] - at) < LATELY_US else newer


def _read(state: str) -> Seen:
    return {model: (at, Billed(*amounts)) for model, (at, *amounts) in json.loads(state or "{}").items()}


def _with_bill(state: str, model: str, found: Billed, now: int) -> str:
    """The row's state with one more bill, without those that are forgotten by now."""
    seen = {name: one for name, one in _read(state).items() if now - one[0] < LATELY_US}
    seen[model] = _after(seen.pop(model, None), now, found)
    last = dict(list(seen.items())[-MODELS_MAX:])
    amounts = {
        name: (at, one.usd_micros, one.tokens, one.reserved_usd_micros, one.reserved_tokens)
        for name, (at, one) in last.items()
    }
    return json.dumps(amounts)
