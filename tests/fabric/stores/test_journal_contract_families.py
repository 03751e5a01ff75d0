"""Every journal store keeps its contract about child runs, the caps of their family, and inputs for other runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.batch_parts import FamilyCaps, Send
from fabric.runtime.ports.journal import BatchFate, Document
from fabric.stores.errors import StoreBusy
from tests.fabric.stores.journal_worlds import NOON, Journal, columns, new_run

LEASE_S = 3600.0
ROOMY = FamilyCaps(alive=100, spawned=1000)


def owned(world, *, runs=1, name="host-1", **changed):
    """Runs that ``name`` owns, with the journal of each."""
    world.store.register(name, lease_s=LEASE_S)
    made = [new_run(**changed) for _ in range(runs)]
    for run in made:
        world.store.create(run)
    claimed = {run.run_id: run for run in claim(world, name)}
    return [Journal(run.run_id, claimed[run.run_id].fence) for run in made]


def claim(world, name="host-1"):
    return world.store.claim(name, limit=1000, queues=["default"])


def child(parent, number, *, root=None, **changed):
    """The run that a parent spawns by its command of that number."""
    values = {"parent_run_id": parent, "parent_command": f"spawn.{number}", "root_run_id": root or parent}
    return new_run(run_id=f"{parent}.{number}", **values | changed)


def spawning(journal, *numbers, caps=ROOMY, root=None, **changed):
    """The parent's next batch, with these children."""
    children = tuple(child(journal.run_id, number, root=root) for number in numbers)
    return journal.batch(children=children, caps=caps, **changed)


def ending(journal, **changed):
    return journal.batch(columns=columns(RunState.COMPLETED), release=True, **changed)


# -- children ----------------------------------------------------------------------------------------------------------


def test_children_begin_with_their_parents_batch(world):
    (parent,) = owned(world, documents=(Document("a.md", "attached"),))
    one = child(
        parent.run_id,
        1,
        cap_usd_micros=500,
        tier=Tier.HIGH_STAKES,
        priority="high",
        seed=2**62,
        trace_context="b\n01\n\n",
    )
    assert world.store.write([parent.batch(children=(one, child(parent.run_id, 2)), caps=ROOMY)]) == [
        BatchFate.COMMITTED
    ]
    first, second = claim(world)
    assert (first.run_id, first.tier, first.seed, first.fence) == (one.run_id, Tier.HIGH_STAKES, 2**62, 1)
    assert (first.trace_context, second.trace_context) == ("b\n01\n\n", "")
    assert [(item.input_id, item.body) for item in second.inbox] == [("start", b'{"request":{}}')]
    lineage = ("parent_run_id", "parent_command", "root_run_id", "cap_usd_micros", "state")
    assert world.row(one.run_id, *lineage) == (parent.run_id, "spawn.1", parent.run_id, 500, "queued")
    assert world.row(parent.run_id, *lineage[:4]) == (None, "", None, None)
    assert world.store.documents(one.run_id) == (Document("a.md", "attached"),), (
        "a family shows what its root was given"
    )
    assert world.family(parent.run_id) == (2, 2, 100, 1000)


def test_a_child_that_is_there_already_is_left_as_it_is(world):
    (parent,) = owned(world)
    world.store.write([spawning(parent, 1)])
    (taken,) = claim(world)
    world.store.write([Journal(taken.run_id).batch(3)])
    assert world.store.write([spawning(parent, 1, 2)]) == [BatchFate.COMMITTED]
    assert len(world.store.journal(taken.run_id)) == 3
    assert [run.run_id for run in claim(world)] == [f"{parent.run_id}.2"]
    assert world.family(parent.run_id) == (2, 2, 100, 1000), "it is counted once"
    assert len(world.store.inbox("host-1")) == 3


def test_a_batch_that_is_refused_spawns_and_sends_nothing(world):
    parent, other, third = owned(world, runs=3)
    world.store.write([third.batch(consumed=("start",))])
    stale, gone = parent.rival(0), third.rival(1)
    send = Send(run_id=other.run_id, input_id="hello", body=b"")
    batches = [
        spawning(stale, 1, sends=(send,)),
        spawning(gone, 1, sends=(replace(send, input_id="again"),), consumed=("start",)),
        other.batch(),
    ]
    assert world.store.write(batches) == [BatchFate.FENCED, BatchFate.INPUT_GONE, BatchFate.COMMITTED]
    assert claim(world) == []
    assert (world.family(parent.run_id), world.family(third.run_id)) == (None, None)
    assert {item.input_id for item in world.store.inbox("host-1")} == {"start"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"caps": None}, "without the caps"),
        ({"parent_run_id": "somebody"}, "another parent"),
        ({"root_run_id": None}, "another root"),
        ({"documents": (Document("a", "b"),)}, "documents, labels or a start key"),
        ({"labels": (("team", "ops"),)}, "documents, labels or a start key"),
        ({"start_key": "once"}, "documents, labels or a start key"),
    ],
)
def test_a_child_that_is_none_is_refused_in_a_sentence(world, changed, sentence):
    (parent,) = owned(world)
    given = {"caps": ROOMY} | changed
    batch = parent.batch(caps=given.pop("caps"), children=(replace(child(parent.run_id, 1), **given),))
    with pytest.raises(ValueError, match=sentence):
        world.store.write([batch])
    assert world.store.journal(parent.run_id) == []


# -- caps --------------------------------------------------------------------------------------------------------------


def test_a_family_that_is_full_refuses_the_batch_and_only_that_one(world):
    parent, other = owned(world, runs=2)
    caps = FamilyCaps(alive=2, spawned=9)
    assert world.store.write([spawning(parent, 1, 2, 3, caps=caps), other.batch()]) == [
        BatchFate.FAMILY_FULL,
        BatchFate.COMMITTED,
    ]
    assert world.family(parent.run_id) is None
    parent = Journal(parent.run_id)
    assert world.store.write([spawning(parent, 1, 2, caps=caps)]) == [BatchFate.COMMITTED]
    before = parent.rival(1)
    assert world.store.write([spawning(before, 3, caps=ROOMY)]) == [BatchFate.FAMILY_FULL], "its first caps hold"
    assert (world.family(parent.run_id), len(world.store.journal(parent.run_id))) == ((2, 2, 2, 9), 1)
    assert len(claim(world)) == 2


def test_who_ends_makes_room_among_the_living_and_not_in_the_count(world):
    (parent,) = owned(world)
    caps = FamilyCaps(alive=1, spawned=2)
    world.store.write([spawning(parent, 1, caps=caps)])
    (first,) = [Journal(run.run_id, run.fence) for run in claim(world)]
    world.store.write([first.batch(columns=columns(RunState.COMPLETED))])
    assert world.family(parent.run_id) == (1, 1, 1, 2), "it lives until it is given back"
    world.store.write([first.batch(0, columns=columns(RunState.COMPLETED), release=True)])
    assert world.family(parent.run_id) == (0, 1, 1, 2)
    assert world.store.write([spawning(parent, 2, caps=caps)]) == [BatchFate.COMMITTED]
    (second,) = [Journal(run.run_id, run.fence) for run in claim(world)]
    world.store.write([ending(second)])
    assert world.family(parent.run_id) == (0, 2, 1, 2)
    assert world.store.write([spawning(parent.rival(1), 3, caps=caps)]) == [BatchFate.FAMILY_FULL]
    world.store.write([ending(parent)])
    assert world.family(parent.run_id) == (0, 2, 1, 2), "the root itself is none of them"


def test_what_ends_in_a_write_makes_room_for_the_next_one(world):
    (parent,) = owned(world)
    caps = FamilyCaps(alive=1, spawned=9)
    world.store.write([spawning(parent, 1, caps=caps)])
    (first,) = [Journal(run.run_id, run.fence) for run in claim(world)]
    before = parent.rival(1)
    fates = world.store.write([ending(first), spawning(parent, 2, caps=caps)])
    assert fates == [BatchFate.COMMITTED, BatchFate.FAMILY_FULL]
    assert world.family(parent.run_id) == (0, 1, 1, 9)
    assert world.store.write([spawning(before, 2, caps=caps)]) == [BatchFate.COMMITTED]
    assert world.family(parent.run_id) == (1, 2, 1, 9)


def test_a_child_that_ends_while_another_is_spawned_is_counted_off(world):
    (parent,) = owned(world)
    world.store.write([spawning(parent, 1, 2)])
    first, second = [Journal(run.run_id, run.fence) for run in claim(world)]
    stale = second.rival(0)
    fates = world.store.write([ending(first), ending(stale), spawning(parent, 3, 4)])
    assert fates == [BatchFate.COMMITTED, BatchFate.FENCED, BatchFate.COMMITTED]
    assert world.family(parent.run_id) == (3, 4, 100, 1000)


def test_the_batches_of_one_family_are_judged_one_after_the_other(world):
    (root,) = owned(world)
    world.store.write([spawning(root, 1, 2, 3, 4, caps=FamilyCaps(alive=7, spawned=9))])
    a, b, c, d = [Journal(run.run_id, run.fence) for run in claim(world)]
    batches = [
        spawning(a, 1, 2, root=root.run_id),
        spawning(b.rival(9), 1, root=root.run_id),
        spawning(c, 1, 2, root=root.run_id),
        spawning(d, 1, root=root.run_id),
    ]
    assert world.store.write(batches) == [
        BatchFate.COMMITTED,
        BatchFate.FENCED,
        BatchFate.FAMILY_FULL,
        BatchFate.COMMITTED,
    ]
    assert world.family(root.run_id) == (7, 7, 7, 9)
    assert [run.run_id for run in claim(world)] == [f"{a.run_id}.1", f"{a.run_id}.2", f"{d.run_id}.1"]


def test_a_cap_holds_for_spawns_at_once(world):
    (root,) = owned(world)
    world.store.write([spawning(root, *range(12), caps=FamilyCaps(alive=17, spawned=99))])
    parents = [Journal(run.run_id, run.fence) for run in claim(world)]
    stores = [world.another() for _ in parents]
    together = threading.Barrier(len(parents))

    def spawn(store, parent):
        batch = spawning(parent, 1, root=root.run_id)
        together.wait()
        while True:
            try:
                return store.write([batch])[0]
            except StoreBusy:
                continue

    with ThreadPoolExecutor(len(parents)) as pool:
        fates = list(pool.map(spawn, stores, parents))
    assert (fates.count(BatchFate.COMMITTED), fates.count(BatchFate.FAMILY_FULL)) == (5, 7)
    assert world.family(root.run_id) == (17, 17, 17, 99)


# -- sends -------------------------------------------------------------------------------------------------------------


def test_a_batch_sends_an_input_to_another_run_once(world):
    sender, receiver = owned(world, runs=2)
    world.store.write([receiver.batch(consumed=("start",), release=True)])
    answer = Send(run_id=receiver.run_id, input_id="answer-1", body=b"first")
    assert world.store.write([sender.batch(sends=(answer, answer))]) == [BatchFate.COMMITTED]
    again = replace(answer, body=b"second")
    assert world.store.write([sender.batch(sends=(again,))]) == [BatchFate.COMMITTED]
    (claimed,) = claim(world)
    assert [(item.input_id, item.body) for item in claimed.inbox] == [("answer-1", b"first")]


def test_what_is_sent_later_is_due_later(world):
    sender, receiver = owned(world, runs=2)
    world.store.write([receiver.batch(consumed=("start",), release=True)])
    world.store.write([sender.batch(sends=(Send(run_id=receiver.run_id, input_id="tick", body=b"", delay_s=90),))])
    assert claim(world) == []
    world.pass_time(91)
    assert [run.run_id for run in claim(world)] == [receiver.run_id]


def test_a_run_that_has_ended_or_ends_is_sent_nothing(world):
    sender, ended, ends = owned(world, runs=3)
    world.store.write([ending(ended)])
    sends = [Send(run_id=to, input_id="late", body=b"") for to in (ended.run_id, ends.run_id, "nowhere")]
    fates = world.store.write([sender.batch(sends=tuple(sends)), ending(ends)])
    assert fates == [BatchFate.COMMITTED, BatchFate.COMMITTED]
    assert (world.unconsumed(ended.run_id), world.unconsumed(ends.run_id)) == (0, 0)
    assert world.store.put_input(ends.run_id, "late", b""), "nor is it known to have come"


def test_a_child_can_be_sent_something_with_the_batch_that_spawns_it(world):
    (parent,) = owned(world)
    send = Send(run_id=f"{parent.run_id}.1", input_id="cancel", body=b"stop")
    assert world.store.write([spawning(parent, 1, 2, sends=(send,))]) == [BatchFate.COMMITTED]
    first, second = claim(world)
    assert {(item.input_id, item.body) for item in first.inbox} == {("start", b'{"request":{}}'), ("cancel", b"stop")}
    assert [item.input_id for item in second.inbox] == ["start"]


def test_a_quiet_input_wakes_no_worker_and_is_seen_with_the_next(world):
    sender, receiver = owned(world, runs=2)
    world.store.write([receiver.batch(consumed=("start",), release=True)])
    quiet = Send(run_id=receiver.run_id, input_id="answer-1", body=b"", wakes=0)
    world.store.write([sender.batch(sends=(quiet,))])
    world.store.put_input(receiver.run_id, "answer-2", b"", wakes=0)
    assert claim(world) == []
    assert world.store.next_due_s() is None
    world.store.put_input(receiver.run_id, "answer-3", b"")
    assert world.store.next_due_s() <= 0
    (claimed,) = claim(world)
    assert [item.input_id for item in claimed.inbox] == ["answer-1", "answer-2", "answer-3"]


def test_a_fork_knows_where_it_comes_from(world):
    run = new_run(origin_run_id="run-before", origin_seq=17, deadline_at=NOON)
    world.store.create(run)
    assert world.row(run.run_id, "origin_run_id", "origin_seq", "parent_run_id") == ("run-before", 17, None)
