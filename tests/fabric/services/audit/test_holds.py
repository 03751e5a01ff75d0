"""A legal hold protects contents from every removal: by hand, by a memory's own retention, or by tidying."""

from __future__ import annotations

import json

import pytest

from fabric.models import Draft, MemoryEntry
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.drafts import changes as drafts
from fabric.services.errors import Refused
from fabric.services.memories.retention import KEPT_DAYS, entries_prune, values_expire
from tests.fabric.services.memories.test_changes import _fresh, delete, fabric, write
from tests.fabric.services.world import ran

__all__ = ["_fresh", "fabric"]
DAY_US = 86_400_000_000
CASE = "Case 12."


def held(actor, about, name):
    return hold_place(actor=actor, about=about, name=name, reason=CASE).id


def test_what_a_held_fabric_remembers_is_not_deleted_by_hand(actor, fabric):
    write(actor, fabric)
    hold = held(actor, "fabric", fabric)
    with pytest.raises(Refused, match=f"a legal hold is on fabric {fabric}, so nothing of it can be deleted"):
        delete(actor, fabric)
    assert json.loads(MemoryEntry.objects.get().value) == 40
    hold_lift(actor=actor, hold_id=hold, reason="Over.")
    delete(actor, fabric)
    assert MemoryEntry.objects.latest("version").deleted


def test_a_held_fabrics_draft_is_not_thrown_away(actor, fabric):
    draft = drafts.draft_of_fabric(actor=actor, name=fabric)
    hold = held(actor, "fabric", fabric)
    with pytest.raises(Refused, match="nothing of it can be thrown away"):
        drafts.draft_discard(actor=actor, name=fabric, step=draft.step)
    assert Draft.objects.count() == 1
    hold_lift(actor=actor, hold_id=hold, reason="Over.")
    drafts.draft_discard(actor=actor, name=fabric, step=draft.step)
    assert not Draft.objects.exists()


@pytest.mark.parametrize("about", ["fabric", "run", "person"])
def test_what_is_remembered_outlasts_its_retention_while_it_is_held(actor, fabric, about):
    done = ran(actor, fabric)
    for value in ("one", "two"):
        write(actor, fabric, value=value, run_id=done.id)
    hold = held(actor, about, {"fabric": fabric, "run": done.id, "person": "owner"}[about])
    later = MemoryEntry.objects.latest("at").at + (KEPT_DAYS + 1) * DAY_US
    assert (values_expire(now=later, dry_run=True), values_expire(now=later)) == (0, 0)
    MemoryEntry.objects.filter(version=1).update(value="")
    assert (dict(entries_prune(now=later, dry_run=True)), dict(entries_prune(now=later))) == ({}, {})
    hold_lift(actor=actor, hold_id=hold, reason="Over.")
    assert (values_expire(now=later), sum(entries_prune(now=later).values())) == (1, 1)
