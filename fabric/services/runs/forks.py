"""Forks: a new run that goes on from an event of another one. The origin is only read, in any state."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from pydantic import ValidationError

from fabric.core.events.envelope import UnknownEvent, read_row, verify_chain
from fabric.core.events.inputs import INBOX, ForkRequested, Kept
from fabric.core.evolve import evolve
from fabric.core.mechanisms.validation_gate import STAGE_OUTPUT
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.stages.forks import ForkPoint, find_fork_point, list_contents, names
from fabric.core.state.context import Contents, MissingContent
from fabric.core.state.demands import list_problems
from fabric.core.state.run import Run
from fabric.core.texts.text import clean
from fabric.core.values.fingerprint import ZERO_HASH, content_ref, digest, encode
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON, US
from fabric.models import new_id
from fabric.runtime.ports.journal import JournalStore, NewRun, Nudge, StoredRow
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.families import find_team
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.services.errors import Refused, store_answers
from fabric.services.rights import right_wanted
from fabric.services.runs.start import (
    StartedRun,
    build_key,
    earlier_start,
    find_title,
    insert_run,
    machine_now,
    read_request,
    start_id,
)

REQUEST = "request"
EDITABLE = (REQUEST, Stage.PLAN, Stage.FAN_IN, Stage.VALIDATE)
"""Editable parts of a fork: the request's text, or the output of a stage."""


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """A run at one of its events, with the parts that a fork keeps."""

    run: RunView
    seq: int
    hash: str
    folded: Run
    contents: Contents
    point: ForkPoint

    @property
    def request(self) -> JSON:
        """Return the original request: ``payloads.Request`` as JSON."""
        return self.contents.read(self.folded.request_ref)

    def output(self, stage: str) -> JSON:
        """Return the output of a kept stage. Raises KeyError for a stage that is not kept."""
        return self.contents.read(dict(self.point.stages)[Stage(stage)])["output"]

    @property
    def editable(self) -> tuple[str, ...]:
        """Return the parts that can be edited here."""
        kept = dict(self.point.stages)
        return (REQUEST, *(stage for stage in EDITABLE[1:] if stage in kept))


@dataclass(frozen=True, slots=True)
class ForkEdit:
    """One change by hand: ``what`` is ``request`` (``value`` its text) or a kept stage (``value`` its output as
    JSON).
    """

    what: str
    value: JSON


def fork_origin(*, store: JournalStore, actor: Actor, run_id: str, seq: int) -> ForkOrigin:
    """Return a run at one of its events. Raises Refused: not_found, invalid (no such event), conflict (nothing to
    fork there), unavailable.
    """
    run = run_get(actor, run_id)
    if not 1 <= seq <= run.last_seq:
        message = f"run {run.id} has events 1 to {run.last_seq}, and no event {seq}: pick one of them"
        raise Refused(message, code="invalid", field="seq")
    with store_answers():
        rows = [row for row in store.journal(run.id, limit=seq) if row.seq <= seq]
    folded, contents = _fold_rows(run, rows, seq)
    point = find_fork_point(folded, sources=revision_spec(run.revision_id).gates.reads_sources)
    if point.stage is None:
        message = (
            f"at event {seq} every stage of run {run.id} is passed, so nothing is left to do: fork an earlier event"
        )
        raise Refused(message, code="conflict", field="seq")
    origin = ForkOrigin(run, seq, rows[-1].hash.hex(), folded, contents, point)
    try:
        assert origin.request is not None
        dict(list_contents(point, contents))
    except MissingContent:
        message = f"contents of run {run.id} up to event {seq} were erased, so it cannot be forked there"
        raise Refused(message, code="conflict", field="seq") from None
    return origin


def _fold_rows(run: RunView, rows: list[StoredRow], upto: int) -> tuple[Run, Contents]:
    broken = verify_chain([(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in rows], ZERO_HASH)
    if broken is not None:
        message = f"the journal of run {run.id} is damaged at event {broken}: fork an earlier event"
        raise Refused(message, code="conflict", field="seq")
    folded, contents = Run(run.id, tier=run.tier), Contents()
    for row in rows:
        try:
            events = read_row(row.seq, row.kind, row.version, row.header)
        except (UnknownEvent, ValueError) as error:
            raise Refused(f"run {run.id} cannot be forked: {error}", code="conflict", field="seq") from None
        for event in events:
            folded = evolve(folded, event) if event.seq <= upto else folded
        if row.payload is not None and sha256(row.payload).digest() != row.payload_hash:
            message = f"the content of event {row.seq} of run {run.id} is damaged: fork an earlier event"
            raise Refused(message, code="conflict", field="seq")
        if row.payload is not None:
            contents.put(events[0].content_ref, json.loads(row.payload), events[0].content_bytes)
    return folded, contents


def run_fork(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    run_id: str,
    seq: int,
    edit: ForkEdit | None = None,
    start_key: str = "",
    now: Callable[[], int] = machine_now,
) -> StartedRun:
    """Start a run that goes on from event ``seq`` of another, under its revision, settings and labels.

    It keeps what the origin had settled there (``forks.find_fork_point``); money, clocks and counts begin anew. A
    repeated ``start_key`` with an equal request returns the first one. Raises Refused: forbidden, not_found, invalid,
    too_large, conflict, unavailable.
    """
    right_wanted(actor, Right.RUN, "fork runs")
    start = build_key("start_key", start_key)
    asked = digest("fork", run_id, seq, edit.what if edit else "", encode(edit.value).hex() if edit else "")
    if start and (earlier := earlier_start(actor, start, start_id(asked))):
        return earlier
    origin = fork_origin(store=store, actor=actor, run_id=run_id, seq=seq)
    view = origin.run
    deadline_at = now() + round(revision_spec(view.revision_id).policy.deadlines_of(view.tier).run_s * US)
    given = _input(origin, edit, start_id(asked), deadline_at, actor)
    new = NewRun(
        run_id=new_id(),
        workspace_id=view.workspace_id,
        revision_id=view.revision_id,
        tier=view.tier,
        queue=view.queue,
        priority=view.priority,  # type: ignore[arg-type]
        session_key=view.session_key,
        start_key=start,
        seed=secrets.randbits(63),
        trace_id=f"{secrets.randbits(128) or 1:032x}",
        title=find_title(given.request["text"]),
        deadline_at=deadline_at,
        input_id=given.input_id,
        input_body=INBOX.dump_json(given),
        format=INBOX.format_of(given),
        requested_by=actor.name,
        caused_by=actor.behind,
        documents=store.documents(view.id),
        labels=tuple(view.labels.items()),
        origin_run_id=view.id,
        origin_seq=seq,
    )
    return insert_run(store, nudge, new, actor, view.fabric_name)


def _input(origin: ForkOrigin, edit: ForkEdit | None, input_id: str, deadline_at: int, actor: Actor) -> ForkRequested:
    """Return the fork's first input: the kept parts with their edits. Everything that followed an edited part is
    done anew.
    """
    request, point = origin.request, origin.point
    contents = dict(list_contents(point, origin.contents))
    if edit is not None and edit.what == REQUEST:
        request = {**request, "text": read_request(edit.value if isinstance(edit.value, str) else "")}
        point, contents = ForkPoint(Stage.PLAN, (), ()), {}
    elif edit is not None:
        stage, content = _apply_edit(origin, edit)
        point = _up_to(point, stage, content_ref(encode(content)))
        contents = {what: contents[what] for what in names(point)} | {str(stage): content}
    return ForkRequested(
        input_id=input_id,
        request=request,
        deadline_at=deadline_at,
        origin_run_id=origin.run.id,
        origin_seq=origin.seq,
        origin_hash=origin.hash,
        stages=tuple((str(stage), ref) for stage, ref in point.stages),
        branches=point.branches,
        parts=point.parts,
        contents=tuple(Kept(what=what, content=content) for what, content in contents.items()),
        edited=edit.what if edit is not None else "",
        topology=origin.folded.topology or find_team(origin.run),
        requested_by=actor.name,
        caused_by=actor.behind,
        stopped=point.stopped,
        work=point.work,
    )


def _up_to(point: ForkPoint, edited: Stage, ref: str) -> ForkPoint:
    """Return the point without everything after the edited stage."""
    order = list(Stage)
    before = tuple((stage, kept) for stage, kept in point.stages if order.index(stage) < order.index(edited))
    later = order.index(edited) > order.index(Stage.FAN_OUT)
    branches, parts = (point.branches, point.parts) if later else ((), ())
    answers = tuple(one for one in point.answers if order.index(one[0]) <= order.index(edited))
    return ForkPoint(order[order.index(edited) + 1], (*before, (edited, ref)), branches, parts, answers)


def _apply_edit(origin: ForkOrigin, edit: ForkEdit) -> tuple[Stage, JSON]:
    if edit.what not in origin.editable:
        message = (
            f"{edit.what[:40]!r} cannot be edited at event {origin.seq}; possible are: {', '.join(origin.editable)}"
        )
        raise Refused(message, code="invalid", field="edit")
    stage = Stage(edit.what)
    try:
        output = STAGE_OUTPUT[stage].validate_python(clean(edit.value)[0])
    except ValidationError as error:
        problems = "; ".join(list_problems(error)[:3])
        raise Refused(f"the edited output of {stage} does not fit: {problems}", code="invalid", field="edit") from None
    return stage, {"output": STAGE_OUTPUT[stage].dump_python(output, mode="json")}
