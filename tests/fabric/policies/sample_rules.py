"""Registries as an installation has them, for tests that name them by dotted path."""

from __future__ import annotations

from typing import Any

from fabric.core.graph.registry import Next, Register, Registry


def _late(args):
    turns = int(args["from"])
    return lambda turn: turn.state.turns >= turns


def _raises(args):
    def holds(turn):
        raise RuntimeError("the directory of people is away")

    return holds


ROUTING = Registry(
    Register[Any]("condition").add("late", _late),
    Register[Any]("target").add("last", lambda args: lambda turn: Next(turn.state.participants[-1])),
)
AGAIN = Registry(Register[Any]("condition").add("late", _late))
ODD = Registry(
    Register[Any]("condition").add("raises", _raises).add("none", lambda args: lambda turn: None),
    Register[Any]("target").add("text", lambda args: lambda turn: "reader"),
)
NO_REGISTRY = {"late": _late}
