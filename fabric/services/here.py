"""What publication and prices know of this installation, from its settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django.conf import settings

from fabric.adapters.tools.outbound import Gate
from fabric.services.publication import Installation


def installation(
    providers: Collection[str] = (), *, people: Mapping[str, frozenset[str]] | None = None
) -> Installation:
    """What is known here. ``providers``: the provider adapters that there are; ``people``: who may be asked, with their roles. Without them neither is checked."""
    return Installation(
        gate=Gate.of(settings.FABRIC_ALLOWED_HOSTS),
        default_model=settings.FABRIC_MODEL,
        default_url=settings.FABRIC_MODEL_URL,
        urls={"anthropic": settings.FABRIC_ANTHROPIC_URL, "google": settings.FABRIC_GOOGLE_URL},
        providers=frozenset(providers),
        held=None if people is None else frozenset(word for name, roles in people.items() for word in (name, *roles)),
        people=people,
    )
