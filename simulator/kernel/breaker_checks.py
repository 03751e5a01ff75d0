"""What must hold of circuit breakers when a call goes out, told from their rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fabric.core import command_ids
from fabric.core.breaker.passing import Gate, Met
from fabric.core.breaker.policy import COOLDOWN_MAX_S, DOMAIN
from fabric.core.breaker.signals import NEUTRAL, SIGNAL_OF
from fabric.core.commands import CallModel, CallTool
from fabric.core.endpoints import endpoint_name
from fabric.core.fallbacks import chain
from fabric.core.frozen import value
from fabric.core.inputs import CallFailed, Result
from fabric.runtime.breaking import gates_for, holder_of
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import GuardRow, GuardStore
from fabric.runtime.grant_rules import SECOND_US

Key = tuple[str, str]


@value()
class _Out:
    """A call that is out past a breaker."""

    store: GuardStore
    gate: Gate
    row: GuardRow
    probe: bool


def misplaced(fabric_id: str, driver: RunDriver, command: CallModel | CallTool, met: tuple[Met, ...]) -> str:
    """What is wrong with a call that goes out: it passed other breakers than those that the fabric puts in front of it; empty: nothing."""
    said = set(_in_front(fabric_id, driver, command))
    passed = {(one.gate.key.scope, one.gate.key.kind) for one in met}
    wrong = [f"past that of {scope}" for scope, _ in sorted(passed - said)]
    pending = driver.run.pending.get(command.command_id)
    if (
        pending is None or not pending.issued.final
    ):  # A last word repeats no call: it passes what repeated calls opened.
        wrong += [f"without that of {scope}" for scope, _ in sorted(said - passed)]
    return f"{command.command_id}#{command.attempt} goes out {', '.join(wrong)}" if wrong else ""


def _in_front(fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> Iterator[Key]:
    """The rows that a call has to pass, as semantics.md says it, and with none of the program's own choice."""
    if command_ids.is_errand(command.command_id):
        return
    spec, step = driver.compiled.spec, driver.run.steps[command.step_id]
    own = {"stage": str(step.stage)} | ({"agent": step.agent} if step.agent else {})
    stands_in = False
    if isinstance(command, CallModel):
        own["provider"] = endpoint_name(spec.model(command.model))
        behind = chain({model.name: model.fallbacks for model in spec.models}, spec.agent(step.agent).model)
        stands_in = command.model in behind
    else:
        own["tool"] = command.tool
    for breaker in spec.policy.breakers:
        name, scope = own.get(breaker.scope), str(breaker.scope)
        if scope == "fabric":
            row = f"fabric:{fabric_id}"
        elif name is None or (breaker.only and name not in breaker.only):
            continue
        else:
            row = f"provider:{name}" if scope == "provider" else f"{scope}:{fabric_id}:{name}"
        if not (stands_in and breaker.on_open == "model" and scope != "provider"):
            yield row, breaker.kind


def _last_closed(store: GuardStore, row: GuardRow) -> int:
    """The generation in which a breaker was last closed, 0 for never. Whoever was let pass before is a probe no longer: closed, it lets everybody pass."""
    changes = store.changes(row.scope, row.kind)
    return max((one.generation for one in changes if _state(one.state) == "closed"), default=0)


def _state(written: str) -> str:
    """The state of a row as it is written: what says none is closed."""
    said: str = json.loads(written).get("state", "closed") if written else "closed"
    return said


def _spared(driver: RunDriver, command: CallModel | CallTool, row: GuardRow) -> bool:
    """Returns True for a call that a breaker over money lets pass: a cheaper model's, a tool's, or one of a run that a person let go on.

    And for an agent's last word, which a breaker over repeated calls lets pass.
    """
    signal = json.loads(row.state).get("signal")
    if signal == "identical_call":
        pending = driver.run.pending.get(command.command_id)
        return pending is not None and pending.issued.final
    if signal != "cost_rate":
        return False
    if any(key.startswith("cost_velocity") and state.approved for key, state in driver.run.guards.items()):
        return True
    if isinstance(command, CallTool):
        return True
    spec = driver.compiled.spec
    names = [spec.agent(command.agent).model]
    while (name := spec.model(names[-1]).cheaper) is not None:
        names.append(name)
    return command.model in names[1:]


class Probes:
    """Knows the calls that are out as probes, as their processes send them and hear of them, and the waits that endpoints asked for.

    It does not believe what a row says of its permits, and of the end of its cooldown.
    """

    def __init__(self) -> None:
        self._out: dict[Key, dict[str, tuple[int, int]]] = {}
        """By row and holder: until when the call may take, and the row's generation when it was let pass."""
        self._past: dict[str, list[_Out]] = {}
        """By holder."""
        self._waits: dict[Key, int] = {}
        """By row: the latest Retry-After of a failure that it counts."""

    def over(self, holder: str, result: Result | None) -> None:
        """A call has ended so; None: nobody heard how."""
        for out in self._out.values():
            out.pop(holder, None)
        for one in self._past.pop(holder, ()):
            if result is not None and (one.probe or one.gate.counts):
                self._heard(one, result)

    def _heard(self, one: _Out, result: Result) -> None:
        key = (one.row.scope, one.row.kind)
        end = SIGNAL_OF[result.cause] if isinstance(result, CallFailed) else None
        signals = one.gate.breaker.signals
        (now,) = one.store.guards([key])
        if any(end in signal.names for signal in signals):
            wait_s = result.retry_after_s if isinstance(result, CallFailed) else None
            if wait_s is not None:
                until = now.asked_at + round(min(wait_s, COOLDOWN_MAX_S) * SECOND_US)
                self._waits[key] = max(self._waits.get(key, 0), until)
            return
        of_endpoint = [signal for signal in signals if DOMAIN[signal.names[0]] == "endpoint"]
        streaks = bool(of_endpoint) and all(signal.mode == "consecutive" for signal in of_endpoint)
        if end != NEUTRAL and not one.probe and streaks and now.generation == one.row.generation:
            self._waits.pop(key, None)  # The streak is broken, and with it what was told in it.

    def unheeded(self, store: GuardStore, fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> str:
        """Returns what is wrong with a call that goes out; empty: nothing.

        Its breaker is not closed, and it has no permit to probe, or more calls probe than may. Or the call comes before the endpoint's Retry-After is over.
        """
        gates = gates_for(fabric_id, driver.compiled, driver.run, command)
        holder = holder_of(driver.run.id, command.command_id, command.attempt)
        for gate, row in zip(gates, store.guards([(gate.key.scope, gate.key.kind) for gate in gates]), strict=True):
            state = _state(row.state)
            self._past.setdefault(holder, []).append(_Out(store, gate, row, state != "closed"))
            if state == "closed" or _spared(driver, command, row):
                continue
            if said := self._unpermitted(store, gate, row, state, holder):
                return f"{command.command_id}#{command.attempt} {said}"
        return ""

    def _unpermitted(self, store: GuardStore, gate: Gate, row: GuardRow, state: str, holder: str) -> str:
        if state != "half_open" or row.permits.get(holder, 0) <= row.asked_at:
            return f"goes out past the breaker of {row.scope}, which is {state}"
        early_us = self._waits.get((row.scope, row.kind), 0) - row.asked_at
        if early_us > 0:
            return f"probes {row.scope} {early_us / SECOND_US:g} s before its Retry-After is over"
        out = self._out.setdefault((row.scope, row.kind), {})
        out[holder] = (row.permits[holder], row.generation)
        closed = _last_closed(store, row)
        probing = sum(until > row.asked_at and generation > closed for until, generation in out.values())
        most = gate.breaker.half_open_max
        return (
            f"is one of {probing} probes of {row.scope} that are out at once, and {most} may be"
            if probing > most
            else ""
        )
