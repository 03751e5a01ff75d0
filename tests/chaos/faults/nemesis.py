"""Chaos strikes an installation: one small function a strike, in a table; and a schedule drawn from a seed.

Every strike that lasts gives back how to undo it and after how many seconds. ``KINDS`` says for which installations a strike makes sense and how far
apart two of a kind are.
"""

from __future__ import annotations

import heapq
import os
import signal
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import psycopg

from tests.chaos.faults.failpoints import (
    GRANT_PLACES,
    LOST_ANSWER,
    STARTER_PLACES,
    UNDOING_PLACES,
    WORKER_PLACES,
    ticket,
)
from tests.chaos.installation import Installation, Plan

PAUSE_S = 13.0
"""A lease and a beat: a worker that stands still this long has lost its runs."""
BLACKHOLE_S = 13.0
"""As long as ``tcp_user_timeout`` lets a silent peer be, and a bit. The loopback acknowledges what a dead peer would not, so the end is a cut."""
SKEW_MIN_S, SKEW_MAX_S = 60.0, 600.0
ANYWAY = 0.25
"""Share of kills that do not look whom they hit."""
Undo = Callable[[], None]
Strike = Callable[[Installation, Random], "tuple[float, Undo] | None"]


def _worker(made: Installation, draw: Random) -> int:
    return draw.randrange(len(made.slots))


def kill(made: Installation, draw: Random) -> None:
    """SIGKILL for a worker; three times in four for one that has something to lose, if there is one."""
    first = _worker(made, draw)
    anyway = draw.random() < ANYWAY and len(made.slots) > 1  # Alone it would only ever be starting.
    for slot in made.slots[first:] + made.slots[:first]:
        if anyway or made.owns(slot):
            made.kill(slot)
            return


def failpoint(made: Installation, draw: Random) -> None:
    """A ticket for a place: the next worker or starter that comes by dies there, or loses the answer to a commit. One at a time, or no process would live
    longer than from one place to the next.
    """
    # Most often where something has happened outside and nothing was written of it yet.
    places = [*WORKER_PLACES, *UNDOING_PLACES, *7 * ["effect.after"], *STARTER_PLACES, LOST_ANSWER]
    place = draw.choice(places)
    if not any(ticket(made.folder, one).exists() for one in places):
        ticket(made.folder, place).touch()


def between(made: Installation, draw: Random) -> None:
    """A ticket for the place where something has happened outside and nothing was written of it yet."""
    ticket(made.folder, "effect.after").touch()


def grants(made: Installation, draw: Random) -> None:
    """A ticket for a place around shared budgets. Most are passed seldom, so those of several lie there at once. What is held for minutes is closed by
    a worker that stops in order, so one of them stops so.
    """
    place = draw.choice([*GRANT_PLACES, *2 * ["grant.take.before", "grant.take.after"]])
    ticket(made.folder, place).touch()
    holder = next((slot for slot in made.slots if slot.pid and made.owns(slot)), None)
    if place.startswith("grant.close.") and holder is not None:
        made.restarted.add(holder.pid)
        holder.signal(signal.SIGTERM)


def pause(made: Installation, draw: Random) -> tuple[float, Undo]:
    """SIGSTOP for a worker until its lease is over, then SIGCONT: a zombie."""
    slot = made.slots[_worker(made, draw)]
    pid = slot.pid
    made.parts("pause", slot)
    slot.signal(signal.SIGSTOP)
    return PAUSE_S, partial(_continue, [pid])


def skew(made: Installation, draw: Random) -> tuple[float, Undo]:
    """A worker's wall clock is set forward or back by minutes, and right again later; the time that passes and the database's clock go on as they do."""
    slot = made.slots[_worker(made, draw)]
    slot.set_wall(draw.choice((-1, 1)) * draw.uniform(SKEW_MIN_S, SKEW_MAX_S))
    return draw.uniform(5.0, 15.0), partial(slot.set_wall, 0.0)


def restart(made: Installation, draw: Random) -> None:
    """The database is ended where it stands, and started again at once."""
    if made.server is not None:
        made.parts("restart", *made.slots)
        made.server.restart()


def terminate(made: Installation, draw: Random) -> None:
    """The database ends some of the connections that are open."""
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fabric' AND pid <> pg_backend_pid()"
    )
    if made.server is not None:
        made.parts("terminate", *made.slots)
        with suppress(psycopg.Error), psycopg.connect(made.server.url(), autocommit=True) as connection:
            connection.execute(f"{statement} AND random() < {draw.uniform(0.2, 1.0):.2f}".encode())


def cut(made: Installation, draw: Random) -> None:
    """Every connection of a worker to the database is reset."""
    number = _worker(made, draw)
    made.parts("cut", made.slots[number])
    made.proxies[number].cut()


def blackhole(made: Installation, draw: Random) -> tuple[float, Undo]:
    """Swallow what a worker and the database say to each other, then reset the connections."""
    number = _worker(made, draw)
    proxy = made.proxies[number]
    made.parts("blackhole", made.slots[number])
    proxy.mode = "blackhole"
    return BLACKHOLE_S, proxy.heal


def delay(made: Installation, draw: Random) -> tuple[float, Undo]:
    """Everything between a worker and the database takes 200 ms longer."""
    proxy = made.proxies[_worker(made, draw)]
    proxy.mode = "delay"
    return draw.uniform(2.0, 8.0), proxy.heal


def flush(made: Installation, draw: Random) -> None:
    """The broker forgets every message."""
    if made.broker is not None:
        with suppress(Exception):  # One that is down has nothing to forget.
            made.broker.flush()


def broker(made: Installation, draw: Random) -> tuple[float, Undo] | None:
    """The broker is away for some seconds."""
    if made.broker is None:
        return None
    made.broker.stop()
    return draw.uniform(1.0, 12.0), made.broker.start


def slow_disk(made: Installation, draw: Random) -> tuple[float, Undo] | None:
    """The database's own writers stand still, and sometimes its backends too, as they do when a disk does not answer."""
    if made.server is None:
        return None
    titles = ["checkpointer", "walwriter", "background writer", *(["fabric fabric"] if draw.random() < 0.5 else [])]
    pids = (
        set(made.server.children(*titles)) - made.rows.backends
    )  # A process that lets them go on would wait for them.
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    return draw.uniform(1.0, 4.0), partial(_continue, pids)


def lock(made: Installation, draw: Random) -> tuple[float, Undo] | None:
    """Another connection keeps SQLite's one write lock for two seconds."""
    file = next(Path(made.environment["FABRIC_DATA"]).glob("*.sqlite3"))
    held = sqlite3.connect(file, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        held.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        held.close()
        return None
    return 2.0, partial(_let_go, held)


def disk_full(made: Installation, draw: Random) -> tuple[float, Undo] | None:
    """Not a byte is left on the disk that the database's tables lie on, for some seconds."""
    if made.disk is None:
        return None
    ballast = made.disk / "ballast"
    with ballast.open("wb") as file:
        free = os.statvfs(made.disk)
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    return 5.0, partial(ballast.unlink, missing_ok=True)


def _continue(pids: Collection[int]) -> None:
    for pid in filter(None, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _let_go(held: sqlite3.Connection) -> None:
    with closing(held):
        held.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class Kind:
    """A strike, how many seconds lie between two of them, and where it makes sense."""

    strike: Strike
    apart_s: tuple[float, float]
    on: Callable[[Plan], bool] = lambda plan: True
    once: bool = False
    kills: bool = False


def _on_postgresql(plan: Plan) -> bool:
    return plan.db == "postgresql"


KINDS: dict[str, Kind] = {
    "kill": Kind(kill, (2.0, 6.0), kills=True),
    "failpoint": Kind(failpoint, (1.0, 4.0), kills=True),
    "grants": Kind(grants, (2.0, 6.0), kills=True),
    "pause": Kind(pause, (15.0, 40.0), lambda plan: plan.workers > 1),  # Alone it has no other worker to be late for.
    "skew": Kind(skew, (3.0, 12.0), _on_postgresql),  # On SQLite the machine's clock is the database's.
    "restarts": Kind(restart, (5.0, 40.0), _on_postgresql),
    "terminate": Kind(terminate, (5.0, 20.0), _on_postgresql),
    "cut": Kind(cut, (4.0, 15.0), _on_postgresql),
    "blackhole": Kind(blackhole, (30.0, 90.0), _on_postgresql),
    "delay": Kind(delay, (15.0, 45.0), _on_postgresql),
    "flush": Kind(flush, (5.0, 20.0), lambda plan: plan.broker != "files"),
    "broker": Kind(broker, (20.0, 60.0), lambda plan: plan.broker != "files"),
    "slow_disk": Kind(slow_disk, (15.0, 45.0), _on_postgresql),
    "lock": Kind(lock, (8.0, 25.0), lambda plan: plan.db == "sqlite"),
    "disk_full": Kind(disk_full, (5.0, 25.0), lambda plan: plan.small_disk, once=True),
}
"""Every strike there is, by the name that ``--only`` takes."""


@dataclass(frozen=True, slots=True, order=True)
class Strikes:
    """One strike of a schedule. ``at_s``: seconds of disturbed time."""

    at_s: float
    name: str
    seed: str
    """What its own draws come from."""


def schedule(seed: int, names: Collection[str]) -> Iterator[Strikes]:
    """All strikes in order, without end. Each kind draws for itself, so that leaving one out changes nothing for the others."""
    draws = {name: Random(f"{seed}/{name}") for name in names}
    heap = [_next(name, draws[name], 0.0, 0, seed) for name in names]
    heapq.heapify(heap)
    numbers = dict.fromkeys(names, 0)
    while heap:
        strike = heapq.heappop(heap)
        yield strike
        if not KINDS[strike.name].once:
            numbers[strike.name] += 1
            heapq.heappush(heap, _next(strike.name, draws[strike.name], strike.at_s, numbers[strike.name], seed))


def _next(name: str, draw: Random, after_s: float, number: int, seed: int) -> Strikes:
    return Strikes(after_s + draw.uniform(*KINDS[name].apart_s), name, f"{seed}/{name}/{number}")
