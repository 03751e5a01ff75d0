"""Shows the tokens of a model call in the inspector: their kinds, and the charge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import convert

from console.templatetags.figures import usd
from console.views.sections import Pair
from fabric.core.token_parts import TokenParts
from fabric.selectors.display.calls import PART_WORDS

if TYPE_CHECKING:
    from console.views.inspect import Seen
    from fabric.core.cost import Price


def token_parts(seen: Seen) -> tuple[Pair, ...]:
    """Tokens of these kinds among those of the call, and what they cost at the prices of the run's revision."""
    parts = convert(seen.fact.get("parts") or {}, TokenParts)
    price = _price(seen)
    costs = {} if price is None else price.part_costs(parts)
    return tuple(
        Pair(says, count, "count", f"{usd(costs[kind])} of the cost" if kind in costs else "")
        for kind, says in PART_WORDS.items()
        if (count := getattr(parts, kind))
    )


def _price(seen: Seen) -> Price | None:
    """Of the model that was called; None: it is not at hand, or has none."""
    if seen.call is None or seen.call[1].call != "model":
        return None
    try:
        return seen.revision.prices.get(seen.call[1].target)
    except (LookupError, ValueError):
        return None


def charged_words(fact: Mapping[str, Any]) -> str:
    """``1,200 tokens, as the endpoint billed it``."""
    if fact["charged_usd_micros"] and not fact.get("billed"):
        return f"{fact['charged_tokens']:,} tokens, its reservation: what it was billed is not known"
    tokens = f"{fact['charged_tokens']:,} tokens"
    return f"{tokens}, as the endpoint billed it" if fact.get("billed") else tokens
