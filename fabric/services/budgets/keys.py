"""Sets the caps of keys, reads their standings, and reserves money that keys spend outside any run.

Money is reserved in the budgets of the caps before the call, and settled afterwards. Each budget takes one conditional
statement, in the order of their scopes, as grants do. A reservation that is never settled stays spent. Standings are
those of this day and month.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest, Least

from fabric.core.budgets.key_caps import ENVIRONMENT, KEY_DAY, KeyCap, ahead
from fabric.core.people.actor import Actor
from fabric.core.values.words import dollars
from fabric.models import SharedBudget
from fabric.runtime.ports.spending import GrantStore
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.installation.facts import installation


def operators_caps_set(store: GrantStore) -> None:
    """Let the budgets of this day and month follow the operator's caps (FABRIC_KEY_CAPS). A missing budget begins
    with its first call.
    """
    wanted = _caps_by_scope(here.installation().key_caps)
    for budget in store.budgets(sorted(wanted)) if wanted else ():
        store.set_cap(budget.scope, wanted[budget.scope], workspace_id=ENVIRONMENT)


def caps_follow(workspace_id: str, caps: Iterable[KeyCap]) -> None:
    """Let the budgets of this day and month, and of the next, follow a workspace's policy, in the caller's
    transaction.

    Below the spent and granted amount, nothing more is granted. The next ones are created at once: a run that was
    claimed under the earlier policy may be the first to call in them.
    """
    own = [one for one in caps if one.owner == workspace_id]
    for scope, cap in _caps_by_scope(own, *ahead(_now())).items():
        begun = {"workspace_id": workspace_id, "cap": cap, "cap_wanted": cap}
        SharedBudget.objects.get_or_create(scope=scope, defaults=begun)
        least = Greatest(Value(cap), F("spent") + F("granted"))
        SharedBudget.objects.filter(scope=scope).update(cap_wanted=cap, cap=least)


def _caps_by_scope(caps: Iterable[KeyCap], *ahead_of: int) -> Mapping[str, int]:
    at = (_now(), *ahead_of)
    found = ((scope, one.cap_of(scope)) for one in caps for instant in at for scope in one.scopes(instant))
    return {scope: cap for scope, cap in found if cap is not None}


def _now() -> int:
    return time.time_ns() // 1_000


def key_reserve(caps: Iterable[KeyCap], usd_micros: int, now: int) -> tuple[str, ...]:
    """Reserve an amount in each budget of these caps, and return their scopes. ``now``: microseconds since the
    epoch.

    Raises Refused conflict: one has too little left.
    """
    found = sorted((scope, cap) for cap in caps for scope in cap.scopes(now))
    with transaction.atomic():
        for scope, cap in found:
            most = cap.cap_of(scope)
            assert most is not None
            begun = {"workspace_id": cap.owner, "cap": most, "cap_wanted": most}
            row, _ = SharedBudget.objects.get_or_create(scope=scope, defaults=begun)
            fits = SharedBudget.objects.filter(scope=scope, cap_wanted__gte=F("spent") + F("granted") + usd_micros)
            if not fits.update(spent=F("spent") + usd_micros):
                raise _cap_refusal(cap, row, usd_micros)
    return tuple(scope for scope, _ in found)


def _cap_refusal(cap: KeyCap, row: SharedBudget, usd_micros: int) -> Refused:
    left = max(0, row.cap_wanted - row.spent - row.granted)
    period = "day" if row.scope.startswith(f"{KEY_DAY}:") else "month"
    who = "the operator raises FABRIC_KEY_CAPS" if cap.owner == ENVIRONMENT else "an owner raises it in the policy"
    said = f"the cap of the keys at {cap.origin} leaves {dollars(left)} for this {period}"
    return Refused(f"{said}, and the call may cost {dollars(usd_micros)}: {who}", code="conflict", field="model")


def key_settle(scopes: Iterable[str], reserved: int, cost: int) -> None:
    """Replace a call's reservation by its real cost. A cost beyond the reservation is an overrun of the budget."""
    back, over = max(0, reserved - cost), max(0, cost - reserved)
    spent = F("spent") - back
    stands = Greatest(F("cap_wanted"), Least(F("cap"), spent + F("granted")))
    for scope in sorted(scopes):
        SharedBudget.objects.filter(scope=scope).update(spent=spent, cap=stands, overrun=F("overrun") + Value(over))


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """Budget of one cap of one endpoint, in micro-dollars."""

    origin: str
    period: str
    """``day`` or ``month``."""
    cap: int
    spent: int
    granted: int
    """Amount granted to workers, spent or not."""
    operators: bool
    """True if the operator sets the cap; False if the workspace's policy does."""

    @property
    def grantable(self) -> int:
        """Return the amount that can still be granted."""
        return max(0, self.cap - self.spent - self.granted)


def key_budgets(actor: Actor) -> list[KeyBudget]:
    """Return the present budgets of the keys' caps in the actor's workspace. One statement."""
    now = time.time_ns() // 1_000
    caps = installation(workspace_id=actor.workspace_id).key_caps
    wanted = [(scope, one) for one in caps for scope in one.scopes(now)]
    rows = {row.scope: row for row in SharedBudget.objects.filter(scope__in=[scope for scope, _ in wanted])}
    found = []
    for scope, one in wanted:
        row, cap = rows.get(scope), one.cap_of(scope)
        assert cap is not None
        spent, granted = (row.spent, row.granted) if row else (0, 0)
        period = "day" if scope.startswith(f"{KEY_DAY}:") else "month"
        found.append(KeyBudget(one.origin, period, cap, spent, granted, one.owner == ENVIRONMENT))
    return found
