"""What must be true of calls and personas: invariants as in ``invariants.py`` (S3 "Persona constraints"). Judged here anew, part by part of a capability."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from fabric.core.taxonomy import Cause
from simulator.kernel.seen import Seen, on


@on("call_issued", "call_refused")
def personas_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No tool call of an agent goes out that its persona bars, and none is refused for its persona that it lets pass."""
    if fact.kind == "call_issued" and (fact.call != "tool" or not fact.agent):
        return ""
    name, tool = (
        (fact.agent, fact.target) if fact.kind == "call_issued" else (after.steps[fact.step_id].agent, fact.tool)
    )
    if fact.kind == "call_refused" and fact.cause is not Cause.PERSONA_VIOLATION:
        return ""
    barred = _barred(seen, name, tool)
    if fact.kind == "call_issued":
        return f"{name} called {tool}, which its persona bars" if barred else ""
    return "" if barred else f"{name} was refused {tool} for its persona, which lets it pass"


def _barred(seen: Seen, name: str, tool: str) -> bool:
    spec = seen.compiled.spec
    persona = spec.agent(name).persona
    if persona is None:
        return False
    allowed, needed = persona.allowed_capabilities, spec.tool(tool).capabilities or (f"tool:{tool}",)
    denied = any(_among(one, persona.denied_capabilities) for one in needed)
    return denied or (allowed is not None and not all(_among(one, allowed) for one in needed))


def _among(capability: str, entries: Iterable[str]) -> bool:
    parts = capability.split(":")
    told = [entry.split(":") for entry in entries]
    return any(parts == each or (each[-1] == "*" and parts[: len(each) - 1] == each[:-1]) for each in told)
