"""The claimer says of a claim whether more may be due, so that the host asks again at once."""

from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.hosting.polling import StorePoll
from fabric.runtime.ports.journal import CLAIM_ROWS
from fabric.runtime.spending.overruns import KIND, find_scope
from fabric.runtime.spending.usual_rates import KIND as USUAL_RATE
from fabric.worker.claimer import Claimer
from fabric.worker.process.clock import SYSTEM_CLOCK
from simulator.stores.memory.guards import MemoryGuards
from tests.benchmarks.throughput.spec import SPEC
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Gate, owned
from tests.fabric.worker.host.scenes import compile_


@pytest.fixture
def ask():
    """A store whose runs are free, and what is found by asking it."""
    store = Gate()
    found = SimpleQueue()
    ports = SimpleNamespace(store=store, guards=None, clock=SYSTEM_CLOCK, revision=lambda revision_id: None)
    claimer = Claimer(ports, ["default"], found.put)
    claimer.start()

    def asked(room):
        claimer.ask(StorePoll("host-1", room, inbox=False))
        return found.get(timeout=WAIT_S)

    yield store, asked
    claimer.stop()


def freed(store, *rows):
    """So many runs as numbers are given, with journals of so many rows, due at once."""
    journals = owned(store, len(rows))
    for journal, number in zip(journals, rows, strict=True):
        store.write([journal.batch(number, content=None, release=True, wake_at=1)])


def test_a_claim_that_was_cut_for_what_it_reads_is_asked_for_again(ask):
    store, asked = ask
    freed(store, CLAIM_ROWS // 2 + 1, CLAIM_ROWS // 2 + 1, 1)
    assert [(len(found.claims), found.more) for found in (asked(10), asked(10), asked(10))] == [
        (1, True),
        (2, False),
        (0, False),
    ]


def test_a_full_claim_is_asked_for_again_and_one_with_room_is_not(ask):
    store, asked = ask
    freed(store, 1, 1, 1)
    assert [(len(found.claims), found.more) for found in (asked(2), asked(2))] == [(2, True), (1, False)]


def test_claims_come_with_what_is_known_of_their_fabrics_and_it_is_asked_once_a_second_and_revision():
    store, found, guards, asked = Gate(), SimpleQueue(), MemoryGuards(SYSTEM_CLOCK), []
    revision = Revision(compile_(SPEC), {})

    class Counted:
        def guards(self, keys):
            asked.append(keys)
            return guards.guards(keys)

    ports = SimpleNamespace(store=store, guards=Counted(), clock=SYSTEM_CLOCK, revision=lambda revision_id: revision)
    claimer = Claimer(ports, ["default"], found.put)
    claimer.start()
    freed(store, 1, 1)
    claimer.ask(StorePoll("host-1", 1, inbox=False))
    first = found.get(timeout=WAIT_S)
    fabric = first.claims[0].fabric_id
    scope = find_scope(fabric, revision.compiled.revision)
    assert (first.known, asked) == ({}, [sorted([(scope, KIND), (fabric, USUAL_RATE)])])
    assert guards.change(scope, KIND, generation=0, state="{}")
    claimer.ask(StorePoll("host-1", 1, inbox=False))
    assert found.get(timeout=WAIT_S).known == {}
    claimer.stop()
    assert len(asked) == 1
