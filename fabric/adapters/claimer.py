"""Asks the store for due runs, the revisions they are pinned to, and new inputs, on a thread of its own: the host's loop never waits for the database."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fabric.adapters.owned import Ports, Revision
from fabric.runtime.ports import Claimed, InboxItem, StoreUnavailable

log = logging.getLogger(__name__)
CLAIMS_MAX = 256


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask for. ``room``: how many runs may be claimed, 0 for none."""

    incarnation: str
    room: int
    inbox: bool
    """Whether inputs of the runs that are owned already are wanted too."""
    again: Sequence[str] = ()
    """Runs that may be this incarnation's without its host's knowing: see ``JournalStore.claim``."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a question. ``more``: as many runs as were asked for, so there may be others."""

    question: Question
    claims: Sequence[Claimed] = ()
    revisions: Mapping[str, Revision | None] = field(default_factory=dict)
    """The revisions that the claimed runs are pinned to, by row id; None: it cannot be loaded."""
    items: Sequence[InboxItem] = ()
    more: bool = False
    claimed: bool = False
    """Whether the store answered the claim."""
    fault: bool = False
    """True: looking failed for a reason that nobody thought of."""


class Claimer:
    """One question at a time; what waits meanwhile shares the next one. ``on_found`` is called on the claimer's thread."""

    def __init__(self, ports: Ports, queues: Sequence[str], on_found: Callable[[Found], None]) -> None:
        self._ports, self._queues, self._on_found = ports, queues, on_found
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._answer, name="fabric-claimer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def ask(self, question: Question) -> None:
        """Asks; ``on_found`` follows, once, whatever happens."""
        self._questions.put(question)

    def stop(self) -> None:
        """Ends the thread after the question under way."""
        self._questions.put(None)
        self._thread.join(timeout=10)

    def _answer(self) -> None:
        while (question := self._questions.get()) is not None:
            self._on_found(self._look(question))

    def _look(self, question: Question) -> Found:
        claims: Sequence[Claimed] = ()
        items: Sequence[InboxItem] = ()
        claimed = False
        limit = min(question.room, CLAIMS_MAX)
        try:
            if limit > 0:
                claims = self._ports.store.claim(
                    question.incarnation, limit=limit, queues=self._queues, again=question.again
                )
                claimed = True
            if question.inbox:
                items = self._ports.store.inbox(question.incarnation)
        except StoreUnavailable as error:
            log.warning("database away: %s", error)
        except Exception:
            log.exception("due runs could not be looked for")
            return Found(question, claims, self._revisions(claims), claimed=claimed, fault=True)
        return Found(question, claims, self._revisions(claims), items, 0 < limit == len(claims), claimed)

    def _revisions(self, claims: Sequence[Claimed]) -> dict[str, Revision | None]:
        return {revision_id: self._revision(revision_id) for revision_id in {one.revision_id for one in claims}}

    def _revision(self, revision_id: str) -> Revision | None:
        try:
            return self._ports.revision(revision_id)
        except Exception:
            log.exception("revision %s cannot be loaded; its runs wait", revision_id)
            return None
