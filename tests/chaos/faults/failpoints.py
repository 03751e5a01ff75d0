"""Named places in a worker or a starter at which chaos strikes, wrapped around the ports: the product has no hooks for it.

``FABRIC_FAULTS=tests.chaos.faults.failpoints.wrap`` puts them there (read by ``fabric/composition/engine.py``); ``FABRIC_CHAOS`` names the folder. A ticket is a file
there with the place's name: the process that comes by and takes it away (one can) writes down that it dies here, and kills itself with SIGKILL.
At ``write.unknown`` no process dies: the commit has happened and its answer is lost.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolFinished
from fabric.runtime.ports.calls import ModelPort, ModelRequest, ToolPort, ToolRequest
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, JournalStore, NewRun, Nudge, StoreUnavailable
from fabric.runtime.ports.spending import Budget, Grant, GrantStore, ReaperWork

FOLDER = "FABRIC_CHAOS"
WORKER_PLACES = ("claim.after", "write.before", "write.after", "effect.before", "effect.after")
LINGER_S = 0.3
"""Before a write a process takes so long to die that a call which does not wait for its intent has gone out by then."""
UNDOING_PLACES = ("compensate.before", "compensate.between", "compensate.after")
"""Around the request that undoes something; ``between``: before one that is not the first of its run."""
UNDO = "undo."
"""Prefix of the id of a compensation (``fabric/core/values/command_ids.py``)."""
STARTER_PLACES = ("start.created", "start.nudged")
GRANT_PLACES = (
    "grant.take.before",
    "grant.take.after",
    "grant.keep.before",
    "grant.keep.after",
    "grant.close.before",
    "grant.close.after",
    "grant.reap.before",
    "grant.reap.after",
)
"""Around what a worker asks of shared budgets: an amount, giving some of it back, closing it, closing what the dead held."""
LOST_ANSWER = "write.unknown"
PLACES = (*WORKER_PLACES, *UNDOING_PLACES, *STARTER_PLACES, *GRANT_PLACES, LOST_ANSWER)
REFUSED = "refused.ndjson"
"""One line for each write that the store refused as another worker's."""
DEATHS = "deaths.ndjson"
"""One line for each process that killed itself: ``{"place", "pid", "at"}``."""


def ticket(folder: Path, place: str) -> Path:
    """The file that stands for one strike at a place."""
    return folder / f"ticket-{place}"


class Failpoints:
    """The places of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tickets = {place: os.fspath(ticket(folder, place)) for place in PLACES}

    def taken(self, place: str) -> bool:
        """Return True if a ticket for the place lay there and is this process's now."""
        try:
            os.unlink(self._tickets[place])  # noqa: PTH108 - The fastest way to ask: it is asked at every step of every run.
        except FileNotFoundError:
            return False
        return True

    def reach(self, place: str) -> None:
        """Dies here if a ticket says so."""
        if self.taken(place):
            if place == "write.before":
                time.sleep(LINGER_S)
            self.note(DEATHS, place=place, pid=os.getpid())
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, file: str, **said: Any) -> None:
        """Appends a line of JSON with the time, microseconds since the epoch: the machine's, also where the process is shown another (``skew``)."""
        at = time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000
        line = json.dumps({**said, "at": at}).encode() + b"\n"
        opened = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(opened, line)
        finally:
            os.close(opened)


class _Around:
    """A method that is not named below is the port's own."""

    def __init__(self, port: Any, places: Failpoints) -> None:
        self._port, self._places = port, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class StoreAround(_Around):
    """A ``JournalStore``."""

    _port: JournalStore

    def create(self, run: NewRun, **more: Any) -> tuple[str, bool]:
        """``start.created``: the run is there, and no worker has heard of it."""
        made = self._port.create(run, **more)
        self._places.reach("start.created")
        return made

    def claim(self, incarnation: str, *, limit: int, queues: Sequence[str], **more: Any) -> list[ClaimedRun]:
        """``claim.after``: runs are owned, and nothing was done for them."""
        claimed = self._port.claim(incarnation, limit=limit, queues=queues, **more)
        if claimed:
            self._places.reach("claim.after")
        return claimed

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """``write.before``, ``write.after``, ``write.unknown``. Notes what was refused as another worker's."""
        self._places.reach("write.before")
        fates = self._port.write(batches)
        self._places.reach("write.after")
        for batch, fate in zip(batches, fates, strict=True):
            if fate is BatchFate.FENCED:
                self._places.note(
                    REFUSED, run=batch.run_id, fence=batch.fence, last_seq=batch.last_seq, pid=os.getpid()
                )
        if self._places.taken(LOST_ANSWER):
            raise StoreUnavailable("the answer to a commit was lost on purpose", unknown=True)
        return fates


class ModelsAround(_Around):
    """A ``ModelPort``."""

    _port: ModelPort

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """``effect.before``, ``effect.after``."""
        self._places.reach("effect.before")
        result = await self._port.ask(request)
        self._places.reach("effect.after")
        return result


class ToolsAround(_Around):
    """A ``ToolPort``."""

    _port: ToolPort

    async def run(self, request: ToolRequest) -> ToolFinished | CallFailed:
        """The same places as a model's; what undoes something has places of its own too."""
        undoing = request.command_id.startswith(UNDO)
        self._places.reach("effect.before")
        if undoing:
            self._places.reach("compensate.before")
            if request.command_id != f"{UNDO}1":
                self._places.reach("compensate.between")
        result = await self._port.run(request)
        if undoing:
            self._places.reach("compensate.after")
        self._places.reach("effect.after")
        return result


class NudgeAround(_Around):
    """A ``Nudge``."""

    _port: Nudge

    def wake(self, run_id: str) -> None:
        """``start.nudged``: a worker heard of the run, and its caller did not."""
        self._port.wake(run_id)
        self._places.reach("start.nudged")


class GrantsAround(_Around):
    """A ``GrantStore``."""

    _port: GrantStore

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """``grant.take.before``; ``grant.take.after``: an amount is this process's, and this process does not know."""
        self._places.reach("grant.take.before")
        found = self._port.take(incarnation, scope, grant_id=grant_id, enough=enough, chunk=chunk)
        if isinstance(found, Grant):
            self._places.reach("grant.take.after")
        return found

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """``grant.keep.before``, ``grant.keep.after``."""
        self._places.reach("grant.keep.before")
        self._port.keep(incarnation, amounts)
        self._places.reach("grant.keep.after")

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """``grant.close.before``, ``grant.close.after``."""
        self._places.reach("grant.close.before")
        closed = self._port.close(incarnation, grant_ids)
        self._places.reach("grant.close.after")
        return closed

    def reap(self) -> ReaperWork:
        """``grant.reap.before``; ``grant.reap.after``: something of the dead was closed."""
        self._places.reach("grant.reap.before")
        reaped = self._port.reap()
        if reaped.grants or reaped.reservations:
            self._places.reach("grant.reap.after")
        return reaped


AROUND: Mapping[str, Callable[[Any, Failpoints], Any]] = {
    "store": StoreAround,
    "models": ModelsAround,
    "tools": ToolsAround,
    "nudge": NudgeAround,
    "grants": GrantsAround,
}


def wrap(name: str, port: Any) -> Any:
    """A port with its places around it: what FABRIC_FAULTS names. As it is for one without any; KeyError without FABRIC_CHAOS."""
    around, folder = AROUND.get(name), Path(os.environ[FOLDER])
    return port if around is None else around(port, Failpoints(folder))
