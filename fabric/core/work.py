"""One decision in the making: the run so far, the facts it added, the commands that follow from them.

``emit`` folds each fact at once, so that what is decided next sees it. Local to one ``decide``; nothing of it leaves but the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from fabric.core import events as ev
from fabric.core.commands import Command
from fabric.core.context import Compiled, Context
from fabric.core.envelope import Event
from fabric.core.evolve import evolve
from fabric.core.fingerprint import content_ref, encode
from fabric.core.frozen import value
from fabric.core.mechanisms.contract import View
from fabric.core.run import Run

JSON = Any
US = 1_000_000


@value()
class Emitted:
    """An event with its content's bytes, encoded once for row, hash and socket."""

    event: Event
    content: bytes | None


@dataclass(slots=True)
class Work:
    """The builder of one decision."""

    run: Run
    ctx: Context
    input_id: str = ""
    emitted: list[Emitted] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    @property
    def compiled(self) -> Compiled:
        """The revision in force."""
        return self.ctx.compiled

    @property
    def view(self) -> View:
        """What mechanisms may look at."""
        return View(self.ctx.now, self.run, self.ctx.compiled.spec)

    def emit(self, fact: ev.Fact, content: JSON = None) -> Event:
        """Records a fact, with at most one content, and folds it."""
        raw = None if content is None else encode(content)
        ref = "" if raw is None else content_ref(raw)
        if raw is not None:
            self.ctx.contents.put(ref, content, len(raw))
        span, parent = spans(self.ctx.trace_id, fact)
        source, destination = parties(fact)
        event = Event(
            seq=self.run.seq + 1,
            at=self.ctx.now,
            fact=fact,
            span=span,
            parent=parent,
            source=source,
            destination=destination,
            input_id=self.input_id,
            content_ref=ref,
            content_bytes=0 if raw is None else len(raw),
        )
        self.run = evolve(self.run, event)
        self.emitted.append(Emitted(event, raw))
        return event


@lru_cache(maxsize=4_096)
def span_of(trace_id: str, *names: str | int) -> str:
    """A W3C span id, 16 hex digits, the same wherever it is computed."""
    return blake2b("|".join((trace_id, *map(str, names))).encode(), digest_size=8).hexdigest()


def spans(trace_id: str, fact: Any) -> tuple[str, str]:
    """``(span, parent span)`` of a fact: call under step under run (semantics.md 7 "Tracing")."""
    step = getattr(fact, "step_id", "")
    command = getattr(fact, "command_id", "")
    if command:
        above = step or command.rpartition(".t")[0]
        return span_of(trace_id, command, getattr(fact, "attempt", 1)), span_of(trace_id, above)
    if step:
        return span_of(trace_id, step), span_of(trace_id)
    return span_of(trace_id), ""


def parties(fact: Any) -> tuple[str, str]:
    """``(source, destination)`` of a fact as ``layer/agent``."""
    match fact.kind:
        case "call_issued":
            return f"agent/{fact.agent}", f"{fact.call}/{fact.target}"
        case "model_answered":
            return "model/", f"step/{fact.step_id}"
        case "tool_answered":
            return f"tool/{fact.tool}", f"step/{fact.step_id}"
        case "run_started":
            return f"caller/{fact.requested_by}", ENGINE
        case "escalation_opened":
            return ENGINE, f"human/{fact.required_role}"
        case "escalation_decided":
            return f"human/{fact.actor}", ENGINE
        case "cancel_accepted":
            return f"human/{fact.actor}", ENGINE
        case "run_ended":
            return ENGINE, "caller/"
    return ENGINE, ENGINE


ENGINE = "flow/engine"
