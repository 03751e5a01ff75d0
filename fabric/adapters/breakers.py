"""The circuit breakers of a process, and what runs spend together: takes each call past those in front of it, and tells them what became of it.

A breaker's rows are shared by all processes (``guards.py``); which step follows which is ``core/breaker/passing.py``'s. A call that finds its breakers closed, as
nearly all do, goes out at once: they are looked at in memory, where nothing is older than a second. Without a store every call passes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar, cast
from uuid import UUID

from fabric.adapters.guards import Guards
from fabric.core.breaker.passing import Gate, Judged, Met, Settling, Step, judging, settled, tripping
from fabric.core.breaker.signals import NEUTRAL, US
from fabric.core.commands import CallModel, CallTool
from fabric.core.inputs import CallFailed, Result
from fabric.core.shared_pace import Counting, spent
from fabric.runtime.breaking import (
    Past,
    counted,
    counting,
    ended,
    gates_for,
    holder_of,
    move_of,
    probing,
    refused,
    row_of,
    shared_for,
    taken,
    told,
)
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import RunLine
from fabric.runtime.ports import Claimed

Key = tuple[str, str, int]
T = TypeVar("T")
LEAST_PERMIT_S = 1.0
"""For so long a probe has its permit at least; else until its call's deadline."""


class Calling(Protocol):
    """A run that a process drives, as far as it matters here."""

    @property
    def claimed(self) -> Claimed:
        """As it was claimed."""
        ...

    @property
    def driver(self) -> RunDriver:
        """It in memory."""
        ...


class Breakers:
    """``guards`` None: there are none. ``now``: microseconds since the epoch. Belongs to the loop thread."""

    def __init__(self, guards: Guards | None, now: Callable[[], int]) -> None:
        self._guards, self._now = guards, now
        self._met: dict[Key, tuple[Met, ...]] = {}
        self._counting: dict[Key, tuple[Counting, ...]] = {}

    def stop(self) -> None:
        """Tells what was counted. For whoever ended the loop before."""
        if self._guards is not None:
            self._guards.stop()

    async def passes(self, calling: Calling, command: CallModel | CallTool) -> CallFailed | None:
        """Takes a call past its breakers: the failure of one that was refused, None when it may go out."""
        guards, run, compiled = self._guards, calling.driver.run, calling.driver.compiled
        mine = calling.claimed
        gates = gates_for(mine.fabric_id, compiled, run, command)
        shared = shared_for(mine.fabric_id, compiled, command)
        if guards is None or not (gates or shared):
            return None
        guards.start()
        key = (run.id, command.command_id, command.attempt)
        permit_s = max(LEAST_PERMIT_S, (command.deadline_at - self._now()) / US)
        past = await _through(guards, taken(gates, shared), holder_of(*key), permit_s)
        if not isinstance(past, Past):
            return refused(past, compiled, calling.driver.run, command)
        self._met[key], self._counting[key] = past.met, counting(past, compiled, calling.driver.run, command)
        return None

    async def noted(self, calling: Calling, command: CallModel | CallTool, result: Result) -> Result:
        """A result, with the breaker that it probed; a failure with what breakers say of it and of the models that may be asked instead."""
        guards, run, compiled = self._guards, calling.driver.run, calling.driver.compiled
        key = (run.id, command.command_id, command.attempt)
        met = self._met.get(key, ())
        result = probing(met, result)
        if guards is None or not isinstance(result, CallFailed):
            return result
        said = told(met, calling.claimed.fabric_id, compiled, run, command, result)
        return await _through(guards, said, holder_of(*key), LEAST_PERMIT_S)

    def answered(self, key: Key, result: Result | None, calling: Calling | None) -> None:
        """What became of a call, after its run has taken it in; None: nobody was asked, or the run is somebody else's by now."""
        if met := self._met.pop(key, ()):
            self._say(key, ended(met, result, None if calling is None else calling.driver.run))
        if counted := self._counting.pop(key, ()):
            self._say(key, spent(counted, result))

    def opens(self, run_id: str, gates: Iterable[Gate], judged: Iterable[Judged] = ()) -> None:
        """Opens breakers at a trip that no call of the run would tell them. ``judged``: what gates found, to be counted first."""
        if self._guards is not None:
            self._guards.start()
            self._say((run_id, "", 0), judging(judged))
            self._say((run_id, "", 0), tripping(gates))

    def dropped(self, keys: Iterable[Key]) -> None:
        """Calls that were let go of: they say nothing, and what they were permitted is given back."""
        for key in keys:
            self._counting.pop(key, None)
            if met := self._met.pop(key, ()):
                self._say(key, settled(met, NEUTRAL, frozenset()))

    def _say(self, key: Key, steps: Settling) -> None:
        assert self._guards is not None
        _carry_on(self._guards, steps, holder_of(*key), None)


async def _through(guards: Guards, steps: Generator[Step, Any, T], holder: str, permit_s: float) -> T:
    """Takes steps to their end."""
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as found:
            return cast("T", found.value)
        answer = await _asked(guards, step, holder, permit_s)


async def _asked(guards: Guards, step: Step, holder: str, permit_s: float) -> Any:
    """What a step of a call on its way is answered with."""
    key = (step.key.scope, step.key.kind)
    if step.do == "look":
        while (row := guards.row(*key)) is None:
            await _told(lambda told: guards.look([key], lambda: told(True)))
        return row
    if step.do == "left":
        return await _left(guards, step.key.scope)
    seen = row_of(step)
    if step.do == "change":
        return await _told(lambda told: guards.change(seen, step.state, told, line=_line(step, holder)))
    if step.do == "permit":

        def late(given: bool) -> None:
            if given:
                guards.give_up(seen, holder)

        return await _told(lambda told: guards.permit(seen, holder, permit_s, told, most=step.most), late)
    _tell(guards, step, holder)
    return None


async def _told(ask: Callable[[Callable[[bool], None]], None], late: Callable[[bool], object] = bool) -> bool:
    """Waits for an answer that comes on the loop. ``late``: what is done with one that nobody waits for any more."""
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def told(given: bool) -> None:
        if answer.done():
            late(given)
        else:
            answer.set_result(given)

    ask(told)
    return await answer


async def _left(guards: Guards, scope: str) -> int | None:
    """What is left of a budget."""
    answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def told(left: int | None) -> None:
        if not answer.done():
            answer.set_result(left)

    guards.left(scope, told)
    return await answer


def _carry_on(guards: Guards, steps: Settling, holder: str, answer: Any) -> None:
    """Carries out what the end of a call says, up to what has to be answered; goes on when it is. Nobody waits for it."""

    def on(answered: Any) -> None:
        _carry_on(guards, steps, holder, answered)

    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        if step.do == "change":
            held = holder if step.held else ""
            guards.change(row_of(step), step.state, on, holder=held, keeps=step.keeps, line=_line(step, holder))
            return
        if step.do == "look":
            _look(guards, (step.key.scope, step.key.kind), on)
            return
        _tell(guards, step, holder)
        answer = None


def _line(step: Step, holder: str) -> RunLine | None:
    return move_of(step, holder, str(UUID(int=secrets.randbits(128), version=4)))


def _look(guards: Guards, key: tuple[str, str], on: Callable[[Any], None]) -> None:
    """Answers with the row, as soon as it has been looked at."""
    row = guards.row(*key)
    if row is None:
        guards.look([key], lambda: _look(guards, key, on))
    else:
        on(row)


def _tell(guards: Guards, step: Step, holder: str) -> None:
    if step.do == "count":
        guards.count(counted(step))
    elif step.do == "give_up":
        guards.give_up(row_of(step), holder)
