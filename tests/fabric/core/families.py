"""A family of runs in a scripted world: the real driver for each, one clock, a journal a run in a list, inboxes in dicts.

Each claimable run is claimed at once; a resting run has no owner. After every commit its journal is refolded and compared with the
driver's state, and the chain verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from fabric.core import events as ev
from fabric.core.child_runs.teams import map_specs
from fabric.core.events.commands import AbortCall, CallModel, CallTool, Command
from fabric.core.events.envelope import list_events, split_rows, verify_chain
from fabric.core.events.inputs import INBOX, CancelRequested, DecisionMade, InboxInput, RunRequested
from fabric.core.evolve import fold
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import JSON, US
from fabric.policies.gates import gate_evaluators
from fabric.runtime import prompts
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import (
    Append,
    Arrived,
    BatchRefused,
    Committed,
    Due,
    Effect,
    Happening,
    Perform,
    PortAnswered,
    Release,
    Taken,
    WakeAt,
)
from fabric.runtime.journal.batches import WAKES
from fabric.runtime.ports.calls import ModelRequest, ToolOffer
from fabric.runtime.ports.journal import Batch, ClaimedRun, InboxItem, StoredRow
from fabric.runtime.quarantine.verdicts import CLAIMS_MAX, verdict
from tests.fabric.core.deriving import Deriving
from tests.fabric.core.fabrics import PRICES
from tests.fabric.core.family_member import Member
from tests.fabric.core.scripts import GOOD, Answer, Script, fails
from tests.fabric.core.standings import stood
from tests.fabric.core.told import links

T0 = 1_800_000_000 * US
ROOT = "root"


@dataclass
class Household:
    """The world of one family. ``script`` as in ``harness.World``; a callable is given the run and the request."""

    spec: FabricSpec
    script: Mapping[str, Script] = field(default_factory=dict)
    nested: Mapping[str, FabricSpec] = field(default_factory=dict)
    """The fabric of each worker that leads a team; none: those that the fabric itself names."""
    tier: Tier = Tier.INTERACTIVE
    full: Callable[[Batch], bool] = lambda batch: False
    """Whether the family has no room for a batch's children."""
    cut: Callable[[Happening, Member], bool] = lambda happening, member: False
    """Whether the process of a run dies before a happening."""

    deaf: str = ""
    """A run that no process hands its inputs to."""

    def __post_init__(self) -> None:
        self.now = T0
        self.runs: dict[str, Member] = {}
        self.following: dict[str, Deriving] = {}
        self.order = 0
        self.requests: list[tuple[str, ModelRequest]] = []
        self.queue: list[tuple[int, int, str, int, Happening]] = []
        self.used: dict[tuple[str, str], int] = {}
        self.aborted: set[tuple[str, str, int]] = set()
        self.executed: list[tuple[str, JSON, str]] = []
        self.offers = {
            tool.name: ToolOffer(name=tool.name, description="", parameters=tool.parameters or {})
            for tool in self.spec.all_tools
        }
        inner = {name: self._compiled(spec) for name, spec in (self.nested or map_specs(self.spec)).items()}
        self.compiled = self._compiled(self.spec, inner)

    def _compiled(self, spec: FabricSpec, nested: Mapping[str, CompiledFabric] | None = None) -> CompiledFabric:
        overhead = {agent.name: prompts.overhead_bytes(spec, agent, {}) for agent in spec.agents}
        return compile_spec(
            spec, prices=PRICES, prompt_overhead=overhead, nested=nested, evaluators=gate_evaluators(spec)
        )

    # -- what a test does ---------------------------------------------------------------------------------------------

    def start(self, text: str = "What is it?") -> Household:
        deadline = self.now + int(self.spec.policy.deadlines_of(self.tier).run_s * US)
        self.runs[ROOT] = Member(ROOT, self.tier, 7, run=Run(ROOT, tier=self.tier, seed=7))
        self.put(ROOT, RunRequested(input_id="start", request={"text": text}, deadline_at=deadline))
        return self

    def put(self, run_id: str, given: InboxInput, wakes: int | None = None) -> None:
        member = self.runs[run_id]
        if given.input_id not in member.taken and not member.run.terminal:
            member.inbox.setdefault(given.input_id, INBOX.dump_json(given))
            member.bodies |= member.inbox
            member.wakes[given.input_id] = WAKES.get(given.kind, 1) if wakes is None else wakes

    def poison(self, run_id: str) -> Household:
        """The processes that hold a run die of it, until it is quarantined; up to where only a person can help."""
        self.runs[run_id].poisoned = True
        self.crash(run_id)
        return self.go(until=at_a_person)

    def decide(
        self, run_id: str, verb: str, until: Callable[[Household], bool] = lambda family: False, message: str = ""
    ) -> Household:
        """A person answers a run's first open review."""
        fact = next(iter(self.runs[run_id].run.reviews.values())).fact
        given: Any = {"review_id": fact.review_id, "verb": verb, "digest": fact.digest, "message": message}
        self.put(run_id, DecisionMade(input_id=f"decision:{fact.review_id}", actor="alice", **given))
        self.go(steps=1)
        return self.go(until=until)

    def cancel(self, run_id: str = ROOT, until: Callable[[Household], bool] = lambda family: False) -> Household:
        self.put(run_id, CancelRequested(input_id="cancel", actor="alice", reason="enough"))
        return self.go(until=until)

    def crash(self, run_id: str) -> None:
        """The process that holds a run is gone, with what it held and what was in flight; the run is claimed by another."""
        member = self.runs[run_id]
        member.driver = None
        member.wake = self.now
        member.fence += 1

    def go(self, steps: int = 200_000, until: Callable[[Household], bool] = lambda family: False) -> Household:
        """Runs until nothing is left to happen but what a person does, for so many steps, or until it is so."""
        for _ in range(steps):
            if until(self) or not self._one():
                return self
        assert steps < 200_000, "the family does not come to rest"
        return self

    # -- what a test looks at -----------------------------------------------------------------------------------------

    @property
    def root(self) -> Member:
        return self.runs[ROOT]

    @property
    def children(self) -> list[Member]:
        return [member for member in self.runs.values() if member.run_id != ROOT]

    @property
    def held(self) -> list[str]:
        """The runs that a process holds."""
        return [member.run_id for member in self.runs.values() if member.driver is not None]

    @property
    def end(self) -> ev.RunEnded:
        last = self.root.events[-1].fact
        assert isinstance(last, ev.RunEnded), f"the root has not ended: {self.root.run.state}, {self.root.kinds[-4:]}"
        return last

    # -- the world ----------------------------------------------------------------------------------------------------

    def _one(self) -> bool:
        for member in self.runs.values():
            if member.run_id == self.deaf:
                continue
            if member.driver is None and not member.run.terminal and self.claimable(member):
                self._claim(member)
                return True
            if member.driver is not None and member.inbox:
                self._arrive(member)
                return True
        at = self._next()
        if at is None:
            return False
        self.now = max(self.now, at)
        if self.queue and self.queue[0][0] <= self.now:
            _, _, run_id, fence, happening = heappop(self.queue)
            member = self.runs[run_id]
            if member.fence == fence and member.driver is not None and isinstance(happening, PortAnswered):
                result = happening.result
                if (run_id, result.command_id, result.attempt) not in self.aborted:
                    self._step(member, happening)
            return True
        for member in self.runs.values():
            if member.driver is not None and member.wake is not None and member.wake <= self.now:
                member.wake = None
                self._step(member, Due())
                return True
        return True

    def claimable(self, member: Member) -> bool:
        if member.run.state is RunState.QUARANTINED:
            return any(member.wakes[input_id] > 1 for input_id in member.inbox)
        return bool(member.inbox) or self._is_due(member)

    def _is_due(self, member: Member) -> bool:
        return member.wake is not None and member.wake <= self.now

    def _next(self) -> int | None:
        instants = [self.queue[0][0]] if self.queue else []
        held = (RunState.QUARANTINED, *TERMINAL)
        instants += [m.wake for m in self.runs.values() if m.wake is not None and m.run.state not in held]
        return min(instants) if instants else None

    def _claim(self, member: Member, *, family_full: bool = False) -> None:
        member.fence += 1
        member.claims += 1
        member.wake = None
        member.driver = RunDriver(self.compiled)
        stored = tuple(
            StoredRow(r.seq, r.kind, r.version, r.header, r.payload, r.payload_hash, r.hash) for r in member.rows
        )
        claimed = ClaimedRun(
            run_id=member.run_id,
            fence=member.fence,
            revision_id="revision",
            trace_id="t" * 32,
            seed=member.seed,
            tier=member.tier,
            rows=stored,
            inbox=tuple(stood(InboxItem(member.run_id, key, body)) for key, body in member.inbox.items()),
            taken_over=False,
            workspace_id="workspace",
            last_seq=stored[-1].last_seq if stored else 0,
            head=stored[-1].hash if stored else ZERO_HASH,
            claims=CLAIMS_MAX + 1 if member.poisoned else 1,
            parent_run_id=member.parent[0] if member.parent else None,
            parent_command=member.parent[1] if member.parent else "",
            at=self.now,
            documents=() if self.spec.gates.reads_sources else None,
        )
        member.fresh = set(member.inbox)
        member.taken |= member.fresh
        member.inbox.clear()
        away = verdict(claimed, self.now, damage=member.damage)
        if away is not None:
            self._put_away(member, away)
            return
        self._step(member, Taken(claimed, f"process-{member.fence}", family_full))

    def _arrive(self, member: Member) -> None:
        key = next(iter(member.inbox))
        item = stood(InboxItem(member.run_id, key, member.inbox.pop(key)))
        member.taken.add(key)
        self._step(member, Arrived(item))

    def _step(self, member: Member, happening: Happening) -> None:
        if self.cut(happening, member):
            self.crash(member.run_id)
            return
        assert member.driver is not None
        todo: list[Effect] = member.driver.step(happening, self.now)
        while todo and member.driver is not None:
            effect = todo.pop(0)
            if isinstance(effect, Append):
                if effect.batch.children and self.full(effect.batch):
                    self._full(member, effect.batch)
                    return
                todo += self._append(member, effect.batch)
            elif isinstance(effect, Perform):
                self._perform(member, effect.command)
            elif isinstance(effect, WakeAt):
                member.wake = effect.at
            elif isinstance(effect, Release):
                member.driver = None

    def _full(self, member: Member, batch: Batch) -> None:
        """Nothing of the batch was written: the run is loaded again, and its process knows why."""
        assert member.driver is not None
        member.driver.step(BatchRefused("family_full"), self.now)
        for input_id in batch.consumed:
            member.taken.discard(input_id)
            member.inbox[input_id] = member.bodies[input_id]
        self._claim(member, family_full=True)

    def _put_away(self, member: Member, batch: Batch) -> None:
        """Write these rows in place of driving a run; inputs that they do not consume stay where they are."""
        member.driver = None
        for input_id in member.taken - set(batch.consumed):
            if input_id in member.fresh:
                member.inbox[input_id] = member.bodies[input_id]
        member.taken -= set(member.inbox)
        member.poisoned &= not any(row.kind == "run_quarantined" for row in split_rows(batch.rows))
        self._written(member, batch)

    def _append(self, member: Member, batch: Batch) -> list[Effect]:
        self._written(member, batch)
        assert member.driver is not None
        assert member.run == member.driver.run, "the refold differs from the state in memory"
        todo = member.driver.step(Committed(batch.new_seq), self.now)
        if batch.release:
            member.driver = None
            return []
        return todo

    def _written(self, member: Member, batch: Batch) -> None:
        assert batch.last_seq == len(member.events)
        assert verify_chain(links(batch.rows), member.rows[-1].hash if member.rows else ZERO_HASH) is None
        member.rows += batch.rows
        following = self.following.setdefault(member.run_id, Deriving(self.compiled, member.tier))
        new_events = list_events(batch.rows)
        for event, row in zip(new_events, split_rows(batch.rows), strict=True):
            content = json.loads(row.payload or b"null")
            following.spoken(event, {event.content_ref: content}.get)
            following.take(event)
        member.events += new_events
        member.run = fold(member.run, new_events)
        if batch.release:  # From its beginning once a claim, as in ``harness``.
            member.run = fold(Run(member.run_id, tier=member.tier, seed=member.seed), member.events)
            assert verify_chain(links(member.rows), ZERO_HASH) is None
        for new in batch.children:
            if new.run_id not in self.runs:
                born = Member(new.run_id, new.tier, new.seed, run=Run(new.run_id, tier=new.tier, seed=new.seed))
                self.runs[new.run_id] = born
                born.inbox[new.input_id] = born.bodies[new.input_id] = new.input_body
                born.wakes[new.input_id] = 1
                born.parent = (str(new.parent_run_id), new.parent_command)
        for send in batch.sends:
            given = INBOX.validate_json(send.body)
            self.put(send.run_id, given, send.wakes)
        if batch.release:
            member.wake = batch.wake_at

    def _perform(self, member: Member, command: Command) -> None:
        if isinstance(command, AbortCall):
            self.aborted.add((member.run_id, command.command_id, command.attempt))
            return
        assert isinstance(command, CallModel | CallTool)
        assert member.driver is not None
        assert member.driver.claimed is not None
        about: dict[str, Any] = {
            "trace": prompts.find_run_trace(member.driver.claimed),
            "spec": member.driver.compiled_fabric.spec,
            "contents": member.driver.contents,
            "documents": lambda: (),
        }
        if isinstance(command, CallTool):
            self.executed.append((command.tool, prompts.tool_request(command, **about).args, member.run_id))
        else:
            asked = prompts.model_request(command, offers=self.offers, **about)
            self.requests.append((member.run_id, asked))
        answer = self._answer(member, command)
        given, at = answer.make, self.now + int(answer.after_s * US)
        if given is None or at >= command.deadline_at:
            at, given = command.deadline_at, fails(Cause.TIMEOUT, "no answer in time", billed=True).make
        assert given is not None
        self.order += 1
        heappush(self.queue, (at, self.order, member.run_id, member.fence, PortAnswered(given(command))))

    def _answer(self, member: Member, command: CallModel | CallTool) -> Answer:
        who = command.tool if isinstance(command, CallTool) else command.agent
        script = self.script.get(f"{who}@{member.run_id}", self.script.get(who, GOOD.get(who)))
        assert script is not None, f"no agent plays {who}"
        if isinstance(script, Answer):
            return script
        if callable(script):
            return script(command)
        answers = list(script)
        key = (member.run_id, who)
        self.used[key] = self.used.get(key, 0) + 1
        return answers[min(self.used[key], len(answers)) - 1]


def at_a_person(family: Household) -> bool:
    """No process holds a run of it, nothing waits to be taken, and its root asks a person."""
    waiting = any(family.claimable(member) for member in family.runs.values() if not member.run.terminal)
    return bool(family.root.run.reviews) and not family.held and not waiting


def descendants(household: Household, run_id: str) -> Iterator[Member]:
    """The runs below one."""
    for member in household.runs.values():
        lineage = member.run.family.lineage
        if lineage is not None and lineage.parent_run_id == run_id:
            yield member
            yield from descendants(household, member.run_id)
