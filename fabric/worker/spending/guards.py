"""Keeps a process's view of the guard rows that all processes share: unreported counts, and rows with their reading
time.

Counts are reported at most every 250 ms, together; rows in memory are never older than a second. Each decision goes
to the database alone: a change is one conditional update on the generation that was seen, and the permits of probes
are exact. There is no policy here: the guards themselves decide on counts and changes of state. Calls are made on the
loop thread, which never waits; answers come back on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from fabric.core.values.frozen import replace
from fabric.core.values.units import US
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.spending import GrantStore, GuardRow, GuardStore, RunLine, SignalCount
from fabric.worker.process.turn_thread import TurnThread

log = logging.getLogger(__name__)
FLUSH_S = 0.25
FRESH_S = 1.0
"""Largest age of a shown row, in seconds."""
REFRESH_S = 0.5
"""Age in seconds at which a row in use is read again."""
USED_S = 5.0
"""Seconds for which a row is in use after a request."""
IDLE_S = 60.0
AWAY_S = 0.5
LAST_MAX = 1_000
"""Largest number of requests, and their successors, that are carried out at the end."""

Key = tuple[str, str]
Post = Callable[[Callable[[], None]], None]
CountKey = tuple[str, str, int, str, bool]


class Guards:
    """Guard rows of a process. ``post`` calls a function on the loop thread; ``now`` is a monotonic clock, in
    seconds.
    """

    def __init__(
        self,
        store: GuardStore,
        post: Post,
        now: Callable[[], float] = time.monotonic,
        grants: GrantStore | None = None,
    ) -> None:
        self._store, self._post, self._now, self._grants = store, post, now, grants
        self._lock = threading.Lock()
        self._counts: dict[CountKey, SignalCount] = {}
        self._rows: dict[Key, tuple[float, GuardRow]] = {}
        self._used_at: dict[Key, float] = {}
        self._jobs: deque[Callable[[], None]] = deque()
        self._unsaid: deque[Callable[[], None]] = deque()
        self._flush_at = 0.0
        self._thread = TurnThread("fabric-guards", self.turn)
        self._started = False

    def start(self) -> None:
        """Start the thread, once."""
        if not self._started:
            self._started = True
            self._thread.start()

    def stop(self) -> None:
        """End the thread, carry out open requests and their successors, and report the counts. Call it after the
        loop's end.
        """
        self._thread.stop()
        self._finish()
        self._flush()

    def _finish(self) -> None:
        """Open the breakers that are due to open, although the loop for their answers is gone."""
        self._post = _do_at_once
        for _ in range(LAST_MAX):
            with self._lock:
                left = self._unsaid or self._jobs
                do = left.popleft() if left else None
            if do is None:
                return
            try:
                do()
            except StoreUnavailable as error:
                log.warning("guard rows cannot be asked any more: %s", error)
                return
            except Exception:
                log.exception("guard rows could not be asked")

    # -- the loop's side -----------------------------------------------------------------------------------------------

    def row(self, scope: str, kind: str) -> GuardRow | None:
        """Return the row at most a second old, with this process's counts; None: request it (``look``). It is kept
        fresh for a while from now on.
        """
        key = (scope, kind)
        with self._lock:
            ring = key not in self._used_at
            self._used_at[key] = self._now()
            at, seen = self._rows.get(key, (0.0, None))
            ago_s = self._now() - at
            found = None if seen is None or ago_s > FRESH_S else self._as_of_now(seen, ago_s)
        if ring:
            self._thread.ring()
        return found

    def _as_of_now(self, row: GuardRow, ago_s: float) -> GuardRow:
        """Return the row with its unreported counts, at the present time: a cooldown goes on without a look."""
        row = replace(row, asked_at=row.asked_at + round(ago_s * US))
        mine = [one for one in self._counts.values() if _concerns(one, row)]
        return _add_counts(row, mine, self._now()) if mine else row

    def look(self, keys: Iterable[Key], answered: Callable[[], None]) -> None:
        """Read these rows; ``answered`` follows."""
        wanted = list(keys)

        def ask() -> None:
            self._read(wanted)
            self._answer(answered)

        self._leave(ask)

    def count(self, one: SignalCount) -> None:
        """Count a signal, in the generation under which the call passed. A streak that surely does not exist is not
        broken.
        """
        key = (one.scope, one.kind, one.generation, one.signal, one.windowed)
        if one.until and one.n:  # Stored as an instant of this process's clock, since it is reported later.
            one = replace(one, n=one.n + _us(self._now()))
        with self._lock:
            known = self._counts.get(key)
            if one.reset and not one.n and self._breaks_nothing(one, known):
                return
            self._counts[key] = one if known is None else _join_counts(known, one)
        if known is None:
            self._thread.ring()

    def _breaks_nothing(self, one: SignalCount, known: SignalCount | None) -> bool:
        at, row = self._rows.get((one.scope, one.kind), (0.0, None))
        if row is None or self._now() - at > FRESH_S:
            return False
        if row.generation > one.generation:
            return True
        stands_at = row.counts.get(one.signal, 0)
        return known is None and row.generation == one.generation and stands_at <= (row.asked_at if one.until else 0)

    def change(
        self,
        seen: GuardRow,
        state: str,
        answered: Callable[[bool], None],
        *,
        holder: str = "",
        keeps: bool = False,
        line: RunLine | None = None,
    ) -> None:
        """Change the state of an unchanged row; ``answered(False)``: it has changed, look again. ``line``: goes into
        the audit stream with it.
        """

        def ask() -> None:
            if any(one.until for one in list(self._counts.values())):
                self._flush()  # It opens no sooner than it is known how long the endpoint wants to be left alone.
            done = self._store.change(
                seen.scope, seen.kind, generation=seen.generation, state=state, holder=holder, keeps=keeps, line=line
            )
            self._forget((seen.scope, seen.kind))
            self._answer(lambda: answered(done))

        self._forget((seen.scope, seen.kind))  # Every later reader sees it changed.
        self._leave(ask)

    def merge(self, scope: str, kind: str, merged: Callable[[str], str]) -> None:
        """Change a row's state to the result of ``merged``, also against other changes meanwhile. The guards' thread
        calls it until that is done.
        """

        def ask() -> None:
            (row,) = self._store.guards([(scope, kind)])
            state = merged(row.state)
            if state != row.state and not self._store.change(scope, kind, generation=row.generation, state=state):
                self._leave(ask)

        self._leave(ask)

    def read_rest(self, scope: str, answered: Callable[[int | None], None]) -> None:
        """Request the rest of a budget, in micro-dollars; None: there is no such budget."""

        def ask() -> None:
            found = [] if self._grants is None else self._grants.budgets([scope])
            self._answer(lambda: answered(found[0].grantable if found else None))

        self._leave(ask)

    def permit(
        self, seen: GuardRow, holder: str, for_s: float, answered: Callable[[bool], None], *, most: int = 1
    ) -> None:
        """Request one of ``most`` permits to probe, for so many seconds."""

        def ask() -> None:
            key = (seen.scope, seen.kind)
            done = self._store.permit(*key, generation=seen.generation, holder=holder, for_s=for_s, most=most)
            self._forget((seen.scope, seen.kind))
            self._answer(lambda: answered(done))

        self._leave(ask)

    def give_up(self, seen: GuardRow, holder: str) -> None:
        """Give the permit back: the probe had no meaningful result. If this is lost, the permit expires."""

        def ask() -> None:
            self._store.give_up(seen.scope, seen.kind, holder=holder)

        self._leave(ask)

    def _answer(self, say: Callable[[], None]) -> None:
        with self._lock:
            self._unsaid.append(say)
        self._post(self._say)

    def _say(self) -> None:
        with self._lock:
            say = self._unsaid.popleft() if self._unsaid else None
        if say is not None:
            say()

    def _leave(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._jobs.append(job)
        self._thread.ring()

    # -- the thread's side ---------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Do the due work; return the seconds until the next. Requests are repeated until the database answers."""
        now = self._now()
        try:
            if self._counts and now >= self._flush_at:
                self._flush_at = now + FLUSH_S
                self._flush()
            while self._jobs:
                self._jobs[0]()
                with self._lock:
                    self._jobs.popleft()
            self._refresh(now)
        except StoreUnavailable as error:
            log.warning("guard rows cannot be asked: %s", error)
            return AWAY_S
        except Exception:
            log.exception("guard rows could not be asked")
            with self._lock:
                if self._jobs:
                    self._jobs.popleft()
            return AWAY_S
        return self._pause_s()

    def _flush(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            self._store.tell([_count_left(one, self._now()) for one in counts.values()])
            self._add_reported(counts.values())
        except StoreUnavailable as error:
            # A count that may have arrived is not sent again; an instant may be sent repeatedly.
            again = {key: one for key, one in counts.items() if one.until or not error.unknown}
            with self._lock:
                later, self._counts = self._counts, again
                for key, one in later.items():
                    self._counts[key] = _join_counts(again[key], one) if key in again else one
            raise

    def _add_reported(self, counts: Iterable[SignalCount]) -> None:
        """Add reported counts to the rows; for windows, only the store knows their end."""
        with self._lock:
            for one in counts:
                at, row = self._rows.get((one.scope, one.kind), (0.0, None))
                if row is not None and _concerns(one, row):
                    self._rows[one.scope, one.kind] = (at, _add_counts(row, [one], at))

    def _refresh(self, now: float) -> None:
        with self._lock:
            self._used_at = {key: at for key, at in self._used_at.items() if now - at < USED_S}
            old = [key for key in self._used_at if key not in self._rows or now - self._rows[key][0] >= REFRESH_S]
            self._rows = {key: seen for key, seen in self._rows.items() if now - seen[0] < USED_S}
        if old:
            self._read(old)

    def _read(self, keys: Sequence[Key]) -> None:
        asked_at = self._now()
        rows = self._store.guards(keys)
        with self._lock:
            for key, row in zip(keys, rows, strict=True):
                self._rows[key] = (asked_at, row)

    def _forget(self, key: Key) -> None:
        with self._lock:
            self._rows.pop(key, None)

    def _pause_s(self) -> float:
        with self._lock:
            now = self._now()
            coming = [now + IDLE_S]
            if self._counts:
                coming.append(self._flush_at)
            coming += [self._rows[key][0] + REFRESH_S if key in self._rows else now for key in self._used_at]
        return max(0.0, min(coming) - now)


def _do_at_once(do: Callable[[], None]) -> None:
    do()


def _us(now_s: float) -> int:
    return round(now_s * US)


def _concerns(one: SignalCount, row: GuardRow) -> bool:
    return (one.scope, one.kind) == (row.scope, row.kind) and (one.until or one.generation == row.generation)


def _add_counts(row: GuardRow, counted: Iterable[SignalCount], now_s: float) -> GuardRow:
    """Return the row with its unreported counts. ``now_s``: the moment of ``row.asked_at`` on this process's clock."""
    counts = dict(row.counts)
    for one in counted:
        before = 0 if one.reset and one.generation == row.generation else counts.get(one.signal, 0)
        if one.until:
            counts[one.signal] = max(before, row.asked_at + one.n - _us(now_s) if one.n else 0)
        else:
            counts[one.signal] = before + one.n
    return replace(row, counts=counts)


def _count_left(one: SignalCount, now_s: float) -> SignalCount:
    """Return a count as it is reported: an instant becomes the time left until then."""
    return replace(one, n=max(0, one.n - _us(now_s))) if one.until else one


def _join_counts(known: SignalCount, one: SignalCount) -> SignalCount:
    """Return two counts of one signal as one."""
    if one.reset:
        return one
    return replace(known, n=max(known.n, one.n) if one.until else known.n + one.n)
