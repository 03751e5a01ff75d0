"""A bank made of paper: it takes every order, moves no money and keeps nothing. What an order is answered follows from
its key alone.
"""

from __future__ import annotations

from hashlib import sha256

from fabric.core.values.units import JSON
from fabric.tools.functions.callables import tool


def _receipt(kind: str, key: str) -> str:
    return f"paper-{kind}-{sha256(key.encode()).hexdigest()[:10]}"


@tool(effect="idempotent")
def release(*, key: str, args: JSON = None, result: JSON = None) -> JSON:
    """Releases what was reserved under a key: a compensation, so it may be asked for more than once."""
    return {"released": _receipt("reservation", key)}


@tool(effect="mutating", undone_by=release)
def reserve(*, payee: str, amount_cents: int, reference: str, idempotency_key: str = "") -> JSON:
    """Reserves an amount; the same key is the same reservation."""
    made = _receipt("reservation", idempotency_key)
    return {"reservation": made, "payee": payee, "amount_cents": amount_cents, "reference": reference}


@tool(effect="irreversible")
def pay(*, payee: str, amount_cents: int, reference: str, idempotency_key: str = "") -> JSON:
    """Pays; the same key is the same payment."""
    made = _receipt("payment", idempotency_key)
    return {"receipt": made, "payee": payee, "amount_cents": amount_cents, "reference": reference}
