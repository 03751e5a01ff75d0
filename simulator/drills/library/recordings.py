"""Records a stored run and its children for a scenario, or says why its contents cannot be replayed."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.core.events.envelope import NO_PAYLOAD, fact_json, from_row
from fabric.core.people.actor import Actor
from fabric.models import Event
from fabric.selectors.contents import given_content, mask_content, show_sentences
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.stored_events import StoredEvent, read_events
from simulator.drills.library.recorder import READ, Reader, RecordedEvent, Recording
from simulator.texts.toml import BYTES_MAX, MARKS_MAX

MASKED = "{} holds a credential, which stays masked: what depends on it may not come again"
CHILDREN_MAX = 64
"""Child runs of one capture at most."""
PARTS_MAX = MARKS_MAX // 16
"""Recorded parts of one scenario at most; each has up to 16 values."""


def record_run(actor: Actor, run: RunView) -> Recording:
    """Return the recording of a run and its children. Without parts: its notes say why there is none."""
    if not run.reads:
        return _nothing("its contents are withheld from you: its failures are repeated without them")
    found = Recording()
    left = [(run, "")]
    for one, child in left:  # It grows by the children.
        recording = Reader(child).read(_events(one, found))
        found.parts += recording.parts
        found.notes |= recording.notes
        found.whole = found.whole and recording.whole
        for child_id, command in recording.children.items():
            if len(left) > CHILDREN_MAX:
                return _nothing(
                    f"it has more than {CHILDREN_MAX} child runs: its failures are repeated without contents"
                )
            try:
                left.append((run_get(actor, child_id), f"{child}>{command}" if child else command))
            except Refused:
                found.whole = False
    if not found.whole:
        return _nothing("contents of it were erased: its failures are repeated without them")
    size = sum(len(str(value).encode("utf-8", "replace")) for one in found.parts for value in one.values())
    if size > BYTES_MAX // 3 or len(found.parts) > PARTS_MAX:
        return _nothing("its answers are too long for a scenario: its failures are repeated without them")
    return found


def _nothing(note: str) -> Recording:
    return Recording(notes={note: None}, whole=False)


def _events(run: RunView, found: Recording) -> Iterable[RecordedEvent]:
    """Yield the events of a run with masked contents. A mask is noted."""
    rows = read_events(Event.objects.filter(run_id=run.id), kinds=set(READ), contents=True, page=500)
    for row in rows:
        yield _event(row, found)


def _event(row: StoredEvent, found: Recording) -> RecordedEvent:
    fact = show_sentences(fact_json(from_row(row.seq, row.kind, row.version, row.header)))
    given = given_content(row.payload)
    content = mask_content(given)
    if content != given:
        found.notes[MASKED.format(f"event {row.seq}")] = None
    erased = row.payload is None and row.payload_hash != NO_PAYLOAD
    return RecordedEvent(row.seq, row.kind, row.at, fact, content, erased)
