"""Whichever way a result comes, it is compared without the arguments that its call was made with (docs/specification/protections.md)."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.values.fingerprint import masked_fingerprint
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, gives, summary

KEEPERS, LAMPS = "keepers of the lighthouse", "lamps of the harbour"


def about(query: str) -> object:
    return {"query": query, "said": f"There is nothing on {query}.", "rows": []}


NOTHING = masked_fingerprint({"result": about(LAMPS)}, {"q": LAMPS})
"""The result of both questions."""


def test_a_result_that_a_tool_gives():
    world = ran(lone(), {"worker": [asks(call(q=KEEPERS)), summary()], "look": gives(about(KEEPERS))})
    assert [fact.masked_hash for fact in world.of(ev.ToolAnswered)] == [NOTHING]


def test_a_result_of_a_call_with_a_persons_arguments():
    look = {"worker": [asks(call(q=KEEPERS)), summary()], "look": gives(about(LAMPS))}
    world = ran(lone(tool={"effect": "irreversible"}), look)
    world.decide("edit", edited={"q": LAMPS}).go()
    assert world.executed == [("look", {"q": LAMPS})]
    assert [fact.masked_hash for fact in world.of(ev.ToolAnswered)] == [NOTHING]


def test_an_error_of_a_tool():
    def hashed(query: str) -> str:
        look = gives(None, f"{query!r} has no word to look for")
        world = ran(lone(), {"worker": [asks(call(q=query)), summary()], "look": look})
        return world.of(ev.ToolAnswered)[0].masked_hash

    assert hashed(KEEPERS) == hashed(LAMPS)
