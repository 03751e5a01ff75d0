"""Which endpoint a model is asked at, and what it is called: what failover, circuit breakers and retry tokens go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.core.spec import ModelSpec


def endpoint_of(model: ModelSpec) -> tuple[str, str]:
    """Whose quota, key and network a model shares: provider and base URL (empty: the operator's)."""
    return model.provider, model.base_url.strip().rstrip("/")


def endpoint_name(model: ModelSpec) -> str:
    """What people call it: the provider, and behind an @ the address where the model has one of its own."""
    name, url = endpoint_of(model)
    return f"{name}@{url.rpartition('://')[2]}" if url else name


def provider_scope(model: ModelSpec) -> str:
    """The row of circuit breakers and retry tokens that its calls share: two endpoints that speak one protocol fail each for itself."""
    return f"provider:{endpoint_name(model)}"
