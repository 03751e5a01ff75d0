"""Variables that say how people sign in: how each is read, for the table of console/variables.py. Standard library only."""

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from console.launch.errors import Refused
from console.variable_paths import shown

SECRET_CHARS_MAX = 1_000
HOURS_MAX = 7 * 24
DAY = 24
SECOND_FACTOR = ("offered", "required")
EVERYBODY, GOOGLE = "*", "accounts.google.com"
_role = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_domain = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_claim = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")


def issuer(name: str, text: str) -> str:
    """The provider's own name, an address: https, or http on this machine alone. Raises Refused."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    plain = parts.query or parts.fragment or "@" in parts.netloc or not text.isascii() or not text.isprintable()
    if not host or plain or " " in text or parts.scheme not in ("https", "http"):
        raise Refused(
            f"{name} is no issuer: give the address that the provider calls itself, such as https://login.example.org/realms/staff."
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise Refused(f"{name} is not encrypted: give an https address; http is for a provider on this machine alone.")
    return text


def secret(name: str, text: str) -> str:
    """A client's secret. Raises Refused, which does not show it."""
    if not (text.isascii() and text.isprintable()) or " " in text or len(text) > SECRET_CHARS_MAX:
        raise Refused(f"{name} holds a space or a character that no secret has: copy it again, and nothing else.")
    return text


def groups(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Pairs of a group and a role. Raises Refused."""
    found = []
    for pair in filter(None, map(str.strip, text.split(","))):
        group, equals, role = (part.strip() for part in pair.rpartition("="))
        if not equals or not group or not group.isprintable() or not _role.fullmatch(role):
            raise Refused(
                f"{name} has {shown(pair)}, which is not GROUP=ROLE: write GROUP=ROLE,... with roles in small letters."
            )
        found.append((group, role))
    return tuple(dict.fromkeys(found))


def domains(name: str, text: str) -> tuple[str, ...]:
    """Domains of mail addresses. Raises Refused."""
    found = tuple(dict.fromkeys(one.strip().lower() for one in text.split(",") if one.strip()))
    for one in found:
        if not _domain.fullmatch(one):
            raise Refused(f"{name} has {shown(one)}, which is no domain: write them like example.org,example.com.")
    return found


def claim(name: str, text: str) -> str:
    """The name of a claim. Raises Refused."""
    if not _claim.fullmatch(text):
        raise Refused(
            f"{name} is {shown(text)}, which is no claim's name: write it as the provider does, such as groups."
        )
    return text


def label(name: str, text: str) -> str:
    """What a button says. Raises Refused."""
    if not text.isprintable() or len(text) > 40:
        raise Refused(f"{name} is {shown(text)}: give up to 40 printable characters, such as Example Ltd.")
    return text


def second_factor(name: str, text: str) -> str:
    """Whether one is demanded. Raises Refused."""
    if text.lower() not in SECOND_FACTOR:
        raise Refused(f"{name} is {shown(text)}: use one of {', '.join(SECOND_FACTOR)}.")
    return text.lower()


def idle_hours(name: str, text: str) -> int:
    """Hours without a request. Raises Refused."""
    return _hours(name, text, 1, DAY)


def hours(name: str, text: str) -> int:
    """Hours at all. Raises Refused."""
    return _hours(name, text, DAY, HOURS_MAX)


def refuse_together(read: Callable[[str], Any]) -> None:
    """Raises Refused for settings of which each can be used, and all of them together cannot. ``read``: gives a setting's value by its name."""
    table, bound = read("FABRIC_OIDC_ROLES") or (), read("FABRIC_OIDC_DOMAINS")
    everybody = any(group == EVERYBODY for group, _ in table)
    if not bound and (everybody or GOOGLE in (read("FABRIC_OIDC_ISSUER") or "")):
        which = (
            "FABRIC_OIDC_ROLES has a role for everybody (*)"
            if everybody
            else "FABRIC_OIDC_ISSUER is Google, where everybody has an account"
        )
        raise Refused(f"{which}: say in FABRIC_OIDC_DOMAINS of which domains people are let in.")


def _hours(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and least <= int(text) <= most):
        raise Refused(f"{name} is {shown(text)}: give a whole number of hours from {least} to {most}.")
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SECRET = frozenset({"FABRIC_OIDC_CLIENT_SECRET"})
"""Those of them that are secrets, and may be given as a file."""
READERS: Mapping[str, Callable[[str, str], Any]] = {
    "FABRIC_OIDC_ISSUER": issuer,
    "FABRIC_OIDC_CLIENT_ID": secret,
    "FABRIC_OIDC_CLIENT_SECRET": secret,
    "FABRIC_OIDC_ROLES": groups,
    "FABRIC_OIDC_DOMAINS": domains,
    "FABRIC_OIDC_GROUPS_CLAIM": claim,
    "FABRIC_OIDC_NAME": label,
    "FABRIC_SECOND_FACTOR": second_factor,
    "FABRIC_SIGN_IN_IDLE_HOURS": idle_hours,
    "FABRIC_SIGN_IN_HOURS": hours,
}
