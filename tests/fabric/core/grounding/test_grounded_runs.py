"""A run's answer is compared with its documents, its tools' answers and its calculations (docs/specification/gates.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.runtime.journal.snapshots import Cadence
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, gives, summary

LEDGER = (Document("ledger.md", "The balance stood at 1,250 crowns on the last day of the year."),)


def grounded(level, **fields):
    return lone(gates={"grounding": level}, **fields)


@pytest.mark.parametrize(
    ("level", "text", "problem"),
    [
        ("citations", "Anything, 99 times.", ""),
        ("quotes", 'It "stood at 1,250 crowns", 99 times.', ""),
        ("quotes", 'It "stood at 1,251 crowns".', '"stood at 1,251 crowns" stands in no source'),
        ("numbers", "It was 1250.", ""),
        ("numbers", "It was 1251.", "1251 is in no source"),
        ("numbers", 'It "stood at 1,251 crowns".', '"stood at 1,251 crowns" stands in no source'),
    ],
)
def test_level_by_level(level, text, problem):
    world = ran(grounded(level), {"worker": summary(text)}, documents=LEDGER)
    decided = world.of(ev.ReactionDecided)
    assert (world.end.state is RunState.COMPLETED) == (not problem)
    assert [one.cause.cause for one in decided[:1]] == ([Cause.GROUNDING] if problem else [])
    assert problem in (decided[0].cause.message if decided else "")


def test_a_level_asks_that_cited_documents_exist():
    world = ran(grounded("citations"), {"worker": summary("So.", citations=("ghost.md",))}, documents=LEDGER)
    assert "no document is named 'ghost.md'" in world.of(ev.ReactionDecided)[0].cause.message


def test_a_tools_answer_is_a_source_and_its_error_is_none():
    script = {"worker": [asks(), summary("It was 4711.")], "look": gives({"total": 4711})}
    assert ran(grounded("numbers"), script).end.state is RunState.COMPLETED
    failed = script | {"look": gives(error="no more than 4711 rows")}
    assert ran(grounded("numbers"), failed).end.state is RunState.FAILED


def test_a_calculators_answer_is_its_value_and_not_its_expression():
    fabric = grounded("numbers", tools=("calculator",))
    answer = gives({"expression": "1250 * 12", "value": "15000", "exact": True})
    script = {"worker": [asks(call("calculator", expression="1250 * 12")), summary("15,000 a year.")]}
    assert ran(fabric, script | {"calculator": answer}, documents=LEDGER).end.state is RunState.COMPLETED
    made_up = gives({"expression": "9999 + 1", "value": "10000", "exact": True})
    script = {"worker": [asks(call("calculator", expression="9999 + 1")), summary("It was 9,999.")]}
    assert ran(fabric, script | {"calculator": made_up}, documents=LEDGER).end.state is RunState.FAILED


def test_what_a_branchs_tool_answered_founds_a_later_stage_after_its_run_was_taken_over():
    """The newest snapshot keeps what the tools of a step that is done have answered."""
    fabric = spec(gates={"grounding": "numbers"})
    script = {"worker": [asks(), summary("It was 4711.")], "look": gives({"total": 4711})}
    script |= {"aggregator": summary("All in all 4711.").after(20), "finalizer": summary("4711.").after(20)}
    world = World(fabric, script, cadence=Cadence(on_release=1, while_owned=1)).start().go(until_s=10)
    assert world.run.terminal is False
    world.crash().go()
    assert world.end.state is RunState.COMPLETED


def test_a_number_that_fails_costs_a_retry_with_the_reason():
    world = ran(grounded("numbers"), {"worker": [summary("It was 1251."), summary("It was 1250.")]}, documents=LEDGER)
    assert world.end.state is RunState.FAILED, "a fixed plan's fan-in has no step of its own to run again"
    fabric = spec(gates={"grounding": "numbers"})
    script = {"aggregator": [summary("It was 1251."), summary("It was 1250.")], "finalizer": summary("1250.")}
    world = ran(fabric, script, documents=LEDGER)
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, ["retry"])
    told = [m.text for r in world.requests if r.agent == "aggregator" for m in r.messages]
    assert any("1251 is in no source" in text for text in told)


def test_a_fabric_that_asks_for_nothing_is_not_held_against_anything():
    assert ran(lone(), {"worker": summary("It was 99.")}, documents=LEDGER).end.state is RunState.COMPLETED
