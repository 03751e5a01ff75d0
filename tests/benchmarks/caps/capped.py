"""Whole runs in real worker processes under a cap of their fabric's hour: flow5, watched from outside as in ``spends``.

While they run, every look at the database must show the cap kept and the grants adding up. What does not fit is refused, and its run goes by the
table. Workers may be killed; others go on. Afterwards nothing is held, and what the budget says was spent covers what the journals say.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.models.fields.identities import new_id
from fabric.packing.rows import unpack
from tests.benchmarks.caps import spends
from tests.benchmarks.caps.capped_worker import LEASE_S, Plan, journal, main
from tests.benchmarks.caps.spends_worker import stores
from tests.benchmarks.throughput import flow5
from tests.benchmarks.throughput.answers import STEPS
from tests.benchmarks.throughput.spec import SPEC, compile_flow5

RUN_USD_MICROS = STEPS * 700
"""What a run of flow5 comes to: 200 tokens in and 250 out a step, at 1 and 2 dollars a million."""
STATES = "SELECT state, count(*), coalesce(sum(cost_usd_micros), 0) FROM fabric_run GROUP BY state"
REFUSED = "SELECT header FROM fabric_event WHERE kind = 'reaction_decided'"
EVIDENCE = "budget"
ENDED = ("completed", "stopped", "aborted", "failed", "cancelled")


@dataclass(slots=True)
class Found:
    """The report. All that stands before ``completed`` must be nought."""

    caps_broken: int = 0
    sums_wrong: int = 0
    overspent_usd_micros: int = 0
    """What the journals say that runs cost, above the cap."""
    uncovered_usd_micros: int = 0
    """What they say above what the budget says was spent."""
    still_granted_usd_micros: int = 0
    still_open: int = 0
    unfinished: int = 0
    unexplained: int = 0
    """Aborted runs whose journal does not say that the fabric's hour was refused."""
    completed: int = 0
    aborted: int = 0
    cap_usd_micros: int = 0
    spent_usd_micros: int = 0
    cost_usd_micros: int = 0
    snapshots: int = 0
    killed: int = 0
    seconds: float = 0.0

    def faults(self) -> dict[str, int]:
        """Return what is not nought and must be."""
        names = list(asdict(self))
        return {name: getattr(self, name) for name in names[: names.index("completed")] if getattr(self, name)}


def spec(cap_usd_micros: int) -> FabricSpec:
    """flow5 with a cap of its fabric's hour."""
    budget = SPEC.policy.budget.model_dump() | {"fabric_hour_usd_micros": cap_usd_micros}
    return FabricSpec.model_validate(SPEC.model_dump() | {"policy": SPEC.policy.model_dump() | {"budget": budget}})


def compile_capped(cap_usd_micros: int) -> CompiledFabric:
    """It, compiled."""
    plain = compile_flow5()
    return compile_spec(spec(cap_usd_micros), prices=plain.prices, prompt_overhead=plain.prompt_overhead)


@dataclass(slots=True)
class Site:
    """The workers, and the database asked from outside."""

    plan: Plan
    site: spends.Site
    found: Found = field(default_factory=Found)
    workers: list[Any] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        """One more worker."""
        self.started += 1
        plan = replace(self.plan, name=f"{self.plan.name}-{self.started}")
        made = multiprocessing.get_context("forkserver").Process(target=main, args=(plan,))
        made.start()
        self.workers.append(made)

    def kill(self) -> None:
        """The oldest worker dies at once, another takes its place."""
        oldest = self.workers.pop(0)
        oldest.kill()
        oldest.join()
        self.found.killed += 1
        self.start()


def measure(
    db: str, address: str, ids: tuple[str, str], *, runs: int, processes: int, kills: int = 0, share: float = 0.5
) -> Found:
    """``runs`` runs of one fabric in so many workers, under a cap that ``share`` of them fit in."""
    cap = round(runs * RUN_USD_MICROS * share)
    with (
        tempfile.TemporaryDirectory(prefix="fabric-capped-") as folder,
        spends._asking(db, address) as ask,
    ):
        outside = spends.Site(db, address, Path(folder), (), 0, ask)
        site = Site(Plan(db, address, cap, f"capped-{new_id()[-6:]}"), outside)
        site.found.cap_usd_micros = cap
        with closing(journal(db, address)) as store:  # type: ignore[type-var]
            for _ in range(runs):
                store.create(flow5.new_run(new_id(), *ids))
        begun = time.monotonic()
        for _ in range(processes):
            site.start()
        _go(site, runs, kills)
        for worker in site.workers:
            worker.terminate()
        for worker in site.workers:
            worker.join(30.0)
        site.found.seconds = round(time.monotonic() - begun, 1)
        _judge(site, runs)
        return site.found


def _go(site: Site, runs: int, kills: int) -> None:
    give_up = time.monotonic() + spends.ENDS_S
    while (over := _over(site)) < runs:
        site.site.look()
        if site.found.killed < kills and over * (kills + 1) >= runs * (site.found.killed + 1):
            site.kill()
        if time.monotonic() > give_up:
            return
        time.sleep(spends.LOOK_S)


def _over(site: Site) -> int:
    return sum(count for state, count, _ in site.site.ask(STATES) if state in ENDED)


def _judge(site: Site, runs: int) -> None:
    found, outside = site.found, site.site
    grants, _ = stores(site.plan.db, site.plan.address)
    time.sleep(LEASE_S)
    while grants.reap().grants:
        outside.look()
    grants.close_connections()
    outside.look()
    states = {state: (count, cost) for state, count, cost in outside.ask(STATES)}
    found.completed, found.aborted = (states.get(name, (0, 0))[0] for name in ("completed", "aborted"))
    found.unfinished = runs - sum(states.get(name, (0, 0))[0] for name in ENDED)
    found.cost_usd_micros = int(sum(cost for _, cost in states.values()))
    ((_, cap, spent, granted, *_),) = outside.ask(spends.SNAPSHOT)
    ((found.still_open,),) = outside.ask(spends.OPEN)
    found.spent_usd_micros, found.still_granted_usd_micros = spent, granted
    found.overspent_usd_micros = max(0, spent - cap) + max(0, found.cost_usd_micros - cap)
    found.uncovered_usd_micros = max(0, found.cost_usd_micros - spent)
    told = [json.loads(unpack(bytes(header)).split(b"\n")[0])["d"] for (header,) in outside.ask(REFUSED)]
    said = sum(EVIDENCE in one["cause"]["evidence"].get("details", {}) for one in told)
    found.unexplained = max(0, found.aborted - said)
    found.caps_broken, found.sums_wrong = outside.found.caps_broken, outside.found.sums_wrong
    found.snapshots = outside.found.snapshots
