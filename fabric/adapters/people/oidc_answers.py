"""Defines the answers of an identity provider (``oidc``), without the libraries that ask it."""

from __future__ import annotations

from dataclasses import dataclass, field


class OidcAway(Exception):
    """The provider did not answer, or not as a provider does: nothing is known. Its text has the reason."""


class OidcRefused(Exception):
    """The provider refused, or sent a wrong answer. Its text has the reason."""


@dataclass(frozen=True, slots=True)
class OidcClaims:
    """Claims of the provider about a person."""

    subject: str
    email: str
    """Checked address; empty where the provider does not confirm it."""
    username: str
    domain: str
    """Domain of a Google Workspace account, else empty."""
    groups: frozenset[str]
    auth_time: int
    """Time of the person's last sign-in there, seconds since the epoch; 0: unknown."""
    refresh: str = field(repr=False)
    """Refresh token; empty: there is none."""
