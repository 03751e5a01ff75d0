"""Read a run's input: the request and the attached documents."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models.functions import Substr

from fabric.core.events import RunStarted
from fabric.core.people.actor import Actor
from fabric.models import Attachment, Event
from fabric.runtime.ports.batch_parts import Origin, excerpt, find_origin
from fabric.selectors.contents import mask_content, read_content
from fabric.selectors.runs.lookup import run_get

DOCUMENT_CHARS = 20_000
"""Largest shown part of each document; a longer one shows its size."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """One attached document: its size in bytes, its beginning, and the file that it was read from."""

    name: str
    bytes: int
    begun: str
    """The beginning of its text, as it was attached; empty for who may not read it."""
    origin: Origin | None = None
    reads: bool = True
    """True: the reader may read it."""

    @property
    def text(self) -> str:
        """The text with credentials masked, as pages and programs show it."""
        found: str = mask_content(self.begun)
        return found

    @property
    def excerpt(self) -> str:
        """Its first words."""
        return excerpt(self.text)

    @property
    def cut(self) -> bool:
        """True: the document has more than ``text``."""
        return len(self.begun) >= DOCUMENT_CHARS

    @property
    def erased(self) -> bool:
        """True: retention took its text."""
        return self.reads and self.bytes > 0 and not self.begun


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The request in full, and the documents. ``text`` None: the run has not begun, or the request was erased or
    damaged, or who looks may not read it.
    """

    text: str | None
    documents: tuple[DocumentView, ...]
    reads: bool = True


def run_inputs(actor: Actor, run_id: str) -> RunInputs:
    """Return the input of one run, with credentials masked. Refused not_found."""
    run = run_get(actor, run_id)
    if not run.reads:
        return RunInputs(None, list_documents(run.id, 0), reads=False)
    first = Event.objects.filter(run_id=run.id, workspace_id=actor.workspace_id, seq=1, kind=RunStarted.kind)
    payload = first.values_list("payload", flat=True).first()
    return RunInputs(_text(payload), list_documents(run.id, DOCUMENT_CHARS))


def list_documents(run_id: str, characters: int) -> tuple[DocumentView, ...]:
    """Return a run's documents with so many ``characters`` of each; 0 for a reader without the right."""
    rows = Attachment.objects.filter(run_id=run_id).order_by("position")
    begun = rows.annotate(begin=Substr("text", 1, characters)).values_list("name", "bytes", "begin", "origin")
    reads = characters > 0
    return tuple(
        DocumentView(name, size, text if reads else "", find_origin(origin), reads)
        for name, size, text, origin in begun
    )


def _text(payload: bytes | memoryview | None) -> str | None:
    content = read_content(payload)
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else None
