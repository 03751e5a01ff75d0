"""Caps of budgets that runs share. A fabric's publication sets the caps of its policy; this module sets a
workspace's and a session's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest

from fabric.core.audit.lines import Act
from fabric.core.budgets.grants import FABRIC, SESSION, SESSION_TOKENS, WORKSPACE, find_unit
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import GrantReservation, SharedBudget, SharedGrant
from fabric.program.name import program
from fabric.selectors.budgets import BudgetStanding, list_budgets
from fabric.selectors.workspaces.policies import standing_policy
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted

MICROS_MAX = 10**15
KEPT_US = 7 * 86_400 * 1_000_000
"""Time for which a reservation stays visible after its grant was closed, in microseconds."""
PRUNED_AT_ONCE = 500
SESSIONS = (SESSION, SESSION_TOKENS)
"""Kinds of budgets that a session has."""


def caps_publish(*, workspace_id: str, caps: Mapping[str, int]) -> None:
    """Set the caps of a fabric, by scope, in the transaction of its publication."""
    for scope, cap in caps.items():
        _set(scope, cap, workspace_id, hourly=scope.startswith(f"{FABRIC}:"))


def budget_set(*, actor: Actor, amount: int, scope: str = "", unit: str = "usd_micros") -> BudgetStanding:
    """Set the cap of the actor's workspace, or of one of its sessions (``session:<fabric id>:<key>``), and return
    that budget's standing.

    ``amount``: micro-dollars, or tokens (``unit``) for a session's tokens (``session_tokens:<fabric id>:<key>``). A
    workspace's first cap applies to runs claimed from then on. A changed cap applies at once; below the spent and
    granted amount, nothing more is granted. Raises Refused: invalid, not_found.
    """
    if not 0 <= amount <= MICROS_MAX:
        said = "tokens" if unit == "tokens" else "micro-dollars"
        raise Refused(f"a cap of {amount:,} {said} is none; give 0 to {MICROS_MAX:,}", code="invalid")
    right_wanted(actor, Right.OPERATE, "set budgets")
    scope = scope or f"{WORKSPACE}:{actor.workspace_id}"
    kind = scope.partition(":")[0]
    if kind == FABRIC:
        raise Refused("a fabric's cap is budget.fabric_hour_usd_micros of its policy: publish it there", code="invalid")
    known = SharedBudget.objects.filter(scope=scope, workspace_id=actor.workspace_id).exists()
    if scope != f"{WORKSPACE}:{actor.workspace_id}" and not (kind in SESSIONS and known):
        raise Refused(f"there is no budget {scope[:80]!r} in this workspace; `{program()} budget list` lists them", code="not_found")  # fmt: skip
    if find_unit(scope) != unit:
        said = "tokens: give --tokens" if unit == "usd_micros" else "money: give --usd"
        raise Refused(f"the budget {scope[:80]!r} counts {said}", code="invalid")
    most = standing_policy(actor.workspace_id).policy.caps.session_usd_micros
    if kind == SESSION and most is not None and amount > most:
        message = f"the workspace's policy lets a session spend {most:,} micro-dollars (caps.session_usd_micros): an owner changes that"
        raise Refused(message, code="invalid")
    with transaction.atomic():
        was = SharedBudget.objects.filter(scope=scope).values_list("cap_wanted", flat=True).first()
        _set(scope, amount, actor.workspace_id, hourly=False)
        audit_record(actor=actor, act=Act.BUDGET_SET, subject=scope, was=was, **{unit: amount})
    return next(one for one in list_budgets(actor) if one.scope == scope)


def _set(scope: str, cap: int, workspace_id: str, *, hourly: bool) -> None:
    """Set a cap as the stores' ``set_cap`` does, in the caller's transaction. One UPDATE judges the row as it
    then is.
    """
    values = {"workspace_id": workspace_id, "hourly": hourly, "cap": cap, "cap_wanted": cap}
    if not SharedBudget.objects.get_or_create(scope=scope, defaults=values)[1]:
        held = Greatest(Value(cap), F("spent") + F("granted"))
        SharedBudget.objects.filter(scope=scope).update(cap_wanted=cap, cap=held)


# -- pruning -----------------------------------------------------------------------------------------------------------


def grants_prune(*, now: int | None = None) -> int:
    """Delete grants that were closed ``KEPT_US`` ago, with their reservations, and return their number: the budgets
    have their sums.
    """
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    gone = 0
    while ids := list(SharedGrant.objects.filter(closed_at__lte=until).values_list("id", flat=True)[:PRUNED_AT_ONCE]):
        with transaction.atomic():
            GrantReservation.objects.filter(grant_id__in=ids).delete()
            gone += SharedGrant.objects.filter(id__in=ids).delete()[0]
    return gone


def grants_to_prune() -> bool:
    """Return True if any grant is closed; most installations share no budget."""
    return SharedGrant.objects.filter(closed_at__isnull=False).exists()
