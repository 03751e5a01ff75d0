"""Every journal store keeps its contract about what a claim loads: where the row stands, snapshots, announced inputs, formats."""

import pytest

from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import FORMAT, RunState
from fabric.core.values.frozen import replace
from fabric.runtime.ports.batch_parts import RunMark, Snapshot
from fabric.runtime.ports.journal import ANNOUNCED_S, CLAIM_ROWS, BatchFate, InputWithdrawn
from tests.fabric.stores.journal_worlds import NOON, Journal, columns, new_run

LEASE_S = 3600.0


def owned(world, *, runs=1, name="host-1", **changed):
    """Runs that ``name`` owns, with the journal of each."""
    world.store.register(name, lease_s=LEASE_S)
    made = [new_run(**changed) for _ in range(runs)]
    for run in made:
        world.store.create(run)
    claimed = {run.run_id: run for run in claim(world, name)}
    return [Journal(run.run_id, claimed[run.run_id].fence) for run in made]


def claim(world, name="host-1", **asked):
    return world.store.claim(name, **{"limit": 1000, "queues": ["default"]} | asked)


def again(world, *journals, **asked):
    """The runs anew, in the order of their ids; their journals go on under the new fence."""
    taken = claim(world, again=[journal.run_id for journal in journals], **asked)
    fences = {run.run_id: run.fence for run in taken}
    for journal in journals:
        journal.fence = fences.get(journal.run_id, journal.fence)
    return taken


def snapshot(journal, *refs, **changed):
    """The state where the journal stands."""
    values = {"seq": journal.last_seq, "digest": "program-1", "head": journal.head, "state": b"folded", "refs": refs}
    return Snapshot(**values | changed)


# -- where the row stands ----------------------------------------------------------------------------------------------


def test_a_claim_says_where_the_row_stands(world):
    (journal,) = owned(world)
    (first,) = again(world, journal)
    assert (first.claims, first.last_seq, first.head, first.format) == (2, 0, ZERO_HASH, 1)
    world.store.write([journal.batch(3)])
    (second,) = again(world, journal)
    assert (second.claims, second.last_seq, second.head) == (1, 3, journal.head)
    assert (second.snapshot, second.kept, second.announced) == (None, (), ())


def test_runs_are_claimed_by_priority_and_then_by_id_whatever_woke_them(world):
    """One rule for all stores, so that the simulator and a worker take the same runs in the same order."""
    woken, unowned, scheduled, low = owned(world, runs=4)
    now = world.clock.now() if hasattr(world, "clock") else 1
    batches = [journal.batch(consumed=("start",), release=True) for journal in (woken, low)]
    batches.append(scheduled.batch(consumed=("start",), release=True, wake_at=now - 5))
    world.store.write(batches)
    names = [f"{letter}-{woken.run_id}" for letter in "cab"]
    for name in names:
        world.store.create(new_run(run_id=name))
    world.store.create(new_run(run_id="z-urgent", priority="high"))
    for journal in (low, woken):
        world.store.put_input(journal.run_id, "decision-1", b"")
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.retire("host-1")
    taken = [run.run_id for run in claim(world, "host-2", limit=5)] + [run.run_id for run in claim(world, "host-2")]
    rest = sorted([*names, woken.run_id, unowned.run_id, scheduled.run_id, low.run_id])
    assert taken == ["z-urgent", *rest]


def test_a_claim_reads_no_more_than_so_many_rows(world):
    large, small, other = owned(world, runs=3)
    for journal, rows in ((large, CLAIM_ROWS + 1), (small, CLAIM_ROWS // 2), (other, CLAIM_ROWS // 2 + 1)):
        world.store.write([journal.batch(rows, content=None)])
    taken = again(world, large, small, other)
    assert [(run.run_id, run.cut) for run in taken] == [(large.run_id, True)], "the most urgent one, whatever its size"
    assert [(run.run_id, run.cut) for run in again(world, small, other)] == [(small.run_id, True)]
    world.store.write([small.batch(0, snapshot=snapshot(small, 1, 2))])
    assert [run.run_id for run in again(world, small, other)] == [small.run_id]
    taken = again(world, small, other, digest="program-1")
    assert [(run.run_id, len(run.rows)) for run in taken] == [(small.run_id, 0), (other.run_id, CLAIM_ROWS // 2 + 1)]
    assert not any(run.cut for run in taken), "nothing was left"


def test_an_owner_is_told_which_runs_are_its_own(world):
    mine = owned(world, runs=3)
    (theirs,) = owned(world, name="host-2")
    world.store.write([mine[1].batch(release=True)])
    assert list(world.store.owned_by("host-1")) == sorted([mine[0].run_id, mine[2].run_id])
    assert list(world.store.owned_by("host-2")) == [theirs.run_id]
    assert list(world.store.owned_by("nobody")) == []


# -- snapshots ---------------------------------------------------------------------------------------------------------


def test_a_run_with_a_snapshot_is_loaded_from_there(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(5)])
    taken = snapshot(journal, 4, 2)
    assert world.store.write([journal.batch(0, snapshot=taken)]) == [BatchFate.COMMITTED]
    world.store.write([journal.batch(2)])
    (claimed,) = again(world, journal, digest="program-1")
    assert claimed.snapshot == taken
    assert [row.seq for row in claimed.rows] == [6, 7]
    assert [(row.seq, row.payload, row.header) for row in claimed.kept] == [
        (row.seq, row.payload, row.header) for row in (journal.written[1], journal.written[3])
    ]
    assert (claimed.last_seq, claimed.head) == (7, journal.head)


@pytest.mark.parametrize("digest", ["", "program-2"])
def test_who_cannot_read_a_snapshot_is_given_the_whole_journal(world, digest):
    (journal,) = owned(world)
    world.store.write([journal.batch(3)])
    world.store.write([journal.batch(2, snapshot=snapshot(journal, 1))])
    (claimed,) = again(world, journal, digest=digest)
    assert (claimed.snapshot, claimed.kept) == (None, ())
    assert [row.seq for row in claimed.rows] == [1, 2, 3, 4, 5]


def test_a_snapshot_takes_the_place_of_the_one_before_and_a_refused_one_of_none(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(3, snapshot=snapshot(journal, seq=3, state=b"first"))])
    world.store.write([journal.batch(2, snapshot=snapshot(journal, 5, seq=5, state=b"second"))])
    stale = journal.rival(0)
    assert world.store.write([stale.batch(1, snapshot=snapshot(stale, seq=6, state=b"third"))]) == [BatchFate.FENCED]
    (claimed,) = again(world, journal, digest="program-1")
    assert (claimed.snapshot.seq, claimed.snapshot.state, claimed.snapshot.refs) == (5, b"second", (5,))
    assert (claimed.rows, [row.seq for row in claimed.kept]) == ((), [5])


def test_what_a_claim_reads_does_not_grow_with_the_journal(world):
    cost = []
    (short, long, plain) = owned(world, runs=3)
    for journal, rows in ((short, 20), (long, 2000)):
        world.store.write([journal.batch(rows)])
        world.store.write([journal.batch(0, snapshot=snapshot(journal, 3, rows))])
        world.store.write([journal.batch(4)])
        before = world.store.statements
        (claimed,) = again(world, journal, digest="program-1")
        cost.append((world.store.statements - before, len(claimed.rows) + len(claimed.kept)))
    assert cost[0] == cost[1]
    assert cost[0][1] == 6
    before = world.store.statements
    again(world, short, long, plain, digest="program-1")
    assert world.store.statements - before <= cost[0][0] + 2, "nor does it take a statement a run to read them"


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_an_owner_is_told_of_an_input_before_its_time(world):
    (journal,) = owned(world)
    world.store.put_input(journal.run_id, "decision-1", b"later", delay_s=ANNOUNCED_S - 10)
    world.store.put_input(journal.run_id, "decision-2", b"much later", delay_s=ANNOUNCED_S + 10)
    seen = [(item.input_id, item.announced) for item in world.store.inbox("host-1")]
    assert seen == [("start", False), ("decision-1", True)]
    (claimed,) = again(world, journal)
    assert [item.input_id for item in claimed.inbox] == ["start"]
    (item,) = claimed.announced
    start = claimed.inbox[0].visible_at
    assert (item.input_id, item.body, item.announced) == ("decision-1", b"later", True)
    assert 0 <= item.visible_at - start - (ANNOUNCED_S - 10) * 1_000_000 < 10_000_000
    world.pass_time(15)
    assert [item.input_id for item in world.store.inbox("host-1") if item.announced] == ["decision-1", "decision-2"]
    world.pass_time(ANNOUNCED_S)
    assert [item.announced for item in world.store.inbox("host-1")] == [False] * 3


def test_an_announced_input_can_be_taken_back_and_is_no_reason_to_claim(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    world.store.put_input(journal.run_id, "decision-1", b"", delay_s=30)
    assert claim(world) == []
    assert world.store.withdraw_input(journal.run_id, "decision-1") is InputWithdrawn.GONE
    assert world.store.withdraw_input(journal.run_id, "decision-1") is InputWithdrawn.UNKNOWN
    assert world.store.withdraw_input("nowhere", "decision-1") is InputWithdrawn.UNKNOWN
    assert world.store.next_due_s() is None


def test_what_the_end_of_a_run_closed_cannot_be_taken_back(world):
    (journal,) = owned(world)
    world.store.put_input(journal.run_id, "decision-1", b"", delay_s=30)
    world.store.write([journal.batch(columns=columns(RunState.FAILED), release=True)])
    assert world.store.withdraw_input(journal.run_id, "decision-1") is InputWithdrawn.TOO_LATE


# -- what a child inherits ---------------------------------------------------------------------------------------------


def test_a_claim_says_what_the_runs_children_inherit(world):
    run = new_run(queue="large", priority="critical", session_key="a session")
    world.store.create(run)
    world.store.register("host-1", lease_s=LEASE_S)
    (claimed,) = claim(world, queues=["large"])
    assert (claimed.workspace_id, claimed.queue, claimed.priority, claimed.session_key) == (
        run.workspace_id,
        "large",
        "critical",
        "a session",
    )


# -- formats -----------------------------------------------------------------------------------------------------------


def test_a_run_of_a_newer_format_is_left_to_those_who_read_it(world):
    older, newer = new_run(), new_run(format=FORMAT + 1)
    world.store.create(older)
    world.store.create(newer)
    world.store.register("host-1", lease_s=LEASE_S)
    assert [run.run_id for run in claim(world)] == [older.run_id]
    (claimed,) = claim(world, format=FORMAT + 1)
    assert (claimed.run_id, claimed.format) == (newer.run_id, FORMAT + 1)
    assert [item.format for item in claimed.inbox] == [FORMAT + 1]
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.retire("host-1")
    assert [run.run_id for run in claim(world, "host-2")] == [older.run_id], "nor is it taken over"
    assert [run.run_id for run in claim(world, "host-2", format=FORMAT + 1)] == [newer.run_id]


def test_an_input_of_a_newer_format_wakes_those_who_read_it(world):
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    world.store.put_input(journal.run_id, "pause-1", b"", format=FORMAT + 1)
    assert claim(world) == []
    (claimed,) = claim(world, format=FORMAT + 1)
    assert [(item.input_id, item.format) for item in claimed.inbox] == [("pause-1", FORMAT + 1)]
    assert [item.format for item in world.store.inbox("host-1")] == [FORMAT + 1]


def test_a_batch_raises_the_format_and_never_lowers_it(world):
    (journal, other) = owned(world, runs=2)
    world.store.write([journal.batch(format=3), other.batch()])
    world.store.write([journal.batch(format=2)])
    world.store.write([journal.batch()])
    assert (world.row(journal.run_id, "format"), world.row(other.run_id, "format")) == ((3,), (1,))
    (claimed,) = again(world, journal)
    assert claimed.format == 3, "its own are given to who asks for them"


def test_what_a_program_of_the_version_before_inserts_is_read(world):
    """It does not name the columns that came later: the database knows what stands in them."""
    if not hasattr(world, "ask"):
        return
    (journal,) = owned(world)
    world.store.write([journal.batch(consumed=("start",), release=True)])
    before = "run_id, workspace_id, input_id, body, created_at, visible_at"
    world.ask(f"INSERT INTO fabric_inbox ({before}) VALUES ('{journal.run_id}', 'workspace-1', 'cancel', '', 1, 1)")
    (claimed,) = claim(world)
    assert [(item.input_id, item.format) for item in claimed.inbox] == [("cancel", 1)]
    kept = "workspace_id, fabric_id, revision_id, session_key, title, trace_id, seed, tier, queue, priority, created_at, created_by"
    kept += ", state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, deadline_at, last_seq, head_hash, fence"
    columns = f"id, start_key, wake_at, claims, claim_ticket, {kept}"
    world.ask(f"INSERT INTO fabric_run ({columns}) SELECT 'old', '', 1, 0, 0, {kept} FROM fabric_run")
    assert [(run.run_id, run.format) for run in claim(world)] == [("old", 1)]


# -- quarantine, and owners that cannot read ---------------------------------------------------------------------------


def test_a_quarantined_run_is_claimed_for_an_input_that_says_so_alone(world):
    (journal,) = owned(world)
    now = world.clock.now() if hasattr(world, "clock") else 1
    held = columns(RunState.QUARANTINED)
    world.store.write([journal.batch(consumed=("start",), columns=held, wake_at=now, release=True)])
    world.store.put_input(journal.run_id, "decision-1", b"")
    world.store.put_input(journal.run_id, "quiet", b"", wakes=0)
    assert claim(world) == []
    assert world.store.next_due_s() is None
    world.store.put_input(journal.run_id, "decision-2", b"", wakes=2)
    assert world.store.next_due_s() <= 0
    (claimed,) = claim(world)
    assert [item.input_id for item in claimed.inbox] == ["decision-1", "quiet", "decision-2"]
    world.store.register("host-2", lease_s=LEASE_S)
    world.store.retire("host-1")
    assert [run.taken_over for run in claim(world, "host-2")] == [True], "one whose owner died is not lost"


def test_an_owner_that_cannot_read_gives_back_and_changes_no_column(world):
    (journal, other) = owned(world, runs=2)
    stood = columns(RunState.WAITING, cost_usd_micros=42, tokens=7, reason="asks", started_at=5, recovered=True)
    world.store.write([journal.batch(consumed=("start",), columns=stood)])
    now = world.clock.now() if hasattr(world, "clock") else 1
    batches = [journal.batch(0, columns=None, release=True, wake_at=now), other.batch(columns=columns(tokens=3))]
    assert world.store.write(batches) == [BatchFate.COMMITTED, BatchFate.COMMITTED]
    names = ("state", "stage", "cost_usd_micros", "tokens", "reason", "started_at", "ended_at", "recovered")
    assert world.row(journal.run_id, *names) == ("waiting", "plan", 42, 7, "asks", 5, None, True)
    assert world.row(other.run_id, "tokens", "state") == (3, "running")
    assert [run.run_id for run in claim(world)] == [journal.run_id]


def test_a_mark_changes_what_it_names_and_adds_what_it_charges(world):
    (journal,) = owned(world)
    trouble = {"cause": "timeout", "failure": "provider_failure", "fired": "\nretry\n"}
    trouble |= {"breakers": "\nprovider:openai\n", "unconfirmed_usd_micros": 2, "spent_on": '{"model:fast":42}'}
    stood = columns(RunState.RUNNING, cost_usd_micros=42, tokens=7, started_at=5, **trouble)
    world.store.write([journal.batch(consumed=("start",), columns=stood)])
    mark = RunMark(state=RunState.QUARANTINED, reason="event 3 is missing")
    assert world.store.write([journal.batch(columns=mark, release=True)]) == [BatchFate.COMMITTED]
    names = ("state", "reason", "cost_usd_micros", "tokens", "started_at", "ended_at")
    assert world.row(journal.run_id, *names) == ("quarantined", "event 3 is missing", 42, 7, 5, None)
    world.store.put_input(journal.run_id, "terminate", b"", wakes=2)
    (claimed,) = claim(world)
    journal.fence = claimed.fence
    world.store.put_input(journal.run_id, "again", b"", wakes=2)
    stood = replace(stood, state=RunState.QUARANTINED, recovered=True, truncated=True)
    assert world.store.write([journal.batch(columns=stood, release=True)]) == [BatchFate.COMMITTED]
    (claimed,) = claim(world)
    journal.fence = claimed.fence
    mark = RunMark(state=RunState.QUARANTINED, reason="still")
    assert world.store.write([journal.batch(columns=mark)]) == [BatchFate.COMMITTED]
    assert world.row(journal.run_id, "recovered", "truncated") == (True, True)
    assert world.row(journal.run_id, "spent_on") == (trouble["spent_on"],)
    mark = RunMark(
        state=RunState.ABORTED,
        reason="given up",
        ended_at=NOON,
        recovered=False,
        truncated=False,
        charged_usd_micros=100,
        charged_tokens=20,
        spent_on='{"model:fast":142}',
    )
    assert world.store.write([journal.batch(columns=mark, release=True)]) == [BatchFate.COMMITTED]
    assert world.row(journal.run_id, *names) == ("aborted", "given up", 142, 27, 5, NOON)
    assert world.row(journal.run_id, "recovered", "truncated") == (False, False)
    assert world.row(journal.run_id, *trouble) == (*list(trouble.values())[:4], 102, '{"model:fast":142}')
    assert (world.unconsumed(journal.run_id), claim(world)) == (0, [])


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_who_does_not_trust_the_clock_takes_over_from_the_retired_alone(world):
    (lapsed,) = owned(world)
    (retired,) = owned(world, name="host-3")
    world.store.register("host-2", lease_s=10 * LEASE_S)
    world.pass_time(2 * LEASE_S)
    assert claim(world, "host-2", steady=False) == []
    world.store.retire("host-3")
    assert [run.run_id for run in claim(world, "host-2", steady=False)] == [retired.run_id]
    assert [run.run_id for run in claim(world, "host-2")] == [lapsed.run_id]
