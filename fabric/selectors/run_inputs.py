"""What a run was given: the request and the attached documents."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models.functions import Substr

from fabric.core.actor import Actor
from fabric.core.events import RunStarted
from fabric.models import Attachment, Event
from fabric.runtime.origin import Origin, excerpt, origin_of
from fabric.selectors.contents import content_of, shown
from fabric.selectors.runs import run_get

DOCUMENT_CHARS = 20_000
"""Of each document; what is longer says so by its size."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """One attached document: the size of its text in bytes, how it begins, and the file that it was read from."""

    name: str
    bytes: int
    begun: str
    """The beginning of its text, as it was attached; empty for who may not read it."""
    origin: Origin | None = None
    reads: bool = True
    """True: the reader may read it."""

    @property
    def text(self) -> str:
        """The same as pages and programs show it: with credentials masked."""
        found: str = shown(self.begun)
        return found

    @property
    def excerpt(self) -> str:
        """Its first words."""
        return excerpt(self.text)

    @property
    def cut(self) -> bool:
        """Whether there is more of it than ``text``."""
        return len(self.begun) >= DOCUMENT_CHARS

    @property
    def erased(self) -> bool:
        """Whether retention took its text."""
        return self.reads and self.bytes > 0 and not self.begun


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The request in full, and the documents. ``text`` None: the run has not begun, or the request was erased or damaged, or who looks may not read it."""

    text: str | None
    documents: tuple[DocumentView, ...]
    reads: bool = True


def run_inputs(actor: Actor, run_id: str) -> RunInputs:
    """What one run was given, with credentials masked. Refused not_found."""
    run = run_get(actor, run_id)
    if not run.reads:
        return RunInputs(None, documents_of(run.id, 0), reads=False)
    first = Event.objects.filter(run_id=run.id, workspace_id=actor.workspace_id, seq=1, kind=RunStarted.kind)
    payload = first.values_list("payload", flat=True).first()
    return RunInputs(_text(payload), documents_of(run.id, DOCUMENT_CHARS))


def documents_of(run_id: str, characters: int) -> tuple[DocumentView, ...]:
    """The documents of a run that the actor may see, with so many characters of each; 0: for who may not read them."""
    rows = Attachment.objects.filter(run_id=run_id).order_by("position")
    begun = rows.annotate(begin=Substr("text", 1, characters)).values_list("name", "bytes", "begin", "origin")
    reads = characters > 0
    return tuple(
        DocumentView(name, size, text if reads else "", origin_of(origin), reads) for name, size, text, origin in begun
    )


def _text(payload: bytes | memoryview | None) -> str | None:
    content = content_of(payload)
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else None
