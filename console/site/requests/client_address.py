"""Finds a request's client address: the peer's, unless the peer is a trusted proxy (FABRIC_TRUSTED_PROXIES).

Anyone can write ``X-Forwarded-For``. So it is read from its end, and only as far as trusted proxies wrote it (OWASP
ASVS 15.3.4).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

HOPS_MAX = 20


def build_address(request: HttpRequest) -> str:
    """Return the client's address as text; empty if the server does not know it."""
    seen = str(request.META.get("REMOTE_ADDR", ""))
    trusted = _networks(tuple(settings.FABRIC_TRUSTED_PROXIES))
    if not trusted or not _is_in(seen, trusted):
        return seen
    hops = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).split(",")[-HOPS_MAX:]
    for hop in map(str.strip, reversed(hops)):
        if not _is_address(hop):
            break
        seen = hop
        if not _is_in(hop, trusted):
            break
    return seen


@lru_cache(maxsize=8)
def _networks(several: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one) for one in several)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    return _is_address(address) and any(ip_address(address) in network for network in networks)
