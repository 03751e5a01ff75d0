"""The judge compares memories of fabrics with the journals: one planted fault a sentence, and cases that look like one and are none."""

from dataclasses import replace

import pytest

from tests.chaos.judging import judge
from tests.chaos.judging.remembered import Kept, counted
from tests.chaos.judging.test_judge import GOOD, JOURNAL, S, ended

TOOL = "memory_write_desk"


def intended(key, tool=TOOL):
    return {"kind": "mutation_intended", "command_id": key, "attempt": 1, "key": key, "tool": tool, "at": 2 * S}


def settled(key, status="executed"):
    return {"kind": "mutation_settled", "command_id": key, "attempt": 1, "key": key, "status": status, "at": 3 * S}


def restored(key, *, answered=True):
    facts = [{"kind": "compensation_issued", "command_id": f"c{key}", "attempt": 1, "of_key": key, "at": 4 * S}]
    return facts + [facts[0] | {"kind": "compensation_answered", "at": 5 * S}] * answered


def kept(call_key, version=1, run="r1", *, undone=False, key="desk/1"):
    return Kept(call_key=call_key, memory="desk", key=key, version=version, run=run, undone=undone)


def case(memory, *facts, state="completed"):
    journal = [*JOURNAL[:-1], *facts, ended(state)]
    return replace(GOOD, memory=tuple(memory), journals={"r1": journal}, states={"r1": state}, mutating=False)


WROTE = (intended("a"), settled("a"))
UNDONE = (*WROTE, *restored("a"))


@pytest.mark.parametrize(
    "case",
    [
        case([kept("a")], *WROTE),
        case([kept("a", undone=True)], *UNDONE, state="failed"),
        case([kept("a", version=0, undone=True)], intended("a"), *restored("a"), state="failed"),  # It never came.
        case([], intended("a"), settled("a", "not_executed"), state="failed"),
        case([kept("a", undone=True)], intended("a"), settled("a", "not_executed"), *restored("a", answered=False), state="failed"),
        case([kept("a")], *WROTE, state="running"),
        case([kept("a")], intended("a"), state="running"),  # Its answer is on the way to the journal.
        case([], intended("x", "book_room"), settled("x")),  # No memory's.
    ],
)  # fmt: skip
def test_nothing_is_said_where_nothing_is_wrong(case):
    assert {name: verdict(case) for name, verdict in judge.VERDICTS.items() if name != "lost" and verdict(case)} == {}
    assert [said for said in judge.lost(case) if "memory" in said] == []


@pytest.mark.parametrize(
    ("case", "verdict", "said"),
    [
        (case([], *WROTE), "lost", "memory_write_desk of run r1 was done, and no memory has a"),
        (case([], *UNDONE, state="failed"), "lost", "memory_write_desk of run r1 was done, and no memory has a"),
        (case([kept("a"), kept("a", 2)], *WROTE), "reexecuted", "a is in a memory 2 times"),
        (
            case([kept("a"), kept("b")], *WROTE, intended("b"), settled("b")),
            "reexecuted",
            "version 1 of desk/1 in desk is there 2 times",
        ),
        (case([kept("a"), kept("z", 2)], *WROTE), "reexecuted", "z of run r1 was written without an intent"),
        (
            case([kept("a")], intended("a"), settled("a", "not_executed")),
            "reexecuted",
            "a of run r1 stands, and its journal says that it was not written",
        ),
        (case([kept("a")], *WROTE, state="failed"), "compensations_missed", "a of run r1 (failed) stands"),
        (case([kept("a")], intended("a"), state="cancelled"), "compensations_missed", "a of run r1 (cancelled) stands"),
        (case([kept("a")], *UNDONE), "compensations_missed", "a of run r1 (completed) stands"),
        (
            case([kept("a", undone=True)], *WROTE),
            "compensations_repeated",
            "a of run r1 was taken back, and no journal meant to",
        ),
    ],
)
def test_a_planted_fault_is_told_by_one_verdict(case, verdict, said):
    assert {name: found for name, judge_ in judge.VERDICTS.items() if (found := judge_(case))} == {verdict: [said]}
    assert judge.line(case, is_void=False)[verdict] == 1


def test_what_is_remembered_is_counted():
    memory = [kept("a"), kept("b", 2, undone=True), kept("c", 0, undone=True), kept("d", key="desk/2")]
    assert counted(memory) == {"written": 3, "taken_back": 1, "never_came": 1, "keys": 2}
