"""Drills of a draft: asked for by its author, driven as any, kept apart from every coverage; and what its publication would change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine, Fabric, Revision, Run
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.services.actors import drills_workspace
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from simulator.drills.batches.batch import batch_drill, drill_claim, drill_end
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs import retention as pruning
from simulator.drills.runs.names import draft_name, split_draft_name
from simulator.drills.selectors.batches import batches_recent
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.drills import coverage, drill_get, drills_recent
from simulator.drills.selectors.standings import drills_standing
from simulator.drills.services.drafts import (
    NEWER,
    changed_cells,
    coverage_made_stale,
    draft_drills,
    drill_ask_spec,
    expectation_changes,
)
from simulator.drills.services.drill_stop import pull_drill_stop
from simulator.drills.services.drills import drill_ask, stop_drills
from simulator.scenarios.promises.digests import CELLS
from tests.fabric.services.world import SMALL
from tests.simulator.scenarios.play.test_cells import BY_DEFAULT

ONE = (FailureType.PROVIDER, Tier.BATCH)
TWO = (FailureType.PROVIDER, Tier.INTERACTIVE)
CHANGED = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: abort}]}\n"
SURFACES = "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: surface}]}\n"


def read(source: str) -> FabricSpec:
    return fabric_read(source, origin="draft.yaml").spec


@pytest.fixture
def draft(small) -> FabricSpec:
    """The published fabric with one cell changed."""
    return read(SMALL + CHANGED)


def ask(actor: Actor, spec: FabricSpec, cells=(ONE,), **more):
    return drill_ask_spec(actor=actor, spec=spec, cells=cells, **more)


def ended(batch: str, verdict: str = "pass") -> None:
    while (one := drill_claim(batch, "h")) is not None:
        assert drill_end(one, "h", status=Status.COMPLETED, verdict=verdict)


def state(found, cell=ONE) -> State:
    return next(one.state for one in found.cells if one.cell == cell)


def test_a_cell_of_a_draft_is_driven_by_the_drafts_own_table_and_its_run_is_kept(actor, draft):
    batch = ask(actor, draft, seed=7).batch
    assert batch_drill(batch, "h") == 1
    seen = drill_get(actor, Drill.objects.get().id)
    assert (seen.verdict, seen.observed, seen.seed) == ("pass", "retry > abort > aborted", 7)
    assert (seen.fabric, seen.author, seen.drilled_fabric) == ("small", "owner", "small, draft of owner")
    assert Run.objects.filter(id=seen.run_id, workspace_id=drills_workspace(actor.workspace_id)).exists()
    found = draft_drills(actor, draft)
    assert (state(found), found.label, found.digest) == (State.PASS, "draft of owner", draft.digest())
    assert sum(one.state is State.NEVER for one in found.cells) == 23


def standing(actor):
    """How the overview and the list of fabrics count the one fabric that has drills."""
    found = drills_standing(actor)
    return {state: count for one in found.wrong for state, count in one.counts.items() if count}, found.whole


def test_the_proof_of_a_draft_is_kept_when_it_is_published_unchanged(actor, draft):
    ended(ask(actor, draft, "all").batch)
    fabric_publish(actor=actor, source=SMALL + CHANGED)
    found = coverage(actor, "small")
    assert (found.counts, found.proven) == ({State.PASS: 24}, 24)
    assert standing(actor) == ({}, 1)
    assert all(one.last.author == "owner" for one in found.cells)


def test_of_a_draft_that_is_published_with_one_cell_changed_that_one_is_stale(actor, draft):
    ended(ask(actor, draft, "all").batch)
    fabric_publish(actor=actor, source=SMALL + SURFACES)
    found = coverage(actor, "small")
    assert (found.counts, state(found)) == ({State.PASS: 23, State.STALE: 1}, State.STALE)
    assert standing(actor) == ({State.PASS: 23, State.STALE: 1}, 0)


def test_the_newest_verdict_counts_whether_it_is_about_the_draft_or_the_revision(actor, draft):
    ended(ask(actor, draft, "all").batch, "deviated")
    fabric_publish(actor=actor, source=SMALL + CHANGED)
    ended(drill_ask(actor=actor, fabric="small", cells=(ONE,)).batch)
    found = coverage(actor, "small")
    assert (state(found), found.proven) == (State.PASS, 1)
    assert standing(actor) == ({State.PASS: 1, State.DEVIATED: 23}, 0)
    ended(ask(actor, draft, (ONE,)).batch, "deviated")
    assert coverage(actor, "small").counts == {State.DEVIATED: 24}
    assert standing(actor) == ({State.DEVIATED: 24}, 0)


def test_a_draft_proves_only_the_cells_that_are_published_as_they_are_in_it(actor, draft, stranger):
    ended(ask(actor, draft, "all").batch)
    fabric_publish(actor=stranger, source=SMALL)
    found = coverage(actor, "small")
    assert (found.counts, state(found)) == ({State.PASS: 23, State.NEVER: 1}, State.NEVER)
    assert standing(actor) == ({State.PASS: 23, State.NEVER: 1}, 0)
    assert coverage(stranger, "small").counts == {State.NEVER: 24}, "another workspace's draft"
    assert coverage(actor, "small", "live").counts == {State.NEVER: 24}, "they were not live"


def test_a_draft_is_older_by_its_instant_and_not_by_its_id(actor, draft):
    fabric_publish(actor=actor, source=SMALL + SURFACES)
    ended(ask(actor, draft, (ONE,)).batch)
    Drill.objects.update(id="0" * 36)  # Made by a process whose clock lags behind.
    assert (state(coverage(actor, "small")), standing(actor)) == (State.NEVER, ({}, 0))
    Drill.objects.update(asked_at=1)
    assert (state(coverage(actor, "small")), standing(actor)) == (State.STALE, ({State.STALE: 1, State.NEVER: 23}, 0))


def test_a_publication_makes_no_cell_stale_that_the_draft_proves(actor, draft):
    ended(drill_ask(actor=actor, fabric="small", cells="all").batch)
    assert [one.cell for one in coverage_made_stale(actor, "small", draft).cells] == [ONE]
    ended(ask(actor, draft, (ONE,)).batch)
    assert coverage_made_stale(actor, "small", draft).cells == ()


def test_no_list_of_what_is_published_has_them(actor, draft):
    ended(ask(actor, draft, "all").batch)
    assert drills_recent(actor, fabric="small") == ([], False)
    assert [one.name for one in fabrics_list(actor)] == ["small"]
    assert Fabric.objects.get(workspace_id=actor.workspace_id).revisions.count() == 1
    [line] = batches_recent(actor)[0]
    assert (line.drilled_fabric, line.count) == ("small, draft of owner", 24)
    drill_ask(actor=actor, fabric="small", cells=(ONE,))
    assert state(draft_drills(actor, draft)) is State.PASS, "and the other way round"


def test_a_fabric_that_was_never_published_can_be_drilled(actor):
    spec = read(SMALL.replace("name: small", "name: brand-new"))
    assert len(ask(actor, spec, "changed").drills) == 24
    assert not Fabric.objects.filter(workspace_id=actor.workspace_id).exists()


def test_what_is_asked_twice_waits_once(actor, draft):
    first = ask(actor, draft, (ONE,))
    second = ask(actor, draft, (ONE, TWO))
    assert (len(second.drills), second.left_out) == (1, 1)
    with pytest.raises(Refused, match="that cell of this draft wait") as refused:
        ask(actor, draft, (ONE,))
    assert refused.value.code == "conflict"
    assert stop_drills(actor=actor, batch=first.batch) == 1


def test_a_newer_draft_stops_what_goes_on_of_the_older_one_and_keeps_what_holds(actor, draft):
    ended(ask(actor, draft, (TWO,)).batch)
    older = ask(actor, draft, (ONE,)).drills[0]
    newer = read(SMALL + SURFACES)
    asked = ask(actor, newer, (ONE,))
    stopped = drill_get(actor, older)
    assert (stopped.status, stopped.why, stopped.stopped_by) == (Status.ABORTED, NEWER, "owner")
    ended(asked.batch)
    found = draft_drills(actor, newer)
    assert (state(found, TWO), state(found, ONE)) == (State.PASS, State.PASS), "TWO depends on nothing that changed"
    assert state(draft_drills(actor, draft), ONE) is State.STALE


@pytest.mark.parametrize("held", [{"roles": frozenset({"editor@small"})}, {"fabrics": ("small",)}])
def test_an_author_who_sees_one_fabric_sees_the_drills_of_its_drafts(actor, draft, held):
    """By a role that holds at the fabric, and by a token that is confined to it; who sees another fabric sees none."""
    ana = replace(actor, name="ana", **held)
    drill_id = ask(ana, draft).drills[0]
    elsewhere = {name: type(one)(word.replace("small", "smaller") for word in one) for name, one in held.items()}
    other = replace(actor, name="ben", **elsewhere)
    assert drill_get(ana, drill_id).drilled_fabric == "small, draft of ana"
    assert [one.id for one in drills_recent(ana)[0]] == [drill_id]
    assert [line.drilled_fabric for line in batches_recent(ana)[0]] == ["small, draft of ana"]
    assert stop_drills(actor=ana.place_at(draft_name("small", "ana")), batch=drill_get(ana, drill_id).batch) == 1
    assert (drills_recent(other), batches_recent(other)[0]) == (([], False), [])
    with pytest.raises(Refused, match="there is no drill"):
        drill_get(other, drill_id)


def test_two_authors_do_not_meet(actor, draft, vera):
    ask(actor, draft)
    ask(vera, draft)
    assert Drill.objects.filter(status=Status.QUEUED).count() == 2
    assert state(draft_drills(vera, draft)) is State.QUEUED
    ended(Drill.objects.get(asked_by="owner").batch)
    assert state(draft_drills(vera, draft)) is State.QUEUED
    assert state(draft_drills(vera, draft, author="owner")) is State.PASS


def test_stale_cells_and_changed_ones(actor, draft):
    assert changed_cells(actor, draft) == (ONE,)
    assert ask(actor, draft, "changed").left_out == 0
    ended(Drill.objects.get().batch)
    assert len(ask(actor, draft, "stale").drills) == 23
    with pytest.raises(Refused, match="changes nothing") as refused:
        ask(actor, read(SMALL), "changed")
    assert refused.value.code == "conflict"


def test_who_may_not_and_what_cannot_be(actor, draft):
    with pytest.raises(Refused, match="start drills") as refused:
        ask(replace(actor, roles=frozenset({"viewer"})), draft)
    assert refused.value.code == "forbidden"
    with pytest.raises(Refused, match="no cell is named"):
        ask(actor, draft, ())
    with pytest.raises(Refused, match="no seed"):
        ask(actor, draft, seed=-1)
    pull_drill_stop(actor=actor, reason="Enough.")
    with pytest.raises(Refused, match="stopped all drills"):
        ask(actor, draft)
    assert not Drill.objects.exists()


def test_a_draft_that_cannot_be_compiled_is_refused(actor, small):
    never = {"name": "never", "stage": "finalize", "expression": "(((", "message": "No."}
    spec = FabricSpec.model_validate(
        read(SMALL).model_dump(mode="json", by_alias=True) | {"gates": {"invariants": [never]}}
    )
    with pytest.raises(Refused, match="the draft cannot be compiled, so it cannot be drilled") as refused:
        ask(actor, spec)
    assert (refused.value.code, refused.value.field) == ("invalid", "draft")


def test_it_is_audited(actor, draft):
    batch = ask(actor, draft, seed=7, reason=" before it goes out ").batch
    line = AuditLine.objects.get(kind="drills_asked")
    assert line.subject == "small"
    assert json.loads(line.body) == {
        "batch": batch, "draft": draft.digest(), "cells": 1, "seed": 7, "reason": "before it goes out",
    }  # fmt: skip


def test_a_woken_worker_finds_the_rows(actor, draft):
    woken: list[int] = []
    ask(actor, draft, (ONE, TWO), wake=lambda: woken.append(Drill.objects.count()))
    assert woken == [2]


def test_no_member_of_another_workspace_sees_them(actor, draft, stranger):
    asked = ask(actor, draft)
    with pytest.raises(Refused, match="there is no drill"):
        drill_get(stranger, asked.drills[0])
    assert state(draft_drills(stranger, draft, author="owner")) is State.NEVER


def test_the_draft_stays_while_there_are_drills_of_it_though_their_runs_are_gone(actor, draft):
    batch_drill(ask(actor, draft).batch, "h")
    one = Drill.objects.get()
    assert pruning.drill_runs_erase(one)
    assert Revision.objects.filter(id=one.revision_id).exists()
    assert drill_get(actor, one.id).verdict == "pass"


def test_the_name_of_a_drafts_fabric_is_read_back():
    assert split_draft_name(draft_name("small", "ana (ops)")) == ("small", "ana (ops)")
    assert split_draft_name("small") == ("small", "")


# -- what a publication would change ---------------------------------------------------------------------------------


def test_the_chains_that_differ_are_those_of_the_changed_cell(draft):
    [one] = expectation_changes(read(SMALL), draft)
    assert one.cell == ONE
    assert one.before == BY_DEFAULT[Tier.BATCH]
    assert one.after == "retry > abort > aborted"
    assert expectation_changes(draft, draft) == []


def test_a_limit_changes_what_every_replan_promises(small):
    after = read(SMALL.replace("policy:\n", "policy:\n  limits: {replans_per_stage: 1}\n"))
    changed = {one.cell for one in expectation_changes(read(SMALL), after)}
    assert changed == {(FailureType.PLAN_MALFORMED, Tier.BATCH), (FailureType.SCHEMA_GROUNDING, Tier.BATCH)}


def test_what_a_publication_would_make_stale_is_what_it_makes_stale(actor, draft):
    ended(drill_ask(actor=actor, fabric="small", cells=(ONE, TWO)).batch)
    told = coverage_made_stale(actor, "small", draft)
    assert ([one.cell for one in told.cells], told.fresh, told.known) == ([ONE], 2, ())
    fabric_publish(actor=actor, source=SMALL + CHANGED)
    after = coverage(actor, "small")
    assert (state(after, ONE), state(after, TWO)) == (State.STALE, State.PASS)
    back = coverage_made_stale(actor, "small", read(SMALL))
    assert (back.cells, back.fresh, back.known) == ((), 1, (ONE,)), "the older drill would count again"
    assert len(coverage_made_stale(actor, "small", read(SMALL.replace("1000000", "2000000"))).cells) == 1


def test_all_24_are_stale_where_an_agent_is_another(actor, small):
    ended(drill_ask(actor=actor, fabric="small", cells="all").batch)
    told = coverage_made_stale(actor, "small", read(SMALL.replace("instructions: Plan.", "instructions: Plan well.")))
    assert tuple(one.cell for one in told.cells) == CELLS
    assert coverage_made_stale(actor, "small", read(SMALL.replace("A small fabric", "Another title"))).cells == ()
