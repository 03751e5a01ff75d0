"""Hosts over a store with agents whose answers a test holds back, and the ledger of what they were asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fabric.core.events.envelope import list_events, split_row
from fabric.core.events.inputs import INBOX, CallFailed, CancelRequested, DecisionMade, ModelReplied, RunRequested
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.calls import ModelRequest, ToolOffer
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, JournalStore, NewRun
from fabric.runtime.prompts import overhead_bytes
from fabric.stores.sqlite.grants import SqliteGrants
from fabric.stores.sqlite.guards import SqliteGuards
from fabric.stores.sqlite.journal import SqliteStore
from fabric.stores.writer import JournalWriter
from fabric.tools.runner import ToolRunner, build_validator, offers
from fabric.worker.host import HostConfig, Ports, RunHost
from fabric.worker.nudges.listener import NullNudge
from fabric.worker.process.clock import SYSTEM_CLOCK, Elapsed, elapsed_s
from simulator.stores.memory.guards import MemoryGuards
from simulator.stores.memory.journal import MemoryStore
from tests.benchmarks.throughput.answers import ANSWERS
from tests.benchmarks.throughput.spec import SPEC
from tests.fabric.stores.journal_worlds import new_run

WAIT_S = 60
NEVER_S = 3_600.0
"""A sweep or a beat that does not come within a test."""
Answer = ModelReplied | CallFailed


def offered(spec: FabricSpec) -> dict[str, ToolOffer]:
    return {tool.name: offers(tool) for tool in spec.all_tools}


def compile_(spec: FabricSpec) -> CompiledFabric:
    prices = {model.name: model.price.price() for model in spec.models if model.price}
    overhead = {agent.name: overhead_bytes(spec, agent, offered(spec)) for agent in spec.agents}
    validators = {tool.name: build_validator(tool) for tool in spec.all_tools}
    return compile_spec(spec, prices=prices, prompt_overhead=overhead, validators=validators)


def policy(**changed: Any) -> FabricSpec:
    """flow5 with another policy."""
    return FabricSpec.model_validate(SPEC.model_dump() | {"policy": SPEC.policy.model_dump() | changed})


def said(request: ModelRequest, text: str = "") -> ModelReplied:
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text or ANSWERS[request.output],
        input_tokens=200,
        output_tokens=250,
    )


def doubtful(request: ModelRequest) -> Answer:
    """A critic that is not content, so that a person is asked."""
    if request.output == "critique":
        return said(request, json.dumps({"score": 0.1, "reasons": ["It says nothing."]}))
    return said(request)


def overloaded_once(request: ModelRequest) -> Answer:
    """A planner whose first attempt meets a busy provider."""
    if request.agent == "planner" and request.attempt == 1:
        return CallFailed(
            command_id=request.command_id,
            attempt=request.attempt,
            cause=Cause.SERVER_ERROR,
            message="the provider is overloaded",
            status=503,
        )
    return said(request)


@dataclass
class Asked:
    """One call that arrived at the agents, and whether its intent stood in the journal then."""

    request: ModelRequest
    intended: bool

    @property
    def key(self) -> tuple[str, str, int]:
        return self.request.run_id, self.request.command_id, self.request.attempt


@dataclass
class Parked:
    """A call that is held back."""

    request: ModelRequest
    loop: asyncio.AbstractEventLoop
    go_on: asyncio.Future[None]
    ended: threading.Event = field(default_factory=threading.Event)

    def answer(self) -> None:
        self.loop.call_soon_threadsafe(self.go_on.set_result, None)


class Agents:
    """A model port that writes down what it is asked, before it answers; it holds back what ``holds`` says."""

    def __init__(self, store: JournalStore, answer: Callable[[ModelRequest], Answer] = said) -> None:
        self._store, self._answer = store, answer
        self.holds: Callable[[ModelRequest], bool] = lambda request: False
        self.ledger: list[Asked] = []
        self.parked: SimpleQueue[Parked] = SimpleQueue()
        self.aborted: list[tuple[str, str, int]] = []

    async def ask(self, request: ModelRequest) -> Answer:
        asked = Asked(request, _intended(self._store, request))
        self.ledger.append(asked)
        if self.holds(request):
            loop = asyncio.get_running_loop()
            parked = Parked(request, loop, loop.create_future())
            self.parked.put(parked)
            try:
                await parked.go_on
            except asyncio.CancelledError:
                self.aborted.append(asked.key)
                raise
            finally:
                parked.ended.set()
        return self._answer(request)

    def next(self) -> Parked:
        return self.parked.get(timeout=WAIT_S)

    def asked(self, run_id: str) -> list[str]:
        return [one.request.command_id for one in self.ledger if one.request.run_id == run_id]


def list_facts(store: JournalStore, run_id: str, kind: str) -> list[dict[str, Any]]:
    """Return the facts of a kind in a run's journal, as they are stored."""
    rows = store.journal(run_id)
    events = (one for row in rows for one in split_row(row.seq, row.kind, row.version, row.header))
    return [json.loads(header)["d"] for _, name, _, header in events if name == kind]


def _intended(store: JournalStore, request: ModelRequest) -> bool:
    facts = list_facts(store, request.run_id, "call_issued")
    return any((fact["command_id"], fact.get("attempt", 1)) == (request.command_id, request.attempt) for fact in facts)


_names = count(1)


class Site:
    """One store, any number of hosts over it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.released: SimpleQueue[str] = SimpleQueue()
        self.hosts: list[RunHost] = []
        self.spec = SPEC
        self.tools: Callable[[], ToolRunner] = ToolRunner
        self.elapsed: Elapsed = elapsed_s
        self.clock: Any = SYSTEM_CLOCK
        self.shared: tuple[Any, Any] | None = None
        """The stores of shared budgets and of retry tokens and guards; None: there are no budgets and no guards beside the hosts' own."""
        self.tokens: tuple[Any, Any] | None = (MemoryStore(SYSTEM_CLOCK).grants, MemoryGuards(SYSTEM_CLOCK))
        """The stores of an installation that shares no budget: every retry takes a token (docs/specification/retries.md). None: there are none."""
        self.faults: dict[str, str] = {}
        """Why a revision cannot be loaded, by its id."""

    def agents(self, answer: Callable[[ModelRequest], Answer] = said) -> Agents:
        return Agents(self.store, answer)

    def host(self, agents: Agents, *, start: bool = True, **config: Any) -> RunHost:
        fabric = compile_(self.spec)

        def revision(revision_id: str) -> Revision:
            if revision_id in self.faults:
                raise LookupError(self.faults[revision_id])
            return Revision(fabric, offered(self.spec))

        grants, buckets = self.shared or self.tokens or (None, None)
        ports = Ports(
            store=self.store,
            writer=JournalWriter(self.store, NullNudge()),
            models=agents,
            tools=self.tools(),
            clock=self.clock,
            revision=revision,
            elapsed=self.elapsed,
            grants=grants,
            buckets=buckets,
            guards=self.shared[1] if self.shared else None,
        )
        values = {"sweep_s": NEVER_S, "beat_s": NEVER_S, "lease_s": NEVER_S} | config
        host = RunHost(ports, f"host-{next(_names)}", HostConfig(**values), self.released.put)
        self.hosts.append(host)
        if start:
            host.start()
        return host

    def create(self, **changed: Any) -> str:
        deadline = SYSTEM_CLOCK.now() + 86_400_000_000
        asked = RunRequested(input_id="start", request={"text": "What is there?"}, deadline_at=deadline)
        values = {"tier": Tier.BATCH, "deadline_at": deadline, "input_body": INBOX.dump_json(asked)}
        run: NewRun = new_run(**values | changed)
        self.store.create(run)
        return run.run_id

    def until_released(self, *run_ids: str) -> None:
        left = set(run_ids)
        while left:
            left.discard(self.released.get(timeout=WAIT_S))

    def until_given_back(self, run_id: str) -> Batch:
        """Waits for the batch without rows that releases the run."""
        released: Batch = self.store.until_written(
            lambda batch, fate: (
                batch.run_id == run_id and batch.release and not batch.rows and fate is BatchFate.COMMITTED
            )
        )
        return released

    def kinds(self, run_id: str) -> list[str]:
        return [event.fact.kind for event in list_events(self.store.journal(run_id))]

    def facts(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        return list_facts(self.store, run_id, kind)

    def outcome(self, run_id: str) -> str:
        ended = self.facts(run_id, "run_ended")
        return str(ended[0]["state"]) if ended else ""

    def claim(self, name: str = "rival", lease_s: float = NEVER_S) -> list[ClaimedRun]:
        """Return what another incarnation would get now, and gets."""
        self.store.register(name, lease_s=lease_s)
        return list(self.store.claim(name, limit=100, queues=["default"]))

    def close(self) -> None:
        for host in self.hosts:
            if host.loop.alive:
                host.stop(0.0)


def decision(site: Site, run_id: str, verb: str = "approve") -> DecisionMade:
    (opened,) = site.facts(run_id, "review_opened")
    return DecisionMade(
        input_id="decision",
        review_id=opened["review_id"],
        verb=verb,  # type: ignore[arg-type]
        actor="bob",
        digest=opened["digest"],
    )


def cancel() -> bytes:
    return INBOX.dump_json(CancelRequested(input_id="cancel", actor="ada", reason="no longer needed"))


class Watching:
    """A store whose writes can be held back, and that tells a test what came."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.open = threading.Event()
        self.open.set()
        self.permits: threading.Semaphore | None = None
        """Given one, each write takes one of it."""
        self.begun: SimpleQueue[list[Batch]] = SimpleQueue()
        self.done: SimpleQueue[list[tuple[Batch, BatchFate]]] = SimpleQueue()
        self.claims: SimpleQueue[list[str]] = SimpleQueue()
        self.claiming = threading.Event()
        self.claim_open = threading.Event()
        self.claim_open.set()
        self.refused: dict[str, Exception] = {}
        self.torn: set[str] = set()
        """Runs whose journals are not what their rows say."""

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        self.begun.put(list(batches))
        assert self.open.wait(WAIT_S)
        assert self.permits is None or self.permits.acquire(timeout=WAIT_S)
        for batch in batches:
            if batch.run_id in self.refused:
                raise self.refused[batch.run_id]
        fates = super().write([replace(b, last_seq=b.last_seq + 9) if b.run_id in self.torn else b for b in batches])  # type: ignore[misc]
        self.done.put(list(zip(batches, fates, strict=True)))
        return fates

    def claim(self, incarnation: str, **asked: Any) -> list[ClaimedRun]:
        self.claiming.set()
        assert self.claim_open.wait(WAIT_S)
        claims = super().claim(incarnation, **asked)  # type: ignore[misc]
        self.claims.put([claimed.run_id for claimed in claims])
        return claims

    def until_written(self, wanted: Callable[[Batch, BatchFate], bool]) -> Batch:
        while True:
            for batch, fate in self.done.get(timeout=WAIT_S):
                if wanted(batch, fate):
                    return batch


class Watched(Watching, MemoryStore):
    """In memory, on the machine's clock."""

    def __init__(self) -> None:
        super().__init__(SYSTEM_CLOCK)


class WatchedSqlite(Watching, SqliteStore):
    """On a SQLite file."""


OWN_THREADS = {"fabric-host", "fabric-claimer", "fabric-lease", "journal-writer", "fabric-duties"}


def own_threads() -> list[str]:
    """Threads of hosts that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name in OWN_THREADS]


def reported(host: RunHost) -> None:
    """Returns when every answer that was given until now is in the host's queue."""
    turned = threading.Event()
    host.loop.asyncio.call_soon_threadsafe(lambda: host.loop.asyncio.call_soon(turned.set))
    assert turned.wait(WAIT_S)


def settled(host: RunHost) -> None:
    """Returns when the host has taken in everything that was reported until now, and the answer to whatever it asked the store."""
    reported(host)
    while True:
        noticed = _Noticed(host)
        host.loop.put(("results", noticed))
        assert noticed.done.wait(WAIT_S)
        if noticed.idle:
            return


class _Noticed:
    """No results at all; looks, on the host's own thread, whether it waits for the store or is about to ask it."""

    def __init__(self, host: RunHost) -> None:
        self._host = host
        self.idle = False
        self.done = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        host = self._host
        polling = host.hosting.polling
        wanted = polling.inputs_wanted or (polling.claims_wanted and not host.hosting.stopping)
        self.idle = not (polling.under_way or wanted)
        self.done.set()
        return iter(())


def sharing(kind: str, folder: Path, template: Path) -> Site:
    """A site whose hosts share budgets, retry tokens and guards: in ``memory``, or in a file (``sqlite``)."""
    if kind == "memory":
        store = Watched()
        made = Site(store)
        made.shared = store.grants, MemoryGuards(SYSTEM_CLOCK)
        return made
    path = folder / "fabric.sqlite3"
    path.write_bytes(template.read_bytes())
    made = Site(SqliteStore(path))
    made.shared = SqliteGrants(path), SqliteGuards(path)
    return made
