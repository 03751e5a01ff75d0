"""Prices of models: the fabric's own, else the offline price list that ships with genai-prices (never updated over
the network).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib.metadata import version
from typing import Any

from fabric.core.spec.tree import ModelSpec
from fabric.core.values.cost import Price

_verified = re.compile(r"verified (?:on|from) (20[0-9]{2}-[0-9]{2}-[0-9]{2})")
LISTED_TIERS = frozenset({"default", "standard", "standard_only", "on_demand", "on_demand_flex", "flex", "batch"})
"""Values of the option ``service_tier`` that cost at most the listed price: flex and batch cost half. Others, such
as priority, need the fabric's price.
"""
PAID_AHEAD = frozenset({"scale", "reserved", "provisioned_throughput"})
"""Prepaid tiers in an answer: their tokens cost less than the listed price."""
UNSAID = frozenset({"", "auto"})
"""Values in an answer that do not name its tier."""
PRICED_AS = "priced_as"
"""Option with the model's name in the price list, where its own id is a deployment's or a gateway's name."""


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """Entry of the offline list for a model."""

    price: Price | None
    """Price of the dearest tier. None: the list has the model without a price."""
    least: Price | None
    """Price of the first tier."""
    context_tokens: int | None


@dataclass(frozen=True, slots=True)
class OperatorModels:
    """Settings of the operator for models: FABRIC_MODEL and FABRIC_MODEL_URL, the addresses of the other providers,
    and FABRIC_BELOW_LIST_PRICE.
    """

    default_model: str = ""
    default_url: str = ""
    urls: Mapping[str, str] = field(default_factory=dict)
    below_list: frozenset[str] = frozenset()
    """Models whose price may be below the list's."""


NO_OPERATOR_MODELS = OperatorModels()


def find_price(spec: ModelSpec, operator: OperatorModels = NO_OPERATOR_MODELS) -> Price | None:
    """Return the price, never below the list's; None: unknown, so that its calls are refused.

    A model at an address that the list does not know has no price: "gpt-4o" may cost more there. Nor has one whose
    service tier may cost more than the list's (``LISTED_TIERS``).
    """
    if spec.price is not None:
        price = spec.price.price()
    elif not _is_listed(str(spec.options.get("service_tier", "default"))):
        return None
    else:
        found = find_listed(spec, operator)
        if found is None or found.price is None:
            return None
        price = found.price
    floor = find_floor(spec, operator)
    return price if floor is None else price.raised_to(floor)


def find_floor(spec: ModelSpec, operator: OperatorModels = NO_OPERATOR_MODELS) -> Price | None:
    """Return the listed price of a model's own id at its own address. None: unlisted, or the operator allows a lower
    price.
    """
    model, url = _model_and_address(spec, operator)
    if not model or model in operator.below_list:
        return None
    found = _look_up(model, spec.provider, url)
    return found.least if found else None


def find_listed(spec: ModelSpec, operator: OperatorModels = NO_OPERATOR_MODELS) -> ListedPrice | None:
    """Return the offline list's entry of a model, whatever its own price; None: it is not listed.

    The option ``priced_as`` names the model to look up: at the model's own address, else at its provider's.
    """
    model, url = _model_and_address(spec, operator)
    named = spec.options.get(PRICED_AS)
    if isinstance(named, str) and named:
        return (_look_up(named, spec.provider, url) if url else None) or _look_up(named, spec.provider, "")
    return _look_up(model, spec.provider, url) if model else None


def build_address(spec: ModelSpec, operator: OperatorModels = NO_OPERATOR_MODELS) -> str:
    """Return the address of a model; empty: not over HTTP."""
    return _model_and_address(spec, operator)[1]


def _model_and_address(spec: ModelSpec, operator: OperatorModels) -> tuple[str, str]:
    """Return the id and the address of a model; the operator's replace missing ones."""
    own = spec.provider == "openai"
    model = spec.model or (operator.default_model if own else "")
    return model, spec.base_url or (operator.default_url if own else operator.urls.get(spec.provider, ""))


def tier_problem(spec: ModelSpec, tier: str) -> str:
    """Return the reason to doubt an answer's price. Its service tier is neither listed nor the one that the fabric
    priced. Empty: there is none.
    """
    named, wanted = tier.casefold(), str(spec.options.get("service_tier", "")).casefold()
    if named in UNSAID or named in PAID_AHEAD or _is_listed(named) or (spec.price is not None and named == wanted):
        return ""
    return f"the endpoint answered in its service tier {tier!r}, whose price is not known: the model's own price is charged"


def _is_listed(tier: str) -> bool:
    return tier.casefold() in LISTED_TIERS


def _look_up(model: str, provider: str, url: str) -> ListedPrice | None:
    """Return the listed model of an address, or without one of a provider."""
    from genai_prices import Usage, calc_price

    usage, now = Usage(input_tokens=1), datetime.now(UTC)
    try:
        if url:
            found = calc_price(usage, model, provider_api_url=url, genai_request_timestamp=now)
        else:
            found = calc_price(usage, model, provider_id=provider, genai_request_timestamp=now)
    except LookupError:
        return None
    return ListedPrice(
        _price(found.model_price, _dearest), _price(found.model_price, _first), found.model.context_window
    )


@cache
def list_verified_on() -> date:
    """Return the newest day on which a price of the offline list was verified. The list is at least as old."""
    from genai_prices import data

    said = [provider.price_comments for provider in data.providers]
    said += [model.price_comments for provider in data.providers for model in provider.models]
    return max(date.fromisoformat(day) for text in said for day in _verified.findall(text or ""))


def list_version() -> str:
    """Return the version of the offline list."""
    return version("genai-prices")


def _price(price: Any, of_tiers: Callable[[Any], Any]) -> Price | None:
    """Return the list's price; for cache writes that of the longest-lived ones where the list has it."""
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
