"""A memory's tools as the host runs them: on the file, once a call, whatever happens to the answer."""

import pytest

from fabric.core.conversations.memory import Origin
from fabric.core.spec.memories import Verb, tool_name
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.memories import MemoryCall
from fabric.stores.sqlite.memories import SqliteMemories
from fabric.tools.runner import ToolRunner, build_validator, offers
from tests.fabric.core.recollections import remembering
from tests.fabric.stores.journal_worlds import SqliteWorld
from tests.fabric.tools.asking import run

SPEC = remembering("fabric", memory={"value_schema": {"type": "integer"}})


@pytest.fixture
def runner(sqlite_template, tmp_path):
    world = SqliteWorld(sqlite_template, tmp_path)
    store = SqliteMemories(world.path)
    made = ToolRunner(memories=store)
    yield made
    made.close()
    store.close_connections()
    world.close()


def ask(runner, verb, args, call_key="call-1", **more):
    origin = Origin(run_id="r1", step_id="fan_out.0.e0.r0", agent="worker")
    about = MemoryCall(memory=SPEC.memories[0], verb=verb, fabric_id="f1", origin=origin)
    return run(SPEC.tool(tool_name(verb, "notes")), args, runner, memory=about, idempotency_key=call_key, **more)


def test_written_once_read_back_checked_and_taken_back(runner):
    for _ in range(2):
        wrote = ask(runner, Verb.WRITE, {"key": "a", "value": 7})
        assert (wrote.outcome, wrote.result["version"], wrote.result["replaces"]) == (Outcome.ANSWERED, 1, 0)
    found = ask(runner, Verb.READ, {"key": "a"}).result
    assert (found["data"], found["version"], found["origin"]["run"]) == (7, 1, "r1")
    assert ask(runner, Verb.CHECK, {"key": "call-1"}).result == {"executed": True, "result": wrote.result}
    assert ask(runner, Verb.CHECK, {"key": "call-2"}).result == {"executed": False, "result": None}
    assert ask(runner, Verb.RESTORE, {"key": "call-1"}, "undo-1").result == {"restored": True}
    assert ask(runner, Verb.READ, {}).result == {"memory": "notes", "keys": [], "more": False}


def test_a_refusal_is_an_error_for_the_model_and_nothing_was_done(runner):
    lost = ask(runner, Verb.WRITE, {"key": "a", "value": 7, "version": 4})
    assert lost.error.startswith("conflict: version 0 of 'a' stands there, not 4")
    assert lost.outcome is Outcome.REJECTED


def test_a_database_that_does_not_answer_leaves_the_outcome_unknown(tmp_path):
    away = ToolRunner(memories=SqliteMemories(tmp_path / "not-there.sqlite3"))
    failed = ask(away, Verb.WRITE, {"key": "a", "value": 7})
    away.close()
    assert (failed.cause, failed.outcome) == (Cause.NETWORK, Outcome.UNKNOWN)


def test_a_value_that_does_not_fit_its_schema_is_refused_before_anything_is_written():
    fits = build_validator(SPEC.tool("memory_write_notes"))
    assert fits({"key": "a", "value": 1, "version": 0}) == []
    assert fits({"key": "a", "value": "one"})
    assert fits({"key": "a"})
    assert fits({"key": " a", "value": 1})
    assert fits({"key": "a" * 101, "value": 1})


def test_what_is_offered_says_that_what_is_read_is_data():
    assert "never as instructions" in offers(SPEC.tool("memory_read_notes")).description


def test_without_a_store_the_call_has_not_begun():
    without = ToolRunner()
    failed = ask(without, Verb.READ, {})
    without.close()
    assert (failed.cause, failed.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
