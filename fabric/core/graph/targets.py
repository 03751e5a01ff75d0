"""Targets of transitions: as a fabric writes them, and whom each leads to, one row a kind (semantics.md 5; S4 "Built-in Targets")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from fabric.core.graph.registry import Next, Registry, target_of
from fabric.core.graph.state import Turn
from fabric.core.spec_parts import Line, Name, SpecGroup


class ToAgent(SpecGroup):
    """A participant by name."""

    kind: Literal["agent"] = "agent"
    agent: Name = Field(description="Who speaks next.")


class RoundRobin(SpecGroup):
    """The participant after the one that spoke, in their order; after the last the first."""

    kind: Literal["round_robin"] = "round_robin"


class Stay(SpecGroup):
    """Whoever spoke speaks again."""

    kind: Literal["stay"] = "stay"


class RevertToInitiator(SpecGroup):
    """Back to the participant that opened the conversation."""

    kind: Literal["revert_to_initiator"] = "revert_to_initiator"


class Terminate(SpecGroup):
    """The end, with its reason."""

    kind: Literal["terminate"] = "terminate"
    reason: Line = Field(default="terminated", description="Why the conversation is closed.")


class RegisteredTarget(SpecGroup):
    """One of the installation's own, by its name."""

    kind: Literal["registered"] = "registered"
    name: Name
    args: dict[str, JsonValue] = Field(default_factory=dict, description="What it is made with.")


KINDS = (ToAgent, RoundRobin, Stay, RevertToInitiator, Terminate, RegisteredTarget)
NAMES = tuple(str(kind.model_fields["kind"].default) for kind in KINDS)
Target = Annotated[
    ToAgent | RoundRobin | Stay | RevertToInitiator | Terminate | RegisteredTarget,
    Field(discriminator="kind"),
]


def resolved(target: Target, turn: Turn, registry: Registry) -> Next:
    """Where a target leads from a turn. Unanswered where one of the installation's own gives no answer."""
    return RESOLVES[type(target)](target, turn, registry)


def after(participants: tuple[str, ...], speaker: str) -> str:
    """The participant after one, in their order; the first after the last."""
    return participants[(participants.index(speaker) + 1) % len(participants)]


RESOLVES: Mapping[type[SpecGroup], Callable[[Any, Turn, Registry], Next]] = {
    ToAgent: lambda target, turn, registry: Next(target.agent),
    RoundRobin: lambda target, turn, registry: Next(after(turn.state.participants, turn.packet.speaker)),
    Stay: lambda target, turn, registry: Next(turn.packet.speaker),
    RevertToInitiator: lambda target, turn, registry: Next(turn.state.initiator),
    Terminate: lambda target, turn, registry: Next(None, target.reason),
    RegisteredTarget: lambda target, turn, registry: target_of(registry, target.name, target.args, turn),
}
"""Where each kind leads. Total over ``KINDS``, by test."""
