"""Checks circuit breakers and fallback models in the simulator. Has planted bugs and draws for the swarm too.

Sources: docs/specification/failures.md column *failover*, 3 "no swap", 4 "Failover". Draws give some fabrics circuit
breakers that stand only before named members of their scope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any

from fabric.core.breaker import passing
from fabric.core.breaker.passing import Gate, PassedBreaker
from fabric.core.breaker.signals import NEUTRAL, find_signal
from fabric.core.calls import issue as calls
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import CallFailed, DecisionMade, Result
from fabric.core.ladders import failover, fallback_model
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import COOLDOWN_MAX_S, DOMAIN, PRESETS, Breaker, BreakerScope
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.state.run import Run
from fabric.core.values import command_ids
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import CLASSIFY, FailoverTarget, Tier, Trip
from fabric.core.values.units import JSON, US
from fabric.runtime.breakers import build_holder, gates_for
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports.spending import GuardRow, GuardStore
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.planting import attribute
from simulator.stores.memory.guards import MemoryGuards

Key = tuple[str, str]


@value()
class _Out:
    """An open call that passed a breaker."""

    store: GuardStore
    gate: Gate
    row: GuardRow
    probe: bool


def check_passage(
    fabric_id: str, driver: RunDriver, command: CallModel | CallTool, met: tuple[PassedBreaker, ...]
) -> str:
    """Return an error if a call passed other breakers than those that the fabric puts before it; else empty."""
    said = set(_in_front(fabric_id, driver, command))
    passed = {(one.gate.key.scope, one.gate.key.kind) for one in met}
    wrong = [f"past that of {scope}" for scope, _ in sorted(passed - said)]
    pending = driver.run.pending.get(command.command_id)
    if (
        pending is None or not pending.issued.final
    ):  # A last answer repeats no call, so it passes breakers over repeated calls.
        wrong += [f"without that of {scope}" for scope, _ in sorted(said - passed)]
    return f"{command.command_id}#{command.attempt} goes out {', '.join(wrong)}" if wrong else ""


@keep_results
def _list_behind(spec: FabricSpec, own: str) -> tuple[str, ...]:
    return chain({model.name: model.fallbacks for model in spec.models}, own)


def _in_front(fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> Iterator[Key]:
    """Yield the rows that a call has to pass, by docs/specification/README.md, without the program's own choice."""
    if command_ids.is_errand(command.command_id):
        return
    spec, step = driver.compiled_fabric.spec, driver.run.steps[command.step_id]
    own = {"stage": str(step.stage)} | ({"agent": step.agent} if step.agent else {})
    stands_in = False
    if isinstance(command, CallModel):
        own["provider"] = endpoint_name(spec.model(command.model))
        stands_in = command.model in _list_behind(spec, spec.agent(step.agent).model)
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
    """Return the generation in which a breaker was last closed; 0 for never.

    Earlier probes are probes no longer: a closed breaker admits every call.
    """
    changes = store.changes(row.scope, row.kind)
    return max((one.generation for one in changes if _state(one.state) == "closed"), default=0)


def _state(written: str) -> str:
    """Return the state of a row as it is written; closed by default."""
    said: str = json.loads(written).get("state", "closed") if written else "closed"
    return said


def _is_spared(driver: RunDriver, command: CallModel | CallTool, row: GuardRow) -> bool:
    """Return True for a call that its breaker admits by an exception.

    1. A breaker over money admits a cheaper model's call, a tool's, or one of a run that a person allowed to
       continue.
    2. A breaker over repeated calls admits an agent's last answer.
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
    spec = driver.compiled_fabric.spec
    names = [spec.agent(command.agent).model]
    while (name := spec.model(names[-1]).cheaper) is not None:
        names.append(name)
    return command.model in names[1:]


class Probes:
    """Tracks open probes, and the waits that endpoints asked for.

    It does not believe a row's permits, or the end of its cooldown.
    """

    def __init__(self) -> None:
        self._out: dict[Key, dict[str, tuple[int, int]]] = {}
        """End of the permit, and generation of the row at its passage, by row and holder."""
        self._past: dict[str, list[_Out]] = {}
        """Passed breakers by holder."""
        self._waits: dict[Key, int] = {}
        """Latest Retry-After of a counted failure, by row."""

    def record_end(self, holder: str, result: Result | None) -> None:
        """Record the end of a call; None: its result is unknown."""
        for out in self._out.values():
            out.pop(holder, None)
        for one in self._past.pop(holder, ()):
            if result is not None and (one.probe or one.gate.counts):
                self._hear_result(one, result)

    def _hear_result(self, one: _Out, result: Result) -> None:
        key = (one.row.scope, one.row.kind)
        end = find_signal(result) if isinstance(result, CallFailed) else None
        signals = one.gate.breaker.signals
        (now,) = one.store.guards([key])
        if any(end in signal.names for signal in signals):
            wait_s = result.retry_after_s if isinstance(result, CallFailed) else None
            if wait_s is not None:
                until = now.asked_at + round(min(wait_s, COOLDOWN_MAX_S) * US)
                self._waits[key] = max(self._waits.get(key, 0), until)
            return
        of_endpoint = [signal for signal in signals if DOMAIN[signal.names[0]] == "endpoint"]
        streaks = bool(of_endpoint) and all(signal.mode == "consecutive" for signal in of_endpoint)
        if end != NEUTRAL and not one.probe and streaks and now.generation == one.row.generation:
            self._waits.pop(key, None)  # The streak is broken, and with it its Retry-After.

    def find_unheeded(self, store: GuardStore, fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> str:
        """Return an error about a call that goes out; else empty.

        1. Its breaker is not closed, and it has no permit to probe, or too many calls probe.
        2. It comes before the end of the endpoint's Retry-After.
        """
        gates = gates_for(fabric_id, driver.compiled_fabric, driver.run, command)
        holder = build_holder(driver.run.id, command.command_id, command.attempt)
        for gate, row in zip(gates, store.guards([(gate.key.scope, gate.key.kind) for gate in gates]), strict=True):
            state = _state(row.state)
            self._past.setdefault(holder, []).append(_Out(store, gate, row, state != "closed"))
            if state == "closed" or _is_spared(driver, command, row):
                continue
            if said := self._find_unpermitted(store, gate, row, state, holder):
                return f"{command.command_id}#{command.attempt} {said}"
        return ""

    def _find_unpermitted(self, store: GuardStore, gate: Gate, row: GuardRow, state: str, holder: str) -> str:
        if state != "half_open" or row.permits.get(holder, 0) <= row.asked_at:
            return f"goes out past the breaker of {row.scope}, which is {state}"
        early_us = self._waits.get((row.scope, row.kind), 0) - row.asked_at
        if early_us > 0:
            return f"probes {row.scope} {early_us / US:g} s before its Retry-After is over"
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


@register_check("attempt_failed")
def failures_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the cause of each call's newest failure, and the models with an open breaker then."""
    seen.failed[fact.command_id], seen.shut[fact.command_id] = fact.cause, fact.shut
    return ""


@register_check("review_opened")
def offers_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the model that a review names."""
    seen.offered[fact.review_id] = fact.model
    return ""


@register_check("model_changed")
def fallbacks_are_allowed(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A fallback needs a cause that allows it, a capable model of the chain, and in high-stakes a person."""
    if fact.reason != "fallback_model":
        return ""
    if fact.actor:
        given = seen.given.get(event.input_id)
        if not isinstance(given, DecisionMade) or (given.verb, given.actor) != ("approve", fact.actor):
            return f"{fact.actor} approved no model"
        if not fact.model == given.model == seen.offered.get(given.review_id):
            return f"{fact.model} was put in place, {given.model} was approved"
    else:
        if seen.run.tier is Tier.HIGH_STAKES:
            return "no person approved it, in high-stakes"
        if seen.failed.get(fact.command_id) != fact.cause or not CLASSIFY[fact.cause].failover:
            return f"the call failed for {seen.failed.get(fact.command_id)}, and {fact.cause} is told"
        if fact.model in seen.shut[fact.command_id]:
            return f"a circuit breaker in front of {fact.model} was told to be open"
        if seen.decided is None or (seen.decided.reaction, seen.decided.step_id) != (fact.reason, fact.step_id):
            return "no decision says so"
    return _fit(seen, fact, after)


def _fit(seen: WatchedRun, fact: Any, after: Run) -> str:
    step, spec = after.steps[fact.step_id], seen.compiled.spec
    before = seen.run.steps.get(fact.step_id, step)
    answering = before.model or spec.agent(fact.agent).model
    if fact.before != answering:
        return f"{fact.before} is told, and {answering} answered"
    named = {model.name: model.fallbacks for model in spec.models}
    if fact.model not in chain(named, before.stands_for or answering):
        return f"{fact.model} is no fallback of {before.stands_for or answering}"
    needs = spec.needs(spec.agent(fact.agent)) - ({"tool_use"} if step.final else set())
    lacking = needs - spec.model(fact.model).capable
    return f"{fact.model} lacks {', '.join(sorted(lacking))}" if lacking else ""


@register_check("call_issued")
def no_silent_fallback(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call goes to the model of its step's events: each fallback has its own event."""
    if fact.call != "model":
        return ""
    told = seen.run.steps[fact.step_id].model or seen.compiled.spec.agent(fact.agent).model
    return "" if fact.target == told else f"it goes to {fact.target}, and {told} answers for its step"


def _fallback_unapproved() -> AbstractContextManager[None]:
    """High-stakes takes a fallback model without a person, like other tiers."""
    return planting.attribute(failover, "ASKS_FIRST", dict.fromkeys(Tier, False))


def _fallback_for_anything() -> AbstractContextManager[None]:
    """The engine takes a fallback model after any failure."""
    return planting.attribute(
        failover, "CLASSIFY", {cause: replace(row, fails_over_to=FailoverTarget.ANY) for cause, row in CLASSIFY.items()}
    )


def _fallback_silently() -> AbstractContextManager[None]:
    """The engine uses a fallback model for the next attempt, without an event."""
    kept = calls.ask_model

    def ask_model(work: Any, step: Any, *, turn: int, attempt: int = 1) -> list[Trip]:
        own = calls.find_model(work, step)
        named = work.compiled_fabric.spec.model(own).fallbacks if attempt > 1 else ()
        # Only the call goes elsewhere: other readers see the step's true model.
        with planting.attribute(calls, "find_model", lambda work, step: named[0] if named else own):
            return kept(work, step, turn=turn, attempt=attempt)

    return planting.attribute(calls, "ask_model", ask_model)


def _fallback_into_open() -> AbstractContextManager[None]:
    """The engine calls a model although its circuit breaker is known to be open."""
    kept = failover.choose

    def choose(lost: Any, models: Any, prices: Any, refuses: Any) -> failover.Failover:
        def but_breakers(name: str) -> failover.PassedOver | None:
            said: failover.PassedOver | None = refuses(name)
            return None if said is None or said.ruled_out == "breaker" else said

        return kept(lost, models, prices, but_breakers)

    return planting.attribute(fallback_model, "choose", choose)


FALLBACK_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "fallback_unapproved": _fallback_unapproved,
    "fallback_for_anything": _fallback_for_anything,
    "fallback_silently": _fallback_silently,
    "fallback_into_open": _fallback_into_open,
}
"""Plants by name."""


def _open_passes() -> AbstractContextManager[None]:
    """Calls pass breakers that are not closed."""
    return attribute(passing, "judge_gate", lambda gate, row, standing: passing.PassedBreaker(gate, row))


def _permit_for_all() -> AbstractContextManager[None]:
    """Every call gets a probe's permit."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, **asked: Any) -> bool:
        kept(self, *where, **asked)
        return True

    return attribute(MemoryGuards, "permit", gives)


def _one_probe_more() -> AbstractContextManager[None]:
    """A breaker gives one permit too many."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, most: int = 1, **asked: Any) -> bool:
        return kept(self, *where, most=most + 1, **asked)

    return attribute(MemoryGuards, "permit", gives)


def _retry_after_unheard() -> AbstractContextManager[None]:
    """The engine forgets Retry-After: a breaker lets a probe out when its own cooldown is over."""
    kept = MemoryGuards.tell

    def tells(self: MemoryGuards, counts: Any) -> None:
        kept(self, [one for one in counts if not one.until])

    return attribute(MemoryGuards, "tell", tells)


def _named_for_all() -> AbstractContextManager[None]:
    """A breaker stands before all calls of its scope, and not only before those that it names."""
    return attribute(Breaker, "stands_before", lambda _breaker, _name: True)


def _named_for_none() -> AbstractContextManager[None]:
    """A breaker with names stands before no call."""
    return attribute(Breaker, "stands_before", lambda breaker, _name: not breaker.only)


BREAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "open_breaker_passes": _open_passes,
    "permit_for_all": _permit_for_all,
    "one_probe_more": _one_probe_more,
    "retry_after_unheard": _retry_after_unheard,
    "named_breaker_for_all": _named_for_all,
    "named_breaker_for_none": _named_for_none,
}
"""Plants by name."""

SHARE = 0.4


def draw_names(tree: JSON, number: int) -> None:
    """Let a breaker name its members in some fabrics; in some, another breaker of its policy has the rest."""
    rng = Random(f"named breakers {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= SHARE:
        return
    for breaker in tuple(tree["policy"]["breakers"]):
        there = _there(tree, breaker.get("scope") or PRESETS[breaker["preset"]]().scope)
        rng.shuffle(there)
        many = rng.randint(1, len(there)) if there else 0
        if not many or rng.random() < 0.2:
            continue
        breaker["only"], others = there[:many], there[many:]
        if others and rng.random() < 0.4:
            tree["policy"]["breakers"].append(breaker | {"only": others})


def _there(tree: JSON, scope: str) -> list[str]:
    match scope:
        case BreakerScope.AGENT:
            return [agent["name"] for agent in tree["agents"]]
        case BreakerScope.TOOL:
            return [tool["name"] for tool in tree["tools"]]
        case BreakerScope.PROVIDER:
            return sorted({model["provider"] for model in tree["models"]})
        case BreakerScope.STAGE:
            return [stage.value for stage in Stage]
    return []
