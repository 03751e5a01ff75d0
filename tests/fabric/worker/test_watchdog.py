"""A worker that does not work any more ends, by a code that says why."""

import asyncio
import threading
import time
from queue import SimpleQueue

from fabric.tools.functions.thread_pool import CallExpired, ToolPool
from fabric.worker.watchdog import STUCK, WORN_OUT, Watchdog, map_threads
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched, said, settled


class Left:
    """A watchdog, and how its worker ended."""

    def __init__(self, progress, worn_out=lambda: False, **given):
        self.codes, self.drained = SimpleQueue(), threading.Event()
        self.dog = Watchdog(progress, worn_out, self.drained.set, self.codes.put, look_s=0.01, **given)
        self.dog.start()

    def code(self):
        return self.codes.get(timeout=WAIT_S)


def test_a_thread_that_has_something_to_do_and_does_not_get_on_is_stuck():
    parts = {"idle": lambda: None, "slow": lambda: 41.0, "stuck": lambda: 39.0}
    dog = Watchdog(parts, lambda: False, lambda: None, lambda code: None, limit_s=60.0)
    assert dog.find_stuck(99.5) == "stuck"
    assert dog.find_stuck(99.0) == ""


def test_a_healthy_host_is_left_alone():
    site = Site(Watched())
    agents = site.agents()
    host = site.host(agents, sweep_s=0.02, beat_s=0.02)
    left = Left(map_threads(host), limit_s=5.0)
    runs = [site.create() for _ in range(20)]
    host.offer()
    site.until_released(*runs)
    settled(host)
    assert left.codes.empty()
    left.dog.stop()
    site.close()


def stuck_in(site, blocked):
    host = site.hosts[0]
    left = Left(map_threads(host), limit_s=0.3)
    assert blocked.wait(WAIT_S)
    assert left.code() == STUCK
    assert not left.drained.is_set()  # What is stuck gives nothing back.


def test_a_loop_that_is_held_up_ends_the_worker():
    site, blocked, go_on = Site(Watched()), threading.Event(), threading.Event()

    def holds_up(request):
        blocked.set()
        assert go_on.wait(WAIT_S)
        return said(request)

    site.host(site.agents(holds_up), sweep_s=0.02, beat_s=0.02)
    site.create()
    stuck_in(site, blocked)
    go_on.set()
    site.close()


def test_a_claimer_that_never_gets_its_answer_ends_the_worker():
    site = Site(Watched())
    site.store.claim_open.clear()
    site.host(site.agents(), sweep_s=0.02, beat_s=0.02)
    stuck_in(site, site.store.claiming)
    site.store.claim_open.set()
    site.close()


def test_a_writer_that_never_gets_its_answer_ends_the_worker():
    site, blocked = Site(Watched()), threading.Event()
    site.store.open.clear()
    site.host(site.agents(), sweep_s=0.02, beat_s=0.02)
    site.create()
    threading.Thread(target=lambda: (site.store.begun.get(timeout=WAIT_S), blocked.set()), daemon=True).start()
    stuck_in(site, blocked)
    site.store.open.set()
    site.close()


def test_an_idle_host_owes_nothing():
    site = Site(Watched())
    host = site.host(site.agents())
    settled(host)
    parts = map_threads(host)
    assert parts["the claimer"]() is None
    assert parts["the writer"]() is None
    parts["the loop"]()  # Asks for a turn.
    settled(host)
    while (since := parts["the loop"]()) is not None:  # One turn later it is over.
        assert time.monotonic() - since < WAIT_S
    site.close()


def test_a_worker_whose_tool_threads_are_lost_drains_and_goes():
    pool, go_on = ToolPool(size=8), threading.Event()

    async def leak():
        try:
            await pool.call(go_on.wait, 0.01)
        except CallExpired:
            return

    left = Left({}, lambda: 4 * pool.leaked_threads >= pool.size)
    asyncio.run(leak())
    assert pool.leaked_threads == 1
    assert left.codes.empty()
    asyncio.run(leak())
    assert left.code() == WORN_OUT
    assert left.drained.is_set()
    go_on.set()
    pool.close()
