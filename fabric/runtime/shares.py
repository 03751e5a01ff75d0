"""A run's part in shared budgets: what it falls under, what a batch reserves and settles, and the caps that its policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.grants import FABRIC, SESSION, SESSION_TOKENS, Held, Lately, Shares, scopes_of, unit_of
from fabric.core.key_caps import KINDS, KeyCaps, begins_with
from fabric.core.mechanisms import budget
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run
from fabric.core.work import Emitted
from fabric.runtime.batch_parts import Reservation, SettledBy, Settlement
from fabric.runtime.grant_ports import Cap
from fabric.runtime.ports import Claimed


def shares_of(claimed: Claimed, policy: FlowPolicy, held: Held, lately: Lately) -> Shares:
    """What a claimed run shares with others."""
    scopes = scopes_of(
        budget.shared_caps(policy.budget),
        fabric_id=claimed.fabric_id,
        workspace_id=claimed.workspace_id,
        session_key=claimed.session_key,
        capped=claimed.capped,
    )
    return Shares(scopes, claimed.fabric_id, held, lately=lately)


def cap_of(scope: str, claimed: Claimed, policy: FlowPolicy, key_caps: KeyCaps) -> Cap | None:
    """What a scope's budget begins with when there is none yet; None: somebody else sets it."""
    kind = scope.partition(":")[0]
    if kind in KINDS:
        most = begins_with(key_caps, scope)
        return None if most is None else Cap(most, claimed.workspace_id)
    cap = budget.shared_caps(policy.budget).get(kind)
    return None if cap is None else Cap(cap, claimed.workspace_id, hourly=kind == FABRIC)


def published(fabric_id: str, policy: FlowPolicy) -> dict[str, int]:
    """The caps that publishing a policy sets at once, by scope: a session's is set when it begins."""
    caps = budget.shared_caps(policy.budget)
    return {
        f"{kind}:{fabric_id}": cap
        for kind, cap in caps.items()
        if cap is not None and kind not in (SESSION, SESSION_TOKENS)
    }


# -- what a batch brings -----------------------------------------------------------------------------------------------


TOKENS = "#tokens"
"""The end of the name under which a call's tokens are reserved, and settled: beside its money, in amounts of their own."""


def name_in(scope: str, command_id: str) -> str:
    """The name of a call's reservation in a budget of that scope."""
    return command_id + TOKENS if unit_of(scope) == "tokens" else command_id


def entries_of(before: Run, emitted: Iterable[Emitted]) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    """What these events reserve of grants, and what they settle. ``before``: the run as it was before them."""
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
    """The units of what the attempt that a fact ends has reserved of grants, by the name of the reservation."""
    pending = before.pending.get(fact.command_id)
    call = issued.get(fact.command_id) or (None if pending is None else pending.issued)
    if call is None or call.attempt != fact.attempt:
        return {}
    return {name_in(use.scope, fact.command_id): unit_of(use.scope) for use in call.grants}


Price = tuple[int | None, SettledBy]


def _answered(fact: Any, unit: str) -> Price:
    if unit == "tokens":
        return (fact.input_tokens + fact.output_tokens if fact.kind == "model_answered" else 0), SettledBy.ANSWERED
    return fact.cost_usd_micros, SettledBy.ANSWERED


def _failed(fact: Any, unit: str) -> Price:
    charged = _charged(fact, unit)
    if fact.billed:
        return charged, SettledBy.ANSWERED
    return (None, SettledBy.UNKNOWN) if charged else (0, SettledBy.ANSWERED)


def _stopped(fact: Any, unit: str) -> Price:
    return (None, SettledBy.UNKNOWN) if _charged(fact, unit) else (0, SettledBy.NOT_SENT)


def _charged(fact: Any, unit: str) -> int:
    charged: int = fact.charged_tokens if unit == "tokens" else fact.charged_usd_micros
    return charged


SETTLES: Mapping[str, Callable[[Any, str], Price]] = {
    "model_answered": _answered,
    "tool_answered": _answered,
    "input_requested": _answered,
    "attempt_failed": _failed,
    "attempt_interrupted": _stopped,
    "call_aborted": _stopped,
}
"""What ends an attempt that costs money, and what that comes to: the kinds that the run's own ledger observes; by test."""
