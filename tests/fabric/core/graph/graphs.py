"""The tests of graphs share graphs in few words, and conversations played on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.graph.conditions import Terminate, ToAgent
from fabric.core.graph.conversation import Decision, FoldResult, fold, open_conversation
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.graph.spec import Transition, TransitionGraph
from fabric.core.graph.state import Finish, Handoff, Happening, Packet, State, ToolUse, Writes

PEOPLE = ("alice", "bob", "carol")


def rule(when: Any, then: Any, order: int = 0) -> Transition:
    """A transition; a text as its target is a participant."""
    return Transition(when=when, then=ToAgent(agent=then) if isinstance(then, str) else then, order=order)


def graph(*rules: Transition, **fields: Any) -> TransitionGraph:
    """A graph of three, of whom alice begins, and that ends with ``done`` without a matching rule."""
    given = {"participants": PEOPLE, "initial_speaker": "alice", "default_target": Terminate(reason="done")}
    return TransitionGraph(transitions=rules, **(given | fields))


def packet(speaker: str, *calls: str | ToolUse, **fields: Any) -> Packet:
    """A turn; a text among its calls is a tool that returned nothing for the graph."""
    used = tuple(ToolUse(one) if isinstance(one, str) else one for one in calls)
    return Packet(speaker, calls=used, **fields)


def handing(tool: str, target: str, reason: str = "") -> ToolUse:
    return ToolUse(tool, Handoff(target, reason))


def finishing(tool: str, reason: str = "finished") -> ToolUse:
    return ToolUse(tool, Finish(reason))


def sets(**values: Any) -> Writes:
    return Writes(set=values)


def folded(
    on: TransitionGraph, happenings: Iterable[Happening], state: State | None = None, registry: Registry = BUILT_IN
) -> list[FoldResult]:
    """Return what came of each of several happenings, one after the other."""
    state, found = state or open_conversation(on), []
    for one in happenings:
        found.append(fold(on, state, one, registry))
        state = found[-1].state
    return found


def decided(on: TransitionGraph, *happenings: Happening, registry: Registry = BUILT_IN) -> Decision:
    """The decision after the last happening, of which each must be accepted."""
    found = folded(on, happenings, registry=registry)
    assert [one.refused for one in found] == [""] * len(found)
    assert found[-1].decision is not None
    return found[-1].decision


def speakers(on: TransitionGraph, turns_max: int = 50) -> tuple[list[str], str]:
    """The speakers, one after the other, where no agent calls anything, and why it ends; empty: it had not ended."""
    state, spoken = open_conversation(on), list[str]()
    while state.expected is not None and len(spoken) < turns_max:
        spoken.append(state.expected)
        state = fold(on, state, Packet(state.expected)).state
    return spoken, state.close_reason
