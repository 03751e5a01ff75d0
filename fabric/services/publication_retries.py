"""What publication asks of retries: a reason where they are laxer than required (semantics.md 3, 4 "Retry layers")."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier

APART = "its retries take no token of the buckets that all runs of the fabric and of the provider share"
LAYERED = "it retries a call 3 times and its node besides in high-stakes, where at most 2 retries are allowed"


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """What keeps a fabric from being published: a path and a sentence each."""
    retry, layers = spec.policy.retry, spec.policy.retry_layers
    if not retry.shared and not retry.deviation.strip():
        yield "policy.retry.shared", f"{APART}; leave `shared` out, or give `retry` a `deviation` with the reason"
    elif retry.shared and retry.deviation:
        yield "policy.retry.deviation", "excuses nothing, since its retries are shared; leave it out"
    if _lax_layers(spec) and not layers.deviation.strip():
        yield "policy.retry_layers.preset", f"{LAYERED}; give `retry_layers` a `deviation` with the reason"
    elif layers.deviation and not _lax_layers(spec):
        yield (
            "policy.retry_layers.deviation",
            "excuses nothing, since no run of it retries nodes in high-stakes; leave it out",
        )


def laxer(spec: FabricSpec) -> Iterator[tuple[str, str, str]]:
    """What of its retries is laxer than required: path, sentence, reason."""
    retry, layers = spec.policy.retry, spec.policy.retry_layers
    if not retry.shared:
        yield "policy.retry.shared", APART, retry.deviation.strip()
    if _lax_layers(spec):
        yield "policy.retry_layers.preset", LAYERED, layers.deviation.strip()


def _lax_layers(spec: FabricSpec) -> bool:
    return spec.policy.retry_layers.layered and Tier.HIGH_STAKES in spec.tiers.allowed
