"""One decision in the making: the run so far, the facts it added, the commands that follow from them.

``emit`` folds each fact at once, so that what is decided next sees it. Local to one ``decide``; nothing of it leaves but the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.commands import Command
from fabric.core.context import Compiled, Context
from fabric.core.envelope import Event
from fabric.core.evolve import evolve
from fabric.core.fingerprint import content_ref, decode, encode
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.mechanisms.contract import View
from fabric.core.outbox import Outgoing
from fabric.core.policy import FlowPolicy
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
    outbox: list[Outgoing] = field(default_factory=list)
    """Written with the facts, in one transaction."""

    @property
    def compiled(self) -> Compiled:
        """The revision in force; of a team, with the topology that it runs."""
        compiled = self.ctx.compiled
        return compiled.within(self.run.topology) if compiled.nested else compiled

    def policy_in(self, stage: Stage) -> FlowPolicy:
        """The policy as a stage sees it."""
        return self.compiled.spec.policy.of_stage(stage)

    @property
    def held(self) -> bool:
        """Whether nothing may be issued now: what comes is taken in, and the run stays where it is."""
        return self.ctx.draining or self.run.control.paused is not None

    @property
    def view(self) -> View:
        """What mechanisms may look at."""
        ctx, compiled = self.ctx, self.compiled
        shared, evaluators, denied = ctx.shares, compiled.evaluators, compiled.under.denied
        return View(ctx.now, self.run, compiled.spec, shared, evaluators, ctx.contents, ctx.workspace, denied)

    def emit(self, fact: ev.Fact, content: JSON = None) -> Event:
        """Records a fact, with at most one content, and folds it."""
        raw = None if content is None else encode(content)
        ref = "" if raw is None else content_ref(raw)
        if raw is not None:
            # What its bytes say, so that a decision goes by the same whether this process wrote them or read them back.
            self.ctx.contents.put(ref, decode(raw), len(raw))
        size = 0 if raw is None else len(raw)
        event = Event(self.run.seq + 1, self.ctx.now, fact, self.input_id, ref, size)
        self.run = evolve(self.run, event)
        self.emitted.append(Emitted(event, raw))
        return event
