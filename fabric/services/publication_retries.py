"""What publication asks of retries: a reason where they are laxer than required (semantics.md 3, 4 "Retry layers")."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.grants import PROVIDER_BUCKET
from fabric.core.policy import Retry
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier

APART = "its retries take no token of the buckets that all runs of the fabric and of the provider share"
UNGUARDED = "no circuit breaker stands in front of a provider that is away: each run asks it anew"
EARN_MAX = 0.2
"""S0 "Retry Budget With Backoff": 10 to 20 % of the load."""
LAYERED = "it retries a call 3 times and its node besides in high-stakes, where at most 2 retries are allowed"


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """What keeps a fabric from being published: a path and a sentence each."""
    retry, layers = spec.policy.retry, spec.policy.retry_layers
    lax = list(_lax_retries(retry))
    for field, what in lax if not retry.deviation.strip() else ():
        yield f"policy.retry.{field}", f"{what}; leave `{field}` out, or give `retry` a `deviation` with the reason"
    if retry.deviation and not lax:
        yield (
            "policy.retry.deviation",
            "excuses nothing, since its retries are shared and as few as by default; leave it out",
        )
    if retry.shared and retry.bucket > PROVIDER_BUCKET:
        sentence = f"is {retry.bucket}, but each retry takes a token of its provider's bucket too, which holds {PROVIDER_BUCKET}"
        yield "policy.retry.bucket", f"{sentence}; give {PROVIDER_BUCKET} or less"
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
    for field, what in _lax_retries(retry):
        yield f"policy.retry.{field}", what, retry.deviation.strip()
    if not spec.policy.breakers:
        yield "policy.breakers", UNGUARDED, spec.policy.breakers_deviation.strip()
    if _lax_layers(spec):
        yield "policy.retry_layers.preset", LAYERED, layers.deviation.strip()


def unguarded(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """The problems of a fabric without a circuit breaker, or with a reason for none although it has one."""
    policy = spec.policy
    if not policy.breakers and not policy.breakers_deviation.strip():
        yield (
            "policy.breakers",
            f"{UNGUARDED}; leave `breakers` out, or give `policy` a `breakers_deviation` with the reason",
        )
    elif policy.breakers and policy.breakers_deviation:
        yield "policy.breakers_deviation", "excuses nothing, since the fabric has circuit breakers; leave it out"


def _lax_retries(retry: Retry) -> Iterator[tuple[str, str]]:
    if not retry.shared:
        yield "shared", APART
    if retry.earn > EARN_MAX:
        share = f"{retry.earn:.0%} of the first attempts, where at most {EARN_MAX:.0%} are allowed"
        yield "earn", f"its retries may be {share}"


def _lax_layers(spec: FabricSpec) -> bool:
    return spec.policy.retry_layers.layered and Tier.HIGH_STAKES in spec.tiers.allowed
