import asyncio
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from fabric.adapters.calls import CallLoop, Key
from fabric.core.inputs import CallFailed, ToolFinished
from fabric.core.taxonomy import Cause

WAIT_S = 20


def key(number: int = 1, run: str = "run") -> Key:
    return (run, f"call-{number}", 1)


def result(of: Key, said: str = "") -> ToolFinished:
    return ToolFinished(command_id=of[1], attempt=of[2], result=said)


class Reports:
    """What the loop reported, one entry a report, and the threads it was reported on."""

    def __init__(self) -> None:
        self.seen: SimpleQueue[list] = SimpleQueue()
        self.threads: set[int] = set()

    def __call__(self, results):
        self.threads.add(threading.get_ident())
        self.seen.put(results)

    def next(self):
        return self.seen.get(timeout=WAIT_S)


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def calls(reports: Reports) -> Iterator[CallLoop]:
    made = CallLoop(reports, limit=1000)
    made.start()
    yield made
    made.stop()
    assert not made._thread.is_alive()


def gate(calls: CallLoop) -> asyncio.Event:
    """An event that is opened from a test by ``open_``."""
    return asyncio.Event()


def open_(calls: CallLoop, event: asyncio.Event) -> None:
    calls._loop.call_soon_threadsafe(event.set)


def settle(calls: CallLoop, reports: Reports) -> list:
    """A call that is begun after everything before it and answers at once: what is reported until then."""
    mark = key(0, "mark")

    async def answered():
        return result(mark)

    calls.submit(mark, answered)
    calls.flush()
    found: list = []
    while mark not in [one for one, _ in found]:
        found += reports.next()
    return [one for one, _ in found if one != mark]


def test_calls_begin_with_flush_and_results_of_one_turn_are_one_report(calls, reports):
    event, begun = gate(calls), SimpleQueue()

    async def waits(of):
        begun.put(of)
        await event.wait()
        return result(of)

    keys = [key(n) for n in range(8)]
    for one in keys:
        calls.submit(one, lambda one=one: waits(one))
    assert settle(calls, reports) == []
    assert sorted(begun.get(timeout=WAIT_S) for _ in keys) == keys
    open_(calls, event)
    together = reports.next()
    assert [one for one, _ in together] == keys
    assert together[3][1] == result(keys[3])
    assert reports.threads == {calls._thread.ident}


def test_calls_wait_for_flush(calls, reports):
    begun = threading.Event()

    async def never_begun():
        begun.set()
        return result(key())

    calls.submit(key(), never_begun)
    turned = threading.Event()
    calls._loop.call_soon_threadsafe(turned.set)
    assert turned.wait(WAIT_S)
    assert not begun.is_set()
    calls.flush()
    assert begun.wait(WAIT_S)


def test_an_aborted_call_reports_nothing_and_is_told(calls, reports):
    begun, told = threading.Event(), threading.Event()

    async def waits():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()
        return result(key())

    calls.submit(key(), waits)
    calls.flush()
    assert begun.wait(WAIT_S)
    calls.abort(key())
    calls.flush()
    assert told.wait(WAIT_S)
    assert settle(calls, reports) == []
    assert calls.inflight == 0
    assert key() not in calls._tasks


def test_a_port_that_answers_although_it_was_let_go_of_is_not_heard(calls, reports):
    begun = threading.Event()

    async def stubborn():
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return result(key(), "too late")

    calls.submit(key(), stubborn)
    calls.flush()
    assert begun.wait(WAIT_S)
    calls.abort(key())
    calls.flush()
    assert settle(calls, reports) == []


def test_a_call_aborted_before_its_first_turn_leaves_nothing_behind(calls, reports):
    begun = threading.Event()

    async def never_begun():
        begun.set()
        return result(key())

    calls.submit(key(), never_begun)
    calls.abort(key())
    calls.flush()
    assert settle(calls, reports) == []
    assert not begun.is_set()
    assert key() not in calls._tasks


def test_a_run_s_calls_are_let_go_of_together_and_nobody_else_s(calls, reports):
    event = gate(calls)

    async def waits(of):
        await event.wait()
        return result(of)

    mine = [key(n, "mine") for n in range(3)]
    other = key(1, "other")
    for one in (*mine, other):
        calls.submit(one, lambda one=one: waits(one))
    calls.flush()
    collected = key(9, "mine")
    calls.submit(collected, lambda: waits(collected))
    calls.abort_run("mine")
    calls.flush()
    assert settle(calls, reports) == []
    open_(calls, event)
    assert [one for one, _ in reports.next()] == [other]
    assert settle(calls, reports) == []


@pytest.mark.parametrize("error", [ValueError("no such thing"), asyncio.CancelledError("from inside a library")])
def test_a_port_that_raises_becomes_a_failed_call(calls, reports, error):
    async def raises():
        raise error

    calls.submit(key(), raises)
    calls.flush()
    [(of, failed)] = reports.next()
    assert of == key()
    assert isinstance(failed, CallFailed)
    assert (failed.command_id, failed.attempt, failed.cause, failed.billed) == ("call-1", 1, Cause.UNKNOWN, True)
    assert failed.message == f"the adapter failed: {type(error).__name__}: {error}"


def test_no_more_calls_are_out_than_the_limit_and_the_rest_take_turns(reports):
    calls = CallLoop(reports, limit=3)
    calls.start()
    out, most, begun = set(), [], SimpleQueue()

    async def waits(of, event):
        out.add(of)
        most.append(len(out))
        begun.put(of)
        await event.wait()
        out.discard(of)
        return result(of)

    events = {key(n): asyncio.Event() for n in range(7)}
    for one, event in events.items():
        calls.submit(one, lambda one=one, event=event: waits(one, event))
    calls.flush()
    for _ in range(7):
        one = begun.get(timeout=WAIT_S)
        open_(calls, events[one])
    found = []
    while len(found) < 7:
        found += reports.next()
    calls.stop()
    assert max(most) == calls.inflight_peak == 3
    assert calls.inflight == 0


def test_an_aborted_call_makes_room_for_the_next(reports):
    calls = CallLoop(reports, limit=1)
    calls.start()
    begun = threading.Event()

    async def waits():
        begun.set()
        await asyncio.Event().wait()

    calls.submit(key(1), waits)
    calls.flush()
    assert begun.wait(WAIT_S)
    calls.abort(key(1))
    assert settle(calls, reports) == []
    calls.stop()


def test_300_calls_at_once_are_on_one_thread(calls, reports):
    before, threads, event, all_out = threading.active_count(), set(), gate(calls), threading.Event()

    async def waits(of):
        threads.add(threading.get_ident())
        if calls.inflight == 300:
            all_out.set()
        await event.wait()
        return result(of)

    for n in range(300):
        calls.submit(key(n), lambda n=n: waits(key(n)))
    calls.flush()
    assert all_out.wait(WAIT_S)
    assert threading.active_count() == before
    open_(calls, event)
    assert len(reports.next()) == 300
    assert threads == {calls._thread.ident}
    assert calls.inflight_peak == 300


def test_stopping_lets_ports_clean_up_and_reports_nothing(reports):
    calls = CallLoop(reports, limit=10)
    calls.start()
    begun, cleaned = threading.Event(), []

    async def waits():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # As a client that closes its connection does.
            cleaned.append(True)

    calls.submit(key(), waits)
    calls.flush()
    assert begun.wait(WAIT_S)
    calls.stop()
    assert cleaned == [True]
    assert not calls._thread.is_alive()
    assert calls._loop.is_closed()
    assert reports.seen.empty()
