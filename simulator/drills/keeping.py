"""Runs of virtual drills, written into the database as runs: the same tables, the same bytes, in the workspace of drills.

Their instants are those of the virtual clock. No worker ever claims them: they wait for a queue that there is not, and nothing wakes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from fabric.adapters.journal_rows import PRIORITIES
from fabric.core.envelope import Row
from fabric.core.inputs import INBOX, RunRequested
from fabric.core.spec import FabricSpec
from fabric.models import Attachment, Escalation, Event, Family, Inbox, Revision, Run
from fabric.runtime.batch_parts import EscalationChange, names_text
from fabric.runtime.ports import Document
from fabric.services.fabrics import revision_ensure
from fabric.services.workspaces import drills_workspace_ensure
from simulator.drills.models import Drill
from simulator.drills.names import QUEUE, SAID, Part, start_key
from simulator.kernel.memory_rows import InputRow, RunRow, Tables
from simulator.kernel.memory_store import MemoryStore
from simulator.kernel.swarm import Names
from simulator.kernel.world import World

log = logging.getLogger(__name__)
EVENTS_MAX = 20_000
"""A drill whose runs have more events together is not kept: a cell has some hundred."""
ROWS = 500
"""Written in one statement."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is to be kept of one drill, before it is written."""

    workspace_id: str
    """The workspace of drills."""
    drill_id: str
    title: str
    """What is drilled, in a few words."""
    spec: FabricSpec
    """The fabric as it was drilled."""
    parts: Mapping[Part, tuple[World, int]]
    """The world of each part of it, and which of the runs that were started in it. Several parts may be in one world."""

    @property
    def runs(self) -> dict[Part, str]:
        """The run of each part: ids. A run that was never started is left out."""
        found = {part: roots(world)[number : number + 1] for part, (world, number) in self.parts.items()}
        return {part: ids[0] for part, ids in found.items() if ids}

    @property
    def run_id(self) -> str:
        """The run that was disturbed; of a fabric that does not even complete undisturbed, that one."""
        return self.runs.get("during") or self.runs.get("before", "")

    @property
    def worlds(self) -> list[World]:
        """Each world once."""
        return list({id(world): world for world, _ in self.parts.values()}.values())

    @property
    def events(self) -> int:
        """How many events all of it has."""
        return sum(len(row.rows) for world in self.worlds for row in _tables(world).runs.values())

    def part_of(self, root: str) -> Part | None:
        """Which part a run is that was started from outside; None: it ran beside them."""
        return next((part for part, run_id in self.runs.items() if run_id == root), None)


def names_of(one: Drill) -> Names:
    """What the runs of a drill are called where they are to be kept: by its id, in the workspace of drills, which is made the first time."""
    return Names(one.id, drills_workspace_ensure(one.workspace_id))


def kept_of(one: Drill, title: str, spec: FabricSpec, before: World, world: World | None) -> Kept:
    """What is kept of a drill whose worlds have the names ``names_of`` it. ``world``: the disturbed one, in which the run after goes as well; None: there was none."""
    parts: dict[Part, tuple[World, int]] = {"before": (before, 0)}
    if world is not None:
        parts |= {"during": (world, 0), "after": (world, 1)}
    return Kept(drills_workspace_ensure(one.workspace_id), one.id, title, spec, parts)


def roots(world: World) -> list[str]:
    """The runs that were started from outside, in their order: ids."""
    return [run_id for run_id, row in _tables(world).runs.items() if row.new.parent_run_id is None]


def keep(kept: Kept) -> bool:
    """Writes all of it, in the caller's transaction or in one of its own. False: it is too much, and nothing was written."""
    if kept.events > EVENTS_MAX:
        log.warning("the runs of drill %s have %s events and are not kept", kept.drill_id, f"{kept.events:,}")
        return False
    with transaction.atomic():
        _, revision = revision_ensure(workspace_id=kept.workspace_id, spec=kept.spec)
        for number, world in enumerate(kept.worlds):
            _write(kept, revision, world, number)
    return True


# -- rows --------------------------------------------------------------------------------------------------------------


def _tables(world: World) -> Tables:
    assert isinstance(world.store, MemoryStore)
    return world.store.tables


def _write(kept: Kept, revision: Revision, world: World, number: int) -> None:
    ids = kept.workspace_id
    tables = _tables(world)
    runs = [_run(kept, revision, row, f"{number}.{n}") for n, row in enumerate(tables.runs.values())]
    Run.objects.bulk_create(runs, batch_size=ROWS)
    for run_id, row in tables.runs.items():
        Event.objects.bulk_create([_event(ids, run_id, one) for one in row.rows], batch_size=ROWS)
        Inbox.objects.bulk_create([_input(ids, row, one) for one in row.inbox], batch_size=ROWS)
        for place, one in enumerate(
            _attached(world, row)
        ):  # Few; in one statement PostgreSQL would unnest arrays of keys.
            Attachment.objects.create(
                run_id=run_id,
                position=place,
                workspace_id=ids,
                name=one.name,
                text=one.text,
                bytes=len(one.text.encode()),
                origin=one.origin,
            )
    asked = [_question(ids, run_id, change) for run_id, change in tables.escalations.values()]
    Escalation.objects.bulk_create(asked, batch_size=ROWS)
    for root, family in tables.families.items():
        Family.objects.create(
            root_run_id=root,
            workspace_id=ids,
            alive=family.alive,
            spawned=family.spawned,
            cap_alive=family.caps.alive,
            cap_spawned=family.caps.spawned,
        )


def _attached(world: World, row: RunRow) -> list[Document]:
    """What a run was given: the world attaches its documents by name."""
    given = INBOX.validate_json(row.new.input_body)
    named = given.request["documents"] if isinstance(given, RunRequested) else ()
    return [one for one in world.setup.documents if one.name in named]


def _run(kept: Kept, revision: Revision, row: RunRow, place: str) -> Run:
    new, columns = row.new, row.columns
    part = kept.part_of(new.run_id)
    said = new.title or f"{kept.title}: {SAID[part] if part else 'beside it'}"
    return Run(
        id=new.run_id,
        workspace_id=kept.workspace_id,
        fabric_id=revision.fabric_id,
        revision_id=revision.id,
        session_key=new.session_key,
        start_key=start_key(kept.drill_id, part or place),
        title=said,
        trace_id=new.trace_id,
        seed=new.seed,
        tier=new.tier.value,
        queue=QUEUE,
        priority=PRIORITIES.index(new.priority),
        created_at=row.inbox[0].created_at,
        created_by=new.requested_by,
        caused_by=names_text(new.caused_by),
        state=columns.state.value,
        stage=columns.stage,
        epoch=columns.epoch,
        cost_usd_micros=columns.cost_usd_micros,
        tokens=columns.tokens,
        reason=columns.reason,
        recovered=columns.recovered,
        truncated=columns.truncated,
        started_at=columns.started_at,
        ended_at=columns.ended_at,
        deadline_at=columns.deadline_at,
        last_seq=row.last_seq,
        head_hash=row.head,
        fence=row.fence,
        incarnation=None,
        wake_at=None,
        claims=row.claims,
        format=row.format,
        parent_run_id=new.parent_run_id,
        parent_command=new.parent_command,
        root_run_id=new.root_run_id,
        cap_usd_micros=new.cap_usd_micros,
        origin_run_id=new.origin_run_id,
        origin_seq=new.origin_seq,
    )


def _event(workspace_id: str, run_id: str, row: Row) -> Event:
    return Event(
        run_id=run_id,
        workspace_id=workspace_id,
        seq=row.seq,
        at=row.at,
        kind=row.kind,
        version=row.version,
        header=row.header,
        payload=row.payload,
        payload_hash=row.payload_hash,
        hash=row.hash,
    )


def _input(workspace_id: str, row: RunRow, one: InputRow) -> Inbox:
    """An input, taken: where its run's world ended before it was, the run is over for good, and the input wakes nobody."""
    return Inbox(
        run_id=row.new.run_id,
        workspace_id=workspace_id,
        input_id=one.input_id,
        body=one.body,
        created_at=one.created_at,
        visible_at=one.visible_at,
        consumed_seq=row.last_seq if one.consumed_seq is None else one.consumed_seq,
        wakes=one.wakes,
        format=one.format,
    )


def _question(workspace_id: str, run_id: str, change: EscalationChange) -> Escalation:
    return Escalation(id=change.escalation_id, workspace_id=workspace_id, run_id=run_id, **change.row)
