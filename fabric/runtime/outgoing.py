"""What a run's batch brings other runs of its family: child runs that begin, inputs for its parent and its children. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.core.context import Compiled
from fabric.core.inputs import INBOX
from fabric.core.outbox import Outgoing, Spawn, Tell
from fabric.runtime.batch_parts import FamilyCaps, Send
from fabric.runtime.ports import Claimed, NewRun

WAKES: Mapping[str, int] = {"cancel_requested": 2, "terminate_requested": 2, "decision_made": 2}
"""``JournalStore.put_input``'s, by kind: what a quarantined run is woken for too; 1 for the others."""


def new_runs(claimed: Claimed, outgoing: Sequence[Outgoing]) -> tuple[NewRun, ...]:
    """The runs that begin with a batch. Each has its parent's workspace, revision, tier, queue, priority, session and trace."""
    return tuple(_new_run(claimed, one) for one in outgoing if isinstance(one, Spawn))


def _new_run(claimed: Claimed, spawn: Spawn) -> NewRun:
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
    )


def sends(outgoing: Sequence[Outgoing]) -> tuple[Send, ...]:
    """The inputs that a batch inserts for other runs. Each is a reason to claim its run."""
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


def caps(compiled: Compiled) -> FamilyCaps:
    """How many runs may descend from one root: as many as it may have agents."""
    limits = compiled.spec.policy.limits
    return FamilyCaps(alive=limits.sub_agents_alive, spawned=limits.sub_agents_spawned)
