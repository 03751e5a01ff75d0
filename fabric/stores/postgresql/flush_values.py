"""Converts new runs into parameters, a flush's batches into columns for its statement, and the statement's answer
into fates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fabric.core.values.flow import RunState
from fabric.core.values.units import US
from fabric.packing.rows import pack
from fabric.runtime.journal.batches import is_over
from fabric.runtime.journal.progress import progresses
from fabric.runtime.ports.batch_parts import COLUMNS, RunColumns, RunMark, names_text
from fabric.runtime.ports.journal import Batch, BatchFate, NewRun
from fabric.stores.postgresql.connection import bigints, bools, byteas, doubles, texts
from fabric.stores.postgresql.grants import entry_values
from fabric.stores.postgresql.statements.flush import REVIEW_TYPES, FlushShape
from fabric.stores.rows import PRIORITIES, changes, refs_text, run_values, wakes_at

_FATES = (BatchFate.FENCED, BatchFate.INPUT_GONE, BatchFate.FAMILY_FULL, BatchFate.GRANT_GONE)


def creation(run: NewRun) -> dict[str, Any]:
    """Return the parameters of ``arriving.CREATE``."""
    return run_values(run) | {
        "names": texts([document.name for document in run.documents]),
        "texts": texts([document.text for document in run.documents]),
        "origins": texts([document.origin for document in run.documents]),
        "label_keys": texts([key for key, _ in run.labels]),
        "label_values": texts([value for _, value in run.labels]),
    }


def list_fates(batches: Sequence[Batch], refused: Iterable[tuple[int, int]]) -> list[BatchFate]:
    """Return the fates of the batches from the flush's answer."""
    fates = [BatchFate.COMMITTED] * len(batches)
    for place, why in refused:
        if place:
            fates[place - 1] = _FATES[why]
    return fates


def build_flush(batches: Sequence[Batch], *, told: bool) -> tuple[FlushShape, dict[str, Any]]:
    """Return the parts of the flush that these batches need, and its parameters. ``told``: it carries its
    notifications.
    """
    columns = [batch.columns for batch in batches]
    partly = any(type(column) is not RunColumns for column in columns)
    over = [is_over(batch) for batch in batches]
    values = {
        "run_id": texts([batch.run_id for batch in batches]),
        "fence": bigints([batch.fence for batch in batches]),
        "last_seq": bigints([batch.last_seq for batch in batches]),
        "new_seq": bigints([batch.new_seq for batch in batches]),
        "head": byteas([batch.head for batch in batches]),
        "wake_at": bigints([wakes_at(batch) for batch in batches]),
        "release": bools([batch.release for batch in batches]),
        "over": bools(over),
        "progress": bools([progresses(batch) for batch in batches]),
    }
    values |= _column_values([_some(column) for column in columns] if partly else columns)
    if partly:
        values["charged"] = bigints([getattr(column, "charged_usd_micros", 0) for column in columns])
        values["charged_tokens"] = bigints([getattr(column, "charged_tokens", 0) for column in columns])
    values |= _row_values(batches) | _inbox_values(batches, over) | _review_values(batches)
    if any(batch.children or batch.sends or batch.snapshot is not None or batch.format for batch in batches):
        values |= _child_values(batches) | _send_values(batches) | _snapshot_values(batches)
        if any(batch.format for batch in batches):
            values["format"] = bigints([batch.format for batch in batches])
    reserved, settled = any(batch.reserved for batch in batches), any(batch.settled for batch in batches)
    if reserved or settled:
        values |= entry_values([(place, batch.entries) for place, batch in enumerate(batches, start=1)])
    shape = FlushShape(
        rows="e_n" in values,
        consumed="taker" in values,
        judged="person" in values,
        taking="takers" in values,
        ended=any(over),
        reviewed="s_n" in values,
        told=told,
        spawned="spawners" in values,
        sent="m_n" in values,
        snapped="p_n" in values,
        raised="format" in values,
        partly=partly,
        reserved=reserved,
        settled=settled,
    )
    return shape, values


class _PartialColumns(NamedTuple):
    """A part of the columns: None leaves the row's value."""

    state: RunState | None = None
    reason: str | None = None
    ended_at: int | None = None
    stage: str | None = None
    epoch: int | None = None
    cost_usd_micros: int | None = None
    tokens: int | None = None
    recovered: bool | None = None
    truncated: bool | None = None
    cause: str | None = None
    failure: str | None = None
    fired: str | None = None
    breakers: str | None = None
    unconfirmed_usd_micros: int | None = None
    spent_on: str | None = None
    started_at: int | None = None
    deadline_at: int = 0


def _some(columns: RunColumns | RunMark | None) -> RunColumns | _PartialColumns:
    if isinstance(columns, RunMark):
        return _PartialColumns(
            columns.state,
            columns.reason,
            columns.ended_at,
            recovered=columns.recovered,
            truncated=columns.truncated,
            spent_on=columns.spent_on,
        )
    return _PartialColumns() if columns is None else columns


def _column_values(columns: Sequence[Any]) -> dict[str, Any]:
    return {
        "state": texts([column.state for column in columns]),
        "stage": texts([column.stage for column in columns]),
        "epoch": bigints([column.epoch for column in columns]),
        "cost": bigints([column.cost_usd_micros for column in columns]),
        "tokens": bigints([column.tokens for column in columns]),
        "reason": texts([column.reason for column in columns]),
        "recovered": bools([column.recovered for column in columns]),
        "truncated": bools([column.truncated for column in columns]),
        "cause": texts([column.cause for column in columns]),
        "failure": texts([column.failure for column in columns]),
        "fired": texts([column.fired for column in columns]),
        "breakers": texts([column.breakers for column in columns]),
        "unconfirmed": bigints([column.unconfirmed_usd_micros for column in columns]),
        "spent_on": texts([column.spent_on for column in columns]),
        "started_at": bigints([column.started_at for column in columns]),
        "ended_at": bigints([column.ended_at for column in columns]),
        "deadline_at": bigints([column.deadline_at for column in columns]),
    }


def _row_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, row) for place, batch in enumerate(batches, start=1) for row in batch.rows]
    if not placed:
        return {}
    rows = [row for _, row in placed]
    return {
        "e_n": bigints([place for place, _ in placed]),
        "e_at": bigints([row.at for row in rows]),
        "e_seq": bigints([row.seq for row in rows]),
        "e_version": bigints([row.version for row in rows]),
        "e_more": bigints([row.last_seq - row.seq for row in rows]),
        "e_kind": texts([row.kind for row in rows]),
        "e_header": byteas([pack(row.header) for row in rows]),
        "e_payload": byteas([None if row.payload is None else pack(row.payload) for row in rows]),
        "e_payload_hash": byteas([row.payload_hash for row in rows]),
        "e_hash": byteas([row.hash for row in rows]),
    }


def _inbox_values(batches: Sequence[Batch], over: Sequence[bool]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    consumed = [
        (place, batch.run_id, taken) for place, batch in enumerate(batches, start=1) for taken in batch.consumed
    ]
    if consumed:
        values["taker"] = bigints([place for place, _, _ in consumed])
        values["taker_run"] = texts([run_id for _, run_id, _ in consumed])
        values["input_id"] = texts([input_id for _, _, input_id in consumed])
    if any(batch.standings for batch in batches):
        standings = [dict(batches[place - 1].standings).get(input_id) for place, _, input_id in consumed]
        values["person"] = texts(["" if one is None else one.name for one in standings])
        values["person_roles"] = texts([None if one is None else one.roles for one in standings])
    ends = zip(batches, over, strict=True)
    takers = [place for place, (batch, ended) in enumerate(ends, start=1) if batch.consumed or ended]
    if takers:
        values["takers"] = bigints(takers)
    return values


def _review_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, change) for place, batch in enumerate(batches, start=1) for change in changes(batch)]
    if not placed:
        return {}
    rows = [change.row for _, change in placed]
    values = {"s_n": bigints([place for place, _ in placed]), "s_id": texts([one.review_id for _, one in placed])}
    for name in COLUMNS:
        values[f"s_{name}"] = _REVIEW_ARRAYS[REVIEW_TYPES.get(name, "text")]([row[name] for row in rows])
    return values


_REVIEW_ARRAYS: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "text": texts,
    "bytea": byteas,
    "bigint": bigints,
    "boolean": bools,
    "double precision": doubles,
}


def _child_values(batches: Sequence[Batch]) -> dict[str, Any]:
    spawning = [(place, batch) for place, batch in enumerate(batches, start=1) if batch.children]
    if not spawning:
        return {}
    placed = [(place, child) for place, batch in spawning for child in batch.children]
    found = [child for _, child in placed]
    caps = [batch.caps for _, batch in spawning]
    return {
        "spawners": bigints([place for place, _ in spawning]),
        "w_root": texts([batch.children[0].root_run_id for _, batch in spawning]),
        "w_alive": bigints([cap.alive if cap else 0 for cap in caps]),
        "w_spawned": bigints([cap.spawned if cap else 0 for cap in caps]),
        "k_n": bigints([place for place, _ in placed]),
        "k_id": texts([child.run_id for child in found]),
        "k_workspace": texts([child.workspace_id for child in found]),
        "k_revision": texts([child.revision_id for child in found]),
        "k_session": texts([child.session_key for child in found]),
        "k_title": texts([child.title for child in found]),
        "k_trace": texts([child.trace_id for child in found]),
        "k_seed": bigints([child.seed for child in found]),
        "k_tier": texts([child.tier.value for child in found]),
        "k_queue": texts([child.queue for child in found]),
        "k_priority": bigints([PRIORITIES.index(child.priority) for child in found]),
        "k_by": texts([child.requested_by for child in found]),
        "k_caused": texts([names_text(child.caused_by) for child in found]),
        "k_context": texts([child.trace_context for child in found]),
        "k_deadline": bigints([child.deadline_at for child in found]),
        "k_format": bigints([child.format for child in found]),
        "k_parent": texts([child.parent_run_id for child in found]),
        "k_command": texts([child.parent_command for child in found]),
        "k_root": texts([child.root_run_id for child in found]),
        "k_cap": bigints([child.cap_usd_micros for child in found]),
        "k_origin": texts([child.origin_run_id for child in found]),
        "k_origin_seq": bigints([child.origin_seq for child in found]),
        "k_input": texts([child.input_id for child in found]),
        "k_body": byteas([child.input_body for child in found]),
    }


def _send_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, send) for place, batch in enumerate(batches, start=1) for send in batch.sends]
    if not placed:
        return {}
    found = [send for _, send in placed]
    return {
        "m_n": bigints([place for place, _ in placed]),
        "m_run": texts([send.run_id for send in found]),
        "m_input": texts([send.input_id for send in found]),
        "m_body": byteas([send.body for send in found]),
        "m_delay": bigints([round(send.delay_s * US) for send in found]),
        "m_wakes": bigints([send.wakes for send in found]),
        "m_format": bigints([send.format for send in found]),
    }


def _snapshot_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, batch.snapshot) for place, batch in enumerate(batches, start=1) if batch.snapshot is not None]
    if not placed:
        return {}
    found = [snapshot for _, snapshot in placed]
    return {
        "p_n": bigints([place for place, _ in placed]),
        "p_seq": bigints([snapshot.seq for snapshot in found]),
        "p_digest": texts([snapshot.digest for snapshot in found]),
        "p_head": byteas([snapshot.head for snapshot in found]),
        "p_state": byteas([snapshot.state for snapshot in found]),
        "p_refs": texts([refs_text(snapshot.refs) for snapshot in found]),
    }
