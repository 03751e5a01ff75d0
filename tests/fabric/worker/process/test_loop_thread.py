"""One thread with one loop: messages are handed over together and in order, turns come when they were asked for, and the end is an end."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from fabric.worker.process.loop_thread import LoopThread

WAIT_S = 30.0
NEVER_S = 86_400.0


class Owner:
    """Takes turns and says so."""

    def __init__(self) -> None:
        self.turns: SimpleQueue[list[Any]] = SimpleQueue()
        self.threads: set[int] = set()
        self.pauses = iter(())
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def __call__(self, messages):
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.open.wait(WAIT_S)
        self.turns.put(messages)
        return next(self.pauses, NEVER_S)

    def next(self):
        return self.turns.get(timeout=WAIT_S)


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def loop(owner):
    made = LoopThread("test-loop", owner)
    yield made
    if made.alive:
        made.stop(nothing())
    assert not made.alive
    assert made.asyncio.is_closed()


async def nothing() -> None:
    pass


def test_the_first_turn_needs_no_message(loop, owner):
    loop.start()
    assert owner.next() == []


def test_messages_put_before_the_start_are_in_the_first_turn(loop, owner):
    loop.put(("early",))
    loop.start()
    assert owner.next() == [("early",)]


def test_what_came_while_it_was_busy_is_one_turn_in_order(loop, owner):
    owner.open.clear()
    loop.start()
    assert owner.entered.wait(WAIT_S)
    for n in range(100):
        loop.put((n,))
    owner.open.set()
    assert owner.next() == []
    assert owner.next() == [(n,) for n in range(100)]


def test_no_message_is_lost_or_told_twice_from_any_sender(loop, owner):
    loop.start()
    owner.next()
    putting = [threading.Thread(target=lambda n=n: [loop.put((n, i)) for i in range(2_000)]) for n in range(4)]
    for thread in putting:
        thread.start()
    found: list[Any] = []
    while len(found) < 8_000:
        found += owner.next()
    for thread in putting:
        thread.join(WAIT_S)
    for n in range(4):
        assert [i for of, i in found if of == n] == list(range(2_000))
    assert len(owner.threads) == 1


def test_a_turn_comes_at_the_time_that_the_last_one_named(loop, owner):
    owner.pauses = iter([0.01, 0.0, NEVER_S])
    loop.start()
    assert [owner.next() for _ in range(3)] == [[], [], []]


def test_an_earlier_time_replaces_a_later_one(loop, owner):
    owner.pauses = iter([3_600.0, 0.01])
    loop.start()
    assert owner.next() == []
    loop.put(("sooner",))
    assert owner.next() == [("sooner",)]
    assert owner.next() == []


def test_a_message_from_the_loop_itself_is_the_next_turn(loop, owner):
    loop.start()
    owner.next()
    loop.asyncio.call_soon_threadsafe(lambda: [loop.put((n,)) for n in range(3)])
    assert owner.next() == [(0,), (1,), (2,)]


def test_it_ends_after_its_last_coroutine(loop, owner):
    loop.start()
    ended = []

    async def ending():
        await asyncio.sleep(0)
        ended.append(True)

    loop.stop(ending())
    assert ended == [True]
    assert not loop.alive
    loop.put(("late",))  # No caller is there to take it, and none is disturbed.


def test_a_last_coroutine_that_fails_ends_it_too(loop):
    loop.start()

    async def ending():
        raise ValueError("no")

    loop.stop(ending())
    assert not loop.alive


def test_a_turn_that_wants_another_at_once_while_a_message_comes_in_raises_nothing(loop, owner):
    raised = []
    loop.asyncio.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    owner.pauses = iter(
        [0.0001, 0.0001]
    )  # Less than uvloop's millisecond: it makes no timer of that, but a call as soon as may be.
    owner.open.clear()
    loop.start()
    assert owner.entered.wait(WAIT_S)
    loop.put(("second",))  # Its turn stands before the one that was wanted.
    owner.open.set()
    taken = [message for _ in range(3) for message in owner.next()]
    assert taken == [("second",)]
    assert raised == []
