"""A run's part in shared budgets: what it falls under, what a batch reserves and settles, and the caps that its policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fabric.core.grants import FABRIC, SESSION, Held, Lately, Shares, scopes_of
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


def cap_of(scope: str, claimed: Claimed, policy: FlowPolicy) -> Cap | None:
    """What a scope's budget begins with when there is none yet; None: somebody else sets it."""
    kind = scope.partition(":")[0]
    cap = budget.shared_caps(policy.budget).get(kind)
    return None if cap is None else Cap(cap, claimed.workspace_id, hourly=kind == FABRIC)


def published(fabric_id: str, policy: FlowPolicy) -> dict[str, int]:
    """The caps that publishing a policy sets at once, by scope: a session's is set when it begins."""
    caps = budget.shared_caps(policy.budget)
    return {f"{kind}:{fabric_id}": cap for kind, cap in caps.items() if cap is not None and kind != SESSION}


# -- what a batch brings -----------------------------------------------------------------------------------------------


def entries_of(before: Run, emitted: Iterable[Emitted]) -> tuple[tuple[Reservation, ...], tuple[Settlement, ...]]:
    """What these events reserve of grants, and what they settle. ``before``: the run as it was before them."""
    reserved: list[Reservation] = []
    settled: list[Settlement] = []
    issued: dict[str, tuple[int, bool]] = {}
    for one in emitted:
        fact: Any = one.event.fact
        if fact.kind == "call_issued":
            issued[fact.command_id] = fact.attempt, bool(fact.grants)
            reserved += [
                Reservation(
                    run_id=before.id,
                    command_id=fact.command_id,
                    attempt=fact.attempt,
                    grant_id=use.grant_id,
                    usd_micros=use.usd_micros,
                )
                for use in fact.grants
            ]
        elif (price := SETTLES.get(fact.kind)) is not None and _granted(before, issued, fact):
            amount, reason = price(fact)
            settled.append(
                Settlement(
                    run_id=before.id,
                    command_id=fact.command_id,
                    attempt=fact.attempt,
                    usd_micros=amount,
                    reason=reason,
                )
            )
    return tuple(reserved), tuple(settled)


def _granted(before: Run, issued: Mapping[str, tuple[int, bool]], fact: Any) -> bool:
    """Whether the attempt that a fact ends was reserved from grants."""
    if fact.command_id in issued:
        return issued[fact.command_id] == (fact.attempt, True)
    pending = before.pending.get(fact.command_id)
    return pending is not None and pending.issued.attempt == fact.attempt and bool(pending.issued.grants)


Price = tuple[int | None, SettledBy]


def _answered(fact: Any) -> Price:
    return fact.cost_usd_micros, SettledBy.ANSWERED


def _failed(fact: Any) -> Price:
    if fact.billed:
        return fact.charged_usd_micros, SettledBy.ANSWERED
    return (None, SettledBy.UNKNOWN) if fact.charged_usd_micros else (0, SettledBy.ANSWERED)


def _stopped(fact: Any) -> Price:
    return (None, SettledBy.UNKNOWN) if fact.charged_usd_micros else (0, SettledBy.NOT_SENT)


SETTLES: Mapping[str, Callable[[Any], Price]] = {
    "model_answered": _answered,
    "attempt_failed": _failed,
    "attempt_interrupted": _stopped,
    "call_aborted": _stopped,
}
"""What ends an attempt that costs money, and what that comes to: the kinds that the run's own ledger observes, but for tools, which are free; by test."""
