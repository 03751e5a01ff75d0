"""A small scripted world around the real driver: a clock, a journal in a list, models and tools that answer from a script.

After every commit it refolds the journal and holds it against the driver's state, verifies the chain, derives each decision again from the events
before it, and renders each prompt to hold its size against what was reserved for it: so every test that drives a run tests those as well.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from fabric.core import events as ev
from fabric.core.budgets.key_caps import KeyCaps
from fabric.core.events.commands import AbortCall, CallModel, CallTool, Command
from fabric.core.events.envelope import Event, JournalRow, list_events, verify_chain
from fabric.core.events.inputs import INBOX, CallStreamed, CancelRequested, InboxInput, Result, RunRequested
from fabric.core.evolve import fold
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.cost import Price
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.tracing import Trace
from fabric.core.values.units import JSON, US
from fabric.core.workspace_policy.policy import NOTHING, WorkspacePolicy
from fabric.runtime import prompts
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import (
    Append,
    Arrived,
    Committed,
    CutShort,
    Draining,
    Due,
    Effect,
    Happening,
    Need,
    OpenBreakers,
    Perform,
    PortAnswered,
    Release,
    Streamed,
    Taken,
    WakeAt,
)
from fabric.runtime.journal.snapshots import Cadence
from fabric.runtime.ports.calls import ModelRequest, ToolOffer
from fabric.runtime.ports.journal import Batch, ClaimedRun, Document, InboxItem, StoredRow
from fabric.runtime.spending.overruns import Surprises
from fabric.runtime.spending.usual_rates import UsualRates
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.deriving import Deriving
from tests.fabric.core.fabrics import PRICES, compiled_under
from tests.fabric.core.scripts import GOOD, Answer, Script, fails, gives
from tests.fabric.core.standings import stood
from tests.fabric.core.tills import Till
from tests.fabric.core.told import T0, Told, links, sent

__all__ = ["T0", "US", "World", "ran", "rendered_bytes"]


@dataclass
class World(Told):
    """One run in a scripted world. ``script``: what each agent's model and each tool answers, by name; lists are used up, then the last one stays."""

    spec: FabricSpec
    script: Mapping[str, Script] = field(default_factory=dict)
    tier: Tier = Tier.INTERACTIVE
    documents: tuple[Document, ...] = ()
    validators: Mapping[str, Callable[[JSON], list[str]]] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)
    seed: int = 7
    cadence: Cadence = field(default_factory=Cadence)
    late: bool = False
    """Deliver the results of calls that were aborted."""
    till: Till | None = None
    """What the run shares with others; None: no money, and retry tokens as the rule has them."""
    surprises: Surprises = field(default_factory=Surprises)
    """What its process saw models bill above their reservations."""
    breakers: VirtualBreakers | None = None
    """The circuit breakers of its process; None: there are none."""
    people: Mapping[str, str | None] | None = None
    """What those who answer hold; None: each of them holds every role."""
    requester: str = "alice"
    causers: tuple[str, ...] = ()
    """Who is behind the requester."""
    usual: UsualRates = field(default_factory=UsualRates)
    """What its process knows of its fabric's usual rates."""
    claim: Mapping[str, Any] = field(default_factory=dict)
    """What else its row says when it is claimed."""
    policy: WorkspacePolicy = NOTHING
    """Its workspace's."""
    key_caps: KeyCaps = field(default_factory=dict)
    """Caps of the keys of its models, by model name."""

    def __post_init__(self) -> None:
        self.now = T0
        self.desk = self.till or Till()
        self.rows: list[JournalRow] = []
        self.events: list[Event] = []
        self.inbox: list[InboxItem] = []
        self.requests: list[ModelRequest] = []
        self.executed: list[tuple[str, JSON]] = []
        self.performed: list[Command] = []
        self.aborted: list[AbortCall] = []
        self.batches = 0
        self.written: list[Batch] = []
        self.fence = 0
        self.wake: int | None = None
        self.driver: RunDriver | None = None
        self.run = Run("run-1", tier=self.tier, seed=self.seed)
        self._queue: list[tuple[int, int, Happening]] = []
        self._order = 0
        self._used: Counter[str] = Counter()
        self._aborted: set[tuple[str, int]] = set()
        self._resting_wake: int | None = None
        agents = self.spec.agents
        offered = (ToolOffer(name=one.name, description=one.description, parameters={}) for one in self.spec.all_tools)
        self.offers = {one.name: one for one in offered}
        overhead = {a.name: prompts.overhead_bytes(self.spec, a, self.offers) for a in agents}
        how: dict[str, Any] = {"prices": self.prices, "validators": self.validators, "key_caps": self.key_caps}
        self.compiled: CompiledFabric = compiled_under(
            self.spec, self.policy, self.tier, prompt_overhead=overhead, **how
        )
        self.deriving = Deriving(self.compiled, self.tier)

    # -- what a test does ----------------------------------------------------------------------------------------------

    def start(self, text: str = "What is it?") -> World:
        request: dict[str, Any] = {"text": text, "documents": [d.name for d in self.documents]}
        request["document_bytes"] = [len(d.text.encode()) for d in self.documents]
        deadline = self.now + int(self.spec.policy.deadlines_of(self.tier).run_s * US)
        given = RunRequested(input_id="start", request=request, deadline_at=deadline, requested_by=self.requester)
        self.put(dataclasses.replace(given, caused_by=self.causers))
        return self

    def go(self, *, until_s: float | None = None, steps: int = 20_000) -> World:
        """Lets the world run until nothing is left but a person, or the end; or to an instant (seconds since the start), or for so many steps."""
        stop = None if until_s is None else T0 + int(until_s * US)
        for _ in range(steps):
            if self.driver is None and not self._claim():
                break
            due = self._next()
            if due is None:
                break
            if stop is not None and due > stop:
                self.now = stop
                break
            self._one(due)
        else:
            assert steps < 20_000, "the run does not come to rest"
        return self

    def put(self, given: InboxInput) -> None:
        """Something arrives from outside, now."""
        item = stood(InboxItem("run-1", given.input_id, INBOX.dump_json(given)), self.people)
        if self.driver is None:
            self.inbox.append(item)
        else:
            self._step(Arrived(item))

    def cancel(self, reason: str = "") -> World:
        self.put(CancelRequested(input_id="cancel", actor="alice", reason=reason))
        return self.go()

    def wait(self, seconds: float) -> World:
        """Time passes; a released run that becomes due is claimed again."""
        stop = self.now + int(seconds * US)
        while self.driver is None and self._resting_wake is not None and self._resting_wake <= stop:
            self.now = max(self.now, self._resting_wake)
            self._resting_wake = None
            self._claim(forced=True)
            self.go()
        self.now = max(self.now, stop)
        return self

    def answered(self, result: Result) -> None:
        self._step(PortAnswered(result))

    def crash(self) -> World:
        """The process is gone: state in memory and everything in flight with it. Another takes the run over."""
        self.driver = None
        self._queue.clear()
        self.wake = None
        self._claim(forced=True)
        return self

    def drain(self) -> World:
        """The process begins to stop. A run that it gives back is claimed by the next one with ``go``."""
        assert self.driver is not None
        self._step(Draining())
        return self

    def cut(self, *unsent: tuple[str, int]) -> World:
        """The process waits no longer; what is out never comes."""
        assert self.driver is not None
        self._queue.clear()
        self._step(CutShort(frozenset(unsent)))
        return self

    def take_up(self) -> World:
        """Another process claims the run, as it is due by the time it was released with."""
        assert self.driver is None
        assert self._resting_wake is not None
        assert self._resting_wake <= self.now
        self._claim(forced=True)
        return self

    # -- the world -----------------------------------------------------------------------------------------------------

    def _claim(self, *, forced: bool = False) -> bool:
        if self.run.terminal or not (self.inbox or forced):
            return False
        self.fence += 1
        kept = ((r.seq, r.kind, r.version, r.header, r.payload, r.payload_hash, r.hash) for r in self.rows)
        stored = tuple(StoredRow(*one) for one in kept)
        self.driver = RunDriver(self.compiled, self.cadence, held=self.desk, surprises=self.surprises, usual=self.usual)
        inbox, self.inbox = tuple(self.inbox), []
        claimed = ClaimedRun(
            run_id="run-1",
            fence=self.fence,
            revision_id=self.compiled.revision,
            trace_id="t" * 32,
            seed=self.seed,
            tier=self.tier,
            rows=stored,
            inbox=inbox,
            taken_over=forced,
            last_seq=stored[-1].last_seq if stored else 0,
            head=self.head,
            documents=self.documents if self.spec.gates.reads_sources else None,
            fabric_id="fabric-1",
            workspace_id="workspace-1",
            **{"at": self.now, **self.claim},
        )
        self._step(Taken(claimed, f"process-{self.fence}"))
        return True

    def _next(self) -> int | None:
        instants = [self._queue[0][0]] if self._queue else []
        if self.driver is not None and self.wake is not None:
            instants.append(self.wake)
        return min(instants) if instants else None

    def _one(self, at: int) -> None:
        self.now = max(self.now, at)
        if self._queue and self._queue[0][0] <= at:
            happening = heappop(self._queue)[2]
            if self._wanted(happening):
                self._step(happening)
        else:
            self.wake = None
            self._step(Due())

    def _wanted(self, happening: Happening) -> bool:
        if self.driver is None:
            return False
        if not isinstance(happening, PortAnswered):
            return True
        return self.late or (happening.result.command_id, happening.result.attempt) not in self._aborted

    def _step(self, happening: Happening) -> None:
        assert self.driver is not None
        key, known = ("", "", 0), self.breakers if isinstance(happening, PortAnswered) else None
        if isinstance(happening, PortAnswered) and known is not None:
            key = ("run-1", happening.result.command_id, happening.result.attempt)
            happening = PortAnswered(
                known.note_result("fabric-1", self.driver, sent(self.performed, *key[1:]), happening.result)
            )
        todo: list[Effect] = self.driver.step(happening, self.now)
        if isinstance(happening, PortAnswered) and known is not None:
            known.report_result(key, happening.result, self.driver)
        while todo:
            effect = todo.pop(0)
            if isinstance(effect, Append):
                todo += self._append(effect)
            elif isinstance(effect, Perform):
                self._perform(effect.command)
            elif isinstance(effect, WakeAt):
                self.wake = effect.at
            elif isinstance(effect, Need):
                self._needs(effect)
            elif isinstance(effect, OpenBreakers) and self.breakers is not None:
                self.breakers.opens("run-1", effect.gates, effect.judged)
            elif isinstance(effect, Release):
                self.driver, self.wake = None, None
                return

    def _needs(self, need: Need) -> None:
        self.desk.now_us = self.now
        for want in need.wants:
            answer = self.desk.answer(want)
            if answer is not None:
                self._order += 1
                heappush(self._queue, (self.now + self.desk.after_us, self._order, answer))

    def _append(self, effect: Append) -> list[Effect]:
        batch = effect.batch
        assert self.driver is not None
        self.desk.written(batch)
        assert batch.last_seq == len(self.events)
        self.batches += 1
        self.written.append(batch)
        assert verify_chain(links(batch.rows), self.head) is None
        self.rows += batch.rows
        new = list_events(batch.rows)
        for event in new:
            self.deriving.take(event)
        self.events += new
        for event in new:
            self.deriving.spoken(event, self.contents)
        self.run = fold(self.run, new)
        if batch.release:
            self._resting_wake = batch.wake_at
            # From its beginning once a claim: what was folded event by event could share what it changes with the state in memory.
            self.run = fold(Run("run-1", tier=self.tier, seed=self.seed), self.events)
            assert verify_chain(links(self.rows), ZERO_HASH) is None
        assert self.run == self.driver.run, "the refold differs from the state in memory"
        return self.driver.step(Committed(batch.new_seq), self.now)

    def _perform(self, command: Command) -> None:
        self.performed.append(command)
        if isinstance(command, AbortCall):
            self.aborted.append(command)
            self._aborted.add((command.command_id, command.attempt))
            return
        assert command.deadline_at > self.now
        self.desk.performs(self.spec, command)
        issued = (getattr(fact, "command_id", "") for fact in self.facts)
        assert command.command_id in issued, "effect before its intent"
        refused = self.breakers and self.driver and self.breakers.passes("fabric-1", self.driver, command, self.now)
        if refused:
            self._order += 1
            heappush(self._queue, (self.now, self._order, PortAnswered(refused)))
            return
        name = self._render(command)
        answer = self._answer(name, command)
        given, at = answer.make, self.now + int(answer.after_s * US)
        if given is None or at >= command.deadline_at:
            at, given = command.deadline_at, fails(Cause.TIMEOUT, "no answer in time", billed=True).make
        assert given is not None
        for n, (seconds, _) in enumerate(answer.told):
            coming = CallStreamed(
                command_id=command.command_id,
                attempt=command.attempt,
                calls=tuple(one for _, one in answer.told[: n + 1]),
            )
            self._order += 1
            heappush(self._queue, (self.now + int(seconds * US), self._order, Streamed(coming)))
        self._order += 1
        heappush(self._queue, (at, self._order, PortAnswered(given(command))))

    def _render(self, command: CallModel | CallTool) -> str:
        assert self.driver is not None
        about: dict[str, Any] = {
            "trace": Trace("t" * 32, "run-1"),
            "spec": self.spec,
            "contents": self.driver.contents,
        }
        if isinstance(command, CallTool):
            tool = prompts.tool_request(command, documents=lambda: self.documents, **about)
            self.executed.append((command.tool, tool.args))
            return command.tool
        request = prompts.model_request(command, documents=lambda: self.documents, offers=self.offers, **about)
        issued = next(f for f in reversed(self.of(ev.CallIssued)) if f.command_id == command.command_id)
        assert rendered_bytes(request) <= issued.reserved_tokens - issued.max_output_tokens, (
            "a prompt larger than what was reserved"
        )
        self.requests.append(request)
        return command.agent

    def _answer(self, name: str, command: CallModel | CallTool) -> Answer:
        script = self.script.get(name, GOOD.get(name, gives()))
        if isinstance(script, Answer):
            return script
        if callable(script):
            return script(command)
        answers = list(script)
        self._used[name] += 1
        return answers[min(self._used[name], len(answers)) - 1]


def rendered_bytes(request: ModelRequest) -> int:
    """Bytes of a request as an endpoint would get it: texts, proposed calls, the tools offered, the schema wanted."""
    total = 0
    for message in request.messages:
        total += len(message.text.encode())
        total += sum(len(c.tool) + len(json.dumps(c.args, ensure_ascii=False).encode()) for c in message.calls)
    total += sum(len(json.dumps([t.name, t.description, dict(t.parameters)])) for t in request.tools)
    return total + (len(json.dumps(dict(request.output_schema))) if request.output_schema else 0)


def ran(spec: FabricSpec, script: Mapping[str, Script] | None = None, **fields: Any) -> World:
    """A run from its start to its rest."""
    return World(spec, script or {}, **fields).start().go()
