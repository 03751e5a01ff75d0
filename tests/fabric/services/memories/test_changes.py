"""People look at a fabric's memories, delete them with a reason, and have them erased when their time has come."""

import json
from dataclasses import replace

import pytest
from django.db import connection

from fabric.composition import engine as wiring
from fabric.core.conversations.memory import Change, Origin
from fabric.core.conversations.memory import WriteRefusal as Why
from fabric.core.values.flow import RunState
from fabric.models import AuditLine, MemoryEntry
from fabric.runtime.ports.memories import Write
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.memories.lookup import list_fabric_memories, memory_find, memory_history
from fabric.services.errors import Refused
from fabric.services.fabrics.publication.rules import publication_warnings
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.memories.changes import TOLD_AS, memory_delete, memory_export, memory_write
from tests.fabric.services.fabrics.publication.test_rules import small, told
from tests.fabric.services.world import SMALL, ran

REMEMBERING = (
    SMALL.replace("name: small", "name: remembering")
    .replace(
        "agents:\n",
        """\
memories:
  - {name: notes, scope: fabric, description: What was learned., retention_days: 30}
  - {name: scratch, scope: run}
agents:
""",
        1,
    )
    .replace("[read_document]", "[read_document, memory_write_notes, memory_read_notes, memory_write_scratch]")
)
WRITING = REMEMBERING.replace("name: remembering", "name: writing").replace(
    "    provider: scripted\n",
    """\
    provider: scripted
    options: {agents: {reader: {calls: [[{tool: memory_write_notes, args: {key: budget, value: 40}}],
      [{tool: memory_write_scratch, args: {key: seen, value: true}}], [{tool: memory_read_notes, args: {key: budget}}]]}}}
""",
)


@pytest.fixture(autouse=True)
def _fresh():
    wiring.memories.cache_clear()
    yield
    wiring.memories().close_connections()
    wiring.memories.cache_clear()


@pytest.fixture
def fabric(actor):
    return fabric_publish(actor=actor, source=REMEMBERING).name


def write(actor, fabric, key="budget", value=40, run_id="run-1", call_key=None):
    view = fabric_get(actor, fabric)
    asked = Write(
        fabric_id=view.id,
        memory=list_fabric_memories(actor, fabric)[0].memory,
        change=Change(key=key, value=value),
        call_key=call_key or f"call-{MemoryEntry.objects.count()}",
        origin=Origin(run_id=run_id, step_id="fan_out.0.e0.r0", agent="reader"),
        deadline_at=1 << 62,
    )
    return wiring.memories().write(asked).entry


def delete(actor, fabric, **other):
    asked = {"memory": "notes", "key": "budget", "version": 1, "reason": "It is wrong."} | other
    memory_delete(actor=actor, fabric=fabric, **asked)


def test_a_run_writes_what_people_and_the_next_run_read(actor):
    """The whole way: two real runs, the real store."""
    fabric = fabric_publish(actor=actor, source=WRITING).name
    first = ran(actor, fabric)
    second = ran(actor, fabric)
    assert {first.state, second.state} == {RunState.COMPLETED}
    notes, scratch = list_fabric_memories(actor, fabric)
    (entry,) = notes.entries
    assert (entry.key, entry.value, entry.version) == ("budget", 40, 2)
    assert (entry.run_id, entry.stage, entry.agent) == (second.id, "fan_out", "reader")
    assert (scratch.count, scratch.entries) == (0, ())
    assert MemoryEntry.objects.filter(memory="scratch").count() == 0


def test_who_may_do_what_stands_beside_each_memory(actor, fabric):
    notes, scratch = list_fabric_memories(actor, fabric)
    assert dict(notes.users) == {"write": ("reader",), "read": ("reader",), "delete": ()}
    assert dict(scratch.users) == {"write": ("reader",), "read": (), "delete": ()}


def test_deleted_by_hand_it_is_gone_with_its_values_and_the_audit_stream_says_why(actor, fabric):
    write(actor, fabric, value="old")
    write(actor, fabric, value="secret")
    delete(actor, fabric, version=2)
    assert list_fabric_memories(actor, fabric)[0].entries == ()
    assert not MemoryEntry.objects.exclude(value="").exists()
    line = AuditLine.objects.get(kind="memory_deleted")
    body = json.loads(bytes(line.body))
    assert (line.actor, line.subject) == (actor.name, fabric_get(actor, fabric).id)
    assert (body["memory"], body["key"], body["version"], body["reason"]) == ("notes", "budget", 2, "It is wrong.")
    assert "secret" not in json.dumps(body)
    assert write(actor, fabric).version == 4


def test_a_run_that_fails_later_does_not_bring_it_back(actor, fabric):
    write(actor, fabric, call_key="first")
    write(actor, fabric, value=41, call_key="second")
    delete(actor, fabric, version=2)
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "second")
    assert list_fabric_memories(actor, fabric)[0].entries == ()


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"reason": " "}, "invalid"),
        ({"version": 2}, "conflict"),
        ({"key": "other"}, "not_found"),
        ({"memory": "scratch"}, "not_found"),
        ({"memory": "none"}, "not_found"),
    ],
)
def test_what_is_wrong_with_a_deletion_is_said_and_nothing_is_deleted(actor, fabric, other, code):
    write(actor, fabric)
    with pytest.raises(Refused) as refused:
        delete(actor, fabric, **other)
    assert refused.value.code == code
    assert memory_find(actor, fabric, "notes", "budget").value == 40
    assert not AuditLine.objects.filter(kind="memory_deleted").exists()


def test_who_is_neither_owner_nor_operator_may_look_and_not_delete(actor, fabric):
    write(actor, fabric)
    with pytest.raises(Refused) as refused:
        delete(replace(actor, roles=frozenset({"reviewer"})), fabric)
    assert refused.value.code == "forbidden"


def test_a_fabric_of_another_workspace_is_not_there(stranger, actor, fabric):
    for ask in (
        lambda: list_fabric_memories(stranger, fabric),
        lambda: memory_find(stranger, fabric, "notes", "budget"),
    ):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.code == "not_found"


def put(actor, fabric, **other):
    asked = {"memory": "notes", "key": "budget", "value": 50, "version": 0, "reason": "Said by the office."} | other
    return memory_write(actor=actor, fabric=fabric, **asked)


def test_what_a_person_writes_is_read_as_theirs_and_the_audit_stream_says_why_and_not_what(actor, fabric):
    write(actor, fabric, value="old")
    assert put(actor, fabric, value="secret", version=1) == 2
    found = memory_find(actor, fabric, "notes", "budget")
    assert (found.value, found.version, found.actor, found.run_id) == ("secret", 2, actor.name, "")
    (entry,) = wiring.memories().entries(
        fabric_get(actor, fabric).id, list_fabric_memories(actor, fabric)[0].memory, "budget"
    )
    assert "person" in entry.origin.as_json()
    line = AuditLine.objects.get(kind="memory_written")
    body = json.loads(bytes(line.body))
    assert (body["key"], body["version"], body["replaces"], body["reason"]) == ("budget", 2, 1, "Said by the office.")
    assert "secret" not in json.dumps(body)


@pytest.mark.parametrize(
    ("other", "code", "said"),
    [
        ({"reason": " "}, "invalid", "needs a reason"),
        ({"version": 2}, "conflict", "changed meanwhile"),
        ({"version": 0}, "conflict", "changed meanwhile"),
        ({"key": "-x", "version": 0}, "invalid", "takes no such entry"),
        ({"key": "", "version": 0}, "invalid", "takes no such entry"),
        ({"key": "other", "version": 0}, "conflict", "full: 1 keys hold a value"),
        ({"value": "x" * 9}, "too_large", "at most 10 are kept"),
        ({"value": {"a": 1}}, "invalid", "takes no such entry"),
        ({"memory": "none"}, "not_found", "has no memory 'none'"),
    ],
)
def test_a_person_is_held_to_what_agents_are_held_to(actor, other, code, said):
    declared = "{name: notes, scope: fabric, keys: 1, value_bytes: 10, value_schema: {type: [string, integer]}}"
    source = REMEMBERING.replace(
        "{name: notes, scope: fabric, description: What was learned., retention_days: 30}", declared
    )
    fabric = fabric_publish(actor=actor, source=source).name
    write(actor, fabric)
    with pytest.raises(Refused) as refused:
        put(actor, fabric, **{"version": 1} | other)
    assert (refused.value.code, said in refused.value.message) == (code, True)
    assert memory_find(actor, fabric, "notes", "budget").value == 40
    assert not AuditLine.objects.filter(kind="memory_written").exists()


def test_who_is_neither_owner_nor_operator_writes_nothing(actor, fabric):
    with pytest.raises(Refused) as refused:
        put(replace(actor, roles=frozenset({"reviewer"})), fabric)
    assert (refused.value.code, MemoryEntry.objects.count()) == ("forbidden", 0)


def test_every_refusal_of_the_rules_is_one_to_a_person():
    assert set(TOLD_AS) == set(Why)


def test_the_history_says_what_became_of_each_entry(actor, fabric):
    write(actor, fabric, value="old", call_key="one")
    write(actor, fabric, value="undone", call_key="two")
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "two")
    put(actor, fabric, value="mine", version=1)
    found = memory_history(actor, fabric, "notes", "budget")
    told = [(one.version, one.became.value, one.value, one.reason) for one in found.entries]
    assert told == [
        (3, "stands", "mine", "Said by the office."),
        (2, "taken_back", "undone", ""),
        (1, "replaced", "old", ""),
    ]
    assert (found.count, found.standing.version) == (3, 3)
    delete(actor, fabric, version=3)
    after = memory_history(actor, fabric, "notes", "budget")
    assert [(one.became.value, one.value, one.erased, one.deleted) for one in after.entries[:2]] == [
        ("deletion", None, False, True),
        ("replaced", None, True, False),
    ]
    assert after.standing is None
    MemoryEntry.objects.filter(version=4).update(undone_at=1)
    MemoryEntry.objects.update(at=1)
    assert memory_history(actor, fabric, "notes", "budget").entries[1].became == "expired"
    with pytest.raises(Refused) as refused:
        memory_history(actor, fabric, "notes", "never")
    assert refused.value.code == "not_found"


def test_the_ledger_is_exported_whole_and_the_audit_stream_says_so(actor, fabric):
    for number in range(3):
        write(actor, fabric, key=f"k{number % 2}", value=number)
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "never-came")
    lines = [json.loads(line) for line in b"".join(memory_export(actor=actor, fabric=fabric)).splitlines()]
    assert [(one["key"], one["version"], one["value"], one["became"]) for one in lines] == [
        ("k0", 1, 0, "replaced"),
        ("k0", 2, 2, "stands"),
        ("k1", 1, 1, "stands"),
    ]
    body = json.loads(bytes(AuditLine.objects.get(kind="memory_exported").body))
    assert (body["memory"], body["entries"]) == ("", 3)
    with pytest.raises(Refused):
        memory_export(actor=actor, fabric=fabric, memory="scratch")


def test_the_stores_and_the_pages_see_the_same(actor, fabric):
    write(actor, fabric, "a", 1, call_key="one")
    write(actor, fabric, "a", 2, call_key="two")
    write(actor, fabric, "b", 3, call_key="three")
    notes = list_fabric_memories(actor, fabric)[0]
    wiring.memories().take_back(fabric_get(actor, fabric).id, "notes", "two")
    stored = wiring.memories().entries(fabric_get(actor, fabric).id, notes.memory)
    seen = [(one.key, one.version, one.value) for one in list_fabric_memories(actor, fabric)[0].entries]
    assert seen == [(one.key, one.version, one.value) for one in stored] == [("a", 1, 1), ("b", 1, 3)]
    assert connection.vendor in ("sqlite", "postgresql")


def test_a_values_schema_refers_to_nothing():
    found = told(small(memories=[{"name": "notes", "scope": "run", "value_schema": {"items": {"$ref": "#/$defs/a"}}}]))
    assert [one for one in found if one[0] == "memories.0.value_schema" and "write it out in its place" in one[1]]


def test_a_memory_that_no_agent_names_is_a_warning():
    found = publication_warnings(small(memories=[{"name": "notes", "scope": "run"}]))
    assert [one.path for one in found] == ["memories.0"]
