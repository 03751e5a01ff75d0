"""Caps of keys where they stand: the budgets of this day and month follow a cap that was changed, by the same statement as every other cap."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from django.db.models import F, Value
from django.db.models.functions import Greatest

from fabric.core.key_caps import ENVIRONMENT, KeyCap, ahead
from fabric.models import SharedBudget
from fabric.runtime.grant_ports import GrantStore
from fabric.services import here


def operators_caps_set(store: GrantStore) -> None:
    """Has the budgets of this day and month follow what the operator says now (FABRIC_KEY_CAPS). One that is not there begins with the first call."""
    wanted = _wanted(here.installation().key_caps)
    for budget in store.budgets(sorted(wanted)) if wanted else ():
        store.set_cap(budget.scope, wanted[budget.scope], workspace_id=ENVIRONMENT)


def caps_follow(workspace_id: str, caps: Iterable[KeyCap]) -> None:
    """Has the budgets of this day and month, and of the next, follow a workspace's policy, in the caller's transaction.

    Below what is spent and granted nothing more is granted. The next ones are made at once: a run that was claimed under the policy of before may be
    the first to call in them.
    """
    own = [one for one in caps if one.owner == workspace_id]
    for scope, cap in _wanted(own, *ahead(_now())).items():
        begun = {"workspace_id": workspace_id, "cap": cap, "cap_wanted": cap}
        SharedBudget.objects.get_or_create(scope=scope, defaults=begun)
        least = Greatest(Value(cap), F("spent") + F("granted"))
        SharedBudget.objects.filter(scope=scope).update(cap_wanted=cap, cap=least)


def _wanted(caps: Iterable[KeyCap], *ahead_of: int) -> Mapping[str, int]:
    at = (_now(), *ahead_of)
    found = ((scope, one.cap_of(scope)) for one in caps for instant in at for scope in one.scopes(instant))
    return {scope: cap for scope, cap in found if cap is not None}


def _now() -> int:
    return time.time_ns() // 1_000
