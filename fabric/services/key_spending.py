"""Money that a key spends outside any run: reserved in the budgets of its caps before the call, settled afterwards.

One conditional statement for each budget, in the order of their scopes, as grants have it. A reservation that is never settled stays spent.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest, Least

from fabric.core.key_caps import ENVIRONMENT, KEY_DAY, KeyCap
from fabric.core.words import dollars
from fabric.models import SharedBudget
from fabric.services.errors import Refused


def key_reserve(caps: Iterable[KeyCap], usd_micros: int, now: int) -> tuple[str, ...]:
    """Reserves an amount in each budget of these caps; the scopes of those budgets. ``now``: microseconds since the epoch. Refused conflict: one lacks it."""
    found = sorted((scope, cap) for cap in caps for scope in cap.scopes(now))
    with transaction.atomic():
        for scope, cap in found:
            most = cap.cap_of(scope)
            assert most is not None
            begun = {"workspace_id": cap.owner, "cap": most, "cap_wanted": most}
            row, _ = SharedBudget.objects.get_or_create(scope=scope, defaults=begun)
            fits = SharedBudget.objects.filter(scope=scope, cap_wanted__gte=F("spent") + F("granted") + usd_micros)
            if not fits.update(spent=F("spent") + usd_micros):
                raise _spent(cap, row, usd_micros)
    return tuple(scope for scope, _ in found)


def _spent(cap: KeyCap, row: SharedBudget, usd_micros: int) -> Refused:
    left = max(0, row.cap_wanted - row.spent - row.granted)
    period = "day" if row.scope.startswith(f"{KEY_DAY}:") else "month"
    who = "the operator raises FABRIC_KEY_CAPS" if cap.owner == ENVIRONMENT else "an owner raises it in the policy"
    said = f"the cap of the keys at {cap.origin} leaves {dollars(left)} for this {period}"
    return Refused(f"{said}, and the call may cost {dollars(usd_micros)}: {who}", code="conflict", field="model")


def key_settle(scopes: Iterable[str], reserved: int, cost: int) -> None:
    """Puts what a call cost in place of its reservation. What it cost above that is an overrun of the budget."""
    back, over = max(0, reserved - cost), max(0, cost - reserved)
    spent = F("spent") - back
    stands = Greatest(F("cap_wanted"), Least(F("cap"), spent + F("granted")))
    for scope in sorted(scopes):
        SharedBudget.objects.filter(scope=scope).update(spent=spent, cap=stands, overrun=F("overrun") + Value(over))
