"""A run's family on its page, in the list and in the API: its children, whose it is, and where lists leave children out."""

import time

import pytest

from fabric.composition import engine as wiring
from fabric.models import Run
from fabric.selectors.overview import frame_counts as standing
from fabric.selectors.overview import tiles as overview
from fabric.selectors.overview.attention import AttentionKind, attention
from fabric.selectors.overview.search import search
from fabric.selectors.overview.success_cost import fabric_activities
from fabric.selectors.runs.families import build_children, list_ancestors
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.pages.runs.journals import tight

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def family(actor, small):
    """A root, a child of it, and a grandchild: ids from the top down."""
    ids = []
    for title in ("The whole", HOSTILE, "A part of a part"):
        run_id = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="What?").run_id
        above = {"parent_run_id": ids[-1], "root_run_id": ids[0], "cap_usd_micros": 45_000} if ids else {}
        Run.objects.filter(id=run_id).update(title=title, cost_usd_micros=1_200, **above)
        ids.append(run_id)
    return ids


def test_a_run_says_whose_it_is_and_which_it_spawned(program, family):
    root, child, grandchild = (program.get(f"/api/v1/runs/{run_id}").json() for run_id in family)
    assert (root["parent_run_id"], root["children_count"]) == (None, 1)
    assert root["children"] == [
        {"id": child["id"], "title": HOSTILE, "state": "queued", "cost_usd_micros": 1_200, "cap_usd_micros": 45_000}
    ]
    assert (child["parent_run_id"], child["root_run_id"]) == (root["id"], root["id"])
    assert (grandchild["parent_run_id"], grandchild["root_run_id"], grandchild["children"]) == (
        child["id"],
        root["id"],
        [],
    )


def test_lists_leave_children_out_but_of_the_parent_that_is_named(program, family):
    root, child, grandchild = family
    assert [run["id"] for run in program.get("/api/v1/runs").json()["runs"]] == [root]
    assert [run["id"] for run in program.get("/api/v1/runs", parent=root).json()["runs"]] == [child]
    assert [run["id"] for run in program.get("/api/v1/runs", parent=child).json()["runs"]] == [grandchild]
    assert program.get("/api/v1/runs", parent=grandchild).json()["runs"] == []


def test_the_page_has_the_children_and_the_way_up(browser, family):
    root, child, grandchild = family
    page = tight(browser.get(f"/runs/{root}").content.decode())
    assert 'id="panel-children"' in page
    assert f'<a href="/runs/{child}">' in page
    assert HOSTILE not in page
    assert 'Child runs</h2><span class="sub">1</span>' in page
    below = tight(browser.get(f"/runs/{grandchild}").content.decode())
    crumbs = below[: below.index('<span aria-current="page">')]
    assert crumbs.index(f"/runs/{root}") < crumbs.index(f"/runs/{child}")
    part = tight(browser.get(f"/runs/{grandchild}?part=children").content.decode())
    assert "<table" not in part


def test_the_list_has_the_root_with_the_number_of_its_children(browser, family):
    root, child, _ = family
    page = browser.get("/runs").content.decode()
    assert f"run-{root}" in page
    assert f"run-{child}" not in page
    assert "1 child run" in page
    assert f"run-{child}" in browser.get(f"/runs?q=parent:{root}").content.decode()


def test_a_stranger_sees_none_of_it(stranger, family):
    assert build_children(stranger, family[0]).shown == ()
    assert list_ancestors(stranger, family[0]) == ()


def test_counts_are_of_the_runs_that_were_asked_for(actor, family):
    now = time.time_ns() // 1_000
    assert overview.states(actor, now).live == 1
    assert [(one.runs, one.usd_micros) for one in overview.spend(actor, now).fabrics] == [(1, 1_200)]
    assert standing.runs_live_count(actor, 100) == 1
    assert standing.runs_ready_count(actor, 100) == 1
    [activity] = fabric_activities(actor, now).by_fabric.values()
    assert sum(activity.mix.values()) == 1
    assert activity.last.id == family[0]
    steps = overview.first_steps(actor)
    assert steps is not None
    assert steps.run_id == family[0]


def test_what_needs_attention_is_said_of_the_run_that_was_asked_for(actor, family):
    now = time.time_ns() // 1_000
    Run.objects.filter(id__in=family).update(state="failed", ended_at=now)
    groups = {group.kind: group.count for group in attention(actor, now).groups}
    assert groups[AttentionKind.FAILED] == 1


def test_a_child_is_found_by_its_id_and_not_by_its_title(actor, family):
    Run.objects.filter(id__in=family).update(title="Quarterly figures")
    assert [hit.id for hit in search(actor, "quarterly").runs] == [family[0]]
    assert [hit.id for hit in search(actor, family[1]).runs] == [family[1]]
