"""flow5 (performance.md "The work"): plan, 4 parallel workers, fan-in, validate, finalize; 8 journaled results of about 1 KB of JSON each.

The whole production engine runs it (guards, events, fence, host, writer); only the agents are scripted and answer at once.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from fabric.core.events.inputs import INBOX, ModelReplied, RunRequested
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.models.fields.identities import new_id
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.calls import ModelPort, ModelRequest
from fabric.runtime.ports.journal import JournalStore, NewRun
from fabric.stores.writer import JournalWriter
from fabric.tools.runner import ToolRunner
from fabric.worker.host import HostConfig, Ports, RunHost
from fabric.worker.nudges.listener import NullNudge
from fabric.worker.process.clock import SYSTEM_CLOCK
from fabric.worker.process.tuning import tune_process
from tests.benchmarks.throughput.answers import ANSWERS, REQUEST
from tests.benchmarks.throughput.clients import Clients
from tests.benchmarks.throughput.lockstep import LockstepWriter
from tests.benchmarks.throughput.spec import SPEC, compile_flow5

RUN_S = 86_400


class InstantModels:
    """Agents that answer at once."""

    async def ask(self, request: ModelRequest) -> ModelReplied:
        """The answer for the wanted shape."""
        return ModelReplied(
            command_id=request.command_id,
            attempt=request.attempt,
            text=ANSWERS[request.output],
            input_tokens=200,
            output_tokens=250,
        )


def build_ports(
    store: JournalStore, revision: Revision, writer: JournalWriter | None = None, models: ModelPort | None = None
) -> Ports:
    """Return the ports of a host whose runs all have one revision; without other ``models`` agents answer at once."""
    return Ports(
        store=store,
        writer=writer or JournalWriter(store, NullNudge()),
        models=models or InstantModels(),
        tools=ToolRunner(),
        clock=SYSTEM_CLOCK,
        revision=lambda _: revision,
    )


class Flow5:
    """One host over one store, driven as a closed loop: at most ``concurrency`` runs unfinished at any time.

    ``writer``: another journal writer than the plain one. ``models`` and ``spec``: other agents than those that answer at once, in another fabric.
    """

    def __init__(
        self,
        store: JournalStore,
        workspace_id: str,
        revision_id: str,
        writer: JournalWriter | None = None,
        *,
        models: ModelPort | None = None,
        spec: FabricSpec = SPEC,
    ) -> None:
        self.store = store
        self._ids = (workspace_id, revision_id)
        self._waiting: dict[str, threading.Event] = {}
        self._clients: Clients | None = None
        fabric = Revision(compile_flow5(spec), {})
        ports = build_ports(store, fabric, writer, models)
        # No sweep within a benchmark: what is measured is the path of a run, not the net under it.
        self.host = RunHost(ports, f"bench-{new_id()[-8:]}", HostConfig(sweep_s=3_600.0), self._ended)
        tune_process()
        self.host.start()

    def _ended(self, run_id: str) -> None:
        waiting = self._waiting.pop(run_id, None)
        if waiting is not None:
            waiting.set()
        elif self._clients is not None:
            self._clients.ended(run_id)

    def one(self) -> str:
        """Inserts one run as the service does, offers it, waits until it was given back."""
        run_id, ended = new_id(), threading.Event()
        self._waiting[run_id] = ended
        self.store.create(new_run(run_id, *self._ids))
        self.host.offer(run_id)
        if not ended.wait(60):
            raise TimeoutError(f"run {run_id} did not end within 60 s")
        return run_id

    def run(self, runs: int, concurrency: int) -> tuple[float, list[str]]:
        """Seconds for ``runs`` runs, ``concurrency`` at once, and their ids."""
        ids: list[str] = []
        writer = self.host.ports.writer
        if isinstance(writer, LockstepWriter):
            writer.expect(min(concurrency, runs))
        shares = [runs // concurrency + (n < runs % concurrency) for n in range(concurrency)]
        begun = time.perf_counter()
        with ThreadPoolExecutor(concurrency) as clients:
            for done in clients.map(self._client, shares):
                ids += done
        return time.perf_counter() - begun, ids

    def _client(self, share: int) -> list[str]:
        done = [self.one() for _ in range(share)]
        writer = self.host.ports.writer
        if share and isinstance(writer, LockstepWriter):
            writer.one_less()
        return done

    def run_for_others(self, runs: int, concurrency: int) -> float:
        """Seconds for ``runs`` runs that another process starts, ``concurrency`` at once. The store must be one that it can reach as well."""
        if self._clients is None:
            self._clients = Clients(*self._ids, self.host.offer)
            self._clients.run(concurrency, concurrency)
        begun = time.perf_counter()
        self._clients.run(runs, concurrency)
        return time.perf_counter() - begun

    def stop(self) -> None:
        """Gives everything back."""
        self.host.stop(5.0)
        if self._clients is not None:
            self._clients.stop()


def new_run(
    run_id: str,
    workspace_id: str,
    revision_id: str,
    *,
    text: str = REQUEST,
    queue: str = "default",
    title: str = "bench",
) -> NewRun:
    """A run of a benchmark, as the service would insert it; as it is, one of flow5."""
    deadline = SYSTEM_CLOCK.now() + RUN_S * 1_000_000
    asked = RunRequested(input_id="start", request={"text": text}, deadline_at=deadline)
    return NewRun(
        run_id=run_id,
        workspace_id=workspace_id,
        revision_id=revision_id,
        tier=Tier.BATCH,
        queue=queue,
        priority="normal",
        session_key="",
        start_key="",
        seed=7,
        trace_id="0" * 32,
        title=title,
        deadline_at=deadline,
        input_id="start",
        input_body=INBOX.dump_json(asked),
    )
