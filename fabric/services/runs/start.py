"""Starts runs. A run is inserted with its first input in one transaction; its owner moves it from there."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from fabric.adapters.documents.attachments import AttachmentRefused, check_documents
from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.events.inputs import INBOX, RunRequested
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.schema.payloads import Request
from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import digest
from fabric.core.values.labels import join_labels
from fabric.core.values.taxonomy import Tier
from fabric.core.values.tracing import Caller
from fabric.core.values.units import US
from fabric.models import Inbox, Priority, Run, new_id
from fabric.runtime.ports.journal import Document, JournalStore, NewRun, Nudge
from fabric.selectors.contents import mask_content
from fabric.selectors.fabrics.lookup import fabric_get, revision_spec
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.stops import find_stop
from fabric.services.acts import audit_entry
from fabric.services.errors import Refused, store_answers
from fabric.services.rights import right_wanted
from fabric.services.runs.labels import clean_labels
from fabric.stores.errors import StartStopped

TEXT_BYTES_MAX = 64 * 1024
KEY_CHARS_MAX = 200
TITLE_CHARS = 120
REASON_CHARS_MAX = 1_000
STOPPED = "new_runs_stopped"
"""Field of a refusal while new runs are stopped; programs know it by that."""

Class = Literal["critical", "high", "normal", "low"]
PRIORITY_OF: dict[Tier, Class] = {Tier.INTERACTIVE: "high", Tier.BATCH: "low", Tier.HIGH_STAKES: "critical"}
"""Default class of a run, by tier (docs/specification/protections.md)."""

NO_LABELS: Mapping[str, str] = {}
NO_CALLER = Caller()
_queue = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A requested run. ``created`` False: an earlier request with this start key created it."""

    run_id: str
    created: bool


def machine_now() -> int:
    """Return microseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000


def run_start(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    fabric: str,
    text: str,
    documents: Sequence[Document] = (),
    tier: Tier | str | None = None,
    priority: str | None = None,
    session_key: str = "",
    start_key: str = "",
    queue: str = "default",
    labels: Mapping[str, str] = NO_LABELS,
    caller: Caller = NO_CALLER,
    now: Callable[[], int] = machine_now,
) -> StartedRun:
    """Pin the published revision, draw the seed, fix the deadline, insert the run and wake a host.

    A repeated ``start_key`` with an equal request returns the first run. Raises Refused: forbidden, not_found, invalid,
    too_large, conflict (the key was another request's), unavailable. ``now``: microseconds since the epoch.
    """
    right_wanted(actor.place_at(fabric), Right.RUN, "start runs")
    request, kept = read_request(text), _documents(documents)
    session, start = build_key("session_key", session_key), build_key("start_key", start_key)
    queue, checked = _check_queue(queue), clean_labels(labels)
    asked = digest(fabric, request, str(tier or ""), priority or "", session, queue, *_list_beside(kept, checked))
    if start and (earlier := earlier_start(actor, start, start_id(asked))):
        return earlier
    view = fabric_get(actor, fabric)
    spec = revision_spec(view.revision_id)
    picked = _tier(spec, tier)
    new = NewRun(
        run_id=new_id(),
        workspace_id=actor.workspace_id,
        revision_id=view.revision_id,
        tier=picked,
        queue=queue,
        priority=_priority(priority, picked),
        session_key=session,
        start_key=start,
        seed=secrets.randbits(63),
        trace_id=caller.trace_id or f"{secrets.randbits(128) or 1:032x}",
        trace_context=caller.pack(),
        title=find_title(request),
        documents=kept,
        labels=tuple(checked.items()),
        **_first_input(actor, asked, request, kept, now() + round(spec.policy.deadlines_of(picked).run_s * US)),
    )
    return insert_run(store, nudge, new, actor, view.name)


def _list_beside(documents: Sequence[Document], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield documents and labels as parts of a request's digest. A request without labels has the digest it always
    had.
    """
    yield from (part for one in documents for part in (one.name, one.text))
    if labels:
        yield join_labels(labels)


def _check_queue(queue: str) -> str:
    """Return the queue. Raises Refused: invalid."""
    if not _queue.fullmatch(queue):
        message = f"{queue[:40]!r} is no queue; use lower-case letters, digits, - and _"
        raise Refused(message, code="invalid", field="queue")
    return queue


def start_id(asked: str) -> str:
    """Return the id of a run's first input, which names the request."""
    return f"start:{asked}"


def _first_input(
    actor: Actor, asked: str, request: str, documents: tuple[Document, ...], deadline_at: int
) -> dict[str, Any]:
    """Return the fields of ``NewRun`` with ``RunRequested``, whose id names the request."""
    sizes = tuple(len(one.text.encode()) for one in documents)
    payload = Request(text=request, documents=tuple(one.name for one in documents), document_bytes=sizes)
    body = RunRequested(
        input_id=start_id(asked),
        request=payload.model_dump(mode="json", exclude={"note"}),  # A first try has no note.
        deadline_at=deadline_at,
        requested_by=actor.name,
        caused_by=actor.behind,
    )
    first = {
        "requested_by": actor.name,
        "caused_by": actor.behind,
        "input_id": body.input_id,
        "input_body": INBOX.dump_json(body),
        "format": INBOX.format_of(body),
    }
    return {"deadline_at": deadline_at, **first}


def insert_run(store: JournalStore, nudge: Nudge, new: NewRun, actor: Actor, fabric: str) -> StartedRun:
    """Insert the run, record it and wake a host. Raises Refused: conflict (its start key was used for another
    request, or new runs are stopped), unavailable.
    """
    try:
        with store_answers():
            run_id, created = store.create(new, audit=_build_entry(actor, new))
    except StartStopped:
        raise _refuse_start(actor, fabric) from None
    if not created:
        # Two requests with one key came at once, and the other one was first.
        _same_request(run_id, new.start_key, new.input_id)
    nudge.wake(run_id)
    return StartedRun(run_id, created)


def _refuse_start(actor: Actor, fabric: str) -> Refused:
    stop = find_stop(actor, fabric)
    if stop is None:
        return Refused("new runs were stopped and are allowed again: start it again", code="conflict", field=STOPPED)
    said = stop.said.removesuffix(".")
    message = f"{said}; start it again when an {holders(Right.STOP)} has allowed {stop.what}"
    return Refused(message, code="conflict", field=STOPPED)


def _build_entry(actor: Actor, new: NewRun) -> AuditEntry:
    """Return the line of the audit stream that the store inserts with the run."""
    if new.origin_run_id:
        return audit_entry(
            actor=actor, act=Act.RUN_FORKED, subject=new.origin_run_id, fork=new.run_id, seq=new.origin_seq
        )
    return audit_entry(
        actor=actor, act=Act.RUN_STARTED, subject=new.run_id, tier=new.tier.value, revision=new.revision_id
    )


def earlier_start(actor: Actor, start_key: str, input_id: str) -> StartedRun | None:
    """Return the run that this request started before, whatever happened to the fabric since."""
    run_id = Run.objects.filter(match_visible(actor, Run), start_key=start_key).values_list("id", flat=True).first()
    if run_id is None:
        return None
    _same_request(run_id, start_key, input_id)
    return StartedRun(run_id, created=False)


def _same_request(run_id: str, start_key: str, input_id: str) -> None:
    # The id of the run's first input names the request, and stays after the input was taken.
    if not Inbox.objects.filter(run_id=run_id, input_id=input_id).exists():
        message = (
            f"start_key {start_key!r} was used for another request (run {run_id}); use a new key, or ask the same again"
        )
        raise Refused(message, code="conflict", field="start_key")


# -- the request -------------------------------------------------------------------------------------------------------


def read_request(text: str) -> str:
    """Return a request's text as it is stored. Raises Refused: too_large, invalid."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > TEXT_BYTES_MAX:
        message = (
            f"the request has {size:,} bytes; at most {TEXT_BYTES_MAX:,} are taken; attach long texts as documents"
        )
        raise Refused(message, code="too_large", field="text")
    cleaned = clean_text(text)[0].strip()
    if not cleaned:
        raise Refused("the request is empty; say what you want to know or have done", code="invalid", field="text")
    return cleaned


def _documents(documents: Sequence[Document]) -> tuple[Document, ...]:
    try:
        return check_documents(documents)
    except AttachmentRefused as error:
        raise Refused(str(error), code=error.code, field="documents") from None


def find_title(request: str) -> str:
    """Return a request's first line, for lists: credentials in it are masked."""
    line: str = mask_content(" ".join(request.partition("\n")[0].split()))
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 3].rstrip()}..."


def _tier(spec: FabricSpec, tier: Tier | str | None) -> Tier:
    if tier is None or tier == "":
        return spec.tiers.default
    if tier not in spec.tiers.allowed:
        allowed = ", ".join(spec.tiers.allowed)
        message = f"fabric {spec.name!r} does not run in tier {str(tier)[:40]!r}; it allows: {allowed}"
        raise Refused(message, code="invalid", field="tier")
    return Tier(tier)


def _priority(priority: str | None, tier: Tier) -> Class:
    if priority is None or priority == "":
        return PRIORITY_OF[tier]
    if priority not in Priority.labels:
        known = ", ".join(Priority.labels)
        raise Refused(f"there is no priority {priority[:40]!r}; there are: {known}", code="invalid", field="priority")
    return cast("Class", priority)


def build_key(field: str, value: str) -> str:
    """Return a caller's key as it is stored. Raises Refused: too_large."""
    cleaned = clean_text(value)[0].strip()
    if len(cleaned) > KEY_CHARS_MAX:
        message = f"{field} has {len(cleaned):,} characters; at most {KEY_CHARS_MAX} are taken; use a shorter one"
        raise Refused(message, code="too_large", field=field)
    return cleaned
