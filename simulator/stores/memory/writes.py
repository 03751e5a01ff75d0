"""Writes batches to the memory store: each is accepted or refused separately, then the accepted ones are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric.core.values.frozen import replace
from fabric.core.values.units import US
from fabric.runtime.journal.batches import is_over
from fabric.runtime.journal.progress import progresses
from fabric.runtime.ports.batch_parts import RunColumns
from fabric.runtime.ports.journal import Batch, BatchFate
from fabric.stores.rows import changes, wakes_at
from simulator.stores.memory.grants import MemoryGrants
from simulator.stores.memory.rows import FamilyRow, InputRow, RunRow, Tables, store_row


def write(
    tables: Tables,
    grants: MemoryGrants,
    batches: Sequence[Batch],
    now: int,
    *,
    fenced: bool,
    holds: Callable[[str], str | None] | None = None,
) -> list[BatchFate]:
    """Write batches, and return their fates.

    ``fenced`` False: a batch is written for any owner of the run. ``holds`` returns a person's roles; None:
    roles are not checked.
    """
    fates = [_fate(tables, grants, batch, fenced, holds) for batch in batches]
    written = [batch for batch, fate in zip(batches, fates, strict=True) if fate is BatchFate.COMMITTED]
    grants.reserve([batch.entries for batch in written])
    for batch in written:
        _apply(tables, tables.runs[batch.run_id], batch)
        for child in batch.children:
            if child.run_id not in tables.runs:
                tables.insert(child, now)
    # Last, so that a run that ends in this write gets nothing and leaves room for the next one,
    # and one that begins in it gets all.
    for batch in written:
        new = tables.runs[batch.run_id].new
        if is_over(batch) and new.parent_run_id is not None and new.root_run_id in tables.families:
            tables.families[new.root_run_id].alive -= 1
        for send in batch.sends:
            to = tables.live.get(send.run_id)
            if to is not None and not to.over and all(item.input_id != send.input_id for item in to.inbox):
                visible_at = now + round(send.delay_s * US)
                row = InputRow(send.input_id, send.body, now, visible_at, wakes=send.wakes, format=send.format)
                tables.arrive(to, row)
    return fates


def _fate(
    tables: Tables, grants: MemoryGrants, batch: Batch, fenced: bool, holds: Callable[[str], str | None] | None
) -> BatchFate:
    run = tables.runs.get(batch.run_id)
    if run is None:
        return BatchFate.FENCED
    mine = run.fence == batch.fence and run.last_seq == batch.last_seq and run.incarnation is not None
    if fenced and not mine:
        return BatchFate.FENCED
    waiting = {item.input_id for item in run.inbox if item.consumed_seq is None} if batch.consumed else set()
    if not waiting.issuperset(batch.consumed):
        return BatchFate.INPUT_GONE
    if holds is not None and any(holds(one.name) != one.roles for _, one in batch.standings):
        return BatchFate.INPUT_GONE
    if not grants.stands(batch.entries):
        return BatchFate.GRANT_GONE
    if batch.children and not _grow_family(tables, batch):
        return BatchFate.FAMILY_FULL
    return BatchFate.COMMITTED


def _grow_family(tables: Tables, batch: Batch) -> bool:
    """Count the batch's children in their family, if it has room for all of them."""
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
    run.stored.extend(map(store_row, batch.rows))
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
    for change in changes(batch) if batch.reviews else ():
        known = tables.reviews.get(change.review_id)
        tables.reviews[change.review_id] = (batch.run_id, known[1].then(change) if known else change)
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
        unconfirmed_usd_micros=before.unconfirmed_usd_micros + now.charged_usd_micros,
        tokens=before.tokens + now.charged_tokens,
        spent_on=before.spent_on if now.spent_on is None else now.spent_on,
    )
