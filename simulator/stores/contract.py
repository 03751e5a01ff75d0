"""Protocols of the virtual world's stores: a journal store that can fail, budgets that can be recounted, buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fabric.core.conversations.memory import Entry
from fabric.core.events.envelope import JournalRow
from fabric.runtime.ports.batch_parts import ReviewChange, RunColumns
from fabric.runtime.ports.journal import JournalStore
from fabric.runtime.ports.memories import MemoryStore
from fabric.runtime.ports.spending import BucketStore, Budget, GrantStore, GuardStore
from simulator.clockwork.clock import VirtualClock

Failure = Literal["away", "busy", "lost", "landed", "late"]
"""Failures of a store.

- ``away``: it does not answer.
- ``busy``: it refuses for now.
- ``lost``: answer and change are lost.
- ``landed``: the change is made, and its answer lost.
- ``late``, only for a write: the answer is lost, and the change is made before the next write, after a look-up.
"""


class WorldMemories(MemoryStore, Protocol):
    """A store of memories, in memory or in a file, with the needs of the watch."""

    def ledger(self, fabric_id: str, memory: str) -> list[Entry]:
        """Return every entry of a memory, withdrawn ones included, in the order of writing."""
        ...


class WorldStore(JournalStore, Protocol):
    """A journal store, in memory or in a file, with the needs of the world and its watch."""

    def fail_next(self, failure: Failure, *, call: str = "write", times: int = 1) -> None:
        """Make the next calls of that name fail in this way."""
        ...

    @property
    def reviews(self) -> Mapping[str, tuple[str, ReviewChange]]:
        """Return the present state of every review with its run, in the order of opening."""
        ...

    def holds(self, name: str) -> str | None:
        """Return the roles of a member of the workspace; None for a person who is no member."""
        ...

    def hold(self, name: str, roles: str | None) -> None:
        """Set the roles of a member; None ends the membership."""
        ...

    def rows(self, run_id: str) -> tuple[JournalRow, ...]:
        """Return a run's journal as it was written."""
        ...

    def columns(self, run_id: str) -> RunColumns:
        """Return a run's projection as its last batch left it."""
        ...

    def read_standing(self, run_id: str) -> tuple[str | None, int, int]:
        """Return ``(owner, fence, claims since it made progress)`` of a run."""
        ...

    def run_ids(self) -> tuple[str, ...]:
        """Return every run, in the order of creation."""
        ...


class GrantSeen(Protocol):
    """A grant as the watch sees it."""

    @property
    def grant_id(self) -> str:
        """Return its id."""
        ...

    @property
    def scope(self) -> str:
        """Return the budget that it was taken from."""
        ...

    @property
    def amount(self) -> int:
        """Return the amount that the process may spend, in micro-dollars."""
        ...

    @property
    def state(self) -> str:
        """``open``, ``closing`` or ``closed``."""
        ...


class WorldGrants(GrantStore, Protocol):
    """Shared budgets that can be counted anew."""

    def all_budgets(self) -> list[tuple[str, Budget]]:
        """Return every budget's state, by scope."""
        ...

    def all_grants(self) -> Sequence[GrantSeen]:
        """Return every grant, in the order in which they were taken."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """Stores of a world, outside of its processes."""

    journal: WorldStore
    grants: WorldGrants
    buckets: BucketStore
    guards: GuardStore
    memories: WorldMemories


MakesStores = Callable[[VirtualClock], Stores]
"""Opens the stores of a world on its clock."""
