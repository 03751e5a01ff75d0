"""What publication asks of tools that change the world: mutating ones need a way back that can be tried again and again, irreversible ones a person before each call, or a reason
why not (semantics.md 4 "Saga").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.spec import FabricSpec
from fabric.core.spec_tools import ToolSpec
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation


def ways_back(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Tools that change the world as they may not: no way back that can be tried again and again, no person before what cannot be undone."""
    for n, tool in enumerate(spec.tools):
        for field, sentence in _ways_back(spec, tool):
            yield Problem(f"tools.{n}.{field}", f"tool {tool.name!r} {sentence}")


def priced_errands(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Tools with a price that the engine calls whatever the budget says: what undoes a change, and what asks whether it was made."""
    for n, tool in enumerate(spec.tools):
        if not tool.price_usd_micros:
            continue
        for other in spec.tools:
            does = {other.compensation: "undoes", other.reconcile: "reconciles"}.get(tool.name)
            if does is not None:
                sentence = f"tool {tool.name!r} {does} {other.name!r}, and that is done whatever the budget says; leave its price out"
                yield Problem(f"tools.{n}.usd_per_call", sentence)
                break


def _ways_back(spec: FabricSpec, tool: ToolSpec) -> Iterator[tuple[str, str]]:
    if tool.effect == "mutating" and tool.compensation is None:
        yield "compensation", "is mutating; name the tool that undoes it, or declare it irreversible"
    if tool.effect != "mutating":
        for field in ("compensation", "reconcile"):
            if getattr(tool, field) is not None:
                yield field, f"is {tool.effect}, and only a mutating tool has a {field}; leave it out"
        if tool.carry_over:
            yield "carry_over", f"is {tool.effect}, and only what a mutating tool did is carried over; leave it out"
    if tool.compensation is not None and tool.effect == "mutating":
        yield from _compensation(tool, spec.tool(tool.compensation))
    if tool.reconcile is not None and spec.tool(tool.reconcile).effect != "read_only":
        said = spec.tool(tool.reconcile).effect
        yield (
            "reconcile",
            f"is reconciled by {tool.reconcile!r}, which is {said}; asking must change nothing, so name a read_only tool",
        )
    if tool.approve_when is not None and tool.effect == "irreversible" and tool.approval == "required":
        yield (
            "approve_when",
            "is irreversible, so that a person is asked before each call; leave the rule out, or waive `approval` with a `deviation`",
        )
    if tool.approval == "waived" and tool.effect != "irreversible":
        yield "approval", f"is {tool.effect}, and only irreversible calls are approved beforehand; leave it out"
    elif tool.approval == "waived" and not tool.deviation.strip():
        yield (
            "deviation",
            "is irreversible and waives the approval; give a `deviation` with the reason, or take `approval` away",
        )


def _compensation(tool: ToolSpec, undo: ToolSpec) -> Iterator[tuple[str, str]]:
    if undo.name == tool.name:
        yield "compensation", "cannot undo itself; name another tool"
    elif undo.effect != "idempotent":
        sentence = f"is undone by {undo.name!r}, which is {undo.effect}; it may be sent more than once, so it must be idempotent"
        yield "compensation", sentence
    elif undo.kind == "builtin":
        yield (
            "compensation",
            f"is undone by {undo.name!r}, but no built-in undoes anything; name an http or callable tool",
        )
    elif undo.kind == "http" and undo.method not in ("POST", "PUT", "PATCH"):
        sentence = (
            f"is undone by {undo.name!r} with {undo.method}, but a compensation is called with a JSON body "
            '{"key", "args", "result"}; use POST, PUT or PATCH'
        )
        yield "compensation", sentence
