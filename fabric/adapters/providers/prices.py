"""What a model costs: the fabric's own price, else the offline price list that ships with genai-prices (never updated over the network)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib.metadata import version
from typing import Any

from genai_prices import Usage, calc_price

from fabric.core.cost import Price
from fabric.core.spec import ModelSpec

_verified = re.compile(r"verified (?:on|from) (20[0-9]{2}-[0-9]{2}-[0-9]{2})")
LISTED_TIERS = frozenset({"default", "standard", "standard_only", "on_demand", "on_demand_flex", "flex", "batch"})
"""Values of the option ``service_tier`` that cost at most what the list says: flex and batch cost half. Others, such as priority, need the fabric's price."""
PAID_AHEAD = frozenset({"scale", "reserved", "provisioned_throughput"})
"""Tiers that an answer may name whose tokens were paid for beforehand: the listed price is more than they cost."""
UNSAID = frozenset({"", "auto"})
"""An answer that names these does not say which tier it was made in."""
PRICED_AS = "priced_as"
"""The option that names the model whose listed price counts, where the model's own id is a deployment's or a gateway's name."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What the offline list knows of a model."""

    price: Price | None
    """Of tiers the dearest. None: it knows the model and not what it costs."""
    least: Price | None
    """Of tiers the first."""
    context_tokens: int | None


@dataclass(frozen=True, slots=True)
class Operator:
    """What the operator says of models: FABRIC_MODEL and FABRIC_MODEL_URL, the addresses of the other providers, and FABRIC_BELOW_LIST_PRICE."""

    default_model: str = ""
    default_url: str = ""
    urls: Mapping[str, str] = field(default_factory=dict)
    below_list: frozenset[str] = frozenset()
    """Models whose price may be below the list's."""


NOBODY = Operator()


def price_of(spec: ModelSpec, operator: Operator = NOBODY) -> Price | None:
    """The price, never below the list's; None: unknown, so that its calls are refused.

    A model behind an address that the list does not know has no price: "gpt-4o" may cost more there. Nor has one whose service tier may cost more than
    the list says (``LISTED_TIERS``).
    """
    if spec.price is not None:
        price = spec.price.price()
    elif not _is_listed(str(spec.options.get("service_tier", "default"))):
        return None
    else:
        found = listed(spec, operator)
        if found is None or found.price is None:
            return None
        price = found.price
    floor = floor_of(spec, operator)
    return price if floor is None else price.raised_to(floor)


def floor_of(spec: ModelSpec, operator: Operator = NOBODY) -> Price | None:
    """What the list says of a model's own id at its own address; None: it does not know it, or the operator lets its price be lower."""
    model, url = _asked(spec, operator)
    if not model or model in operator.below_list:
        return None
    found = _looked_up(model, spec.provider, url)
    return found.least if found else None


def listed(spec: ModelSpec, operator: Operator = NOBODY) -> Listed | None:
    """Returns what the offline list says of a model, whatever its own price; None: it does not know it.

    The option ``priced_as`` names the model to look up: at the model's own address, else at its provider's.
    """
    model, url = _asked(spec, operator)
    named = spec.options.get(PRICED_AS)
    if isinstance(named, str) and named:
        return (_looked_up(named, spec.provider, url) if url else None) or _looked_up(named, spec.provider, "")
    return _looked_up(model, spec.provider, url) if model else None


def address_of(spec: ModelSpec, operator: Operator = NOBODY) -> str:
    """The address at which a model is asked; empty: nowhere by HTTP."""
    return _asked(spec, operator)[1]


def _asked(spec: ModelSpec, operator: Operator) -> tuple[str, str]:
    """The id and the address of a model. The operator's own stand for those that it does not name."""
    own = spec.provider == "openai"
    model = spec.model or (operator.default_model if own else "")
    return model, spec.base_url or (operator.default_url if own else operator.urls.get(spec.provider, ""))


def tier_problem(spec: ModelSpec, tier: str) -> str:
    """Returns why an answer's price is in doubt: its service tier is neither listed nor the one that the fabric asks for at a price of its own. Empty: it is not."""
    named, wanted = tier.casefold(), str(spec.options.get("service_tier", "")).casefold()
    if named in UNSAID or named in PAID_AHEAD or _is_listed(named) or (spec.price is not None and named == wanted):
        return ""
    return f"the endpoint answered in its service tier {tier!r}, whose price is not known: the model's own price is charged"


def _is_listed(tier: str) -> bool:
    return tier.casefold() in LISTED_TIERS


def _looked_up(model: str, provider: str, url: str) -> Listed | None:
    """A model of an address, or without one of a provider."""
    usage, now = Usage(input_tokens=1), datetime.now(UTC)
    try:
        if url:
            found = calc_price(usage, model, provider_api_url=url, genai_request_timestamp=now)
        else:
            found = calc_price(usage, model, provider_id=provider, genai_request_timestamp=now)
    except LookupError:
        return None
    return Listed(_price(found.model_price, _dearest), _price(found.model_price, _first), found.model.context_window)


@cache
def list_verified_on() -> date:
    """The newest day on which the offline list says that any of its prices was verified: it is at least as old as that."""
    from genai_prices import data

    said = [provider.price_comments for provider in data.providers]
    said += [model.price_comments for provider in data.providers for model in provider.models]
    return max(date.fromisoformat(day) for text in said for day in _verified.findall(text or ""))


def list_version() -> str:
    """The version of the offline list."""
    return version("genai-prices")


def _price(price: Any, of_tiers: Callable[[Any], Any]) -> Price | None:
    """The list's price; of cache writes what the longest-lived ones cost where the list has those."""
    tokens_in, tokens_out = _micros(price.input_mtok, of_tiers), _micros(price.output_mtok, of_tiers)
    if tokens_in is None or tokens_out is None:
        return None
    return Price(
        tokens_in,
        tokens_out,
        cached_usd_micros_per_mtok=_micros(price.cache_read_mtok, of_tiers),
        cache_write_usd_micros_per_mtok=_micros(price.cache_write_1h_mtok, of_tiers),
        audio_in_usd_micros_per_mtok=_micros(price.input_audio_mtok, of_tiers),
        audio_out_usd_micros_per_mtok=_micros(price.output_audio_mtok, of_tiers),
    )


def _dearest(price: Any) -> Any:
    return max((price.base, *(tier.price for tier in price.tiers))) if hasattr(price, "tiers") else price


def _first(price: Any) -> Any:
    return price.base if hasattr(price, "tiers") else price


def _micros(price: Any, of_tiers: Callable[[Any], Any]) -> int | None:
    if price is None:
        return None
    return int((Decimal(of_tiers(price)) * 1_000_000).to_integral_value(ROUND_CEILING))
