"""Computes from a fabric's limits after how many handovers a circle of agents ends, and by which limit.

Each turn is a step of its own, with one call that hands over. So the loop detector, which looks at the calls of one
step, sees nothing. The deadlock monitor stops repeated words, the hop limit any words, and a graph's visits and turns
what they bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.core.events.decisions import ReactionDecided
from fabric.core.events.envelope import Event
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause
from simulator.faults.fault import Calls, Handing
from simulator.scenarios.play.verdicts import Deviation, Verdict, deviate
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import SAME_BRIEF
from simulator.scenarios.strikes.handovers import find_circle, first_agent

ENDS = frozenset({Cause.HOP_LIMIT, Cause.VISIT_LIMIT, Cause.BRIEF_REPEATED, Cause.HANDOFF_CYCLE})
"""Causes that end a circle by the fabric's own limits."""


@dataclass(frozen=True, slots=True)
class Promise:
    """End of a circle: number of handovers, and its causes; none if its turns are over first."""

    handovers: int
    causes: frozenset[Cause]

    def __str__(self) -> str:
        return _words(self.handovers, self.causes)


def _words(handovers: int, causes: frozenset[Cause]) -> str:
    by = " and ".join(sorted(causes)) or "its last turn"
    return f"{handovers} handover{'' if handovers == 1 else 's'}, then {by}"


def is_about(disturbances: Sequence[Disturbance]) -> bool:
    """Return True if nothing else is disturbed."""
    return all(isinstance(one.parameters, Handing) for one in disturbances)


def promise_handovers(spec: FabricSpec, disturbances: Sequence[Disturbance]) -> Promise | None:
    """Return the promise; None if something else is disturbed, or not every turn is."""
    if len(disturbances) != 1 or not is_about(disturbances):
        return None
    given = disturbances[0].parameters
    assert isinstance(given, Handing)
    if Calls(**given.model_dump(include=set(Calls.model_fields))) != Calls():
        return None  # An agent that is hit now and then answers in between.
    return _walk_circle(spec, given)


def _walk_circle(spec: FabricSpec, given: Handing) -> Promise:
    """Walk the circle turn by turn until a limit ends it."""
    onward, limits = find_circle(spec, given.peers), spec.policy.of_stage(Stage.FAN_OUT).limits
    turns: Counter[str] = Counter()
    moves: list[tuple[str, str]] = []
    last_turn = getattr(spec.topology, "max_turns", None)
    who = first_agent(spec)
    while True:
        turns[who] += 1
        if turns[who] > _visits(spec, who):
            return Promise(len(moves), frozenset({Cause.VISIT_LIMIT}))
        move = who, onward[who]
        found = {Cause.HOP_LIMIT} if len(moves) >= limits.hops else set()
        if given.how == "the_same" and (stuck := _find_stuck(spec, moves, move, given.peers)):
            found.add(stuck)
        if found:
            return Promise(len(moves), frozenset(found))
        if last_turn is not None and turns.total() >= last_turn:
            return Promise(len(moves), frozenset())
        moves.append(move)
        who = move[1]


def _visits(spec: FabricSpec, who: str) -> float:
    limits, own = spec.policy.limits, spec.topology.visits_of(who)
    allowed = own if own is not None else limits.max_node_visits
    if allowed is None:
        return float("inf")
    return allowed - 1 if limits.visits_preset == "fabro" else allowed


def _find_stuck(spec: FabricSpec, moves: list[tuple[str, str]], move: tuple[str, str], peers: int) -> Cause | None:
    """Return the deadlock monitor's finding if each move repeats the words of the one before."""
    monitor = spec.policy.of_stage(Stage.FAN_OUT).deadlock_monitor
    if len(SAME_BRIEF) >= monitor.brief_chars and move in moves[-(monitor.window_moves - 1) :]:
        return Cause.BRIEF_REPEATED
    rounds = [*moves[-(monitor.window_moves - 1) :], move][-2 * peers :]
    twice = len(rounds) == 2 * peers and rounds[:peers] == rounds[peers:]
    return Cause.HANDOFF_CYCLE if twice and peers <= monitor.cycle_max else None


def judge_promise(promise: Promise, events: Sequence[Event]) -> tuple[Verdict, str]:
    """Return the verdict about a journal and the promise, and a sentence unless it passes."""
    handovers, causes = _observed_handovers(events)
    if (handovers, causes) == (promise.handovers, promise.causes):
        return "pass", ""
    if handovers <= promise.handovers and causes and not causes & ENDS:
        by = ", ".join(sorted(causes))
        return "unknown", f"{by} came before anything that is there to end a circle: its limits promise {promise}"
    return deviate(Deviation.HANDOVERS, f"it had {_words(handovers, causes)}, where {promise} was promised")


def _observed_handovers(events: Sequence[Event]) -> tuple[int, frozenset[Cause]]:
    """Return the handovers up to the first decision, and its causes."""
    handovers = 0
    for event in events:
        if isinstance(event.fact, ReactionDecided):
            return handovers, frozenset(Cause(one.cause) for one in (event.fact.cause, *event.fact.causes))
        handovers += event.fact.kind == "handed_off"
    return handovers, frozenset()
