"""Checks each call of a process with its circuit breakers, and reports the result to them. Does the same for the
spending of runs.

All processes share a breaker's rows (``guards.py``); ``core/breaker/passing.py`` decides the order of steps. A call
with closed breakers, the usual case, goes out at once: it reads them in memory, where nothing is older than a second.
Without a store every call passes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar, cast
from uuid import UUID

from fabric.core.breaker.passing import (
    Gate,
    GateFinding,
    PassedBreaker,
    RowStep,
    Settling,
    count_findings,
    settle_breakers,
    trip_breakers,
)
from fabric.core.breaker.signals import NEUTRAL
from fabric.core.budgets.spend_rate import Counting, count_spending
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.inputs import CallFailed, Result
from fabric.core.values.units import US
from fabric.runtime.breakers import (
    PassedGuards,
    build_count,
    build_holder,
    build_row,
    counting_rows,
    failure_with_breakers,
    find_move,
    gates_for,
    mark_probe,
    pass_guards,
    refusal_failure,
    report_end,
    shared_for,
)
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports.journal import ClaimedRun
from fabric.runtime.ports.spending import RunLine
from fabric.worker.spending.guards import Guards

Key = tuple[str, str, int]
T = TypeVar("T")
LEAST_PERMIT_S = 1.0
"""Least seconds of a probe's permit; else it lasts until its call's deadline."""


class BreakerRun(Protocol):
    """A run that a process drives, as far as breakers need it."""

    @property
    def claimed(self) -> ClaimedRun:
        """The claim."""
        ...

    @property
    def driver(self) -> RunDriver:
        """The run in memory."""
        ...


class Breakers:
    """Circuit breakers of a process; belongs to the loop thread. ``guards`` None: there are none. ``now``:
    microseconds since the epoch.
    """

    def __init__(self, guards: Guards | None, now: Callable[[], int]) -> None:
        self._guards, self._now = guards, now
        self._met: dict[Key, tuple[PassedBreaker, ...]] = {}
        self._counting: dict[Key, tuple[Counting, ...]] = {}

    def stop(self) -> None:
        """Report the counts. Call it after the loop's end."""
        if self._guards is not None:
            self._guards.stop()

    async def passes(self, calling: BreakerRun, command: CallModel | CallTool) -> CallFailed | None:
        """Check a call with its breakers: return the failure of a refused one, None when it may go out."""
        guards, run, compiled = self._guards, calling.driver.run, calling.driver.compiled_fabric
        mine = calling.claimed
        gates = gates_for(mine.fabric_id, compiled, run, command)
        shared = shared_for(mine.fabric_id, compiled, command)
        if guards is None or not (gates or shared):
            return None
        guards.start()
        key = (run.id, command.command_id, command.attempt)
        permit_s = max(LEAST_PERMIT_S, (command.deadline_at - self._now()) / US)
        past = await _take_steps(guards, pass_guards(gates, shared), build_holder(*key), permit_s)
        if not isinstance(past, PassedGuards):
            return refusal_failure(past, compiled, calling.driver.run, command)
        self._met[key], self._counting[key] = past.met, counting_rows(past, compiled, calling.driver.run, command)
        return None

    async def note_result(self, calling: BreakerRun, command: CallModel | CallTool, result: Result) -> Result:
        """Return a result with the breaker that it probed. A failure also has the breakers' facts on it and on the
        possible fallbacks.
        """
        guards, run, compiled = self._guards, calling.driver.run, calling.driver.compiled_fabric
        key = (run.id, command.command_id, command.attempt)
        met = self._met.get(key, ())
        result = mark_probe(met, result)
        if guards is None or not isinstance(result, CallFailed):
            return result
        said = failure_with_breakers(met, calling.claimed.fabric_id, compiled, run, command, result)
        return await _take_steps(guards, said, build_holder(*key), LEAST_PERMIT_S)

    def record_answer(self, key: Key, result: Result | None, calling: BreakerRun | None) -> None:
        """Record a call's result after its run has taken it. None: no request was made, or another worker owns the run
        by now.
        """
        if met := self._met.pop(key, ()):
            self._say(key, report_end(met, result, None if calling is None else calling.driver.run))
        if counted := self._counting.pop(key, ()):
            self._say(key, count_spending(counted, result))

    def opens(self, run_id: str, gates: Iterable[Gate], judged: Iterable[GateFinding] = ()) -> None:
        """Open breakers at a trip that no call of the run would report. ``judged``: findings of gates, to be counted
        first.
        """
        if self._guards is not None:
            self._guards.start()
            self._say((run_id, "", 0), count_findings(judged))
            self._say((run_id, "", 0), trip_breakers(gates))

    def drop_calls(self, keys: Iterable[Key]) -> None:
        """Drop cancelled calls: they count as neither, and their permits are given back."""
        for key in keys:
            self._counting.pop(key, None)
            if met := self._met.pop(key, ()):
                self._say(key, settle_breakers(met, NEUTRAL, frozenset()))

    def _say(self, key: Key, steps: Settling) -> None:
        assert self._guards is not None
        _carry_on(self._guards, steps, build_holder(*key), None)


async def _take_steps(guards: Guards, steps: Generator[RowStep, Any, T], holder: str, permit_s: float) -> T:
    """Take steps to their end."""
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as found:
            return cast("T", found.value)
        answer = await _answer_step(guards, step, holder, permit_s)


async def _answer_step(guards: Guards, step: RowStep, holder: str, permit_s: float) -> Any:
    """Return the answer to a step of a call on its way."""
    key = (step.key.scope, step.key.kind)
    if step.do == "look":
        while (row := guards.row(*key)) is None:
            await _wait_for_answer(lambda told: guards.look([key], lambda: told(True)))
        return row
    if step.do == "left":
        return await _budget_left(guards, step.key.scope)
    seen = build_row(step)
    if step.do == "change":
        return await _wait_for_answer(lambda told: guards.change(seen, step.state, told, line=_line(step, holder)))
    if step.do == "permit":

        def late(given: bool) -> None:
            if given:
                guards.give_up(seen, holder)

        return await _wait_for_answer(lambda told: guards.permit(seen, holder, permit_s, told, most=step.most), late)
    _tell(guards, step, holder)
    return None


async def _wait_for_answer(
    ask: Callable[[Callable[[bool], None]], None], late: Callable[[bool], object] = bool
) -> bool:
    """Return the answer to ``ask``, which comes on the loop. ``late``: receives an answer after the waiter was
    cancelled.
    """
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def answer_later(given: bool) -> None:
        if answer.done():
            late(given)
        else:
            answer.set_result(given)

    ask(answer_later)
    return await answer


async def _budget_left(guards: Guards, scope: str) -> int | None:
    """Return the rest of a budget."""
    answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def answer_later(left: int | None) -> None:
        if not answer.done():
            answer.set_result(left)

    guards.read_rest(scope, answer_later)
    return await answer


def _carry_on(guards: Guards, steps: Settling, holder: str, answer: Any) -> None:
    """Carry out the steps at a call's end, up to one that needs an answer; continue with the answer. No caller waits
    for it.
    """

    def go_on(answered: Any) -> None:
        _carry_on(guards, steps, holder, answered)

    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        if step.do == "change":
            held = holder if step.held else ""
            guards.change(build_row(step), step.state, go_on, holder=held, keeps=step.keeps, line=_line(step, holder))
            return
        if step.do == "look":
            _look(guards, (step.key.scope, step.key.kind), go_on)
            return
        _tell(guards, step, holder)
        answer = None


def _line(step: RowStep, holder: str) -> RunLine | None:
    return find_move(step, holder, str(UUID(int=secrets.randbits(128), version=4)))


def _look(guards: Guards, key: tuple[str, str], on: Callable[[Any], None]) -> None:
    """Answer with the row, as soon as it was read."""
    row = guards.row(*key)
    if row is None:
        guards.look([key], lambda: _look(guards, key, on))
    else:
        on(row)


def _tell(guards: Guards, step: RowStep, holder: str) -> None:
    if step.do == "count":
        guards.count(build_count(step))
    elif step.do == "give_up":
        guards.give_up(build_row(step), holder)
