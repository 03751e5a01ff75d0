"""The two graphs that most conversations are (S4 "Convenience Factories")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fabric.core.graph.conditions import Always, FromSpeaker, RoundRobin, Terminate, ToAgent
from fabric.core.graph.spec import Transition, TransitionGraph

SEQUENCE_COMPLETE = "sequence_complete"
ROUND_ROBIN_COMPLETE = "round_robin_complete"


def sequence(steps: Sequence[str]) -> TransitionGraph:
    """Return a graph with each step once, in order, then ``sequence_complete``. Raises ValueError without a step."""
    if not steps:
        raise ValueError("a sequence has at least one step; name who speaks")
    return TransitionGraph(
        participants=tuple(dict.fromkeys(steps)),
        initial_speaker=steps[0],
        transitions=tuple(Transition(when=FromSpeaker(agent=a), then=ToAgent(agent=b)) for a, b in pairwise(steps)),
        default_target=Terminate(reason=SEQUENCE_COMPLETE),
        max_turns=len(steps),
    )


def round_robin(participants: Sequence[str], max_turns: int | None = None) -> TransitionGraph:
    """Return a graph in which all speak in turn, until ``max_turns`` are taken. Raises ValueError without a
    participant.
    """
    if not participants:
        raise ValueError("a round has at least one participant; name who speaks")
    return TransitionGraph(
        participants=tuple(participants),
        initial_speaker=participants[0],
        transitions=(Transition(when=Always(), then=RoundRobin()),),
        default_target=Terminate(reason=ROUND_ROBIN_COMPLETE),
        max_turns=max_turns,
    )
