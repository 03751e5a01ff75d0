"""The models that a call could have gone to, with what each may cost at worst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.templatetags.figures import usd
from console.views.sections import Pair, Section, pairs

JSON = Any
RULED_OUT: Mapping[str, str] = {
    "": "takes the call",
    "tried": "it was asked already",
    "needs": "it cannot do what the call needs",
    "endpoint": "what failed is its endpoint's too",
    "price": "its price is not known",
    "breaker": "the circuit breaker of its provider is open",
    "dearer": "it costs no less",
    "guard": "a mechanism refuses it",
}
"""Why a model does not take the call; total over ``Candidate.ruled_out``, by test."""


def candidates(weighed: Mapping[str, JSON] | None) -> list[Section]:
    """Each model that was looked at, in order; nothing where none was."""
    if not weighed:
        return []
    asked = Pair(weighed["before"], _cost(weighed), "text", "was asked")
    each = [
        Pair(one["model"], _cost(one), "text", _why(one), tone="warn" if one["ruled_out"] else "ok")
        for one in weighed["candidates"]
    ]
    return [pairs("What the call may cost at worst", asked, *each)]


def _cost(one: Mapping[str, JSON]) -> str:
    return "no price" if one["usd_micros"] is None else usd(one["usd_micros"])


def _why(one: Mapping[str, JSON]) -> str:
    trip = one.get("trip")
    return trip["message"] if trip else RULED_OUT[one["ruled_out"]]
