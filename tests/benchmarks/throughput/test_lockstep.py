import threading
from queue import SimpleQueue

from fabric.runtime.ports.journal import BatchFate
from tests.benchmarks.throughput.lockstep import LockstepWriter
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Gate, owned


def test_a_flush_begins_when_every_client_has_a_batch_ready():
    store, done = Gate(), SimpleQueue()
    writer = LockstepWriter(store)
    writer.expect(3)
    writer.start()
    first, second, third = owned(store, 3)
    writer.submit(first.batch(), done.put)
    writer.submit(second.batch(), done.put)
    while writer.count_waiting() == 2:  # Until the thread has taken what it can.
        pass
    assert store.flushes == []
    writer.submit(third.batch(), done.put)
    assert [done.get(timeout=WAIT_S) for _ in range(1)] == [BatchFate.COMMITTED]
    held = [run for flush in store.flushes for run in flush]
    assert first.run_id in held
    writer.one_less()
    writer.one_less()
    assert [done.get(timeout=WAIT_S) for _ in range(2)] == [BatchFate.COMMITTED] * 2
    assert len(store.flushes) <= 3
    assert writer.close(WAIT_S)


def test_who_has_no_more_runs_is_not_waited_for():
    store, done = Gate(), threading.Event()
    writer = LockstepWriter(store)
    writer.expect(2)
    writer.start()
    (journal,) = owned(store, 1)
    writer.submit(journal.batch(), lambda fate: done.set())
    assert store.flushes == []
    writer.one_less()
    assert done.wait(WAIT_S)
    assert writer.close(WAIT_S)
