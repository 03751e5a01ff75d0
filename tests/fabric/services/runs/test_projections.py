"""Rebuilding: whatever was done to rows and reviews, the journal gives them back byte for byte (docs/specification/durability.md H6)."""

import pytest

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Event, Review, Run
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.replay import replay_run
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_cancel
from fabric.services.runs.projections import projections_rebuild
from fabric.services.runs.start import run_start
from simulator.swarm import setups as swarm
from simulator.world.world import World
from tests.fabric.management.console import command
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded
from tests.sets import many

LOST = {
    "state": "", "stage": "?", "epoch": 9, "cost_usd_micros": -1, "tokens": -1, "reason": "?", "recovered": True,
    "truncated": True, "cause": "?", "failure": "?", "fired": "?", "breakers": "?", "unconfirmed_usd_micros": -1, "spent_on": "?", "started_at": None, "ended_at": 1, "deadline_at": 1, "wake_at": None,
}  # fmt: skip


def tables():
    """Every byte of what is rebuilt."""
    runs = [
        {name: row[name] if not isinstance(row[name], memoryview) else bytes(row[name]) for name in row}
        for row in Run.objects.order_by("id").values()
    ]
    items = [dict(row, content=bytes(row["content"])) for row in Review.objects.order_by("id").values()]
    return runs, items


def lose_everything():
    Run.objects.update(**LOST)
    Review.objects.all().delete()


def rebuilt(actor, **options):
    return [
        projections_rebuild(actor=actor, run_id=run_id, **options).result
        for run_id in Run.objects.order_by("id").values_list("id", flat=True)
    ]


@pytest.fixture
def waiting(actor, doubtful):
    return ran(actor, doubtful)


def test_real_runs_come_back_byte_for_byte(actor, small, doubtful, store, nudge):
    for number in range(100):
        run = ran(actor, doubtful if number % 3 == 0 else small)
        if run.state is RunState.WAITING and number % 2:
            (item,) = list_open_reviews(actor, run.id)
            verb, message = ("reject", "no") if number % 4 == 1 else ("approve", "")
            decide_review(
                store=store,
                nudge=nudge,
                actor=actor,
                review_id=item.id,
                digest=item.digest,
                verb=verb,
                message=message,
            )
            Following(actor, run.id, wait=True).to_rest()
    queued = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Later").run_id
    before = tables()
    assert len({row["state"] for row in before[0]}) >= 4
    assert rebuilt(actor, check=True) == ["same"] * 101
    lose_everything()
    assert rebuilt(actor) == ["repaired"] * 101
    after = tables()
    # A run that has not begun is due at once, whenever that is said.
    for row in (*before[0], *after[0]):
        if row["id"] == queued:
            assert row.pop("wake_at") is not None
            assert row.pop("deadline_at")
    assert after == before


def kept(world):
    """The contents of a virtual world's store, in the database."""
    for run_id, run in world.store.tables.runs.items():
        columns = run.columns
        Run.objects.create(
            id=run_id, workspace_id=WORKSPACE, fabric_id="f", revision_id="r", title="virtual", trace_id=run.new.trace_id,
            seed=run.new.seed, tier=run.new.tier, created_at=1, state=columns.state, stage=columns.stage,
            epoch=columns.epoch, cost_usd_micros=columns.cost_usd_micros, tokens=columns.tokens, reason=columns.reason,
            recovered=columns.recovered, truncated=columns.truncated, cause=columns.cause,
            failure=columns.failure, fired=columns.fired, breakers=columns.breakers,
            unconfirmed_usd_micros=columns.unconfirmed_usd_micros, spent_on=columns.spent_on, started_at=columns.started_at,
            ended_at=columns.ended_at, deadline_at=columns.deadline_at, last_seq=run.last_seq, head_hash=run.head,
            fence=run.fence, incarnation=run.incarnation, wake_at=run.wake_at,
        )  # fmt: skip
        Event.objects.bulk_create(
            Event(
                run_id=run_id, workspace_id=WORKSPACE, seq=row.seq, kind=row.kind, version=row.version, at=row.at,
                header=row.header, payload=row.payload, payload_hash=row.payload_hash, hash=row.hash,
            )
            for row in run.rows
        )  # fmt: skip
    for name, (run_id, change) in world.store.reviews.items():
        Review.objects.create(id=name, run_id=run_id, workspace_id=WORKSPACE, **change.row)


WORKSPACE = "virtual"


@pytest.mark.slow
def test_virtual_runs_come_back_byte_for_byte(actor):
    """Runs through crashes, lost commits, takeovers, replans, reviews and cancellations."""
    seed = 0
    while Run.objects.count() < many(240):
        seed += 1
        world = World(swarm.draw(seed))
        world.run()
        assert world.watch.violations == []
        kept(world)
    there = Actor(name="owner", workspace_id=WORKSPACE)
    before = tables()
    assert {row["state"] for row in before[0]} >= {"completed", "failed", "aborted", "cancelled"}
    lose_everything()
    assert set(rebuilt(there)) == {"repaired"}
    assert tables() == before


def test_what_differs_is_said_and_put_right_once(actor, waiting):
    Run.objects.filter(id=waiting.id).update(tokens=7)
    Review.objects.filter(run_id=waiting.id).update(required_role="nobody")
    found = projections_rebuild(actor=actor, run_id=waiting.id, check=True)
    assert found.result == "differs"
    assert [sentence for sentence in found.says if "tokens 7" in sentence or "'nobody'" in sentence] == list(found.says)
    assert Run.objects.get(id=waiting.id).tokens == 7
    assert projections_rebuild(actor=actor, run_id=waiting.id).result == "repaired"
    assert projections_rebuild(actor=actor, run_id=waiting.id).result == "same"
    assert replay_run(actor, waiting.id).differences == ()
    assert list(AuditLine.objects.filter(kind="projection_rebuilt").values_list("subject", "actor")) == [
        (waiting.id, "owner")
    ]


def test_a_run_that_a_worker_owns_is_left_alone(actor, waiting):
    Run.objects.filter(id=waiting.id).update(tokens=7, incarnation="worker-1")
    found = projections_rebuild(actor=actor, run_id=waiting.id)
    assert (found.result, found.says) == ("owned", ("it is owned by worker worker-1, which keeps its row itself",))
    assert Run.objects.get(id=waiting.id).tokens == 7


@pytest.mark.parametrize("damage", ["gap", "end", "chain"])
def test_a_damaged_journal_is_not_made_to_look_whole(actor, waiting, damage):
    rows = Event.objects.filter(run_id=waiting.id)
    with unguarded():
        if damage == "gap":
            rows.filter(seq=4).delete()
        elif damage == "end":
            rows.latest("seq").delete()
        else:
            rows.filter(seq=4).update(hash=b"\1" * 32)
    Run.objects.filter(id=waiting.id).update(tokens=7)
    found = projections_rebuild(actor=actor, run_id=waiting.id)
    assert found.result == "damaged"
    assert "admin verify" in found.says[-1]
    assert Run.objects.get(id=waiting.id).tokens == 7


def test_a_repaired_run_goes_on(actor, waiting, store, nudge):
    """Not only its looks: what strands a run is put right too."""
    Run.objects.filter(id=waiting.id).update(**LOST | {"state": "completed"})
    assert projections_rebuild(actor=actor, run_id=waiting.id).result == "repaired"
    (item,) = list_open_reviews(actor, waiting.id)
    decide_review(store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve")
    assert Following(actor, waiting.id, wait=True).to_rest().state is RunState.COMPLETED


def test_a_cancelled_run_that_never_began(actor, small, store, nudge):
    run_id = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Never").run_id
    run_cancel(store=store, nudge=nudge, actor=actor, run_id=run_id)
    Following(actor, run_id, wait=True).to_rest()
    assert projections_rebuild(actor=actor, run_id=run_id, check=True).result == "same"


def test_of_another_workspace(stranger, waiting):
    with pytest.raises(Refused, match="there is no run"):
        projections_rebuild(actor=stranger, run_id=waiting.id)


def test_the_command(actor, small, waiting):
    ran(actor, small)
    assert command("rebuild_projections", "--json").last == {"runs": 2, "same": 2, "told": []}
    Run.objects.filter(id=waiting.id).update(tokens=7)
    done = command("rebuild_projections", "--check")
    assert done.code == 1
    assert done.out.splitlines()[0].startswith(f"{waiting.id}  differs: the run's row has tokens 7")
    assert done.out.splitlines()[1] == "Looked at 2 runs: 1 differs, 1 same."
    assert command("rebuild_projections", "--run", waiting.id).code == 0
    assert command("rebuild_projections", "--check").code == 0
    missing = command("rebuild_projections", "--run", "nothing")
    assert (missing.code, missing.err) == (2, "there is no run 'nothing' in this workspace; look at the list of runs\n")
