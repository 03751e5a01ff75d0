"""Computes the effect of a run's batches, their merge, their fate, and their messages to the run's family. Pure.

A batch whose answer was lost gets its fate from its run's row. Messages go to other runs of the family: child runs that
begin, and inputs for the parent and the children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.core.events.commands import Outgoing, Spawn, Tell
from fabric.core.events.inputs import INBOX
from fabric.core.state.context import CompiledFabric
from fabric.core.values.flow import TERMINAL
from fabric.runtime.ports.batch_parts import FamilyCaps, Send
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, Head, NewRun


def merge_batches(first: Batch, second: Batch) -> Batch:
    """Return two consecutive batches of one run as one, so that they are one commit. A release stays: later records
    of a released run (a late result) do not revoke it.
    """
    assert first.fence == second.fence
    assert first.new_seq == second.last_seq
    return Batch(
        run_id=first.run_id,
        fence=first.fence,
        last_seq=first.last_seq,
        rows=first.rows + second.rows,
        head=second.head,
        columns=second.columns or first.columns,
        consumed=first.consumed + second.consumed,
        standings=first.standings + second.standings,
        reviews=first.reviews + second.reviews,
        wake_at=second.wake_at if second.release else first.wake_at,
        release=first.release or second.release,
        children=first.children + second.children,
        caps=first.caps or second.caps,
        sends=first.sends + second.sends,
        snapshot=second.snapshot or first.snapshot,
        format=max(first.format, second.format),
        reserved=first.reserved + second.reserved,
        settled=first.settled + second.settled,
    )


def ends(batch: Batch) -> bool:
    """Return True if the run's state after the batch is one that absorbs."""
    return batch.columns is not None and batch.columns.state in TERMINAL


def is_over(batch: Batch) -> bool:
    """Return True if the run has ended with this batch and is released. What waits in its inbox is closed with
    it.
    """
    return batch.release and ends(batch)


def find_fate(batch: Batch, head: Head | None) -> BatchFate | None:
    """Return the fate of a batch by its run's present row (docs/specification/durability.md). None: it was not written,
    and may be sent again.

    ``head`` None: the run no longer exists. A batch without rows leaves no mark on the row: it counts as not written.
    A second write of it is refused by its released or consumed rows, and its run is loaded again.
    """
    if head is None or head.fence != batch.fence:
        return BatchFate.FENCED
    if batch.rows and head.last_seq == batch.new_seq and head.head == batch.head:
        return BatchFate.COMMITTED
    return None if head.last_seq == batch.last_seq else BatchFate.FENCED


WAKES: Mapping[str, int] = {"cancel_requested": 2, "terminate_requested": 2, "decision_made": 2}
"""Wake levels for ``JournalStore.put_input``, by kind: 2 wakes a quarantined run too; 1 for kinds not listed."""


def new_runs(claimed: ClaimedRun, outgoing: Sequence[Outgoing]) -> tuple[NewRun, ...]:
    """Return the runs that begin with a batch. Each has its parent's workspace, revision, tier, queue, priority,
    session and trace.
    """
    return tuple(_new_run(claimed, one) for one in outgoing if isinstance(one, Spawn))


def _new_run(claimed: ClaimedRun, spawn: Spawn) -> NewRun:
    given = spawn.given
    return NewRun(
        run_id=spawn.run_id,
        workspace_id=claimed.workspace_id,
        revision_id=claimed.revision_id,
        tier=claimed.tier,
        queue=claimed.queue,
        priority=claimed.priority,
        session_key=claimed.session_key,
        start_key="",
        seed=spawn.seed,
        trace_id=claimed.trace_id,
        title=spawn.title,
        deadline_at=given.deadline_at,
        input_id=given.input_id,
        input_body=INBOX.dump_json(given),
        format=INBOX.format_of(given),
        parent_run_id=given.parent_run_id,
        parent_command=given.command_id,
        root_run_id=given.root_run_id,
        cap_usd_micros=given.cap_usd_micros,
        requested_by=given.requested_by,
        caused_by=given.caused_by,
        trace_context=claimed.trace_context,
    )


def sends(outgoing: Sequence[Outgoing]) -> tuple[Send, ...]:
    """Return the inputs that a batch inserts for other runs. Each is a reason to claim its run."""
    return tuple(
        Send(
            run_id=one.run_id,
            input_id=one.given.input_id,
            body=INBOX.dump_json(one.given),
            wakes=WAKES.get(one.given.kind, 1),
            format=INBOX.format_of(one.given),
        )
        for one in outgoing
        if isinstance(one, Tell)
    )


def caps(compiled: CompiledFabric) -> FamilyCaps:
    """Return the most runs that may descend from one root: as many as it may have agents."""
    limits = compiled.spec.policy.limits
    return FamilyCaps(alive=limits.sub_agents_alive, spawned=limits.sub_agents_spawned)
