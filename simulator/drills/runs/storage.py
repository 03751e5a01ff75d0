"""Writes the runs of virtual drills into the database as ordinary runs, in the workspace of drills.

Their instants are those of the virtual clock. No worker ever claims them: their queue does not exist, and nothing wakes
them. The results of an executed drill have one form in any mode.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import transaction

from fabric.core.events.envelope import JournalRow
from fabric.core.events.inputs import INBOX, RunRequested
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.models import Attachment, Event, Family, Inbox, Review, Revision, Run
from fabric.runtime.ports.batch_parts import ReviewChange, names_text
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.replay import PROJECTED
from fabric.services.actors import drills_workspace_ensure
from fabric.services.fabrics.revisions import revision_ensure
from fabric.stores.rows import PRIORITIES
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs.names import PART_WORDS, QUEUE, Part, start_key
from simulator.stores.memory.journal import MemoryStore
from simulator.stores.memory.rows import InputRow, RunRow, Tables
from simulator.swarm.setups import WorldNames
from simulator.world.world import World

log = logging.getLogger(__name__)
EVENTS_MAX = 20_000
"""Number of events of a drill's runs above which they are not kept; a cell has some hundred."""
ROWS = 500
"""Number of rows written by one statement."""


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """The runs of one drill, before they are written."""

    workspace_id: str
    """The workspace of drills."""
    drill_id: str
    title: str
    """Subject of the drill in a few words."""
    spec: FabricSpec
    """The fabric as it was drilled."""
    parts: Mapping[Part, tuple[World, int]]
    """World of each part, and number of its run among those started there. Parts may share a world."""

    @property
    def runs(self) -> dict[Part, str]:
        """Return the run id of each part. A run that never started is left out."""
        found = {part: roots(world)[number : number + 1] for part, (world, number) in self.parts.items()}
        return {part: ids[0] for part, ids in found.items() if ids}

    @property
    def run_id(self) -> str:
        """Return the id of the disturbed run; without one the undisturbed run's."""
        return self.runs.get("during") or self.runs.get("before", "")

    @property
    def worlds(self) -> list[World]:
        """Return the worlds, each once."""
        return list({id(world): world for world, _ in self.parts.values()}.values())

    @property
    def events(self) -> int:
        """Return the number of events of all runs."""
        return sum(len(row.rows) for world in self.worlds for row in _tables(world).runs.values())

    def part_of(self, root: str) -> Part | None:
        """Return the part of a run that was started from outside; None for any other run."""
        return next((part for part, run_id in self.runs.items() if run_id == root), None)


def build_names(one: Drill) -> WorldNames:
    """Return the names of a drill's runs, by its id. The workspace of drills is made the first time."""
    return WorldNames(one.id, drills_workspace_ensure(one.workspace_id))


def build_kept_runs(one: Drill, title: str, spec: FabricSpec, before: World, world: World | None) -> KeptRuns:
    """Return the runs to keep of a drill whose worlds use ``build_names``.

    ``world``: the disturbed one, which also has the run after; None without one.
    """
    parts: dict[Part, tuple[World, int]] = {"before": (before, 0)}
    if world is not None:
        parts |= {"during": (world, 0), "after": (world, 1)}
    return KeptRuns(drills_workspace_ensure(one.workspace_id), one.id, title, spec, parts)


def roots(world: World) -> list[str]:
    """Return the ids of the runs that were started from outside, in order."""
    return [run_id for run_id, row in _tables(world).runs.items() if row.new.parent_run_id is None]


def keep(kept: KeptRuns) -> bool:
    """Write all runs, in the caller's transaction or in one of its own. Return False if they are too many."""
    if kept.events > EVENTS_MAX:
        log.warning("the runs of drill %s have %s events and are not kept", kept.drill_id, f"{kept.events:,}")
        return False
    with transaction.atomic():
        _, revision = revision_ensure(workspace_id=kept.workspace_id, spec=kept.spec)
        for number, world in enumerate(kept.worlds):
            _write(kept, revision, world, number)
    return True


# -- rows ------------------------------------------------------------------------------------------------------------


def _tables(world: World) -> Tables:
    assert isinstance(world.store, MemoryStore)
    return world.store.tables


def _write(kept: KeptRuns, revision: Revision, world: World, number: int) -> None:
    ids = kept.workspace_id
    tables = _tables(world)
    runs = [_run(kept, revision, row, f"{number}.{n}") for n, row in enumerate(tables.runs.values())]
    Run.objects.bulk_create(runs, batch_size=ROWS)
    for run_id, row in tables.runs.items():
        Event.objects.bulk_create([_event(ids, run_id, one) for one in row.rows], batch_size=ROWS)
        Inbox.objects.bulk_create([_input(ids, row, one) for one in row.inbox], batch_size=ROWS)
        for place, one in enumerate(
            _attached_documents(world, row)
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
    asked = [_review(ids, run_id, change) for run_id, change in tables.reviews.values()]
    Review.objects.bulk_create(asked, batch_size=ROWS)
    for root, family in tables.families.items():
        Family.objects.create(
            root_run_id=root,
            workspace_id=ids,
            alive=family.alive,
            spawned=family.spawned,
            cap_alive=family.caps.alive,
            cap_spawned=family.caps.spawned,
        )


def _attached_documents(world: World, row: RunRow) -> list[Document]:
    """Return the documents of a run: the world attaches them by name."""
    given = INBOX.validate_json(row.new.input_body)
    named = given.request["documents"] if isinstance(given, RunRequested) else ()
    return [one for one in world.setup.documents if one.name in named]


def _run(kept: KeptRuns, revision: Revision, row: RunRow, place: str) -> Run:
    new, columns = row.new, row.columns
    part = kept.part_of(new.run_id)
    said = new.title or f"{kept.title}: {PART_WORDS[part] if part else 'beside it'}"
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
        trace_context=new.trace_context,
        state=columns.state.value,
        **{name: getattr(columns, name) for name in PROJECTED},
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


def _event(workspace_id: str, run_id: str, row: JournalRow) -> Event:
    return Event(
        run_id=run_id,
        workspace_id=workspace_id,
        seq=row.seq,
        at=row.at,
        kind=row.kind,
        version=row.version,
        more=row.last_seq - row.seq,
        header=row.header,
        payload=row.payload,
        payload_hash=row.payload_hash,
        hash=row.hash,
    )


def _input(workspace_id: str, row: RunRow, one: InputRow) -> Inbox:
    """Return a consumed input. If the world ended before, the run is over for good, and the input wakes no worker."""
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


def _review(workspace_id: str, run_id: str, change: ReviewChange) -> Review:
    return Review(id=change.review_id, workspace_id=workspace_id, run_id=run_id, **change.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """Columns of a drill's row."""

    status: Status
    verdict: str
    """``pass``, ``deviated``, ``error`` or ``unknown``."""
    expected: str = ""
    observed: str = ""
    why: str = ""
    run_id: str = ""
    """The disturbed run, if it is kept."""
    body: Mapping[str, JSON] = field(default_factory=dict)
    """Further results; JSON."""
    kept: KeptRuns | None = None
    """Its runs, which are written with its end; None if there are none, or they are written already."""
