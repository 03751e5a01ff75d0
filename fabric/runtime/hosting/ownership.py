"""One run in a worker's memory, and its revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.state.context import CompiledFabric
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports.calls import ToolOffer
from fabric.runtime.ports.journal import Batch, ClaimedRun, Document

CallKey = tuple[str, str, int]
"""``(run id, command id, attempt)`` of a call."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The facts of a published revision that a worker needs."""

    compiled: CompiledFabric
    offers: Mapping[str, ToolOffer]
    """Its tools in the form for models, by name."""


def revision_pin(claimed: ClaimedRun) -> str:
    """Return a name for the rules that drive a run. It has the revision, and under a workspace's policy its version and
    the run's tier.
    """
    if not claimed.policy_number:
        return claimed.revision_id
    return f"{claimed.revision_id} {claimed.workspace_id} {claimed.policy_number} {claimed.tier}"


@dataclass(slots=True, eq=False)
class OwnedRun:
    """A run that this worker drives, or drove a moment ago."""

    driver: RunDriver
    claimed: ClaimedRun
    offers: Mapping[str, ToolOffer] = field(default_factory=dict)
    ready: Batch | None = None
    """The rows that the driver decided since the last hand-over to the writer."""
    writing: Batch | None = None
    """The batch that the writer has; one at a time."""
    durable: Batch | None = None
    """The batch that committed last since the claim."""
    out: set[CallKey] = field(default_factory=set)
    """Calls that were begun and not answered."""
    wake_at: int | None = None
    """The instant of the driver's last ``WakeAt``; None: it waits for none."""
    term: int = 0
    """The last term of the lease in which the run was surely this worker's (``Lease.covers``)."""
    leaving: bool = False
    """True: the worker dropped the run while a batch was being written. It releases its row when that batch's fate is
    known.
    """
    documents: tuple[Document, ...] | None = None
    """The texts of its documents; None: they were not read yet."""
