"""What the virtual world asks of the stores that it runs on: a journal store that can be made to fail, budgets that can be counted anew, buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fabric.core.envelope import Row
from fabric.core.memory import Entry
from fabric.runtime.batch_parts import EscalationChange, RunColumns
from fabric.runtime.grant_ports import BucketStore, Budget, GrantStore, GuardStore
from fabric.runtime.memory_port import MemoryStore
from fabric.runtime.ports import JournalStore
from simulator.kernel.clock import VirtualClock

Failure = Literal["away", "busy", "lost", "landed", "late"]
"""``away``: it does not answer; ``busy``: it refuses for now; ``lost``, ``landed``: the answer is lost, and so was, or was not, the change.

``late``, of a write alone: the answer is lost, and the change is made before the next write, when its fate has been asked for.
"""


class WorldMemories(MemoryStore, Protocol):
    """A store of memories, in memory or in a file, with what the watch needs."""

    def ledger(self, fabric_id: str, memory: str) -> list[Entry]:
        """Every entry of a memory, also what was taken back, in the order in which they were written."""
        ...


class WorldStore(JournalStore, Protocol):
    """A journal store, in memory or in a file, with what the world and its watch need."""

    def fail_next(self, failure: Failure, *, call: str = "write", times: int = 1) -> None:
        """Makes the next calls of that name fail in this way."""
        ...

    @property
    def escalations(self) -> Mapping[str, tuple[str, EscalationChange]]:
        """Every escalation as it stands now, with its run, in the order in which they were opened."""
        ...

    def holds(self, name: str) -> str | None:
        """What somebody holds as a member of the workspace; None: they are none."""
        ...

    def hold(self, name: str, roles: str | None) -> None:
        """Gives somebody roles, as a member's row has them; None: they are no member from now on."""
        ...

    def rows(self, run_id: str) -> tuple[Row, ...]:
        """A run's journal as it was written."""
        ...

    def columns(self, run_id: str) -> RunColumns:
        """A run's projection as its last batch left it."""
        ...

    def standing(self, run_id: str) -> tuple[str | None, int, int]:
        """``(owner, fence, claims since it made progress)`` of a run."""
        ...

    def run_ids(self) -> tuple[str, ...]:
        """Every run, in the order of creation."""
        ...


class GrantSeen(Protocol):
    """A grant as the watch sees it."""

    @property
    def grant_id(self) -> str:
        """Its id."""
        ...

    @property
    def scope(self) -> str:
        """The budget that it was taken from."""
        ...

    @property
    def amount(self) -> int:
        """How much of it the process may spend, micro-dollars."""
        ...

    @property
    def state(self) -> str:
        """``open``, ``closing`` or ``closed``."""
        ...


class WorldGrants(GrantStore, Protocol):
    """Shared budgets that can be counted anew."""

    def all_budgets(self) -> list[tuple[str, Budget]]:
        """Every budget as it stands, by scope."""
        ...

    def all_grants(self) -> Sequence[GrantSeen]:
        """Every grant, in the order in which they were taken."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """All that a world keeps outside of its processes."""

    journal: WorldStore
    grants: WorldGrants
    buckets: BucketStore
    guards: GuardStore
    memories: WorldMemories


MakesStores = Callable[[VirtualClock], Stores]
"""Opens the stores of a world whose clock that is."""
