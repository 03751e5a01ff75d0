"""The circuit breakers of a virtual process: the real rules over a store that answers at once (``adapters/breakers.py`` waits for one)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar, cast

from fabric.core.breaker.passing import Gate, Judged, Met, Settling, Step, judging, settled, tripping
from fabric.core.breaker.signals import NEUTRAL, US
from fabric.core.commands import CallModel, CallTool
from fabric.core.inputs import CallFailed, Result
from fabric.core.shared_pace import Counting, spent
from fabric.runtime.breaking import (
    Past,
    counted,
    counting,
    ended,
    gates_for,
    holder_of,
    probing,
    refused,
    row_of,
    shared_for,
    taken,
    told,
)
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import GrantStore, GuardStore

Key = tuple[str, str, int]
T = TypeVar("T")


class VirtualBreakers:
    """What one process knows of the calls that it let pass. ``store``: shared by all processes. ``over`` is told whose call has ended."""

    def __init__(
        self,
        store: GuardStore,
        grants: GrantStore | None = None,
        over: Callable[[str, Result | None], object] = lambda _holder, _result: None,
    ) -> None:
        self._store, self._grants, self._over = store, grants, over
        self._met: dict[Key, tuple[Met, ...]] = {}
        self._counting: dict[Key, tuple[Counting, ...]] = {}

    def opens(self, run_id: str, gates: Iterable[Gate], judged: Iterable[Judged] = ()) -> None:
        """Opens breakers at a trip that no call of the run would tell them. ``judged``: what gates found, to be counted first."""
        self._through(judging(judged), (run_id, "", 0), 0.0)
        self._through(tripping(gates), (run_id, "", 0), 0.0)

    def passes(self, fabric_id: str, driver: RunDriver, command: CallModel | CallTool, now: int) -> CallFailed | None:
        """Takes a call past its breakers: the failure of one that was refused, None when it may go out."""
        key = (driver.run.id, command.command_id, command.attempt)
        gates = gates_for(fabric_id, driver.compiled, driver.run, command)
        steps = taken(gates, shared_for(fabric_id, driver.compiled, command))
        past = self._through(steps, key, (command.deadline_at - now) / US)
        if not isinstance(past, Past):
            return refused(past, driver.compiled, driver.run, command)
        self._met[key], self._counting[key] = past.met, counting(past, driver.compiled, driver.run, command)
        return None

    def past(self, driver: RunDriver, command: CallModel | CallTool) -> tuple[Met, ...]:
        """The breakers that let a call pass."""
        return self._met.get((driver.run.id, command.command_id, command.attempt), ())

    def noted(self, fabric_id: str, driver: RunDriver, command: CallModel | CallTool, result: Result) -> Result:
        """A result; a failure with what breakers say of it and of the models that may be asked instead."""
        key = (driver.run.id, command.command_id, command.attempt)
        met = self._met.get(key, ())
        result = probing(met, result)
        if not isinstance(result, CallFailed):
            return result
        said = told(met, fabric_id, driver.compiled, driver.run, command, result)
        return self._through(said, key, 0.0)

    def answered(self, key: Key, result: Result | None, driver: RunDriver) -> None:
        """What became of a call, after its run has taken it in."""
        self._over(holder_of(*key), result)
        self._say(key, ended(self._met.pop(key, ()), result, driver.run))
        self._say(key, spent(self._counting.pop(key, ()), result))

    def dropped(self, key: Key) -> None:
        """A call that was let go of."""
        self._counting.pop(key, None)
        self._over(holder_of(*key), None)
        self._say(key, settled(self._met.pop(key, ()), NEUTRAL, frozenset()))

    def _say(self, key: Key, steps: Settling) -> None:
        self._through(steps, key, 0.0)

    def _through(self, steps: Generator[Step, Any, T], key: Key, permit_s: float) -> T:
        """Takes steps to their end."""
        answer = None
        while True:
            try:
                answer = self._carried_out(steps.send(answer), key, permit_s)
            except StopIteration as found:
                return cast("T", found.value)

    def _carried_out(self, step: Step, key: Key, permit_s: float) -> Any:
        store, holder = self._store, holder_of(*key)
        where = (step.key.scope, step.key.kind)
        if step.do == "look":
            return store.guards([where])[0]
        if step.do == "left":
            found = [] if self._grants is None else self._grants.budgets([step.key.scope])
            return found[0].left if found else None
        generation = row_of(step).generation
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
                return store.tell([counted(step)])
