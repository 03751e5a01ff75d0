"""Memory: writes are calls like others, declared, judged, journaled and undone by the saga; what is read is data with its origin (docs/specification/stages.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.conversations import memory as rules
from fabric.core.conversations.memory import Change, Entry, Origin, WriteFacts, WriteRefusal
from fabric.core.spec import memories as spec_memories
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import MemorySpec, Verb
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import tree
from tests.fabric.core.harness import World
from tests.fabric.core.recollections import (
    READ,
    WRITE,
    Shelf,
    delete,
    read,
    remembering,
    started,
    told,
    turns,
    write,
)
from tests.fabric.core.scripts import asks, call, fails, planned, say, summary

AUTH = fails(Cause.AUTH, "401")
BOTH = pytest.mark.parametrize("scope", ["run", "fabric"])


def notes(**fields):
    return MemorySpec(name="notes", scope="fabric", **fields)


# -- the rules ---------------------------------------------------------------------------------------------------------


def test_the_tables_are_total():
    assert set(spec_memories.EFFECT) == set(spec_memories.SAYS) == set(Verb)
    assert set(rules.REFUSAL_SENTENCES) == set(WriteRefusal)


@pytest.mark.parametrize(
    ("change", "found", "refused"),
    [
        (Change(key="k", value=1), WriteFacts(), None),
        (Change(key="k", value=1, expected=0), WriteFacts(top=3), None),
        (Change(key="k", value=1, expected=3), WriteFacts(top=3, standing=3, keys=1), None),
        (Change(key="k", value=1, expected=2), WriteFacts(top=3, standing=3, keys=1), WriteRefusal.CONFLICT),
        (Change(key="k", value=1, expected=0), WriteFacts(top=3, standing=3, keys=1), WriteRefusal.CONFLICT),
        (Change(key="k", value=1), WriteFacts(keys=2), WriteRefusal.FULL),
        (Change(key="k", value=1), WriteFacts(top=1, standing=1, keys=2), None),
        (Change(key="k", value="1234567"), WriteFacts(), WriteRefusal.TOO_LARGE),
        (Change(key="k", value="123456"), WriteFacts(), None),
        (Change(key="k", delete=True), WriteFacts(top=1), WriteRefusal.NOT_THERE),
        (Change(key="k", delete=True), WriteFacts(top=1, standing=1, keys=2), None),
    ],
)
def test_caps_allow_n_and_refuse_the_next_and_a_named_version_must_stand(change, found, refused):
    memory = notes(keys=2, value_bytes=8)
    assert rules.judge_change(change, found, memory) is refused
    if refused is not None:
        assert rules.refusal_sentence(refused, change, found, memory).startswith(refused)


def test_what_stands_is_the_newest_that_was_not_taken_back():
    def entry(version, **more):
        return Entry(key="k", version=version, value=version, origin=Origin(at=version), **more)

    assert rules.select_standing([entry(1), entry(2), entry(3)])["k"].version == 3
    assert rules.select_standing([entry(1), entry(2, undone_at=9), entry(3, undone_at=9)])["k"].version == 1
    assert rules.select_standing([entry(1), entry(2, deleted=True)]) == {}
    assert rules.select_standing([entry(1), entry(2, deleted=True, undone_at=9)])["k"].version == 1
    assert rules.select_standing([entry(1), entry(2)], since=3) == {}
    assert rules.find_write_facts([entry(1), entry(2, undone_at=9)], "k") == WriteFacts(top=2, standing=1, keys=1)


# -- what a fabric says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memories", "more", "path"),
    [
        ([{"name": "notes", "scope": "run"}, {"name": "notes", "scope": "fabric"}], {}, "memories.1.name"),
        ([{"name": "notes", "scope": "run", "retention_days": 3}], {}, "memories.0.retention_days"),
        ([{"name": "notes", "scope": "run"}], {"tools": [{"name": WRITE}]}, "tools.0.name"),
        ([], {"tools": [{"name": "own", "kind": "memory"}]}, "tools.0.kind"),
    ],
)
def test_what_is_wrong_with_a_memory_is_told_with_its_path(memories, more, path):
    with pytest.raises(ValueError, match=path.replace(".", r"\.")):
        FabricSpec.model_validate({**tree(tools=()), **more, "memories": memories})


@pytest.mark.parametrize("name", ["memory_restore_notes", "memory_check_notes", "memory_read_other"])
def test_an_agent_names_what_it_may_do_and_not_what_is_the_engines_own(name):
    found = tree(tools=())
    found["agents"][0]["tools"] = [name]
    with pytest.raises(ValueError, match=f"agents.0.tools: no tool is named '{name}'"):
        FabricSpec.model_validate({**found, "memories": [{"name": "notes", "scope": "run"}]})


# -- writing and reading -----------------------------------------------------------------------------------------------


@BOTH
def test_what_is_written_is_read_back_with_its_version_and_origin(scope):
    calls = (write("a", 1), read("a", "r1"), write("a", {"n": 2}), read("a", "r2"), read("b"))
    world, _ = started(remembering(scope), turns(*calls))
    world.go()
    assert world.run.state is RunState.COMPLETED
    first, second = told(world, "r1")["result"], told(world, "r2")["result"]
    assert (first["data"], first["version"]) == (1, 1)
    assert (second["data"], second["version"]) == ({"n": 2}, 2)
    origin = {"run": "run-1", "stage": "fan_out", "agent": "worker"}
    assert origin.items() <= second["origin"].items()
    assert second["origin"]["at"].startswith("2027-")
    assert told(world, "read-b")["result"] == {"memory": "notes", "key": "b", "found": False}


@BOTH
def test_a_write_has_its_intent_and_its_way_back_before_it(scope):
    world, _ = started(remembering(scope), turns(write("a", 1)))
    world.go()
    (intended,), kinds = world.of(ev.MutationIntended), world.kinds
    assert (intended.tool, intended.compensation) == (WRITE, "memory_restore_notes")
    assert kinds.index("mutation_intended") < kinds.index("mutation_settled")
    assert [fact.status for fact in world.of(ev.MutationSettled)] == ["executed"]


def test_a_runs_memory_is_its_journal_and_asks_no_store():
    world, shelf = started(remembering("run"), turns(write("a", 1), read("a"), delete("a")))
    world.go()
    assert world.run.state is RunState.COMPLETED
    assert shelf.asked == []
    assert [command.tool for command in world.performed if command.kind == "call_tool"] == []


@BOTH
def test_a_lost_race_is_told_to_the_model_and_nothing_is_written(scope):
    calls = (write("a", 1), write("a", 2, "lost", version=0), write("a", 3, "won", version=1), read("a"))
    world, _ = started(remembering(scope), turns(*calls))
    world.go()
    assert world.run.state is RunState.COMPLETED
    assert told(world, "lost")["error"]["message"].startswith("conflict: version 1")
    assert [fact.status for fact in world.of(ev.MutationSettled)] == ["executed", "not_executed", "executed"]
    assert told(world, "read-a")["result"]["data"] == 3


@BOTH
@pytest.mark.parametrize("tier", Tier)
def test_the_third_error_of_one_kind_is_decided_about_as_of_any_tool(scope, tier):
    """docs/specification/README.md, failure signature: the third is the direct reaction at once, which in high-stakes is a person's question."""
    lost = [write("a", n, version=7) for n in range(5)]
    fabric = remembering(scope, limits={"corrections_per_step": 20})
    world, _ = started(fabric, turns(*lost), tier=tier)
    world.go()
    assert len([fact for fact in world.of(ev.ToolAnswered) if fact.error]) == 3
    (decided,) = world.of(ev.ReactionDecided)
    assert (decided.cause.mechanism, decided.cause.evidence.observed) == ("failure_signature", 3)
    assert decided.reaction == ("escalate" if tier is Tier.HIGH_STAKES else "abort")


@BOTH
def test_a_deletion_is_a_write_too(scope):
    world, _ = started(remembering(scope), turns(write("a", 1), delete("a"), read("a"), write("a", 2), read("a", "r2")))
    world.go()
    assert told(world, "read-a")["result"]["found"] is False
    assert told(world, "r2")["result"]["version"] == 3


@BOTH
def test_without_a_key_the_keys_are_told(scope):
    world, _ = started(remembering(scope), turns(write("b", 1), write("a", 2), call(READ, "all")))
    world.go()
    found = told(world, "all")["result"]
    assert [one["key"] for one in found["keys"]] == ["a", "b"]
    assert found["more"] is False


@BOTH
def test_more_keys_than_may_be_are_refused(scope):
    fabric = remembering(scope, memory={"keys": 1})
    world, _ = started(fabric, turns(write("a", 1), write("b", 2, "over"), read("b")))
    world.go()
    assert told(world, "over")["error"]["message"].startswith("full: 1 keys")
    assert told(world, "read-b")["result"]["found"] is False


@BOTH
def test_the_third_error_of_one_kind_that_a_memory_gives_its_model_stops_the_run_as_any_tools_does(scope):
    world, _ = started(remembering(scope), turns(delete("1"), delete("2"), write("a", 1), delete("3"), read("a")))
    world.go()
    (decided,) = world.of(ev.ReactionDecided)
    assert (decided.cause.cause, decided.cause.evidence.observed) == (Cause.REPEATED_FAILURE, 3)
    assert world.run.state is RunState.ABORTED
    assert [fact.call_id for fact in world.of(ev.ToolAnswered)] == ["delete-1", "delete-2", "write-a-1", "delete-3"]


@BOTH
def test_errors_of_one_answer_come_together_and_count_once(scope):
    world, _ = started(remembering(scope), [asks(delete("1"), delete("2"), delete("3")), summary()])
    world.go()
    assert (world.run.state, world.reactions) == (RunState.COMPLETED, [])


def test_a_call_that_is_held_back_and_an_error_of_the_same_answer_that_came_too_often_are_one_decision():
    fabric = remembering("run", gates={"guardrails": [{"rules": ["credentials"]}]})
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow"
    world, _ = started(fabric, [asks(delete("1")), asks(delete("2")), asks(write("a", key), delete("3")), summary()])
    world.go()
    (decided,) = world.of(ev.ReactionDecided)
    assert decided.cause.cause is Cause.REPEATED_FAILURE
    assert [trip.cause for trip in decided.causes] == [Cause.POLICY_DENIED]
    assert world.run.state is RunState.ABORTED


# -- undoing -----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_run_that_fails_takes_back_what_it_wrote_the_newest_first(scope):
    world, shelf = started(remembering(scope), turns(write("a", 1), write("a", 2), write("b", 3), last=AUTH))
    world.go()
    assert world.run.state is RunState.FAILED
    undone = [fact.of_key for fact in world.of(ev.CompensationAnswered)]
    assert undone == [fact.key for fact in reversed(world.of(ev.MutationIntended))]
    assert shelf.stands() == {}


def test_what_stood_before_stands_again_with_its_version():
    shelf = Shelf()
    world, _ = started(remembering("fabric"), turns(write("a", "kept")), shelf)
    world.go()
    assert shelf.stands() == {"a": (1, "kept")}
    second = World(world.spec, {**world.script, "worker": turns(write("a", "lost"), delete("a"), last=AUTH)})
    shelf.clock.world = second
    second.start().go()
    assert second.run.state is RunState.FAILED
    assert shelf.stands() == {"a": (1, "kept")}


@pytest.mark.parametrize("carry_over", [False, True])
@BOTH
def test_before_a_replan_the_old_epochs_writes_are_taken_back_but_for_what_is_carried_over(scope, carry_over):
    fabric = remembering(scope, roles=("planner",), memory={"carry_over": carry_over})
    worker = [asks(write("a", 1)), *[say("no json")] * 4, asks(read("a")), asks(write("a", 1, "again")), summary()]
    world, _ = started(fabric, worker, script={"planner": planned(1)}, tier=Tier.BATCH)
    world.go()
    assert (world.run.state, world.run.epoch) == (RunState.COMPLETED, 1)
    assert told(world, "read-a")["result"]["found"] is carry_over
    written = [fact.key for fact in world.of(ev.MutationIntended)]
    if carry_over:
        assert len(written) == 1
        assert world.of(ev.CallDeduplicated)
        assert not world.of(ev.UnwindingStarted)
    else:
        assert len(set(written)) == 2
        assert told(world, "again")["result"]["version"] == 2
        kinds = world.kinds
        order = [
            kinds.index(kind) for kind in ("stage_left", "unwinding_started", "compensation_answered", "replanned")
        ]
        assert order == sorted(order)


@BOTH
def test_an_answer_that_was_lost_is_asked_about_and_not_written_twice(scope):
    shelf = Shelf(lost={WRITE})
    world, _ = started(remembering(scope), turns(write("a", 1), read("a")), shelf, tier=Tier.BATCH)
    world.go()
    assert world.run.state is RunState.COMPLETED
    assert told(world, "read-a")["result"]["version"] == 1
    assert len(world.of(ev.ReconciliationIssued)) == (scope == "fabric")


def test_a_write_that_never_arrived_is_sent_again_under_its_key_once_its_deadline_has_passed():
    shelf = Shelf(silent={WRITE})
    world, _ = started(remembering("fabric"), turns(write("a", 1), read("a")), shelf, tier=Tier.BATCH)
    world.go()
    assert world.run.state is RunState.COMPLETED
    assert shelf.asked.count(WRITE) == 2
    assert shelf.stands() == {"a": (1, 1)}


def test_a_process_that_dies_after_the_write_and_before_its_commit_writes_once():
    world, shelf = started(remembering("fabric"), turns(write("a", 1), read("a")), Shelf(lost={WRITE}))
    while WRITE not in shelf.asked:
        world.go(steps=1)
    world.crash().go()
    assert world.run.state is RunState.COMPLETED
    assert shelf.stands() == {"a": (1, 1)}


def test_guardrails_look_at_what_is_written_and_at_what_is_read():
    secret = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow"
    fabric = remembering("fabric", gates={"guardrails": [{"rules": ["credentials"]}]})
    world, shelf = started(fabric, turns(write("a", secret)), tier=Tier.BATCH)
    world.go()
    assert shelf.stands() == {}
    assert any(fact.cause is Cause.POLICY_DENIED for fact in world.of(ev.CallRefused))
    plain, shelf = started(remembering("fabric"), turns(write("a", secret)))
    plain.go()
    reader = World(fabric, {**plain.script, "worker": turns(read("a"))})
    shelf.clock.world = reader
    reader.start().go()
    assert "error" in told(reader, "read-a")
    assert secret.encode() not in b"".join(row.payload or b"" for row in reader.rows)
