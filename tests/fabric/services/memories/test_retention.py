"""Retention erases what fabrics remember, and some entries leave the ledger after that."""

import json

import pytest

from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.models import AuditLine, MemoryEntry, Run
from fabric.selectors.audit.holds import ABOUT
from fabric.selectors.audit.journal_verification import VerifiedCounts
from fabric.selectors.audit.stream_verification import verify_streams
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.memories.lookup import list_fabric_memories, memory_find
from fabric.services.actors import owner_actor
from fabric.services.audit.checkpoints import audit_seal
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.memories.retention import (
    KEPT_DAYS,
    entries_prune,
    memories_tidy,
    values_erase,
    values_expire,
    values_held,
)
from tests.fabric.services.memories.test_changes import _fresh, delete, fabric, put, write
from tests.fabric.services.world import ran

__all__ = ["_fresh", "fabric"]
DAY_US = 86_400_000_000


def test_what_an_ended_run_wrote_and_what_stands_no_more_is_erased_with_it(actor, fabric):
    done = ran(actor, fabric)
    for value, key in (("under", "first"), ("over", "second")):
        write(actor, fabric, value=value, run_id=done.id, call_key=key)
    write(actor, fabric, "other", "undone", run_id=done.id, call_key="third")
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "third")
    assert values_erase(done.id) == 2
    assert memory_find(actor, fabric, "notes", "budget").value == "over"
    assert list(MemoryEntry.objects.exclude(value="").values_list("call_key", flat=True)) == ["second"]


def test_what_may_stand_again_is_not_erased(actor, fabric):
    """The run above it is still under way, and would restore it if it failed."""
    done = ran(actor, fabric)
    write(actor, fabric, value="under", run_id=done.id)
    write(actor, fabric, value="over", run_id="run-under-way")
    assert values_erase(done.id) == 0


def test_a_memorys_retention_erases_values_that_are_read_no_more(actor, fabric):
    entry = write(actor, fabric)
    assert values_held()
    assert values_expire(now=entry.origin.at + 30 * DAY_US) == 0
    assert values_expire(now=entry.origin.at + 30 * DAY_US + 1) == 1
    assert MemoryEntry.objects.get().value == ""


@pytest.mark.parametrize("about", ABOUT)
def test_what_a_hold_covers_outlives_its_retention_until_the_hold_is_lifted(actor, fabric, about):
    done = ran(actor, fabric)
    write(actor, fabric, value="under", run_id=done.id, call_key="first")
    write(actor, fabric, value="over", run_id=done.id, call_key="second")
    name = {"run": done.id, "fabric": fabric, "person": actor.name}[about]
    hold = hold_place(actor=owner_actor(), about=about, name=name, reason="Case 12.")
    assert values_expire(now=later()) == 0
    assert memory_find(actor, fabric, "notes", "budget").value == "over"
    MemoryEntry.objects.filter(call_key="first").update(value="")
    Run.objects.filter(id=done.id).update(ended_at=1)
    assert dict(entries_prune(now=later())) == {}
    hold_lift(actor=owner_actor(), hold_id=hold.id, reason="It is over.")
    assert memories_tidy(now=later()) == 2
    assert list(MemoryEntry.objects.values_list("call_key", "value")) == [("second", "")]


# -- entries that go ---------------------------------------------------------------------------------------------------


def later(days=KEPT_DAYS + 1):
    return MemoryEntry.objects.latest("at").at + days * DAY_US


def versions(key="budget"):
    return sorted(MemoryEntry.objects.filter(key=key).values_list("version", flat=True))


def erase(*values):
    MemoryEntry.objects.filter(value__in=[json.dumps(one) for one in values]).update(value="")


def test_entries_without_a_value_go_and_what_stands_and_its_version_stay(actor, fabric):
    for value in ("one", "two", "three"):
        write(actor, fabric, value=value)
    erase("one")
    assert dict(entries_prune(now=later(KEPT_DAYS - 1))) == {}
    assert dict(entries_prune(now=later(), dry_run=True)) == {fabric_get(actor, fabric).id: 1}
    assert versions() == [1, 2, 3]
    assert dict(entries_prune(now=later())) == {fabric_get(actor, fabric).id: 1}
    assert versions() == [2, 3]
    assert memory_find(actor, fabric, "notes", "budget").value == "three"
    assert write(actor, fabric, call_key="next").version == 4


def test_the_audit_stream_says_what_went_and_stays_whole(actor, fabric):
    write(actor, fabric, value="one")
    write(actor, fabric, value="two")
    delete(actor, fabric, version=2)
    assert entries_prune(now=later())
    body = json.loads(bytes(AuditLine.objects.get(kind="memory_pruned").body))
    assert (body["memory"], body["entries"]) == ("notes", 2)
    audit_seal()
    assert list(verify_streams(VerifiedCounts())) == []


def test_a_deletion_stays_while_it_is_the_newest_or_covers_a_value(actor, fabric):
    write(actor, fabric, value="one", call_key="a")
    delete(actor, fabric)
    assert memories_tidy(now=later()) == 1
    assert versions() == [2]
    assert put(actor, fabric, version=0) == 3
    MemoryEntry.objects.filter(version=3).update(value="")
    write(actor, fabric, value="over")
    assert entries_prune(now=later())
    assert versions() == [4]
    write(actor, fabric, "kept", "under", call_key="b")
    for version, deleted in ((2, True), (3, False)):
        MemoryEntry.objects.create(
            call_key=f"k{version}", fabric_id=fabric_get(actor, fabric).id, memory="notes", key="kept", version=version, deleted=deleted, at=1
        )  # fmt: skip
    MemoryEntry.objects.filter(key="kept", version=3).update(value="1")
    assert entries_prune(now=later()) == {}
    assert versions("kept") == [1, 2, 3]


def test_what_stands_below_what_was_taken_back_stays(actor, fabric):
    write(actor, fabric, value="one", call_key="a")
    write(actor, fabric, value="two", call_key="b")
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "b")
    erase("one", "two")
    assert entries_prune(now=later()) == {}
    assert versions() == [1, 2]


@pytest.mark.parametrize("live", ["itself", "its root"])
def test_what_a_family_could_still_undo_stays(actor, fabric, live):
    done = ran(actor, fabric)
    write(actor, fabric, value="one", run_id=done.id, call_key="a")
    write(actor, fabric, value="two", run_id="somebody", call_key="b")
    erase("one")
    if live == "itself":
        Run.objects.filter(id=done.id).update(state=RunState.RUNNING, ended_at=None)
    else:
        root = ran(actor, fabric)
        Run.objects.filter(id=root.id).update(state=RunState.RUNNING, ended_at=None)
        Run.objects.filter(id=done.id).update(root_run_id=root.id)
    assert entries_prune(now=later()) == {}
    Run.objects.update(state=RunState.COMPLETED, ended_at=later(0))
    assert entries_prune(now=later(KEPT_DAYS)) == {}
    assert sum(entries_prune(now=later()).values()) == 1


def test_the_key_of_a_call_that_was_undone_before_it_came_stays_as_long_as_any_call_may_come(actor, fabric):
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "late")
    assert entries_prune(now=later(KEPT_DAYS - 1)) == {}
    assert sum(entries_prune(now=later()).values()) == 1
    assert not values_held()


def test_pruning_is_a_few_queries_however_much_there_is(actor, fabric, django_assert_max_num_queries):
    fabric_id = fabric_get(actor, fabric).id
    MemoryEntry.objects.bulk_create(
        MemoryEntry(call_key=f"c{n}", fabric_id=fabric_id, memory="notes", key="k", version=n, at=1)
        for n in range(1, 1_201)
    )
    with django_assert_max_num_queries(40):
        assert sum(entries_prune(now=later()).values()) == 1_199
    assert [view.count for view in list_fabric_memories(actor, fabric)] == [0, 0]
