"""The history preview of a draft agrees with drill runs that really met the failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.composition import engine as wiring
from fabric.core.events.envelope import from_row
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Event, Run
from fabric.selectors.drafts.history_preview import history_preview
from fabric.selectors.errors import Refused
from fabric.services.fabrics.revisions import revision_ensure
from simulator.drills.batches.batch import batch_drill
from simulator.drills.runs.storage import KeptRuns, keep
from simulator.drills.services.drills import drill_ask
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.play.cells import drill_told
from simulator.scenarios.promises.digests import CELLS, Cell
from simulator.swarm.setups import WorldNames
from tests.servers.unguarded import unguarded
from tests.simulator.drills.drilled import drilled

LONG = 100_000
"""Days: the virtual clock stands where it stands."""
ONE = (FailureType.PROVIDER, Tier.BATCH)
HALTS = [{"reaction": "halt", "with": ["alert"]}]
"""What no cell of these fabrics does."""


def published(actor, spec: FabricSpec) -> FabricSpec:
    fabric, revision = revision_ensure(workspace_id=actor.workspace_id, spec=spec)
    fabric.published = revision
    fabric.save(update_fields=["published"])
    return spec


def ran(actor, spec: FabricSpec, cells: tuple[Cell, ...], salt: str = "h") -> None:
    """Runs of the fabric that met those failures."""
    for n, (failure, tier) in enumerate(cells):
        names = WorldNames(f"{salt}{n}", actor.workspace_id)
        told = drill_told(spec, failure, tier, names=names)
        assert told.cell.verdict == "pass"
        assert told.world is not None
        assert told.spec == spec, "the fabric lacks nothing, so the runs are of its own revision"
        assert keep(KeptRuns(actor.workspace_id, f"{salt}{n}", "history", spec, {"during": (told.world, 0)}))


def draft(spec: FabricSpec, change: Callable[[dict[str, Any]], None]) -> Any:
    tree = spec.model_dump(mode="json", by_alias=True)
    change(tree)
    return FabricSpec.model_validate(tree)


def with_cell(spec: FabricSpec, cell: Cell, rungs: list[dict[str, Any]]) -> Any:
    def change(tree: dict[str, Any]) -> None:
        row = tree["decision_table"].setdefault(str(cell[0]), {})
        row[str(cell[1])] = {"rungs": rungs, "deviation": "it is tried"}

    return draft(spec, change)


def preview(actor, spec: FabricSpec, changed: Any, **more: Any) -> Any:
    return history_preview(
        actor,
        spec.name,
        changed,
        wiring.draft_compiler(actor.workspace_id),
        wiring.compile_under_policy,
        days=LONG,
        **more,
    )


@pytest.fixture
def spec(actor) -> FabricSpec:
    """A published fabric that every failure can be met in, with an agent above."""
    return published(actor, baseline.scripted_models(drilled(lead=True)))


def test_all_24_cells_an_unchanged_draft_changes_nothing_and_a_changed_cell_just_its_own(actor, spec):
    ran(actor, spec, CELLS)
    same = preview(actor, spec, spec)
    decisions = Event.objects.filter(kind="reaction_decided").count()
    assert (same.differ, same.failures, same.undecided, same.unreadable) == (0, decisions, 0, ())
    assert (same.changes, same.listed, same.cut, same.not_weighed) == ((), (), "", ())
    assert same.runs == Run.objects.filter(workspace_id=actor.workspace_id).count()
    assert same.runs_failed == 24
    by_cell = Counter(_cells(actor))
    assert set(by_cell) >= set(CELLS)
    for cell in CELLS:
        found = preview(actor, spec, with_cell(spec, cell, HALTS))
        assert {one.cell for one in found.listed} == {cell}
        assert found.differ == len(found.listed) == by_cell[cell], cell
        assert sum(one.count for one in found.changes) == found.differ
        assert sum(one.exact for one in found.changes) == found.runs_differ == sum(one.first for one in found.listed)
        assert {one.draft for one in found.listed} == {"alert + halt"}
        assert found.failures == decisions


def _cells(actor) -> list[Cell]:
    """The cell of each decision that was taken by one, as the journals say it."""
    found = []
    rows = Event.objects.filter(workspace_id=actor.workspace_id, kind="reaction_decided")
    for seq, kind, version, header in rows.values_list("seq", "kind", "version", "header"):
        fact: Any = from_row(seq, kind, version, bytes(header)).fact
        if fact.failure_type is not None:
            found.append((fact.failure_type, fact.tier))
    return found


def test_the_words_and_the_numbers_of_one_changed_rung(actor, spec):
    """By hand: five retries and a review are recorded; under two retries the third failure is a review already, and so are those after it."""
    ran(actor, spec, (ONE,))
    found = preview(actor, spec, with_cell(spec, ONE, [{"reaction": "retry", "times": 2}, {"reaction": "escalate"}]))
    assert [(one.recorded, one.draft, one.count, one.exact) for one in found.changes] == [
        ("retry x5", "escalate", 3, 1)
    ]
    assert found.sentence == "3 of 6 would differ: 3 retry x5 → escalate"
    assert [(one.rung, one.draft_rung, one.first, one.assumed) for one in found.listed] == [
        (1, 2, True, False),
        (1, 2, False, False),
        (1, 2, False, False),
    ]


def test_uses_are_counted_on_the_drafts_own_rungs(actor, spec):
    """The same with a rung before the retries that never applies: they are its second rung, and are spent after two."""
    ran(actor, spec, (ONE,))
    rungs = [{"reaction": "wait_for_breaker", "times": 2}, {"reaction": "retry", "times": 2}, {"reaction": "escalate"}]
    found = preview(actor, spec, with_cell(spec, ONE, rungs))
    assert [(one.recorded, one.draft, one.count) for one in found.changes] == [("retry x5", "escalate", 3)]
    assert {one.draft_rung for one in found.listed} == {3}


def test_what_was_passed_over_then_is_passed_over_wherever_it_stands(actor):
    """After two retries there was no token left for a third: there is none either where the draft has its retries as the third rung."""
    policy = drilled().policy.model_dump(mode="json")
    policy["retry"] |= {"bucket": 2, "earn": 0.0}
    spec = published(actor, baseline.scripted_models(drilled(policy=policy)))
    ran(actor, spec, (ONE,))
    same = preview(actor, spec, spec)
    assert (same.failures, same.differ) == (3, 0)
    waits = [{"reaction": "wait_for_breaker", "times": 1}] * 2
    later = [*waits, {"reaction": "retry", "times": 5}, {"reaction": "escalate"}]
    assert preview(actor, spec, with_cell(spec, ONE, later)).differ == 0


def test_a_rung_that_was_never_tried_is_taken_to_apply_and_said_to_be_so(actor, spec):
    cell = (FailureType.TOOL_LOOP, Tier.HIGH_STAKES)
    ran(actor, spec, (cell,))
    found = preview(
        actor, spec, with_cell(spec, cell, [{"reaction": "handover", "times": 1}, {"reaction": "escalate"}])
    )
    assert [(one.draft, one.assumed) for one in found.listed] == [("handover x1", True)]


def test_another_role_is_another_decision(actor, spec):
    cell = (FailureType.UNSAFE_OUTPUT, Tier.HIGH_STAKES)
    ran(actor, spec, (cell,))
    rungs = [{"reaction": "escalate", "with": ["block"], "role": "lawyer"}]
    found = preview(actor, spec, with_cell(spec, cell, rungs))
    assert {(one.recorded, one.draft) for one in found.changes} == {
        ("block + escalate to safety", "block + escalate to lawyer")
    }


def test_limits_are_weighed(actor, spec):
    cell = (FailureType.PLAN_MALFORMED, Tier.BATCH)
    ran(actor, spec, (cell,))

    def fewer(tree: dict[str, Any]) -> None:
        tree["policy"]["limits"]["replans_per_stage"] = 1

    found = preview(actor, spec, draft(spec, fewer))
    assert found.not_weighed == ()
    assert [(one.recorded, one.draft, one.count) for one in found.changes] == [("replan with critic x2", "abort", 1)]


def test_how_often_a_failure_may_come_back_is_weighed(actor, spec):
    cell = (FailureType.PLAN_MALFORMED, Tier.BATCH)
    ran(actor, spec, (cell,))

    def sooner(tree: dict[str, Any]) -> None:
        tree["policy"]["failure_signature"] = {"limit": 2}

    found = preview(actor, spec, draft(spec, sooner))
    assert [(one.recorded, one.draft, one.count) for one in found.changes] == [("replan with critic x2", "abort", 1)]


def test_what_cannot_be_weighed_is_named(actor, spec):
    ran(actor, spec, (ONE,))

    def otherwise(tree: dict[str, Any]) -> None:
        tree["title"] = "Another title"
        tree["policy"]["loop_detector"]["identical_threshold"] = 4
        tree["policy"]["tau"] = 0.9

    found = preview(actor, spec, draft(spec, otherwise))
    assert found.differ == 0
    assert found.not_weighed == ("policy.loop_detector.identical_threshold", "policy.tau")


def test_a_decision_about_an_agent_that_is_gone_is_not_decided_again(actor, spec):
    ran(actor, spec, (ONE,))

    def renamed(tree: dict[str, Any]) -> None:
        for agent in tree["agents"]:
            agent["name"] = "writer" if agent["name"] == "finalizer" else agent["name"]
        tree["topology"]["finalizer"] = "writer"

    found = preview(actor, spec, draft(spec, renamed))
    assert (found.failures, found.undecided, found.differ) == (0, 6, 0)
    assert {one.why_not for one in found.listed} == {"the draft has no agent finalizer any more"}


def test_a_run_of_an_older_revision_is_judged_by_what_was_recorded(actor, spec):
    ran(actor, spec, (ONE,))
    changed = with_cell(spec, ONE, HALTS)
    published(actor, changed)
    assert preview(actor, spec, spec).differ == 0
    assert preview(actor, spec, changed).differ == 6


def test_older_runs_are_left_out_and_it_says_so(actor, spec):
    for n in range(3):
        ran(actor, spec, (ONE,), salt=f"r{n}-")
    changed = with_cell(spec, ONE, HALTS)
    whole = preview(actor, spec, changed)
    assert (whole.runs_failed, whole.failures, whole.runs_differ, whole.cut) == (3, 18, 3, "")
    fewer = preview(actor, spec, changed, failures=12)
    assert (fewer.failures, fewer.runs_failed) == (12, 3)
    assert fewer.cut.startswith("only the newest 2 of the 3 runs with failures")
    newest = preview(actor, spec, changed, runs=2)
    assert (newest.runs, newest.cut) == (2, "only the newest 2 runs were looked at")
    assert (
        history_preview(
            actor, spec.name, changed, wiring.draft_compiler(actor.workspace_id), wiring.compile_under_policy, days=1
        ).runs
        == 0
    )


def test_as_many_statements_for_three_runs_as_for_one(actor, spec):
    ran(actor, spec, (ONE,))
    preview(actor, spec, spec)
    asked = []
    for more in ("once", "twice"):
        with CaptureQueriesContext(connection) as statements:
            preview(actor, spec, spec)
        asked.append(len(statements))
        ran(actor, spec, (ONE, (FailureType.TOOL_LOOP, Tier.BATCH)), salt=more)
    assert asked == [6, 6]


def test_a_damaged_run_is_left_out_and_named(actor, spec):
    ran(actor, spec, (ONE, (FailureType.TOOL_LOOP, Tier.BATCH)))
    run_id = Event.objects.filter(kind="reaction_decided").values_list("run_id", flat=True).order_by("run_id")[0]
    with unguarded():
        Event.objects.filter(run_id=run_id, seq=1).update(header=b"{")
    found = preview(actor, spec, spec)
    assert len(found.unreadable) == 1
    assert found.unreadable[0].startswith(f"run {run_id} cannot be read and was left out: ")
    assert 0 < found.failures < Event.objects.filter(kind="reaction_decided").count()


def test_no_member_sees_another_workspaces_runs(actor, spec, stranger):
    with pytest.raises(Refused, match="no fabric is named"):
        history_preview(
            stranger, spec.name, spec, wiring.draft_compiler(stranger.workspace_id), wiring.compile_under_policy
        )


def test_no_cell_of_the_fabric_halts_with_an_alert(spec):
    """So that a cell that does differs from what was recorded, whatever that was."""
    for ladder in table_with(spec.decision_table).values():
        assert all(str(rung.reaction) != "halt" or "alert" not in rung.with_ for rung in ladder.rungs)


def test_runs_of_drills_are_in_no_history(actor, spec):
    batch_drill(drill_ask(actor=actor, fabric=spec.name, cells=(ONE,)).batch, "h")
    assert Event.objects.filter(kind="reaction_decided").exists()
    found = preview(actor, spec, with_cell(spec, ONE, HALTS))
    assert (found.runs, found.failures, found.sentence) == (0, 0, "there are no runs yet")
