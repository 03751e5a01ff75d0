"""The ports of one worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.calls import ModelPort, ToolPort
from fabric.runtime.ports.journal import ClaimedRun, Clock, JournalStore
from fabric.runtime.ports.spending import BucketStore, GrantStore, GuardStore
from fabric.stores.writer import JournalWriter
from fabric.worker.process.clock import Elapsed, elapsed_s


@dataclass(slots=True)
class Ports:
    """The stores, ports and clock of a worker."""

    store: JournalStore
    writer: JournalWriter
    models: ModelPort
    tools: ToolPort
    clock: Clock
    elapsed: Elapsed = field(default=elapsed_s, kw_only=True)
    """Stopwatch of the lease."""
    revision: Callable[[str], Revision]
    """Returns a published revision by row id. May wait for the database: it is called on the claimer's thread, once
    a claim.
    """
    grants: GrantStore | None = None
    """Store of shared budgets. Without it, a run under a shared budget is refused."""
    buckets: BucketStore | None = None
    guards: GuardStore | None = None
    """Store of guards. Without it, no circuit breaker ever opens."""
    under_policy: Callable[[ClaimedRun], Revision] | None = None
    """Returns the revision of a run under its workspace's policy. Called like ``revision``. Without it, such a run
    waits.
    """
