"""Asks the store for due runs and new inputs on a thread of its own: the host's loop never waits for the database."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fabric.runtime.ports import Claimed, InboxItem, JournalStore, StoreUnavailable

log = logging.getLogger(__name__)
CLAIMS_MAX = 256


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask for. ``room``: how many runs may be claimed, 0 for none."""

    incarnation: str
    room: int
    inbox: bool
    """Whether inputs of the runs that are owned already are wanted too."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a question. ``more``: as many runs as were asked for, so there may be others."""

    question: Question
    claims: Sequence[Claimed] = ()
    items: Sequence[InboxItem] = ()
    more: bool = False
    fault: bool = False
    """True: looking failed for a reason that nobody thought of."""


class Claimer:
    """One question at a time; what waits meanwhile shares the next one. ``on_found`` is called on the claimer's thread."""

    def __init__(self, store: JournalStore, queues: Sequence[str], on_found: Callable[[Found], None]) -> None:
        self._store, self._queues, self._on_found = store, queues, on_found
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
        limit = min(question.room, CLAIMS_MAX)
        try:
            if limit > 0:
                claims = self._store.claim(question.incarnation, limit=limit, queues=self._queues)
            if question.inbox:
                items = self._store.inbox(question.incarnation)
        except StoreUnavailable as error:
            log.warning("database away: %s", error)
        except Exception:
            log.exception("due runs could not be looked for")
            return Found(question, claims, fault=True)
        return Found(question, claims, items, more=0 < limit == len(claims))
