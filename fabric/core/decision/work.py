"""One decision in the making: the run so far, the facts it added, the commands that follow from them.

``emit`` folds each fact at once, so that later choices see it. Local to one ``decide``; only the result leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core import events as ev
from fabric.core.events.commands import Command, Outgoing
from fabric.core.events.envelope import Event
from fabric.core.evolve import evolve
from fabric.core.mechanisms.contract import View
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.context import CompiledFabric, Context
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import address_of, decode, encode, hash_content
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON


@value()
class EmittedFact:
    """An event with its content's bytes, encoded once for row, hash and socket."""

    event: Event
    content: bytes | None
    hashed: bytes = b""
    """The content's SHA-256; empty: not computed."""


@dataclass(slots=True)
class Work:
    """The builder of one decision."""

    run: Run
    ctx: Context
    input_id: str = ""
    emitted: list[EmittedFact] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    outbox: list[Outgoing] = field(default_factory=list)
    """Written with the facts, in one transaction."""
    compiled_fabric: CompiledFabric = field(init=False)
    """The revision in force; of a team, with the topology that it runs."""

    def __post_init__(self) -> None:
        """Select the topology."""
        self.compiled_fabric = self.ctx.compiled
        if self.compiled_fabric.nested:
            self._select_topology()

    def _select_topology(self) -> None:
        self.compiled_fabric = self.ctx.compiled.select_topology(self.run.topology)

    def policy_in(self, stage: Stage) -> FlowPolicy:
        """Return the policy as a stage sees it."""
        policy = self.compiled_fabric.spec.policy
        return policy.of_stage(stage) if policy.stages else policy

    @property
    def held(self) -> bool:
        """True if nothing may be issued now: inputs are taken in, and the run stays in its place."""
        return self.ctx.draining or self.run.control.paused is not None

    @property
    def view(self) -> View:
        """The facts that mechanisms may read."""
        ctx, compiled = self.ctx, self.compiled_fabric
        shared, evaluators, denied = ctx.shares, compiled.evaluators, compiled.under.denied
        return View(ctx.now, self.run, compiled.spec, shared, evaluators, ctx.contents, ctx.workspace, denied)

    def emit(self, fact: ev.Fact, content: JSON = None) -> Event:
        """Record a fact, with at most one content, and fold it."""
        raw, ref, hashed, size = None, "", b"", 0
        if content is not None:
            raw = encode(content)
            hashed = hash_content(raw)
            ref, size = address_of(hashed), len(raw)
            # Decoded from its bytes, so that a decision is equal in the writing process and in later readers.
            self.ctx.contents.put(ref, decode(raw), size)
        event = Event(self.run.seq + 1, self.ctx.now, fact, self.input_id, ref, size)
        self.run = evolve(self.run, event)
        if self.ctx.compiled.nested:
            self._select_topology()
        self.emitted.append(EmittedFact(event, raw, hashed))
        return event
