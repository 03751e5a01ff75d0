"""Requests grants from the database on a thread of its own. So a slow claim delays no money, and the loop never waits.

A request is repeated until it is answered: without the database no commit is possible, so no run can spend either.
The desk also does work that no run requests: it returns grants that others want, reports earned retry tokens, and
collects grants of dead processes (``reap``).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.spending import BucketStore, Budget, BudgetMissing, Grant, GrantStore, TokenAsk, TokensLeft
from fabric.worker.process.turn_thread import TurnThread
from fabric.worker.spending.grants import GrantRequest

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""Seconds between two looks for grants that others want back, while any is granted."""
REAP_S = 10.0
"""Seconds between two looks of a process for grants of dead ones. One that is about to refuse looks at once."""
PATIENCE_S = 3.0
"""Seconds of waiting for others to return idle grants. They look every second, and a grant is idle after one unused
second.
"""
TRY_S = 0.25
AWAY_MAX_S = 2.0
"""Longest pause in seconds between two tries while the database is away."""

Post = Callable[[Callable[[], None]], None]
"""Calls a function on the loop thread."""


class GrantHolder(Protocol):
    """The book, as the desk calls it on the loop thread."""

    def return_wanted(self, grant_ids: Sequence[str]) -> None:
        """Learn that others want these grants."""
        ...

    def tick(self) -> None:
        """Learn that about a second has passed."""
        ...

    def holds_any(self) -> bool:
        """Return True if there is anything that others could want; called on the desk's thread."""
        ...


@dataclass(slots=True)
class _GrantJob:
    ask: GrantRequest
    answered: Callable[[GrantRequest, Grant | Budget], None]
    grant_id: str
    give_up_at: float
    lowered: bool = False
    reaped: bool = False


@dataclass(slots=True)
class _Keep:
    amounts: dict[str, int]


@dataclass(slots=True)
class _Close:
    grant_ids: list[str]


@dataclass(slots=True)
class _Retry:
    asks: list[TokenAsk]
    first_in_stage: bool
    answered: Callable[[TokensLeft], None] | None
    """None: no token is taken, only credited."""


_Job = _GrantJob | _Keep | _Close | _Retry


@dataclass(slots=True)
class _Due:
    job: _Job
    at: float = 0.0
    pause_s: float = TRY_S


@dataclass(slots=True)
class _Times:
    look_at: float = 0.0
    reap_at: float = field(default_factory=float)


def new_id() -> str:
    """Return the id of a grant, in order of time, so that rows made together lie together."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class GrantDesk:
    """The desk of one process. ``incarnation`` returns the name under which grants are taken, which may change."""

    def __init__(
        self,
        grants: GrantStore,
        buckets: BucketStore,
        incarnation: Callable[[], str],
        post: Post,
        now: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self._grants, self._buckets, self._ids = grants, buckets, ids or new_id
        self._incarnation, self._post, self._now = incarnation, post, now
        self._holder: GrantHolder | None = None
        self._jobs: deque[_Due] = deque()
        self._times = _Times()
        self._leaving = threading.Lock()
        self._thread = TurnThread("fabric-grants", self.turn)

    def start(self, holder: GrantHolder) -> None:
        """Start the thread; ``holder`` learns of others' wants."""
        self.serve(holder)
        self._thread.start()

    def serve(self, holder: GrantHolder) -> None:
        """Set the holder, for callers that use ``turn`` instead of starting the thread."""
        self._holder = holder
        self._times.reap_at = self._now() + REAP_S

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the thread after one try to return grants. Open requests stay unanswered; the reaper gets grants that
        were not closed.
        """
        self._thread.stop(timeout_s)
        for due in [one for one in self._jobs if isinstance(one.job, _Close | _Keep)]:
            self._try(due)

    # -- the loop's side -----------------------------------------------------------------------------------------------

    def ask(self, ask: GrantRequest, answered: Callable[[GrantRequest, Grant | Budget], None]) -> None:
        """See ``grants.GrantClient``."""
        self._leave(_GrantJob(ask, answered, self._ids(), self._now() + PATIENCE_S))

    def keep(self, amounts: dict[str, int]) -> None:
        """See ``grants.GrantClient``."""
        self._leave(_Keep(amounts))

    def close(self, grant_ids: Sequence[str]) -> None:
        """See ``grants.GrantClient``."""
        self._leave(_Close(list(grant_ids)))

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool, answered: Callable[[TokensLeft], None]) -> None:
        """Take a retry token from each bucket; ``answered`` follows on the loop thread."""
        self._leave(_Retry(list(asks), first_in_stage, answered))

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """Credit tokens earned by first attempts."""
        self._leave(_Retry(list(asks), False, None))

    def _leave(self, job: _Job) -> None:
        with self._leaving:
            self._jobs.append(_Due(job))
        self._thread.ring()

    # -- the thread's side ---------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Do the due work; return the seconds until the next."""
        with self._leaving:
            now = self._now()
            due = [one for one in self._jobs if one.at <= now]
            self._jobs = deque(one for one in self._jobs if one.at > now)
        again = [one for one in due if not self._try(one)]
        self._look()
        with self._leaving:
            self._jobs.extend(again)
            coming = [one.at for one in self._jobs] + [self._times.reap_at]
            coming += [self._times.look_at] if self._holds() else []
        return max(0.0, min(coming) - self._now())

    def _away(self, error: StoreUnavailable) -> None:
        """Log that the database does not answer this process."""
        log.warning("shared budgets cannot be asked: %s", error)

    def _try(self, due: _Due) -> bool:
        """Try a job and return True if it is done; else set the time of its next try."""
        try:
            if self._do(due.job):
                return True
            due.pause_s = TRY_S
        except StoreUnavailable as error:
            self._away(error)
            self._spent_already(due.job, unknown=error.unknown)
            due.pause_s = min(AWAY_MAX_S, 2 * due.pause_s)
        except Exception:
            log.exception("shared budgets could not be asked")
            due.pause_s = AWAY_MAX_S
        due.at = self._now() + due.pause_s
        return False

    @staticmethod
    def _spent_already(job: _Job, *, unknown: bool) -> None:
        """Do not credit tokens again that a lost answer may have credited: fewer retries, never more."""
        if unknown and isinstance(job, _Retry):
            job.asks = [TokenAsk(one.scope, one.size) for one in job.asks]

    def _do(self, job: _Job) -> bool:
        match job:
            case _GrantJob():
                return self._take(job)
            case _Keep():
                self._grants.keep(self._incarnation(), job.amounts)
            case _Close():
                self._grants.close(self._incarnation(), job.grant_ids)
            case _Retry():
                self._tokens(job)
        return True

    def _tokens(self, job: _Retry) -> None:
        answered = job.answered
        if answered is None:
            self._buckets.earn(job.asks)
            return
        left = self._buckets.retry(job.asks, first_in_stage=job.first_in_stage)
        self._post(lambda: answered(left))

    def _take(self, job: _GrantJob) -> bool:
        ask, me = job.ask, self._incarnation()
        if ask.rests and not job.lowered:
            self._grants.keep(me, ask.rests)
            job.lowered = True
        found = self._ask_store(job, me)
        if isinstance(found, Budget) and ask.needed and not job.reaped:
            job.reaped = True
            self._grants.reap()
            found = self._ask_store(job, me)
        if isinstance(found, Budget) and ask.needed:
            idle = self._grants.reclaim(me, ask.scope)
            if found.grantable + idle >= ask.enough and self._now() < job.give_up_at:
                return False
        self._post(lambda: job.answered(ask, found))
        return True

    def _ask_store(self, job: _GrantJob, me: str) -> Grant | Budget:
        ask, cap = job.ask, job.ask.cap
        for begins in (cap is not None, False):
            try:
                return self._grants.take(me, ask.scope, grant_id=job.grant_id, enough=ask.enough, chunk=ask.chunk)
            except BudgetMissing as error:
                if not begins or cap is None:
                    log.error("refused: %s", error)
                    break
            known = {"workspace_id": cap.workspace_id}
            self._grants.set_cap(ask.scope, cap.usd_micros, **known, hourly=cap.hourly, only_new=True)
        return Budget(scope=ask.scope, cap=0, spent=0, granted=0, overrun=0, hourly=False, asked_at=0)

    def _holds(self) -> bool:
        return self._holder is not None and self._holder.holds_any()

    def _look(self) -> None:
        now, holder = self._now(), self._holder
        try:
            if holder is not None and self._holds() and now >= self._times.look_at:
                self._times.look_at = now + LOOK_S
                wanted = self._grants.list_wanted(self._incarnation())
                if wanted:
                    self._post(lambda: holder.return_wanted(wanted))
                self._post(holder.tick)
            if now >= self._times.reap_at:
                self._times.reap_at = now + REAP_S
                self._grants.reap()
        except StoreUnavailable as error:
            log.warning("shared budgets cannot be looked after: %s", error)
        except Exception:
            log.exception("shared budgets could not be looked after")
