"""People who intervene in runs: they cancel, terminate, pause, resume, speak in conversations, and fork."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from fabric.core.events.envelope import JournalRow, from_row, split_rows
from fabric.core.events.inputs import (
    CancelRequested,
    ContextGiven,
    ForkRequested,
    InboxInput,
    Kept,
    PauseRequested,
    PersonSpoke,
    ResumeRequested,
    TerminateRequested,
)
from fabric.core.evolve import evolve
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.stages.forks import find_fork_point, list_contents
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.journal import Batch
from simulator.faults.catalogue import Rates
from simulator.world.actions import ActorWorld
from simulator.world.watch import Watch

SOONER_OR_LATER = (1.0, 10.0, 60.0, 2_000.0)
"""Virtual seconds after the start of a run within which a person intervenes."""
FORKS_MAX = 2
HALF = 0.5
"""Share of forks right after an agent's output, and share of conversations in which people speak."""


class OutsideWorld(ActorWorld, Protocol):
    """A world as people and accidents see it from outside of its processes."""

    watch: Watch
    rates: Rates
    healed: bool

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedule an action outside of processes."""

    def accident(self, name: str) -> None:
        """Let an accident happen to a process at a drawn instant."""


class Interventions:
    """Interventions of callers and operators. ``insert`` puts an input into an inbox; ``start`` starts a fork."""

    def __init__(
        self,
        world: OutsideWorld,
        *,
        insert: Callable[[str, InboxInput], None],
        start: Callable[[str, Tier, int, ForkRequested, int], None],
    ) -> None:
        self.world = world
        self._insert, self._start = insert, start
        self._times = 0
        self._forks = 0
        self._releasing = False

    def begin(self, run_id: str) -> None:
        """Draw the interventions in a run."""
        world, rng = self.world, self.world.rng
        for name, act in (("cancel", self._cancel), ("terminate", self._terminate), ("paused", self._pause)):
            if rng.random() < world.rates[name]:
                world.later(rng.choice(SOONER_OR_LATER) * rng.random(), act, run_id, name)
        self._speak(run_id)

    def _speak(self, run_id: str) -> None:
        """Draw the messages of people in a run's conversation, if the fabric or a team has one."""
        world = self.world
        drawn = Random(f"said {world.setup.seed} {run_id}")  # noqa: S311 - of its own, so that worlds without conversations stay as they were
        talks = any(map(is_conversation, world.setup.fabric.compiled.spec.topology.every()))
        if talks and world.rates["paused"] > 0 and drawn.random() < HALF:
            for n in range(2):
                world.later(drawn.choice(SOONER_OR_LATER) * drawn.random(), self._say, run_id, f"said:{run_id}:{n}")

    def cancel_perhaps(self, run_id: str) -> None:
        """Perhaps cancel a run that is about to end."""
        if self.world.rng.random() < self.world.rates["cancel_at_end"]:
            self.world.later(self.world.rng.choice((0.0, 0.002, 0.02)), self._cancel, run_id, "cancel_at_end")

    def release(self) -> None:
        """Resume all paused runs, and pause no more."""
        self._releasing = True
        for run_id in self.world.store.run_ids():
            self._let_go_on(run_id)

    def resume_paused(self, batch: Batch) -> None:
        """Resume a run that only now turns out to be paused, because it was quarantined at the general release."""
        for new in batch.children:
            self._speak(new.run_id)
        if self._releasing and any(row.kind in ("run_paused", "run_released_from_quarantine") for row in batch.rows):
            self.world.later(0.5, self._let_go_on, batch.run_id)

    def _let_go_on(self, run_id: str) -> None:
        if self.world.store.columns(run_id).state is RunState.PAUSED:
            self._resume(run_id)

    def _put(self, run_id: str, name: str, given: InboxInput) -> None:
        if run_id in self.world.store.run_ids():
            self.world.sometimes[name] += 1
            self._insert(run_id, given)

    def _cancel(self, run_id: str, why: str) -> None:
        self._put(run_id, why, CancelRequested(input_id=f"{why}:{run_id}", actor="caller", reason=why))

    def _terminate(self, run_id: str, why: str) -> None:
        self._put(run_id, why, TerminateRequested(input_id=f"{why}:{run_id}", actor="operator", reason=why))

    def _say(self, run_id: str, input_id: str) -> None:
        self._put(run_id, "said", PersonSpoke(input_id=input_id, actor="ana", text=f"Mind this: {input_id}."))
        if self.world.setup.seed % 2 == 0:  # The other half of the worlds stays as it was.
            return
        change = {"done": True, "topic": "billing"}
        given = ContextGiven(input_id=f"{input_id}:context", actor="ana", set=change, delete=("round",))
        self._put(run_id, "wrote", given)

    # -- pausing -------------------------------------------------------------------------------------------------------

    def _pause(self, run_id: str, why: str) -> None:
        rng = self.world.rng
        self._times += 1
        self._put(run_id, why, PauseRequested(input_id=f"pause:{self._times}", actor="operator", reason=why))
        if not self.world.strikes("paused_for_long"):
            self.world.later(rng.choice((0.0, 1.0, 30.0, 10_000.0)) * rng.random(), self._resume, run_id)

    def _resume(self, run_id: str) -> None:
        self._times += 1
        self._put(run_id, "resumed", ResumeRequested(input_id=f"resume:{self._times}", actor="operator"))

    # -- forking -------------------------------------------------------------------------------------------------------

    def fork_perhaps(self, run_id: str) -> None:
        """Perhaps fork a run that has ended."""
        if self._forks < FORKS_MAX and self.world.strikes("fork"):
            self._forks += 1
            self._fork(run_id)

    def _point(self, rows: Sequence[JournalRow]) -> int:
        """Return the number of events of a fork: any, or as many as there were at an agent's accepted output."""
        any_of_them = self.world.rng.randint(1, len(rows))
        done = [row.seq for row in rows if row.kind == "output_accepted"]
        drawn = Random(f"fork {self.world.setup.seed} {any_of_them}")  # noqa: S311 - of its own, so that worlds without forks stay as they were
        return drawn.choice(done) if done and drawn.random() < HALF else any_of_them

    def _fork(self, run_id: str) -> None:
        """Start a run from an event of this one; nothing happens if no work would be left."""
        world = self.world
        rows = list(split_rows(world.store.rows(run_id)))
        origin = world.watch.run(run_id)
        run, contents = Run(run_id, tier=origin.tier, seed=origin.seed), Contents()
        for row in rows[: self._point(rows)]:
            event = from_row(row.seq, row.kind, row.version, row.header)
            run = evolve(run, event)
            if row.payload is not None:
                contents.put(event.content_ref, json.loads(row.payload), event.content_bytes)
        point = find_fork_point(run, sources=world.setup.fabric.compiled.spec.gates.reads_sources)
        if point.stage is None or run.state in TERMINAL or not run.request_ref:
            return
        given = ForkRequested(
            input_id=f"fork:{run_id}",
            request=contents.read(run.request_ref),
            deadline_at=world.clock.now() + (origin.deadline_at - origin.started_at),
            origin_run_id=run_id,
            origin_seq=run.seq,
            origin_hash=rows[run.seq - 1].hash.hex(),
            stages=tuple((str(stage), ref) for stage, ref in point.stages),
            branches=point.branches,
            parts=point.parts,
            work=point.work,
            contents=tuple(Kept(what=what, content=content) for what, content in list_contents(point, contents)),
            topology=origin.topology,
            requested_by="operator",
        )
        forked = world.setup.names.run_id(world.setup.seed, "fork", self._forks)
        world.watch.expect(forked, origin.tier, origin.seed, (point.stages, point.branches, point.parts))
        self._start(forked, origin.tier, origin.seed, given, given.deadline_at)
