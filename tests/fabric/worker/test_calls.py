"""Calls on one asyncio loop: how they begin, how they are let go of, what is reported together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.worker.calls import Calls, Key

WAIT_S = 30.0


def key(n: int = 1, run: str = "run") -> Key:
    return (run, f"call-{n}", 1)


def result(of: Key, text: str = "fine") -> ModelReplied:
    return ModelReplied(command_id=of[1], attempt=of[2], text=text)


class Scene:
    """Calls on the running loop, and what they report."""

    def __init__(self, limit: int = 1000) -> None:
        self.reports: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.calls = Calls(asyncio.get_running_loop(), self.reports.put_nowait, limit=limit)
        self.gate = asyncio.Event()
        self.begun: list[Key] = []

    async def next(self) -> list[Any]:
        return await asyncio.wait_for(self.reports.get(), WAIT_S)

    async def settle(self) -> list[Key]:
        """A call that is begun after everything before it and answers at once: what is reported until then."""
        mark = key(0, "mark")

        async def answered():
            return result(mark)

        self.calls.begin(mark, answered)
        found: list[Key] = []
        while mark not in found:
            found += [one for one, _ in await self.next()]
        return [one for one in found if one != mark]

    def waiting(self, of: Key) -> None:
        """Begins a call that answers when the gate opens."""

        async def waits():
            self.begun.append(of)
            await self.gate.wait()
            return result(of)

        self.calls.begin(of, waits)


def on_a_loop(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def test_results_of_one_turn_are_one_report():
    async def scene():
        made = Scene()
        keys = [key(n) for n in range(8)]
        for one in keys:
            made.waiting(one)
        assert await made.settle() == []
        assert made.begun == keys
        made.gate.set()
        together = await made.next()
        assert [one for one, _ in together] == keys
        assert together[3][1] == result(keys[3])
        assert not made.calls._tasks

    on_a_loop(scene)


def test_an_aborted_call_reports_nothing_and_is_told():
    async def scene():
        made, told = Scene(), []

        async def waits():
            made.begun.append(key())
            try:
                await made.gate.wait()
            finally:
                told.append(True)
            return result(key())

        made.calls.begin(key(), waits)
        assert await made.settle() == []
        assert made.begun == [key()]
        assert made.calls.inflight == 1
        made.calls.abort(key())
        assert await made.settle() == []
        assert told == [True]
        assert made.calls.inflight == 0
        assert key() not in made.calls._tasks

    on_a_loop(scene)


def test_a_port_that_answers_although_it_was_let_go_of_is_not_heard():
    async def scene():
        made = Scene()

        async def stubborn():
            try:
                await made.gate.wait()
            except asyncio.CancelledError:
                return result(key(), "too late")

        made.calls.begin(key(), stubborn)
        assert await made.settle() == []
        made.calls.abort(key())
        assert await made.settle() == []
        assert not made.calls._tasks

    on_a_loop(scene)


def test_a_call_aborted_before_its_first_turn_leaves_nothing_behind():
    async def scene():
        made = Scene()
        made.waiting(key())
        made.calls.abort(key())
        assert await made.settle() == []
        assert made.begun == []
        assert key() not in made.calls._tasks

    on_a_loop(scene)


def test_a_call_that_is_not_out_may_be_aborted():
    async def scene():
        made = Scene()
        made.calls.abort(key())
        made.calls.abort_run("run")
        made.waiting(key())
        assert await made.settle() == []
        assert made.begun == [key()]
        await made.calls.end()

    on_a_loop(scene)


def test_a_run_s_calls_are_let_go_of_together_and_no_others():
    async def scene():
        made = Scene()
        mine, other = [key(n, "mine") for n in range(3)], key(1, "other")
        for one in (*mine, other):
            made.waiting(one)
        assert await made.settle() == []
        made.waiting(key(9, "mine"))
        made.calls.abort_run("mine")
        assert await made.settle() == []
        made.gate.set()
        assert [one for one, _ in await made.next()] == [other]
        assert await made.settle() == []

    on_a_loop(scene)


@pytest.mark.parametrize("error", [ValueError("no such thing"), asyncio.CancelledError("from inside a library")])
def test_a_port_that_raises_becomes_a_failed_call(error):
    async def raises():
        raise error

    async def scene():
        made = Scene()
        made.calls.begin(key(), raises)
        [(of, failed)] = await made.next()
        assert of == key()
        assert isinstance(failed, CallFailed)
        assert (failed.command_id, failed.attempt, failed.cause, failed.billed) == ("call-1", 1, Cause.UNKNOWN, True)
        assert failed.message == f"the adapter failed: {type(error).__name__}: {error}"

    on_a_loop(scene)


def test_no_more_calls_are_out_than_the_limit_and_the_rest_take_turns():
    async def scene():
        made, most = Scene(limit=3), []
        events = {key(n): asyncio.Event() for n in range(7)}
        begun: asyncio.Queue[Key] = asyncio.Queue()

        async def waits(of):
            most.append(made.calls.inflight)
            begun.put_nowait(of)
            await events[of].wait()
            return result(of)

        for one in events:
            made.calls.begin(one, lambda one=one: waits(one))
        for _ in events:
            events[await begun.get()].set()
        found: list[Any] = []
        while len(found) < 7:
            found += await made.next()
        assert max(most) == made.calls.inflight_peak == 3
        assert made.calls.inflight == 0

    on_a_loop(scene)


def test_an_aborted_call_makes_room_for_the_next():
    async def scene():
        made = Scene(limit=1)
        made.waiting(key(1))
        await asyncio.sleep(0)
        assert made.begun == [key(1)]
        made.calls.abort(key(1))
        assert await made.settle() == []

    on_a_loop(scene)


def test_300_calls_at_once_need_no_further_thread():
    async def scene():
        made, before = Scene(), threading.active_count()
        for n in range(300):
            made.waiting(key(n))
        assert await made.settle() == []
        assert made.calls.inflight == 300
        assert threading.active_count() == before
        made.gate.set()
        assert len(await made.next()) == 300
        assert made.calls.inflight_peak == 301, "and the mark"

    on_a_loop(scene)


def test_ending_lets_ports_clean_up_and_reports_nothing():
    async def scene():
        made, cleaned = Scene(), []

        async def waits():
            try:
                await made.gate.wait()
            finally:
                await asyncio.sleep(0)  # As a client that closes its connection does.
                cleaned.append(True)

        made.calls.begin(key(), waits)
        assert await made.settle() == []
        await made.calls.end()
        assert cleaned == [True]
        assert made.reports.empty()

    on_a_loop(scene)
