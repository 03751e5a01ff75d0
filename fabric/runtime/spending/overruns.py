"""Shares bills above reservations within the last hour, by model. A new run reserves by them from its first call on.

The bills of a fabric's revision are in a guard row that all workers share. A worker reads it with each claim of a run
of that revision, and adds to it when one of its runs has such a bill. Between two claims it uses its memory, so that
no decision waits for a store. Belongs to the loop thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from fabric.core.budgets.grants import NEVER, BilledAbove
from fabric.core.mechanisms import budget, find_state
from fabric.core.state.run import Run

LATELY_US = 3_600 * 1_000_000
"""A bill is forgotten after so long."""
MODELS_MAX = 1_000
"""Models of revisions that are remembered, in memory and in one row: the ones that surprised last."""
KIND = "billed_above"
"""Kind of the guard rows; the scope of one is its ``find_scope``."""

Key = tuple[str, str]
"""A revision of a fabric, and its name for the model."""
Seen = dict[str, tuple[int, BilledAbove]]
"""By model: the instant of its last bill above a reservation (microseconds since the epoch), and its dearest bill."""
Merge = Callable[[str], str]
"""A row's state with a bill, from its state without."""
Tell = Callable[[str, Merge], None]
"""Has a row changed, by its scope; it may take its time."""


def find_scope(fabric: str, revision: str) -> str:
    """Return the revision's row."""
    return f"{fabric} {revision}"


class Surprises:
    """The bills that this process knows. ``tell`` None: it shares them with no other process."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._seen: dict[Key, tuple[int, BilledAbove]] = {}
        self._tell = tell

    def select_revision(self, fabric: str, revision: str) -> OfRevision:
        """Return the view of one revision's models."""
        return OfRevision(self, find_scope(fabric, revision))

    def dearest(self, key: Key, now: int) -> BilledAbove:
        """Return the dearest bill of the last hour; ``NEVER`` if there was none. ``now``: microseconds since the
        epoch.
        """
        return _lately(self._seen.get(key), now) if self._seen else NEVER

    def add(self, key: Key, found: BilledAbove, now: int) -> None:
        """Take in a bill of a run of this process, and share it with the others."""
        scope, model = key
        self._keep(key, now, found)
        if self._tell is not None:
            self._tell(scope, lambda state: _add_bill(state, model, found, now))

    def learn(self, scope: str, state: str) -> None:
        """Take in the bills of the revision's row."""
        for model, (at, found) in _read(state).items():
            self._keep((scope, model), at, found)

    def _keep(self, key: Key, at: int, found: BilledAbove) -> None:
        self._seen[key] = _join_bills(self._seen.pop(key, None), at, found)
        if len(self._seen) > MODELS_MAX:
            del self._seen[next(iter(self._seen))]


@dataclass(frozen=True, slots=True)
class OfRevision:
    """A run's view: the models of its own revision (``grants.Lately``)."""

    _all: Surprises = field(default_factory=Surprises)
    _revision: str = ""

    def dearest(self, model: str, now: int) -> BilledAbove:
        """See ``grants.Lately``."""
        return self._all.dearest((self._revision, model), now)

    def note(self, before: Run, after: Run, now: int) -> None:
        """Take in the bills of a run between two of its states."""
        known, found = find_state(before.guards, budget).surprises, find_state(after.guards, budget).surprises
        if found is known:  # The usual case.
            return
        for model, billed in found.items():
            if known.get(model) != billed:
                self._all.add((self._revision, model), billed, now)


def _lately(known: tuple[int, BilledAbove] | None, now: int) -> BilledAbove:
    return known[1] if known is not None and now - known[0] < LATELY_US else NEVER


def _join_bills(known: tuple[int, BilledAbove] | None, at: int, found: BilledAbove) -> tuple[int, BilledAbove]:
    """Return two bills as one: the later instant, and the dearer amounts of those within an hour of each other."""
    if known is None:
        return at, found
    (_, older), (late, newer) = sorted((known, (at, found)), key=lambda one: one[0])
    return late, newer.with_dearer(older) if abs(known[0] - at) < LATELY_US else newer


def _read(state: str) -> Seen:
    return {model: (at, BilledAbove(*amounts)) for model, (at, *amounts) in json.loads(state or "{}").items()}


def _add_bill(state: str, model: str, found: BilledAbove, now: int) -> str:
    """Return the row's state with one more bill, without expired ones."""
    seen = {name: one for name, one in _read(state).items() if now - one[0] < LATELY_US}
    seen[model] = _join_bills(seen.pop(model, None), now, found)
    last = dict(list(seen.items())[-MODELS_MAX:])
    amounts = {
        name: (at, one.usd_micros, one.tokens, one.reserved_usd_micros, one.reserved_tokens)
        for name, (at, one) in last.items()
    }
    return json.dumps(amounts)
