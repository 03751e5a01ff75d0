"""Asks the store for due runs, the revisions they are pinned to, and new inputs, on a thread of its own: the host's loop never waits for the database."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabric.adapters.clock import Measured
from fabric.adapters.owned import Ports, Revision, pin_of
from fabric.core.frozen import replace
from fabric.runtime.loading import from_journal, needs_journal
from fabric.runtime.ports import Claimed, InboxItem, StoreUnavailable
from fabric.runtime.snapshots import STATE_DIGEST
from fabric.runtime.surprises import KIND as BILLED_ABOVE
from fabric.runtime.surprises import scope_of
from fabric.runtime.usual_rates import KIND as USUAL_RATE
from fabric.runtime.usual_rates import compares

log = logging.getLogger(__name__)
CLAIMS_MAX = 256
KNOWN_S = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask for. ``room``: how many runs may be claimed, 0 for none."""

    incarnation: str
    room: int
    inbox: bool
    """Whether inputs of the runs that are owned already are wanted too."""
    again: Sequence[str] = ()
    """Runs that may be this incarnation's without its host's knowing: see ``JournalStore.claim``."""
    term: int = 0
    """The lease's when it was asked: runs that are claimed now are owned in it, or in a later one."""
    owned: bool = False
    """Whether it is asked which runs are this incarnation's by their rows."""
    at: int = 0
    """When it was asked (microseconds since the epoch): what was inserted by then is in the answer."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a question. ``more``: as many runs as were asked for, or as one claim reads, so there may be others."""

    question: Question
    claims: Sequence[Claimed] = ()
    revisions: Mapping[str, Revision | None] = field(default_factory=dict)
    """The revisions that the claimed runs are pinned to, by ``pin_of``; None: it cannot be loaded."""
    items: Sequence[InboxItem] = ()
    more: bool = False
    claimed: bool = False
    """Whether the store answered the claim."""
    owned: Sequence[str] | None = None
    """The runs whose rows name this incarnation, these claims among them; None: not asked, or not answered."""
    fault: bool = False
    """True: looking failed for a reason that nobody thought of."""
    known: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Guard rows of the claimed runs' fabrics: bills above reservations and usual rates (``runtime/surprises.py``, ``usual_rates.py``), by scope and kind."""
    heard: bool = False
    """Whether the store answered what inputs there are for the runs that are owned already."""


class Claimer:
    """One question at a time; what waits meanwhile shares the next one. ``on_found`` is called on the claimer's thread."""

    def __init__(self, ports: Ports, queues: Sequence[str], on_found: Callable[[Found], None]) -> None:
        self._ports, self._queues, self._on_found = ports, queues, on_found
        self._measured = ports.clock if isinstance(ports.clock, Measured) else None
        self._asked_at: float | None = None
        self._looked: dict[tuple[str, str], float] = {}
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._answer, name="fabric-claimer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def ask(self, question: Question) -> None:
        """Asks; ``on_found`` follows, once, whatever happens."""
        self._asked_at = time.monotonic()
        self._questions.put(question)

    def progress(self) -> float | None:
        """When the question under way last got on (seconds, monotonic); None: nothing is asked."""
        return self._asked_at

    def stop(self) -> None:
        """Ends the thread after the question under way."""
        self._questions.put(None)
        self._thread.join(timeout=10)

    def _answer(self) -> None:
        while (question := self._questions.get()) is not None:
            found = self._look(question)
            self._asked_at = None  # The next question follows from this answer.
            self._on_found(found)

    def _look(self, question: Question) -> Found:
        claims: Sequence[Claimed] = ()
        items: Sequence[InboxItem] = ()
        owned: Sequence[str] | None
        claimed, heard, owned = False, False, None
        asked: dict[str, Any]
        limit = min(question.room, CLAIMS_MAX)
        try:
            if limit > 0:
                asked = {"limit": limit, "queues": self._queues, "again": question.again, "digest": STATE_DIGEST}
                claims = self._ports.store.claim(question.incarnation, **asked, steady=self._steady())
                claims = [self._whole(one) for one in claims]
                claims = [self._sourced(one) for one in claims]
                claimed = True
            self._asked_at = time.monotonic()
            if question.inbox:
                items, heard = self._ports.store.inbox(question.incarnation), True
            self._asked_at = time.monotonic()
            if question.owned:
                owned = self._ports.store.owned_by(question.incarnation)
        except StoreUnavailable as error:
            log.warning("database away: %s", error)
        except Exception:
            log.exception("due runs could not be looked for")
            return Found(question, claims, self._revisions(claims), claimed=claimed, fault=True)
        more, revisions = 0 < limit == len(claims) or any(one.cut for one in claims), self._revisions(claims)
        known = self._known(claims, revisions)
        return Found(question, claims, revisions, items, more, claimed, owned, known=known, heard=heard)

    def _known(
        self, claims: Sequence[Claimed], revisions: Mapping[str, Revision | None]
    ) -> Mapping[tuple[str, str], str]:
        """One query for all claims; a row that was looked at within ``KNOWN_S`` is not looked at again."""
        guards, now = self._ports.guards, time.monotonic()
        loaded = [(one.fabric_id, revisions[pin_of(one)]) for one in claims]
        keys = {(scope_of(fabric, one.compiled.revision), BILLED_ABOVE) for fabric, one in loaded if one}
        keys |= {
            (fabric, USUAL_RATE) for fabric, one in loaded if one and compares(one.compiled.spec.policy.cost_velocity)
        }
        self._looked = {key: at for key, at in self._looked.items() if now - at < KNOWN_S}
        wanted = sorted(keys - self._looked.keys())
        if guards is None or not wanted:
            return {}
        try:
            rows = guards.guards(wanted)
        except StoreUnavailable as error:
            log.warning("it is not known what models billed, and what fabrics spent, of late: %s", error)
            return {}
        self._looked |= dict.fromkeys(wanted, now)
        return {(row.scope, row.kind): row.state for row in rows if row.state}

    def _steady(self) -> bool:
        return self._measured is None or self._measured.steady()

    def _whole(self, claimed: Claimed) -> Claimed:
        """The claim, with all of its journal where its snapshot is of no use."""
        if not needs_journal(claimed):
            return claimed
        log.warning("the snapshot of run %s was changed: its journal is read from the beginning", claimed.run_id)
        return from_journal(claimed, self._ports.store.journal(claimed.run_id))

    def _sourced(self, claimed: Claimed) -> Claimed:
        """The claim, with its documents where its gates hold answers against them."""
        revision = self._revision(claimed)
        if revision is None or not revision.compiled.spec.gates.reads_sources:
            return claimed
        return replace(claimed, documents=self._ports.store.documents(claimed.run_id))

    def _revisions(self, claims: Sequence[Claimed]) -> dict[str, Revision | None]:
        found: dict[str, Revision | None] = {}
        for one in claims:
            if pin_of(one) not in found:
                found[pin_of(one)] = self._revision(one)
        return found

    def _revision(self, claimed: Claimed) -> Revision | None:
        try:
            if not claimed.policy_number:
                return self._ports.revision(claimed.revision_id)
            if self._ports.under_policy is None:
                raise LookupError("this worker was started without the policies of workspaces")
            return self._ports.under_policy(claimed)
        except Exception:
            log.exception("revision %s cannot be loaded; its runs wait", claimed.revision_id)
            return None
