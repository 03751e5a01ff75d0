"""Keeps the state that a virtual process shares with others: circuit breakers and budgets.

``worker/spending/breakers.py`` waits for its store. The budgets are the real book and desk on simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar, cast

from fabric.core.breaker.passing import (
    Gate,
    GateFinding,
    PassedBreaker,
    RowStep,
    Settling,
    count_findings,
    settle_breakers,
    trip_breakers,
)
from fabric.core.breaker.signals import NEUTRAL
from fabric.core.budgets.spend_rate import Counting, count_spending
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.inputs import CallFailed, Result
from fabric.core.values.units import US
from fabric.runtime.breakers import (
    PassedGuards,
    build_count,
    build_holder,
    build_row,
    counting_rows,
    failure_with_breakers,
    gates_for,
    mark_probe,
    pass_guards,
    refusal_failure,
    report_end,
    shared_for,
)
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.spending import BucketStore, GrantStore, GuardStore
from fabric.worker.spending.grant_desk import GrantDesk, GrantHolder
from fabric.worker.spending.process_share import ProcessShare
from simulator.rules.budgets.checks import usual
from simulator.stores.contract import WorldGrants
from simulator.world.actions import ActorWorld, VirtualActor
from simulator.world.watch import Watch

Key = tuple[str, str, int]
T = TypeVar("T")


class VirtualBreakers:
    """State of one process about the calls that it admitted.

    ``store``: shared by all processes. ``over``: called with the permit of each ended call.
    """

    def __init__(
        self,
        store: GuardStore,
        grants: GrantStore | None = None,
        over: Callable[[str, Result | None], object] = lambda _holder, _result: None,
    ) -> None:
        self._store, self._grants, self._over = store, grants, over
        self._met: dict[Key, tuple[PassedBreaker, ...]] = {}
        self._counting: dict[Key, tuple[Counting, ...]] = {}

    def opens(self, run_id: str, gates: Iterable[Gate], judged: Iterable[GateFinding] = ()) -> None:
        """Open breakers at a trip that no call of the run reports. ``judged``: findings of gates, to be counted
        first.
        """
        self._take_steps(count_findings(judged), (run_id, "", 0), 0.0)
        self._take_steps(trip_breakers(gates), (run_id, "", 0), 0.0)

    def passes(self, fabric_id: str, driver: RunDriver, command: CallModel | CallTool, now: int) -> CallFailed | None:
        """Pass a call through its breakers. Return the failure of a refused call, or None if it may go out."""
        key = (driver.run.id, command.command_id, command.attempt)
        gates = gates_for(fabric_id, driver.compiled_fabric, driver.run, command)
        steps = pass_guards(gates, shared_for(fabric_id, driver.compiled_fabric, command))
        past = self._take_steps(steps, key, (command.deadline_at - now) / US)
        if not isinstance(past, PassedGuards):
            return refusal_failure(past, driver.compiled_fabric, driver.run, command)
        self._met[key], self._counting[key] = past.met, counting_rows(past, driver.compiled_fabric, driver.run, command)
        return None

    def list_passed(self, driver: RunDriver, command: CallModel | CallTool) -> tuple[PassedBreaker, ...]:
        """Return the breakers that a call passed."""
        return self._met.get((driver.run.id, command.command_id, command.attempt), ())

    def note_result(self, fabric_id: str, driver: RunDriver, command: CallModel | CallTool, result: Result) -> Result:
        """Return a result; a failure with the remarks of breakers about it and about fallback models."""
        key = (driver.run.id, command.command_id, command.attempt)
        met = self._met.get(key, ())
        result = mark_probe(met, result)
        if not isinstance(result, CallFailed):
            return result
        said = failure_with_breakers(met, fabric_id, driver.compiled_fabric, driver.run, command, result)
        return self._take_steps(said, key, 0.0)

    def report_result(self, key: Key, result: Result | None, driver: RunDriver) -> None:
        """Report the result of a call, after its run has processed it."""
        self._over(build_holder(*key), result)
        self._say(key, report_end(self._met.pop(key, ()), result, driver.run))
        self._say(key, count_spending(self._counting.pop(key, ()), result))

    def report_drop(self, key: Key) -> None:
        """Report a call that was dropped."""
        self._counting.pop(key, None)
        self._over(build_holder(*key), None)
        self._say(key, settle_breakers(self._met.pop(key, ()), NEUTRAL, frozenset()))

    def _say(self, key: Key, steps: Settling) -> None:
        self._take_steps(steps, key, 0.0)

    def _take_steps(self, steps: Generator[RowStep, Any, T], key: Key, permit_s: float) -> T:
        """Execute steps to their end."""
        answer, holder = None, build_holder(*key)
        while True:
            try:
                answer = self._carried_out(steps.send(answer), holder, permit_s)
            except StopIteration as found:
                return cast("T", found.value)

    def _carried_out(self, step: RowStep, holder: str, permit_s: float) -> Any:
        store = self._store
        where = (step.key.scope, step.key.kind)
        if step.do == "look":
            return store.guards([where])[0]
        if step.do == "left":
            found = [] if self._grants is None else self._grants.budgets([step.key.scope])
            return found[0].grantable if found else None
        generation = build_row(step).generation
        match step.do:
            case "change":
                held = holder if step.held else ""
                return store.change(*where, generation=generation, state=step.state, holder=held, keeps=step.keeps)
            case "permit":
                for_s = max(1.0, permit_s)
                return store.permit(*where, generation=generation, holder=holder, for_s=for_s, most=step.most)
            case "give_up":
                return store.give_up(*where, holder=holder)
            case "count":
                return store.tell([build_count(step)])


TURN_S = 0.002
"""Seconds that a request to the database takes, one way."""
LOOK_S = 30.0
"""Seconds between two turns of an idle desk: rarer than in production, because virtual days pass in a world."""


class SharingWorld(ActorWorld, Protocol):
    """A world as a process sees it that shares budgets."""

    grants: WorldGrants
    watch: Watch

    @property
    def buckets(self) -> BucketStore:
        """The store of retry tokens."""
        ...


class VirtualDesk(GrantDesk):
    """The desk of a virtual process."""

    def __init__(self, process: VirtualActor, world: SharingWorld) -> None:
        self._process, self._world = process, world
        self._made = 0
        self._looking = False
        super().__init__(
            world.grants, world.buckets, lambda: process.name, self._post, lambda: world.clock.now() / US, self._name
        )

    def _name(self) -> str:
        self._made += 1
        return f"{self._process.name}:{self._made}"

    def _post(self, do: Callable[[], None]) -> None:
        self._process.later(TURN_S, do)

    def start(self, holder: GrantHolder) -> None:
        """Start serving, without a thread."""
        self.serve(holder)

    def _leave(self, job: object) -> None:
        super()._leave(job)  # type: ignore[arg-type]
        self._process.later(TURN_S, self._turn)

    def _away(self, error: StoreUnavailable) -> None:
        """Count, without a log line, the designed effect of a lapsed lease or a retirement."""
        self._world.sometimes["budgets_not_asked"] += 1

    def _turn(self) -> None:
        pause_s = self.turn()
        self._world.watch.check_shared()
        if self._jobs:
            self._process.later(max(pause_s, TURN_S), self._turn)
        if not self._looking and self._holds():
            self._looking = True
            self._process.later(LOOK_S, self._looks)

    def _looks(self) -> None:
        self._looking = False
        self._turn()


def build_shared(process: VirtualActor, world: SharingWorld) -> ProcessShare:
    """Return a process's part of the shared budgets."""
    shared = ProcessShare(
        VirtualDesk(process, world),
        post=lambda do: process.later(TURN_S, do),
        clock=world.clock,
        now=lambda: world.clock.now() / US,
    )
    shared.usual.learn(world.setup.fabric.revision_id, usual(world.setup.seed))
    return shared
