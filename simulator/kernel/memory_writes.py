"""What the memory store does with batches: each holds or falls by itself, then those that hold are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric.adapters.journal_rows import SECOND_US, changes, is_over, progresses, wakes_at
from fabric.core.frozen import replace
from fabric.runtime.batch_parts import RunColumns
from fabric.runtime.ports import Batch, Written
from simulator.kernel.memory_grants import MemoryGrants
from simulator.kernel.memory_rows import FamilyRow, InputRow, RunRow, Tables, stored


def write(
    tables: Tables,
    grants: MemoryGrants,
    batches: Sequence[Batch],
    now: int,
    *,
    fenced: bool,
    holds: Callable[[str], str | None] | None = None,
) -> list[Written]:
    """The batches' fates. ``fenced`` False: a batch is written whoever owns the run by now. ``holds``: what somebody holds; None: that is not looked at."""
    fates = [_fate(tables, grants, batch, fenced, holds) for batch in batches]
    written = [batch for batch, fate in zip(batches, fates, strict=True) if fate is Written.COMMITTED]
    grants.reserve([batch.entries for batch in written])
    for batch in written:
        _apply(tables, tables.runs[batch.run_id], batch)
        for child in batch.children:
            if child.run_id not in tables.runs:
                tables.insert(child, now)
    # Last, so that a run that ends in this write is given nothing and makes room for the next one, and one that begins in it is given all.
    for batch in written:
        new = tables.runs[batch.run_id].new
        if is_over(batch) and new.parent_run_id is not None and new.root_run_id in tables.families:
            tables.families[new.root_run_id].alive -= 1
        for send in batch.sends:
            to = tables.live.get(send.run_id)
            if to is not None and not to.over and all(item.input_id != send.input_id for item in to.inbox):
                visible_at = now + round(send.delay_s * SECOND_US)
                row = InputRow(send.input_id, send.body, now, visible_at, wakes=send.wakes, format=send.format)
                tables.arrive(to, row)
    return fates


def _fate(
    tables: Tables, grants: MemoryGrants, batch: Batch, fenced: bool, holds: Callable[[str], str | None] | None
) -> Written:
    run = tables.runs.get(batch.run_id)
    if run is None:
        return Written.FENCED
    mine = run.fence == batch.fence and run.last_seq == batch.last_seq and run.incarnation is not None
    if fenced and not mine:
        return Written.FENCED
    waiting = {item.input_id for item in run.inbox if item.consumed_seq is None} if batch.consumed else set()
    if not waiting.issuperset(batch.consumed):
        return Written.INPUT_GONE
    if holds is not None and any(holds(one.name) != one.roles for _, one in batch.standings):
        return Written.INPUT_GONE
    if not grants.stands(batch.entries):
        return Written.GRANT_GONE
    if batch.children and not _grown(tables, batch):
        return Written.FAMILY_FULL
    return Written.COMMITTED


def _grown(tables: Tables, batch: Batch) -> bool:
    """Counts the batch's children in their family, if there is room for all of them."""
    root, caps = batch.children[0].root_run_id, batch.caps
    assert root is not None
    assert caps is not None
    family = tables.families.get(root, FamilyRow(caps))
    kids = sum(child.run_id not in tables.runs for child in batch.children)
    if family.alive + kids > family.caps.alive or family.spawned + kids > family.caps.spawned:
        return False
    family.alive += kids
    family.spawned += kids
    tables.families[root] = family
    return True


def _apply(tables: Tables, run: RunRow, batch: Batch) -> None:
    run.rows.extend(batch.rows)
    run.stored.extend(map(stored, batch.rows))
    run.last_seq = batch.new_seq
    run.head = batch.head
    run.columns = _columns(run.columns, batch)
    run.format = max(run.format, batch.format)
    run.snapshot = batch.snapshot or run.snapshot
    if run.claims and progresses(batch):
        run.claims = 0
    for input_id in dict.fromkeys(batch.consumed):
        waiting = (item for item in run.inbox if item.input_id == input_id and item.consumed_seq is None)
        next(waiting).consumed_seq = batch.new_seq
    for change in changes(batch) if batch.escalations else ():
        known = tables.escalations.get(change.escalation_id)
        tables.escalations[change.escalation_id] = (batch.run_id, known[1].then(change) if known else change)
    if batch.release:
        run.incarnation = None
        run.wake_at = wakes_at(batch)
    if is_over(batch):
        tables.live.pop(batch.run_id, None)
        for item in run.inbox:
            if item.consumed_seq is None:
                item.consumed_seq = run.last_seq


def _columns(before: RunColumns, batch: Batch) -> RunColumns:
    now = batch.columns
    if now is None:
        return before
    if isinstance(now, RunColumns):
        return now if now.deadline_at else replace(now, deadline_at=before.deadline_at)
    return replace(
        before,
        state=now.state,
        reason=now.reason,
        ended_at=now.ended_at or before.ended_at,
        recovered=before.recovered if now.recovered is None else now.recovered,
        truncated=before.truncated if now.truncated is None else now.truncated,
        cost_usd_micros=before.cost_usd_micros + now.charged_usd_micros,
        tokens=before.tokens + now.charged_tokens,
    )
