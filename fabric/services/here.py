"""What publication and prices know of this installation, from its settings."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from fabric.adapters.tools.outbound import Gate
from fabric.services.publication import Installation


def installation(providers: Collection[str] = (), *, held: frozenset[str] | None = None) -> Installation:
    """What is known here. ``providers``: the provider adapters that there are; ``held``: who may be asked, and by which roles. Without them neither is checked."""
    return Installation(
        gate=Gate.of(settings.FABRIC_ALLOWED_HOSTS),
        default_model=settings.FABRIC_MODEL,
        default_url=settings.FABRIC_MODEL_URL,
        urls={"anthropic": settings.FABRIC_ANTHROPIC_URL, "google": settings.FABRIC_GOOGLE_URL},
        providers=frozenset(providers),
        held=held,
    )
