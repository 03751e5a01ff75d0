"""The drill stop: it ends every drill of the workspace and refuses every new one until it is released; who may, what is said, and what is kept."""

from __future__ import annotations

import json

import pytest
from django.conf import settings

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine
from fabric.selectors.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, DrillStop, Status
from simulator.drills.services.drill_stop import drills_frame, find_drill_stop, pull_drill_stop, release_drill_stop
from simulator.drills.services.drills import drill_ask
from tests.fabric.services.world import SMALL

ONE = (FailureType.PROVIDER, Tier.BATCH)


def refused(act, **asked):
    with pytest.raises(Refused) as caught:
        act(**asked)
    return caught.value


def test_it_ends_what_waits_and_what_runs_and_leaves_what_has_ended(actor, small, django_assert_num_queries):
    asked = drill_ask(actor=actor, fabric=small, cells="all")
    done = drill_claim(asked.batch, "h")
    drill_end(done, "h", status=Status.COMPLETED, verdict="pass")
    driven = drill_claim(asked.batch, "h")
    live = Drill.objects.exclude(id__in=[done.id, driven.id]).first()
    Drill.objects.filter(id=live.id).update(mode="live")
    with django_assert_num_queries(1):
        assert drills_frame(actor).live == asked.batch
    assert pull_drill_stop(actor=actor, reason=" The provider complains. ") == 23
    assert Drill.objects.get(id=done.id).status == Status.COMPLETED
    ended = Drill.objects.exclude(id=done.id)
    assert set(ended.values_list("status", "stopped_by", "why")) == {("aborted", "owner", "The provider complains.")}
    assert not drill_end(driven, "h", status=Status.COMPLETED, verdict="pass"), "what was stopped stays stopped"
    seen = drills_frame(actor)
    assert (seen.live, seen.drill_stop) == ("", find_drill_stop(actor))
    assert (seen.drill_stop.pulled_by, seen.drill_stop.reason) == ("owner", "The provider complains.")
    line = AuditLine.objects.get(kind="drill_stop_pulled")
    assert json.loads(line.body) == {"drills": 23, "reason": "The provider complains."}


def test_while_it_is_pulled_nothing_is_asked_for_and_the_refusal_says_who_when_and_why(actor, small):
    assert pull_drill_stop(actor=actor, reason="The provider complains.") == 0
    found = refused(drill_ask, actor=actor, fabric=small, cells="all")
    assert (found.code, found.field) == ("conflict", "drill_stop")
    assert found.message.startswith("owner stopped all drills on 20")
    assert "The provider complains; no drill starts until the owner or an operator allows drills again" in found.message
    assert not Drill.objects.exists()
    release_drill_stop(actor=actor, reason="It is content.")
    assert find_drill_stop(actor) is None
    assert len(drill_ask(actor=actor, fabric=small, cells=(ONE,)).drills) == 1
    assert json.loads(AuditLine.objects.get(kind="drill_stop_released").body) == {"reason": "It is content."}


def test_it_is_pulled_once_and_the_second_is_told_who_was_first(actor):
    pull_drill_stop(actor=actor, reason="First.")
    found = refused(pull_drill_stop, actor=actor, reason="Second.")
    assert (found.code, found.field) == ("conflict", "drill_stop")
    assert "stopped already: owner stopped" in found.message
    assert found.message.endswith("First.")
    assert DrillStop.objects.get().reason == "First."
    release_drill_stop(actor=actor, reason="Done.")
    assert refused(release_drill_stop, actor=actor, reason="Again.").code == "conflict"
    assert AuditLine.objects.filter(kind__startswith="drill_stop").count() == 2


def test_a_request_for_drills_asks_the_drill_stop_first():
    """In the transaction that inserts them: each module that tells the audit stream of drills that were asked for."""
    sources = {path: path.read_text() for path in (settings.BASE_DIR / "simulator").rglob("*.py")}
    asking = {path.name for path, source in sources.items() if "Act.DRILLS_ASKED" in source}
    heeding = {path.name for path, source in sources.items() if "check_drill_stop(actor.workspace_id)" in source}
    assert asking
    assert asking == heeding


@pytest.mark.parametrize("act", [pull_drill_stop, release_drill_stop])
def test_it_is_for_operators_and_needs_a_reason(actor, vera, act):
    found = refused(act, actor=vera, reason="Why not.")
    assert (found.code, found.field) == ("forbidden", "actor")
    assert "for operator or owner" in found.message
    for nothing in ("", " \n "):
        found = refused(act, actor=actor, reason=nothing)
        assert (found.code, found.field) == ("invalid", "reason")
    assert not DrillStop.objects.exists()
    assert not AuditLine.objects.filter(kind__startswith="drill_stop").exists()


def test_another_workspaces_drills_go_on(actor, small, stranger):
    fabric_publish(actor=stranger, source=SMALL)
    drill_ask(actor=stranger, fabric="small", cells=(ONE,))
    assert pull_drill_stop(actor=actor, reason="Enough.") == 0
    assert drills_frame(stranger).drill_stop is None
    assert Drill.objects.get().status == Status.QUEUED
    assert drill_ask(actor=stranger, fabric="small", cells="all").left_out == 1
