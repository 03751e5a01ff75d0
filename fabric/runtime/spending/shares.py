"""A run's part in shared budgets: its scopes, a batch's reservations and settlements, and the caps of its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.budgets.grants import (
    FABRIC,
    SESSION,
    SESSION_TOKENS,
    HeldGrants,
    Lately,
    Shares,
    find_unit,
    list_scopes,
)
from fabric.core.budgets.key_caps import KINDS, KeyCaps, begins_with
from fabric.core.decision.work import EmittedFact
from fabric.core.mechanisms import budget
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.run import Run
from fabric.runtime.ports.batch_parts import Reservation, SettledBy, Settlement
from fabric.runtime.ports.journal import ClaimedRun
from fabric.runtime.ports.spending import Cap


def build_shares(claimed: ClaimedRun, policy: FlowPolicy, held: HeldGrants, lately: Lately) -> Shares:
    """Return the state that a claimed run shares with others."""
    scopes = list_scopes(
        budget.shared_caps(policy.budget),
        fabric_id=claimed.fabric_id,
        workspace_id=claimed.workspace_id,
        session_key=claimed.session_key,
        capped=claimed.capped,
    )
    return Shares(scopes, claimed.fabric_id, held, lately=lately)


def find_cap(scope: str, claimed: ClaimedRun, policy: FlowPolicy, key_caps: KeyCaps) -> Cap | None:
    """Return a scope's initial cap, for a budget that does not exist yet; None: another authority sets it."""
    kind = scope.partition(":")[0]
    if kind in KINDS:
        most = begins_with(key_caps, scope)
        return None if most is None else Cap(most, claimed.workspace_id)
    cap = budget.shared_caps(policy.budget).get(kind)
    return None if cap is None else Cap(cap, claimed.workspace_id, hourly=kind == FABRIC)


def published_caps(fabric_id: str, policy: FlowPolicy) -> dict[str, int]:
    """Return the caps that publishing a policy sets at once, by scope: a session's is set when it begins."""
    caps = budget.shared_caps(policy.budget)
    return {
        f"{kind}:{fabric_id}": cap
        for kind, cap in caps.items()
        if cap is not None and kind not in (SESSION, SESSION_TOKENS)
    }


# -- what a batch brings -----------------------------------------------------------------------------------------------


TOKENS = "#tokens"
"""Suffix of the name under which a call's tokens are reserved and settled, separately from its money."""


def name_in(scope: str, command_id: str) -> str:
    """Return the name of a call's reservation in a budget of that scope."""
    return command_id + TOKENS if find_unit(scope) == "tokens" else command_id


def list_entries(before: Run, emitted: Iterable[EmittedFact]) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    """Return the reservations and settlements of these events. ``before``: the run before them."""
    reserved: list[Reservation] = []
    settled: list[Settlement] = []
    issued: dict[str, ev.CallIssued] = {}
    for one in emitted:
        fact: Any = one.event.fact
        if fact.kind == "call_issued":
            issued[fact.command_id] = fact
            reserved += [
                Reservation(
                    run_id=before.id,
                    command_id=name_in(use.scope, fact.command_id),
                    attempt=fact.attempt,
                    grant_id=use.grant_id,
                    usd_micros=use.usd_micros,
                )
                for use in fact.grants
            ]
        elif (price := SETTLES.get(fact.kind)) is not None:
            for name, unit in _names(before, issued, fact).items():
                amount, reason = price(fact, unit)
                settled.append(
                    Settlement(
                        run_id=before.id, command_id=name, attempt=fact.attempt, usd_micros=amount, reason=reason
                    )
                )
    return tuple(reserved), tuple(settled)


def _names(before: Run, issued: Mapping[str, ev.CallIssued], fact: Any) -> Mapping[str, str]:
    """Return the units of the reservations of the attempt that a fact ends, by the reservation's name."""
    pending = before.pending.get(fact.command_id)
    call = issued.get(fact.command_id) or (None if pending is None else pending.issued)
    if call is None or not call.grants or call.attempt != fact.attempt:
        return {}
    return {name_in(use.scope, fact.command_id): find_unit(use.scope) for use in call.grants}


Price = tuple[int | None, SettledBy]


def _price_answer(fact: Any, unit: str) -> Price:
    if unit == "tokens":
        return (fact.input_tokens + fact.output_tokens if fact.kind == "model_answered" else 0), SettledBy.ANSWERED
    return fact.cost_usd_micros, SettledBy.ANSWERED


def _price_failure(fact: Any, unit: str) -> Price:
    charged = _read_charge(fact, unit)
    if fact.billed:
        return charged, SettledBy.ANSWERED
    return (None, SettledBy.UNKNOWN) if charged else (0, SettledBy.ANSWERED)


def _price_stop(fact: Any, unit: str) -> Price:
    return (None, SettledBy.UNKNOWN) if _read_charge(fact, unit) else (0, SettledBy.NOT_SENT)


def _read_charge(fact: Any, unit: str) -> int:
    charged: int = fact.charged_tokens if unit == "tokens" else fact.charged_usd_micros
    return charged


SETTLES: Mapping[str, Callable[[Any, str], Price]] = {
    "model_answered": _price_answer,
    "tool_answered": _price_answer,
    "input_requested": _price_answer,
    "attempt_failed": _price_failure,
    "attempt_interrupted": _price_stop,
    "call_aborted": _price_stop,
}
"""Cost of each event kind that ends an attempt: the kinds that the run's own ledger observes; by test."""
