"""Polls the store for due runs, their pinned revisions and new inputs. It has a thread of its own, so the host's loop
never waits for the database.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core.values.frozen import replace
from fabric.runtime.hosting.ownership import Revision, revision_pin
from fabric.runtime.hosting.polling import PollAnswer, StorePoll
from fabric.runtime.journal.loader import drop_snapshot, needs_journal
from fabric.runtime.journal.snapshots import STATE_DIGEST
from fabric.runtime.ports.journal import ClaimedRun, InboxItem, StoreUnavailable
from fabric.runtime.spending.overruns import KIND as BILLED_ABOVE
from fabric.runtime.spending.overruns import find_scope
from fabric.runtime.spending.usual_rates import KIND as USUAL_RATE
from fabric.runtime.spending.usual_rates import compares
from fabric.worker.host_ports import Ports
from fabric.worker.process.clock import MeasuredClock

log = logging.getLogger(__name__)
CLAIMS_MAX = 64
"""Runs that one poll claims at most. So a worker leaves a part of a backlog to the others, which poll meanwhile."""
KNOWN_S = 1.0


class Claimer:
    """Makes one poll at a time; requests that arrive meanwhile share the next one. ``on_answer`` is called on the
    claimer's thread.
    """

    def __init__(self, ports: Ports, queues: Sequence[str], on_answer: Callable[[PollAnswer], None]) -> None:
        self._ports, self._queues, self._on_answer = ports, queues, on_answer
        self._measured = ports.clock if isinstance(ports.clock, MeasuredClock) else None
        self._asked_at: float | None = None
        self._looked: dict[tuple[str, str], float] = {}
        self._polls: queue.SimpleQueue[StorePoll | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._answer, name="fabric-claimer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, poll: StorePoll) -> None:
        """Queue a poll; ``on_answer`` follows exactly once, whatever happens."""
        self._asked_at = time.monotonic()
        self._polls.put(poll)

    def progress(self) -> float | None:
        """Return the time of the present poll's last progress (seconds, monotonic); None: there is no poll."""
        return self._asked_at

    def stop(self) -> None:
        """End the thread after the poll under way."""
        self._polls.put(None)
        self._thread.join(timeout=10)

    def _answer(self) -> None:
        while (poll := self._polls.get()) is not None:
            answer = self._look(poll)
            self._asked_at = None  # The next poll follows from this answer.
            self._on_answer(answer)

    def _look(self, poll: StorePoll) -> PollAnswer:
        claims: Sequence[ClaimedRun] = ()
        items: Sequence[InboxItem] = ()
        owned: Sequence[str] | None
        claimed, heard, owned = False, False, None
        asked: dict[str, Any]
        limit = min(poll.room, CLAIMS_MAX)
        try:
            if limit > 0:
                asked = {"limit": limit, "queues": self._queues, "again": poll.again, "digest": STATE_DIGEST}
                claims = self._ports.store.claim(poll.incarnation, **asked, steady=self._steady())
                claims = [self._whole(one) for one in claims]
                claims = [self._add_sources(one) for one in claims]
                claimed = True
            self._asked_at = time.monotonic()
            if poll.inbox:
                items, heard = self._ports.store.inbox(poll.incarnation), True
            self._asked_at = time.monotonic()
            if poll.owned:
                owned = self._ports.store.owned_by(poll.incarnation)
        except StoreUnavailable as error:
            log.warning("database away: %s", error)
        except Exception:
            log.exception("due runs could not be looked for")
            return PollAnswer(poll, claims, self._revisions(claims), claimed=claimed, fault=True)
        more, revisions = 0 < limit == len(claims) or any(one.cut for one in claims), self._revisions(claims)
        known = self._look_up_revisions(claims, revisions)
        return PollAnswer(poll, claims, revisions, items, more, claimed, owned, known=known, heard=heard)

    def _look_up_revisions(
        self, claims: Sequence[ClaimedRun], revisions: Mapping[str, Revision | None]
    ) -> Mapping[tuple[str, str], str]:
        """Look up the facts of all claims in one query. A row that was read within ``KNOWN_S`` is not read again."""
        guards, now = self._ports.guards, time.monotonic()
        loaded = [(one.fabric_id, revisions[revision_pin(one)]) for one in claims]
        keys = {(find_scope(fabric, one.compiled.revision), BILLED_ABOVE) for fabric, one in loaded if one}
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

    def _whole(self, claimed: ClaimedRun) -> ClaimedRun:
        """Return the claim, with all of its journal where its snapshot is useless."""
        if not needs_journal(claimed):
            return claimed
        log.warning("the snapshot of run %s was changed: its journal is read from the beginning", claimed.run_id)
        return drop_snapshot(claimed, self._ports.store.journal(claimed.run_id))

    def _add_sources(self, claimed: ClaimedRun) -> ClaimedRun:
        """Return the claim, with its documents where its gates compare answers with them."""
        revision = self._revision(claimed)
        if revision is None or not revision.compiled.spec.gates.reads_sources:
            return claimed
        return replace(claimed, documents=self._ports.store.documents(claimed.run_id))

    def _revisions(self, claims: Sequence[ClaimedRun]) -> dict[str, Revision | None]:
        found: dict[str, Revision | None] = {}
        for one in claims:
            if revision_pin(one) not in found:
                found[revision_pin(one)] = self._revision(one)
        return found

    def _revision(self, claimed: ClaimedRun) -> Revision | None:
        try:
            if not claimed.policy_number:
                return self._ports.revision(claimed.revision_id)
            if self._ports.under_policy is None:
                raise LookupError("this worker was started without the policies of workspaces")
            return self._ports.under_policy(claimed)
        except Exception:
            log.exception("revision %s cannot be loaded; its runs wait", claimed.revision_id)
            return None
