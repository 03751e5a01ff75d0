import asyncio
import threading

import pytest

from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Cause
from fabric.tools.functions.thread_pool import CallExpired, PoolFull, ToolPool
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.asking import request
from tests.fabric.tools.functions import sample_tools

READ = ToolSpec(name="read_document")


class Held:
    """A function that says when it began and returns when it is let go."""

    def __init__(self):
        self.began, self.free = threading.Event(), threading.Event()

    def __call__(self):
        self.began.set()
        assert self.free.wait(30)
        return threading.current_thread()


def test_threads_are_bounded_and_used_again():
    async def go(pool):
        return await asyncio.gather(*(pool.call(threading.current_thread, 30) for _ in range(40)))

    pool = ToolPool(size=3)
    assert len(set(asyncio.run(go(pool)))) <= 3
    pool.close()


def test_a_call_that_outlives_its_deadline_is_left_and_counted_until_it_returns():
    async def go(pool, held):
        with pytest.raises(CallExpired, match=r"within 0\.1 seconds"):
            await pool.call(held, 0.1)
        leaked = pool.leaked_threads
        held.free.set()
        await pool.call(lambda: None, 30)  # Runs on the one thread, so the left call has returned.
        return leaked, pool.leaked_threads

    pool = ToolPool(size=1)
    assert asyncio.run(go(pool, Held())) == (1, 0)
    pool.close()


def test_a_call_that_never_began_is_refused_not_leaked():
    async def go(pool, held):
        first = asyncio.create_task(pool.call(held, 30))
        await asyncio.to_thread(held.began.wait, 30)
        ran = []
        with pytest.raises(PoolFull, match=r"no thread became free within 0\.1 seconds"):
            await pool.call(lambda: ran.append(1), 0.1)
        leaked = pool.leaked_threads
        held.free.set()
        await first
        await pool.call(lambda: None, 30)
        return leaked, ran

    pool = ToolPool(size=1)
    assert asyncio.run(go(pool, Held())) == (0, [])
    pool.close()


def test_no_more_calls_wait_than_there_are_places():
    async def go(pool, held):
        first = asyncio.create_task(pool.call(held, 30))
        await asyncio.to_thread(held.began.wait, 30)
        second = asyncio.create_task(pool.call(lambda: "second", 30))
        await asyncio.sleep(0)
        with pytest.raises(PoolFull, match="1 calls wait already"):
            await pool.call(lambda: "third", 30)
        held.free.set()
        await first
        return await second

    pool = ToolPool(size=1, waiting_max=1)
    assert asyncio.run(go(pool, Held())) == "second"
    pool.close()


def test_cancelling_lets_go_of_the_thread():
    async def go(pool, held):
        task = asyncio.create_task(pool.call(held, 30))
        await asyncio.to_thread(held.began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leaked = pool.leaked_threads
        held.free.set()
        return leaked

    pool = ToolPool(size=1)
    assert asyncio.run(go(pool, Held())) == 1
    pool.close()


def test_a_closed_pool_takes_nothing():
    pool = ToolPool(size=1)
    pool.close()
    with pytest.raises(PoolFull, match="closed"):
        asyncio.run(pool.call(lambda: None, 1))


def test_the_runner_says_timeout_for_what_began_and_queue_full_for_what_did_not():
    async def go(runner):
        stuck = await runner.run(request(READ, {"name": "x"}, within_s=0.2, documents=sample_tools.wait))
        sample_tools.STARTED.acquire(timeout=30)
        refused = await runner.run(request(READ, {"name": "x"}, within_s=0.2, documents=sample_tools.wait))
        leaked = runner.pool.leaked_threads
        sample_tools.RELEASE.set()
        await runner.pool.call(lambda: None, 30)
        return stuck, refused, leaked, runner.pool.leaked_threads

    runner = ToolRunner(pool=ToolPool(size=1))
    stuck, refused, leaked, at_the_end = asyncio.run(go(runner))
    runner.close()
    assert stuck.cause is Cause.TIMEOUT
    assert stuck.message == "tool 'read_document' did not return within 0.2 seconds"
    assert refused.cause is Cause.QUEUE_FULL
    assert (leaked, at_the_end) == (1, 0)
