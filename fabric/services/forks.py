"""Forking: a new run that goes on from an event of another one. The origin is only read: it may have ended, failed or still be going on."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from fabric.core.actor import Actor
from fabric.core.context import Contents, MissingContent
from fabric.core.demands import problems_of
from fabric.core.envelope import UnknownEvent, from_row, verify_chain
from fabric.core.evolve import evolve
from fabric.core.fingerprint import ZERO_HASH, content_ref, digest, encode
from fabric.core.flow import Stage
from fabric.core.forks import ForkPoint, contents_of, kept_at, names
from fabric.core.inputs import INBOX, ForkRequested, Kept
from fabric.core.mechanisms.validation_gate import STAGE_OUTPUT
from fabric.core.roles import Right
from fabric.core.run import Run
from fabric.core.text import clean
from fabric.models import new_id
from fabric.runtime.ports import JournalStore, NewRun, Nudge, StoredRow
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.families import team_of
from fabric.selectors.runs import RunView, run_get
from fabric.services.errors import Refused, store_answers
from fabric.services.rights import right_wanted
from fabric.services.runs import (
    StartedRun,
    earlier_start,
    insert_run,
    key_of,
    machine_now,
    request_of,
    start_id,
    title_of,
)

JSON = Any
US = 1_000_000
REQUEST = "request"
EDITABLE = (REQUEST, Stage.PLAN, Stage.FAN_IN, Stage.VALIDATE)
"""What of a fork can be edited: the request's text, or what a stage passed on."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A run as it stood at one of its events, and what a fork of it keeps."""

    run: RunView
    seq: int
    hash: str
    folded: Run
    contents: Contents
    point: ForkPoint

    @property
    def request(self) -> JSON:
        """What was asked: ``payloads.Request`` as JSON."""
        return self.contents.read(self.folded.request_ref)

    def output(self, stage: str) -> JSON:
        """What a kept stage passed on. KeyError for one that is not kept."""
        return self.contents.read(dict(self.point.stages)[Stage(stage)])["output"]

    @property
    def editable(self) -> tuple[str, ...]:
        """What can be edited here."""
        kept = dict(self.point.stages)
        return (REQUEST, *(stage for stage in EDITABLE[1:] if stage in kept))


@dataclass(frozen=True, slots=True)
class Edit:
    """One change by hand: ``what`` is ``request`` (``value`` its text) or a kept stage (``value`` its output as JSON)."""

    what: str
    value: JSON


def fork_origin(*, store: JournalStore, actor: Actor, run_id: str, seq: int) -> Origin:
    """A run at one of its events. Raises Refused: not_found, invalid (no such event), conflict (nothing to fork there), unavailable."""
    run = run_get(actor, run_id)
    if not 1 <= seq <= run.last_seq:
        message = f"run {run.id} has events 1 to {run.last_seq}, and no event {seq}: pick one of them"
        raise Refused(message, code="invalid", field="seq")
    with store_answers():
        rows = store.journal(run.id, limit=seq)
    folded, contents = _folded(run, rows)
    point = kept_at(folded, sources=revision_spec(run.revision_id).gates.reads_sources)
    if point.stage is None:
        message = (
            f"at event {seq} every stage of run {run.id} is passed, so nothing is left to do: fork an earlier event"
        )
        raise Refused(message, code="conflict", field="seq")
    origin = Origin(run, seq, rows[-1].hash.hex(), folded, contents, point)
    try:
        assert origin.request is not None
        dict(contents_of(point, contents))
    except MissingContent:
        message = f"contents of run {run.id} up to event {seq} were erased, so it cannot be forked there"
        raise Refused(message, code="conflict", field="seq") from None
    return origin


def _folded(run: RunView, rows: list[StoredRow]) -> tuple[Run, Contents]:
    broken = verify_chain([(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in rows], ZERO_HASH)
    if broken is not None:
        message = f"the journal of run {run.id} is damaged at event {broken}: fork an earlier event"
        raise Refused(message, code="conflict", field="seq")
    folded, contents = Run(run.id, tier=run.tier), Contents()
    for row in rows:
        try:
            event = from_row(row.seq, row.kind, row.version, row.header)
        except (UnknownEvent, ValueError) as error:
            raise Refused(f"run {run.id} cannot be forked: {error}", code="conflict", field="seq") from None
        folded = evolve(folded, event)
        if row.payload is not None and sha256(row.payload).digest() != row.payload_hash:
            message = f"the content of event {row.seq} of run {run.id} is damaged: fork an earlier event"
            raise Refused(message, code="conflict", field="seq")
        if row.payload is not None:
            contents.put(event.content_ref, json.loads(row.payload), event.content_bytes)
    return folded, contents


def run_fork(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    run_id: str,
    seq: int,
    edit: Edit | None = None,
    start_key: str = "",
    now: Callable[[], int] = machine_now,
) -> StartedRun:
    """Starts a run that goes on from event ``seq`` of another, under the same revision, tier, queue, priority and session.

    What the origin had settled there is kept (``forks.kept_at``); money, clocks and counts begin anew. The same ``start_key`` with the
    same request is the same run. Raises Refused: forbidden, not_found, invalid, too_large, conflict, unavailable.
    """
    right_wanted(actor, Right.RUN, "fork runs")
    start = key_of("start_key", start_key)
    asked = digest("fork", run_id, seq, edit.what if edit else "", encode(edit.value).hex() if edit else "")
    if start and (earlier := earlier_start(actor, start, start_id(asked))):
        return earlier
    origin = fork_origin(store=store, actor=actor, run_id=run_id, seq=seq)
    view = origin.run
    spec = revision_spec(view.revision_id)
    deadline_at = now() + round(spec.policy.deadlines_of(view.tier).run_s * US)
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
        title=title_of(given.request["text"]),
        deadline_at=deadline_at,
        input_id=given.input_id,
        input_body=INBOX.dump_json(given),
        format=INBOX.format_of(given),
        requested_by=actor.name,
        caused_by=actor.behind,
        documents=store.documents(view.id),
        origin_run_id=view.id,
        origin_seq=seq,
    )
    return insert_run(store, nudge, new, actor)


def _input(origin: Origin, edit: Edit | None, input_id: str, deadline_at: int, actor: Actor) -> ForkRequested:
    """The fork's first input: what is kept, and what was edited in place of what stood there. Whatever followed from that is done anew."""
    request, point = origin.request, origin.point
    contents = dict(contents_of(point, origin.contents))
    if edit is not None and edit.what == REQUEST:
        request = {**request, "text": request_of(edit.value if isinstance(edit.value, str) else "")}
        point, contents = ForkPoint(Stage.PLAN, (), ()), {}
    elif edit is not None:
        stage, content = _edited(origin, edit)
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
        topology=origin.folded.topology or team_of(origin.run),
        requested_by=actor.name,
        caused_by=actor.behind,
        stopped=point.stopped,
        work=point.work,
    )


def _up_to(point: ForkPoint, edited: Stage, ref: str) -> ForkPoint:
    """Without what came after the edited stage."""
    order = list(Stage)
    before = tuple((stage, kept) for stage, kept in point.stages if order.index(stage) < order.index(edited))
    later = order.index(edited) > order.index(Stage.FAN_OUT)
    branches, parts = (point.branches, point.parts) if later else ((), ())
    answers = tuple(one for one in point.answers if order.index(one[0]) <= order.index(edited))
    return ForkPoint(order[order.index(edited) + 1], (*before, (edited, ref)), branches, parts, answers)


def _edited(origin: Origin, edit: Edit) -> tuple[Stage, JSON]:
    if edit.what not in origin.editable:
        message = (
            f"{edit.what[:40]!r} cannot be edited at event {origin.seq}; possible are: {', '.join(origin.editable)}"
        )
        raise Refused(message, code="invalid", field="edit")
    stage = Stage(edit.what)
    try:
        output = STAGE_OUTPUT[stage].validate_python(clean(edit.value)[0])
    except ValidationError as error:
        problems = "; ".join(problems_of(error)[:3])
        raise Refused(f"the edited output of {stage} does not fit: {problems}", code="invalid", field="edit") from None
    return stage, {"output": STAGE_OUTPUT[stage].dump_python(output, mode="json")}
