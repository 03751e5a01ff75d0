"""The runs of stored drills are runs: they verify, refold byte for byte, explain themselves and export; and old ones go."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.composition import engine as wiring
from fabric.core.texts.notifications import EVENTS, Channel, Target
from fabric.core.values.flow import TERMINAL
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import US
from fabric.models import (
    Attachment,
    Event,
    Fabric,
    Inbox,
    NotificationTarget,
    Review,
    Revision,
    Run,
    Workspace,
)
from fabric.secrets.signing import read_signer
from fabric.selectors.audit.journal_verification import VerifiedCounts, verify_journals
from fabric.selectors.audit.stream_verification import verify_checkpoints
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.events.explanations import run_explain
from fabric.selectors.runs.export.bundle_verify import Bundle
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.runs.replay import replay_run, run_ids
from fabric.services.actors import drills_workspace, drills_workspace_ensure, owner_actor
from fabric.services.audit.checkpoints import audit_seal, checkpoints_make
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.notifications.creation import notifications_make, notifications_wanted
from fabric.services.runs.export import run_export
from simulator.clockwork.clock import EPOCH_US
from simulator.drills.batches.batch import batch_drill, drill_claim, drill_drive, drill_end
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs import retention as pruning
from simulator.drills.runs import storage as keeping
from simulator.drills.runs.names import PARTS, QUEUE, drill_of_key, start_key
from simulator.drills.runs.storage import KeptRuns, keep
from simulator.drills.services.drills import drill_ask, stop_drills
from simulator.scenarios.play.cells import drill_told
from simulator.scenarios.play.player import play
from simulator.scenarios.spec.collection import FOLDER, find_shipped
from simulator.swarm.setups import WorldNames
from tests.servers.unguarded import unguarded
from tests.simulator.drills.drilled import drilled

ONE = (FailureType.PROVIDER, Tier.BATCH)
TABLES = (Run, Event, Inbox, Review, Attachment, Revision, Fabric)
SCENARIOS = ("provider-outage", "worker-crashes", "messages-doubled", "rate-limit-storm")
HUNDRED_DAYS_US = 100 * 86_400 * US


def asked(actor, cells=(ONE,), **more):
    """The drills of some cells, driven: their rows as they are now."""
    found = drill_ask(actor=actor, fabric="small", cells=cells, **more)
    batch_drill(found.batch, "h")
    return list(Drill.objects.filter(batch=found.batch).order_by("place"))


def inside(actor):
    """Return who looks at the runs of the actor's drills."""
    return replace(actor, workspace_id=drills_workspace(actor.workspace_id))


@pytest.fixture
def one(actor, small):
    """A drill of one cell, with its runs."""
    return asked(actor)[0]


def test_the_runs_of_every_cell_are_kept_and_each_is_whole(actor, small, tmp_path):
    rows = asked(actor, "all", seed=4)
    looking, ids = inside(actor), []
    for row in rows:
        assert row.verdict == "pass", (row.failure, row.tier, row.why)
        runs = json.loads(row.body)["runs"]
        assert list(runs) == ["before", "during", "after"]
        assert row.run_id == runs["during"]
        ids += runs.values()
        for part, run_id in runs.items():
            run = run_get(looking, run_id)
            assert (run.start_key, run.tier) == (start_key(row.id, part), row.tier)
            assert run.documents == ("report.md", "notes.md")
            assert (run.state in TERMINAL, run.last_seq > 5) == (True, True)
            assert EPOCH_US <= run.created_at <= run.ended_at < EPOCH_US + HUNDRED_DAYS_US
            replayed = replay_run(looking, run_id)
            assert (replayed.differences, replayed.events) == ((), run.last_seq), (row.failure, row.tier, part)
            explained = run_explain(looking, run_id, wiring.compile_under_policy)
            assert explained.derives, (row.failure, row.tier, part)
            assert bool(explained.decisions) == (part == "during") or part == "after"
    assert sorted(ids) == list(run_ids(looking))
    assert len(ids) == 72
    counted = VerifiedCounts()
    assert list(verify_journals(counted)) == []
    assert counted.runs == 72
    exported = run_export(actor=looking, run_id=rows[0].run_id, to=tmp_path / "b", signer=read_signer(tmp_path))
    assert list(Bundle(exported).problems()) == []


def test_they_run_a_revision_that_holds_the_fabric_as_it_was_drilled(actor, one):
    run = Run.objects.select_related("fabric", "revision").get(id=one.run_id)
    assert run.workspace_id == drills_workspace(actor.workspace_id) != actor.workspace_id
    assert (run.fabric.name, run.fabric.published_id, run.fabric.workspace_id) == ("small", None, run.workspace_id)
    assert run.revision.spec == driven_spec(one)
    asked(actor)
    assert Revision.objects.filter(fabric=run.fabric).count() == 1, (
        "the same fabric, drilled again, is the same revision"
    )


def driven_spec(row):
    """Return what ``Told`` says that the fabric was."""
    told = drill_told(revision_spec(row.revision_id), FailureType(row.failure), Tier(row.tier), seed=row.seed)
    return told.spec.model_dump_json(by_alias=True)


def test_no_worker_ever_takes_one(actor, one):
    assert set(Run.objects.values_list("queue", "incarnation", "wake_at")) == {(QUEUE, None, None)}
    assert not Inbox.objects.filter(consumed_seq__isnull=True).exists()


def test_a_run_that_its_world_left_unfinished_is_kept_and_wakes_no_worker(actor):
    names = WorldNames("d", drills_workspace_ensure(actor.workspace_id))
    told = drill_told(drilled(), *ONE, names=names)
    row = next(iter(told.world.store.tables.runs.values()))
    row.inbox[-1].consumed_seq = None
    row.wake_at, row.incarnation = 1, "worker-1"
    assert keep(KeptRuns(names.workspace_id, "d", "t", told.spec, {"during": (told.world, 0)}))
    run = Run.objects.get(start_key=start_key("d", "during"))
    assert (run.wake_at, run.incarnation) == (None, None)
    assert not Inbox.objects.filter(consumed_seq__isnull=True).exists()


def test_a_run_beside_the_parts_and_a_later_one_are_kept_with_their_drill(actor):
    """The scenario's player names several runs that are played in one world, one after the other."""
    from simulator.scenarios.baseline import work as baseline

    names = WorldNames("d", drills_workspace_ensure(actor.workspace_id))
    spec = baseline.scripted_models(drilled())
    world = baseline.drive(spec, Tier.BATCH, seed=3, names=names, work=baseline.Work(starts_s=(0.0, 500.0, 900.0)))
    kept = KeptRuns(names.workspace_id, "d", "A title", spec, {"during": (world, 0), "after": (world, 2)})
    assert keep(kept)
    assert [run.title for run in Run.objects.order_by("created_at")] == [
        "A title: disturbed", "A title: beside it", "A title: afterwards"
    ]  # fmt: skip
    keys = [drill_of_key(run.start_key) for run in Run.objects.order_by("created_at")]
    assert keys == [("d", "during"), ("d", "0.1"), ("d", "after")]
    assert kept.runs == {"during": keeping.roots(world)[0], "after": keeping.roots(world)[2]}


def test_children_and_their_family_are_kept(actor):
    names = WorldNames("d", drills_workspace_ensure(actor.workspace_id))
    policy = drilled().policy.model_dump(mode="json")
    policy["limits"]["fan_out_inline_max"] = 1
    told = drill_told(drilled(policy=policy), *ONE, names=names)
    assert keep(
        KeptRuns(names.workspace_id, "d", "t", told.spec, {"before": (told.before, 0), "during": (told.world, 0)})
    )
    children = Run.objects.exclude(parent_run_id=None)
    assert children.count() >= 2
    assert all(run.title and drill_of_key(run.start_key)[0] == "d" for run in children)
    looking = inside(actor)
    assert all(replay_run(looking, run_id).differences == () for run_id in run_ids(looking))


def test_what_is_too_much_is_not_kept_and_the_verdict_stands(actor, small, monkeypatch):
    monkeypatch.setattr(keeping, "EVENTS_MAX", 10)
    (row,) = asked(actor)
    assert (row.verdict, row.run_id, "runs" in json.loads(row.body)) == ("pass", "", False)
    assert not Run.objects.exists()


def test_a_drill_whose_runs_cannot_be_kept_has_its_verdict_all_the_same(actor, small, monkeypatch):
    monkeypatch.setattr(keeping, "_review", None)
    monkeypatch.setattr(keeping, "_event", None)
    (row,) = asked(actor)
    assert (row.verdict, row.status, row.run_id) == ("pass", Status.COMPLETED, "")
    assert not Run.objects.exists(), "half of it is not there either"


def test_a_drill_that_was_stopped_meanwhile_leaves_no_run(actor, small):
    found = drill_ask(actor=actor, fabric="small", cells=(ONE,))
    row = drill_claim(found.batch, "h")
    came, kept = drill_drive(row)
    stop_drills(actor=actor, batch=found.batch)
    assert kept.run_id
    assert not drill_end(row, "h", kept, **came)
    assert not Run.objects.exists()


def test_a_fabric_that_does_not_complete_undisturbed_shows_that_run(actor, small, monkeypatch):
    from simulator.scenarios.play import cells

    undisturbed = cells.baseline.drive_undisturbed

    def held_up(*given, **more):
        found = undisturbed(*given, **more)
        return type(found)(found.world, "it does not complete")

    monkeypatch.setattr(cells.baseline, "drive_undisturbed", held_up)
    (row,) = asked(actor)
    runs = json.loads(row.body)["runs"]
    assert (row.verdict, list(runs), row.run_id) == ("error", ["before"], runs["before"])


def test_the_command_keeps_nothing(actor, small, tmp_path):
    from tests.fabric.management.console import command

    done = command("drill", "run", "small")
    assert (done.code, "24 of 24" in done.out) == (0, True)
    assert not Run.objects.exists()


def test_keeping_costs_few_statements_a_drill(actor, small):
    found = drill_ask(actor=actor, fabric="small", cells=(ONE,))
    row = drill_claim(found.batch, "h")
    came, kept = drill_drive(row)
    with CaptureQueriesContext(connection) as seen:
        assert drill_end(row, "h", kept, **came)
    assert len(seen) <= 30


# -- what stays ------------------------------------------------------------------------------------------------------


def test_of_each_cell_the_newest_are_kept_and_older_ones_are_erased_whole(actor, small, monkeypatch):
    monkeypatch.setattr(pruning, "DRILLS_KEPT", 2)
    rows = [asked(actor, seed=7)[0] for _ in range(2)]
    other = asked(actor, [(FailureType.PROVIDER, Tier.INTERACTIVE)])[0]
    before = {table: table.objects.count() for table in TABLES}
    newest = asked(actor, seed=7)[0]
    after = {table: table.objects.count() for table in TABLES}
    rows[0].refresh_from_db()
    assert (rows[0].run_id, "runs" in json.loads(rows[0].body), rows[0].verdict) == ("", False, "pass")
    assert set(Run.objects.values_list("start_key", flat=True)) == {
        start_key(row.id, part) for row in (rows[1], other, newest) for part in PARTS
    }
    assert after == before, "as much went as came"
    assert Drill.objects.count() == 4


def test_what_is_older_than_the_workspace_keeps_contents_goes_whole_by_the_drills_own_time(actor, one):
    retention_set(actor=actor, days=30)
    assert retention_apply() == [], "its runs ended long ago by the virtual clock, and the drill just now"
    assert Event.objects.filter(run_id=one.run_id, payload__isnull=False).exists()
    late = one.ended_at + 31 * 86_400 * US
    (would,) = retention_apply(now=late, dry_run=True)
    assert (would.run_id, would.events > 10, Run.objects.count()) == (one.run_id, True, 3)
    (erased,) = retention_apply(now=late)
    assert (erased, Run.objects.count(), Event.objects.count()) == (would, 0, 0)
    one.refresh_from_db()
    assert one.run_id == ""
    assert retention_apply(now=late) == []


def test_a_drill_whose_run_is_held_stays(actor, one):
    late = one.ended_at + 31 * 86_400 * US
    retention_set(actor=actor, days=30)
    hold = hold_place(actor=owner_actor(), about="run", name=one.run_id, reason="A case.").id
    assert (retention_apply(now=late, dry_run=True), retention_apply(now=late), Run.objects.count()) == ([], [], 3)
    hold_lift(actor=owner_actor(), hold_id=hold, reason="Over.")
    assert (len(retention_apply(now=late)), Run.objects.count()) == (1, 0)


def test_a_run_that_was_exported_and_then_erased_is_not_missed(actor, one, tmp_path):
    signer = read_signer(tmp_path)
    run_export(actor=inside(actor), run_id=one.run_id, to=tmp_path / "b", signer=signer)
    checkpoints_make(signer=signer)
    assert pruning.drill_runs_erase(Drill.objects.get(id=one.id))
    audit_seal()
    checkpoints_make(signer=signer)

    def found():
        return list(verify_checkpoints(VerifiedCounts(), verified=lambda *_: True, trusted={signer.public}))

    assert found() == []
    # The same in a workspace of real runs is a run that was made away with.
    with unguarded():
        Workspace.objects.filter(drills_of__isnull=False).update(drills_of=None)
    assert [finding.fault for finding in found()] == ["covered_missing"]


def test_checkpoints_of_the_workspace_of_drills_reach_its_stream_and_no_run(actor, one, tmp_path):
    from fabric.core.audit.lines import checkpoint_read
    from fabric.models import Checkpoint

    audit_seal()
    checkpoints_make(signer=read_signer(tmp_path))
    made = Checkpoint.objects.get(workspace_id=drills_workspace(actor.workspace_id))
    body = checkpoint_read(bytes(made.body))
    assert (body.runs, body.stream.seq > 0) == ((), True)


def test_drills_send_no_notifications(actor, small):
    asked(actor, "all", seed=4)
    told = Event.objects.filter(kind__in=EVENTS)
    assert told.exists()
    target = Target(channel=Channel.EMAIL, address="a@example.org")
    now = told.latest("at").at
    notifications_make([target], now=now)
    NotificationTarget.objects.update(since_at=0)
    assert not notifications_wanted([target])
    assert notifications_make([target], now=now) == 0
    with unguarded():
        Workspace.objects.filter(drills_of__isnull=False).update(drills_of=None)
    assert notifications_wanted([target]), "of any other workspace's runs they are told"


def test_the_runs_of_a_scenario_are_kept_and_it_is_judged_as_it_is_without(actor, small):
    revision = Revision.objects.get(workspace_id=actor.workspace_id)
    for name in SCENARIOS:
        row = Drill.objects.create(
            workspace_id=actor.workspace_id, fabric_id=revision.fabric_id, revision_id=revision.id, number=1,
            scenario=name, source=(FOLDER / f"{name}.toml").read_text(), tier="batch", seed=3, covers="", batch=name,
            asked_by="owner", asked_at=1,
        )  # fmt: skip
        batch_drill(name, "h")
        row.refresh_from_db()
        plain = play(revision_spec(revision.id), find_shipped(name), Tier.BATCH, seed=3)
        assert (row.verdict, row.observed, row.why) == (plain.verdict, plain.observed_chain, plain.why), name
        runs = json.loads(row.body)["runs"]
        assert list(runs) == ["before", "during", "after"]
        looking = inside(actor)
        assert all(replay_run(looking, run_id).differences == () for run_id in runs.values())
        assert run_get(looking, runs["during"]).title == f"{name} in batch: disturbed"
