"""Fan-outs of many sizes: what a step costs in one run of N briefs, child runs included (performance.md P8).

A fixed plan, no aggregator: the work is the N workers' results of about 1 KB each and what it takes to bring them together. Above
``fan_out_inline_max`` briefs the run is cut into child runs, so a step must not cost more the more of them there are.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.models.fields.identities import new_id
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.journal import JournalStore
from fabric.stores.writer import JournalWriter
from fabric.tools.runner import ToolRunner
from fabric.worker.host import HostConfig, Ports, RunHost
from fabric.worker.nudges.listener import NullNudge
from fabric.worker.process.clock import SYSTEM_CLOCK
from fabric.worker.process.tuning import tune_process
from tests.benchmarks.throughput.answers import FILLER
from tests.benchmarks.throughput.figures import Counted
from tests.benchmarks.throughput.flow5 import InstantModels, new_run
from tests.benchmarks.throughput.spec import SPEC, compile_flow5

WAIT_S = 300.0
STEPS_MIN = 200
"""Small fan-outs are run so often that there are this many steps, or their figures would be noise."""


def spec(briefs: int) -> FabricSpec:
    """A fabric with a fixed plan of so many briefs, and limits that allow it."""
    plan = {
        "goal": FILLER[:200],
        "briefs": [{"agent": "worker", "title": f"Part {n}", "instructions": FILLER[:120]} for n in range(briefs)],
        "exit_criteria": ["All parts are there."],
    }
    limits = {"plan_branches": briefs, "sub_agents_alive": briefs, "sub_agents_spawned": 2 * briefs}
    tree = SPEC.model_dump(mode="json") | {
        "topology": {"workers": ["worker"], "plan": plan},
        "policy": {"budget": {"run_usd_micros": 10**12}, "limits": limits},
    }
    tree["decision_table"] = {}
    return FabricSpec.model_validate(tree)


@dataclass(frozen=True, slots=True)
class Figure:
    """The cost of runs of one size."""

    briefs: int
    runs: int
    children: int
    """Child runs of one run."""
    step_us: float
    """Wall time a step, one run at a time."""
    commits_per_step: float
    statements_per_step: float
    bytes_per_step: int


class FanOut:
    """One host over one store, one run at a time."""

    def __init__(self, store: Any, workspace_id: str, revision_id: str) -> None:
        self.store: Any = store
        self._ids = (workspace_id, revision_id)
        self._fabric = Revision(compile_flow5(spec(1)), {})
        self._root, self._ended = "", threading.Event()
        self._family: set[str] = set()
        ports = Ports(
            store=store,
            writer=JournalWriter(store, NullNudge()),
            models=InstantModels(),
            tools=ToolRunner(),
            clock=SYSTEM_CLOCK,
            revision=lambda revision_id: self._fabric,
        )
        # No sweep: what wakes a parent and a child is the commit that gives it something to do.
        self.host = RunHost(ports, f"bench-{new_id()[-8:]}", HostConfig(sweep_s=3_600.0), self._released)
        tune_process()
        self.host.start()

    def _released(self, run_id: str) -> None:
        self._family.add(run_id)
        if run_id == self._root and _over(self.store, run_id):
            self._ended.set()

    def one(self) -> tuple[str, int]:
        """One run to its end; its id and how many children it had."""
        self._root = run_id = new_id()
        self._ended.clear()
        self._family.clear()
        self.store.create(new_run(run_id, *self._ids))
        self.host.offer(run_id)
        if not self._ended.wait(WAIT_S):
            raise TimeoutError(f"run {run_id} did not end within {WAIT_S:.0f} s")
        return run_id, len(self._family - {run_id})

    def figure(self, briefs: int, rounds: int = 1) -> Figure:
        """The figures of one size; the median of ``rounds``, after one run that is not counted."""
        self._fabric = Revision(compile_flow5(spec(briefs)), {})
        self.one()
        runs, seconds, children = max(1, STEPS_MIN // briefs), [], 0
        before = Counted.of(self.store)
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(runs):
                _, children = self.one()
            seconds.append(time.perf_counter() - begun)
        spent, steps = Counted.of(self.store).since(before), rounds * runs * briefs
        return Figure(
            briefs=briefs,
            runs=runs,
            children=children,
            step_us=round(1e6 * statistics.median(seconds) / (runs * briefs), 1),
            commits_per_step=round(spent.commits / steps, 4),
            statements_per_step=round(spent.statements / steps, 4),
            bytes_per_step=round(spent.bytes_written / steps),
        )

    def stop(self) -> None:
        """Gives everything back."""
        self.host.stop(5.0)


def _over(store: JournalStore, run_id: str) -> bool:
    rows = store.journal(run_id, after=max(0, store.heads([run_id])[run_id].last_seq - 1))
    return bool(rows) and rows[-1].kind == "run_ended"


def measure(store: Any, workspace_id: str, revision_id: str, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """The figures of all sizes, and what a step costs at the largest beside the one before it."""
    bench = FanOut(store, workspace_id, revision_id)
    try:
        found = [bench.figure(briefs, rounds) for briefs in sizes]
    finally:
        bench.stop()
    told: dict[str, Any] = {"work": "fanout"}
    for one in found:
        told[str(one.briefs)] = {name: getattr(one, name) for name in Figure.__slots__ if name != "briefs"}
    if len(found) > 1:
        last, before = found[-1], found[-2]
        told["ratio_of"] = f"{last.briefs} to {before.briefs}"
        told["ratio"] = round(last.step_us / before.step_us, 3)
    return told
