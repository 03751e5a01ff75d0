"""What a model costs: the fabric's own price, else the offline price list that ships with genai-prices (never updated over the network)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib.metadata import version
from types import MappingProxyType
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
NOWHERE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Listed:
    """What the offline list knows of a model."""

    price: Price | None
    """None: it knows the model and not what it costs."""
    context_tokens: int | None


def price_of(
    spec: ModelSpec, *, default_model: str = "", default_url: str = "", urls: Mapping[str, str] = NOWHERE
) -> Price | None:
    """The price, or None: unknown, so that its calls are refused.

    ``default_model`` and ``default_url`` are FABRIC_MODEL and FABRIC_MODEL_URL, for a model that names neither;
    ``urls`` are the operator's addresses of the other providers. A model behind an address that the list does not know has no price:
    "gpt-4o" may cost more there. Nor has one whose service tier may cost more than the list says (``LISTED_TIERS``).
    """
    if spec.price is not None:
        return spec.price.price()
    if not _is_listed(str(spec.options.get("service_tier", "default"))):
        return None
    found = listed(spec, default_model=default_model, default_url=default_url, urls=urls)
    return found.price if found else None


def listed(
    spec: ModelSpec, *, default_model: str = "", default_url: str = "", urls: Mapping[str, str] = NOWHERE
) -> Listed | None:
    """Returns what the offline list says of a model, whatever its own price; None: it does not know it. Arguments as of ``price_of``.

    The option ``priced_as`` names the model to look up: at the model's own address, else at its provider's.
    """
    # The operator's model and endpoint are those of the ``openai`` provider.
    own = spec.provider == "openai"
    model, url = (
        spec.model or (default_model if own else ""),
        spec.base_url or (default_url if own else urls.get(spec.provider, "")),
    )
    named = spec.options.get(PRICED_AS)
    if isinstance(named, str) and named:
        return (_looked_up(named, spec.provider, url) if url else None) or _looked_up(named, spec.provider, "")
    return _looked_up(model, spec.provider, url) if model else None


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
    return Listed(_dearest(found.model_price), found.model.context_window)


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


def _dearest(price: Any) -> Price | None:
    """The list's price: of tiers the dearest, of cache writes what the longest-lived ones cost where the list has those."""
    tokens_in, tokens_out = _micros(price.input_mtok), _micros(price.output_mtok)
    if tokens_in is None or tokens_out is None:
        return None
    return Price(
        tokens_in,
        tokens_out,
        cached_usd_micros_per_mtok=_micros(price.cache_read_mtok),
        cache_write_usd_micros_per_mtok=_micros(price.cache_write_1h_mtok),
        audio_in_usd_micros_per_mtok=_micros(price.input_audio_mtok),
        audio_out_usd_micros_per_mtok=_micros(price.output_audio_mtok),
    )


def _micros(price: Any) -> int | None:
    if price is None:
        return None
    dearest = max((price.base, *(tier.price for tier in price.tiers))) if hasattr(price, "tiers") else price
    return int((Decimal(dearest) * 1_000_000).to_integral_value(ROUND_CEILING))
