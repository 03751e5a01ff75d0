"""The circuit breakers of a virtual process: the real rules over a store that answers at once (``adapters/breakers.py`` waits for one)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.breaker.passing import Looked, Met, Step, passing, settled
from fabric.core.breaker.signals import NEUTRAL, US
from fabric.core.commands import CallModel, CallTool
from fabric.core.inputs import CallFailed, Result
from fabric.runtime.breaking import counted, ended, gates_for, holder_of, probed, refused, row_of
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import GuardStore

Key = tuple[str, str, int]


class VirtualBreakers:
    """What one process knows of the calls that it let pass. ``store``: shared by all processes."""

    def __init__(self, store: GuardStore) -> None:
        self._store = store
        self._met: dict[Key, tuple[Met, ...]] = {}

    def passes(self, fabric_id: str, driver: RunDriver, command: CallModel | CallTool, now: int) -> CallFailed | None:
        """Takes a call past its breakers: the failure of one that was refused, None when it may go out."""
        key = (driver.run.id, command.command_id, command.attempt)
        steps, answer = passing(gates_for(fabric_id, driver.compiled, driver.run, command)), None
        while True:
            try:
                answer = self._carried_out(steps.send(answer), key, (command.deadline_at - now) / US)
            except StopIteration as found:
                met: tuple[Met, ...] | Looked = found.value
                break
        if isinstance(met, Looked):
            return refused(met, driver.compiled, driver.run, command)
        self._met[key] = met
        return None

    def noted(self, key: Key, result: Result) -> Result:
        """A result, with what it means for the breaker that its call probed."""
        return probed(self._met.get(key, ()), result)

    def answered(self, key: Key, result: Result | None, driver: RunDriver) -> None:
        """What became of a call, after its run has taken it in."""
        self._say(key, ended(self._met.pop(key, ()), result, driver.run))

    def dropped(self, key: Key) -> None:
        """A call that was let go of."""
        self._say(key, settled(self._met.pop(key, ()), NEUTRAL, frozenset()))

    def _say(self, key: Key, steps: Iterable[Step]) -> None:
        for step in steps:
            self._carried_out(step, key, 0.0)

    def _carried_out(self, step: Step, key: Key, permit_s: float) -> Any:
        store, holder = self._store, holder_of(*key)
        where = (step.key.scope, step.key.kind)
        if step.do == "look":
            return store.guards([where])[0]
        generation = row_of(step).generation
        match step.do:
            case "change":
                held = holder if step.held else ""
                return store.change(*where, generation=generation, state=step.state, holder=held)
            case "permit":
                return store.permit(*where, generation=generation, holder=holder, for_s=max(1.0, permit_s))
            case "give_up":
                return store.give_up(*where, generation=generation, holder=holder)
            case "count":
                return store.tell([counted(step)])
