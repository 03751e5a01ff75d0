"""Every journal store keeps its contract about owning a run and writing its journal."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric.core.events import AttemptInterrupted, CallIssued, OwnershipTaken
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.runtime.ports.journal import BatchFate, Head
from fabric.stores.errors import IncarnationRetired
from tests.fabric.stores.journal_worlds import NOON, SECOND, Journal, columns, new_run, review

LEASE_S = 3600.0


def owned(world, *, name="host-1", runs=1, **changed):
    """Runs that ``name`` owns, with the journal of each."""
    world.store.register(name, lease_s=LEASE_S)
    for _ in range(runs):
        world.store.create(new_run(**changed))
    return [Journal(run.run_id, run.fence) for run in world.store.claim(name, limit=1000, queues=["default"])]


# -- claims ----------------------------------------------------------------------------------------------------------


def test_each_run_is_claimed_by_one_of_sixteen(world):
    names = [f"host-{n}" for n in range(16)]
    for name in names:
        world.store.register(name, lease_s=LEASE_S)
    runs = {world.store.create(new_run())[0] for _ in range(200)}
    together = threading.Barrier(len(names))

    def claim_all(name):
        together.wait()
        mine = []
        while claimed := world.store.claim(name, limit=7, queues=["default"]):
            mine += claimed
        return mine

    with ThreadPoolExecutor(len(names)) as pool:
        claimed = [run for share in pool.map(claim_all, names) for run in share]
    assert sorted(run.run_id for run in claimed) == sorted(runs)
    assert {run.fence for run in claimed} == {1}


def test_a_claim_takes_the_most_urgent_of_its_queues(world):
    world.store.register("host-1", lease_s=LEASE_S)
    wanted = {}
    for priority in ("low", "normal", "high", "critical"):
        wanted[priority] = world.store.create(new_run(priority=priority))[0]
    elsewhere = world.store.create(new_run(queue="gpu", priority="critical"))[0]
    first = world.store.claim("host-1", limit=2, queues=["default"])
    assert [run.run_id for run in first] == [wanted["critical"], wanted["high"]]
    rest = world.store.claim("host-1", limit=9, queues=["default", "gpu"])
    assert [run.run_id for run in rest] == [elsewhere, wanted["normal"], wanted["low"]]
    assert world.store.claim("host-1", limit=9, queues=[]) == []


def test_who_has_no_lease_claims_nothing(world):
    world.store.create(new_run())
    assert world.store.claim("unknown", limit=5, queues=["default"]) == []
    world.store.register("lapsed", lease_s=-1)
    assert world.store.claim("lapsed", limit=5, queues=["default"]) == []
    world.store.register("retired", lease_s=LEASE_S)
    world.store.retire("retired")
    assert world.store.claim("retired", limit=5, queues=["default"]) == []
    assert world.store.beat("lapsed", lease_s=LEASE_S)
    assert len(world.store.claim("lapsed", limit=5, queues=["default"])) == 1


def test_a_lapsed_lease_is_taken_over_with_the_whole_journal(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(3, consumed=("start",))])
    world.store.put_input(journal.run_id, "decision-1", b"")
    world.store.register("host-2", lease_s=2 * LEASE_S)
    assert world.store.claim("host-2", limit=5, queues=["default"]) == []
    world.pass_time(LEASE_S + 1)
    (claimed,) = world.store.claim("host-2", limit=5, queues=["default"])
    assert (claimed.run_id, claimed.fence, claimed.taken_over) == (journal.run_id, 2, True)
    assert [row.seq for row in claimed.rows] == [1, 2, 3]
    assert [item.input_id for item in claimed.inbox] == ["decision-1"]
    assert world.store.inbox("host-1") == []


def test_what_a_retired_incarnation_owned_is_free_at_once(world):
    (journal,) = owned(world)
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.retire("host-1")
    assert not world.store.beat("host-1", lease_s=LEASE_S)
    (claimed,) = world.store.claim("host-2", limit=5, queues=["default"])
    assert (claimed.run_id, claimed.taken_over) == (journal.run_id, True)


def test_runs_that_are_ones_own_are_taken_anew_when_they_are_asked_for(world):
    mine, ended, theirs, released = owned(world, runs=4)
    world.store.write([journal.batch(2, consumed=("start",)) for journal in (mine, ended, theirs, released)])
    world.store.write([ended.batch(columns=columns(RunState.COMPLETED), release=True), released.batch(release=True)])
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.put_input(released.run_id, "decision-1", b"")
    assert world.store.claim("host-1", limit=5, queues=["default"]) != []  # The one that was released, as ever.
    asked = [mine.run_id, ended.run_id, "no such run"]
    assert world.store.claim("host-2", limit=5, queues=["default"], again=asked) == []
    assert world.store.claim("host-1", limit=5, queues=["default"]) == []
    (claimed,) = world.store.claim("host-1", limit=5, queues=["default"], again=asked)
    assert (claimed.run_id, claimed.fence, claimed.taken_over) == (mine.run_id, 2, True)
    assert [row.seq for row in claimed.rows] == [1, 2]
    assert world.store.write([mine.batch()]) == [BatchFate.FENCED], "what was held of it before is void"


def test_a_name_that_was_retired_cannot_come_back(world):
    world.store.register("host-1", lease_s=LEASE_S)
    world.store.register("host-1", lease_s=LEASE_S)
    world.store.retire("host-1")
    with pytest.raises(IncarnationRetired, match="new name"):
        world.store.register("host-1", lease_s=LEASE_S)
    assert not world.store.beat("nobody", lease_s=LEASE_S)


def test_two_processes_of_one_name_are_told_apart_by_their_tokens(world):
    world.store.register("host", lease_s=60, token=7)
    world.store.register("host", lease_s=60, token=7)  # Whose answer was lost announces itself again.
    with pytest.raises(IncarnationRetired, match="'host' was retired or is another process's"):
        world.another().register("host", lease_s=60, token=8)
    assert world.store.beat("host", lease_s=60)


def test_refused_writes_are_kept_as_the_most_that_was_told(world):
    world.store.register("host", lease_s=60)
    for refused in (0, 3, 2):
        assert world.store.beat("host", lease_s=60, refused=refused)
    assert world.refused_writes("host") == 3


def test_claims_count_up_until_the_run_makes_progress(world):
    (journal,) = owned(world)
    for n in (2, 3):
        world.store.register(f"host-{n}", lease_s=LEASE_S)
        world.store.retire(f"host-{n - 1}")
        (claimed,) = world.store.claim(f"host-{n}", limit=5, queues=["default"])
    assert world.claims(journal.run_id) == 3
    journal.fence = claimed.fence
    taken = journal.batch(3)
    kinds = (OwnershipTaken.kind, AttemptInterrupted.kind, CallIssued.kind)
    rows = tuple(replace(row, kind=kind) for row, kind in zip(taken.rows, kinds, strict=True))
    world.store.write([replace(taken, rows=rows)])
    assert world.claims(journal.run_id) == 3, "taking a run over, with the call that was out, is no progress"
    world.store.write([journal.batch()])
    assert world.claims(journal.run_id) == 0


# -- write -----------------------------------------------------------------------------------------------------------


def test_a_stale_fence_is_refused_and_the_rest_of_the_batch_stands(world):
    first, second, third = owned(world, runs=3)
    world.store.write([journal.batch(consumed=("start",)) for journal in (first, second, third)])
    stale = second.rival(0)
    assert world.store.write([first.batch(), stale.batch(release=True), third.batch()]) == [
        BatchFate.COMMITTED,
        BatchFate.FENCED,
        BatchFate.COMMITTED,
    ]
    assert [len(world.store.journal(journal.run_id)) for journal in (first, second, third)] == [2, 1, 2]
    assert world.store.claim("host-1", limit=5, queues=["default"]) == [], "a refused batch releases nothing"


def test_a_fence_that_was_passed_on_is_refused_in_every_way(world):
    (journal,) = owned(world)
    zombie = journal.rival(1)
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.retire("host-1")
    (claimed,) = world.store.claim("host-2", limit=5, queues=["default"])
    assert world.store.write([zombie.batch(consumed=("start",))]) == [BatchFate.FENCED]
    zombie = journal.rival(1)
    assert world.store.write([zombie.batch(0, release=True)]) == [BatchFate.FENCED]
    assert [item.input_id for item in world.store.inbox("host-2")] == ["start"]


def test_a_journal_is_extended_from_its_end_alone(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(2)])
    ahead, behind = journal.rival(1), journal.rival(1)
    ahead.last_seq, behind.last_seq = 3, 1
    assert world.store.write([ahead.batch()]) == [BatchFate.FENCED]
    assert world.store.write([behind.batch()]) == [BatchFate.FENCED]
    assert [row.seq for row in world.store.journal(journal.run_id)] == [1, 2]


def test_a_released_run_is_written_by_no_worker_until_it_is_claimed(world):
    (journal,) = owned(world)
    assert world.store.write([journal.batch(consumed=("start",), release=True)]) == [BatchFate.COMMITTED]
    assert world.store.write([journal.batch()]) == [BatchFate.FENCED]


def test_a_released_run_wakes_at_its_time(world):
    (journal,) = owned(world)
    (due,) = [world.clock.now() if hasattr(world, "clock") else server_now(world)]
    world.store.write([journal.batch(consumed=("start",), release=True, wake_at=due + 30 * SECOND)])
    assert world.store.claim("host-1", limit=5, queues=["default"]) == []
    assert 20 < world.store.next_due_s() <= 30
    world.pass_time(31)
    (claimed,) = world.store.claim("host-1", limit=5, queues=["default"])
    assert (claimed.run_id, claimed.fence, claimed.taken_over) == (journal.run_id, 2, False)
    assert len(claimed.rows) == 1


def server_now(world):
    return int(world.ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])


def test_a_released_run_without_a_time_waits_for_an_input(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    assert world.store.next_due_s() is None
    world.pass_time(10 * LEASE_S)
    world.store.register("host-2", lease_s=LEASE_S)
    assert world.store.claim("host-2", limit=5, queues=["default"]) == []
    world.store.put_input(journal.run_id, "decision-1", b"")
    (claimed,) = world.store.claim("host-2", limit=5, queues=["default"])
    assert (claimed.fence, claimed.taken_over) == (2, False)


def test_a_batch_without_rows_may_release_and_consume(world):
    (journal,) = owned(world)
    assert world.store.write([journal.batch(0, consumed=("start",), release=True)]) == [BatchFate.COMMITTED]
    assert world.store.heads([journal.run_id]) == {journal.run_id: Head(1, 0, ZERO_HASH)}
    assert world.store.next_due_s() is None


def test_an_ended_run_is_never_claimed_again(world):
    (journal,) = owned(world)
    world.store.put_input(journal.run_id, "late-1", b"")
    ended = columns(RunState.COMPLETED, cost_usd_micros=42, ended_at=NOON)
    world.store.write([journal.batch(consumed=("start",), columns=ended, wake_at=1, release=True)])
    assert world.store.put_input(journal.run_id, "late-2", b"")
    assert world.store.next_due_s() is None
    assert world.store.claim("host-1", limit=5, queues=["default"]) == []
    assert world.state(journal.run_id) == ("completed", 42)
    assert world.unconsumed(journal.run_id) == 0, "abandoned inputs are not looked at for ever"


def test_two_batches_of_one_run_in_one_write_are_refused(world):
    (journal,) = owned(world)
    with pytest.raises(ValueError, match="two batches of one run"):
        world.store.write([journal.batch(), journal.batch()])


BLANK = {"step_id": "", "verbs": (), "digest": "", "due_at": 0, "content": b"", "reason": ""}
"""What a closing does not repeat."""


def test_an_review_is_opened_and_closed_with_its_batch(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(reviews=(review("review-1"),))])
    shown, due = b'{"shown":true}', NOON + 60 * SECOND
    assert world.review("review-1") == (journal.run_id, "plan-1", "approve,reject", shown, None, "", due)
    closed = review("review-1", **BLANK, decided_at=NOON + 5, verb="approve", decided_by="ada")
    # The next review of the same step comes in the batch that closes the one before.
    world.store.write([journal.batch(reviews=(review("review-2"), closed))])
    asked = (journal.run_id, "plan-1", "approve,reject", shown)
    assert world.review("review-1") == (*asked, NOON + 5, "approve", due)
    assert world.review("review-2")[4] is None


def test_an_review_that_opens_and_closes_in_one_batch_keeps_what_was_asked(world):
    (journal,) = owned(world)
    both = (review("review-3", step_id="plan-2"), review("review-3", **BLANK, decided_at=1, verb="reject"))
    world.store.write([journal.batch(reviews=both)])
    shown, due = b'{"shown":true}', NOON + 60 * SECOND
    assert world.review("review-3") == (journal.run_id, "plan-2", "approve,reject", shown, 1, "reject", due)


def test_a_beat_says_what_the_stores_clock_says(world):
    world.store.register("host-1", lease_s=LEASE_S)
    before = world.store.now()
    beat = world.store.beat("host-1", lease_s=LEASE_S)
    assert before <= beat <= world.store.now()
    assert world.store.beat("nobody", lease_s=LEASE_S) == 0


def test_a_claim_says_when_it_was(world):
    world.store.register("host-1", lease_s=LEASE_S)
    world.store.create(new_run())
    before = world.store.now()
    (claimed,) = world.store.claim("host-1", limit=1, queues=["default"])
    assert before <= claimed.at <= world.store.now()
