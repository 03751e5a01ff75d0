"""Reads variables: names, caps, secrets, sign-in, and secrets in files. Standard library only.

NAME_FILE names the file with the value of the variable NAME. The table is console/launch/variables/table.py.
"""

import base64
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from console.launch.processes.data_directory import KEY_CHARS_MIN
from console.launch.processes.errors import StartRefused

_provider = re.compile(r"([A-Za-z0-9_.-]+)=([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)", re.ASCII)
_tool = re.compile(r"([A-Za-z0-9_-]+)=([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)", re.ASCII)
_path = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)


def providers(name: str, text: str) -> dict[str, str]:
    """Return classes by the names that fabrics use. Raises Refused."""
    return _parse_named(name, text, _provider, "NAME=dotted.path.Class")


def tools(name: str, text: str) -> dict[str, str]:
    """Return functions by the names that fabrics use. Raises Refused."""
    return _parse_named(name, text, _tool, "NAME=dotted.path.function")


def _parse_named(name: str, text: str, pattern: re.Pattern[str], form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        matched = pattern.fullmatch(pair)
        if not matched or matched[1] in found:
            reason = "whose name is there already" if matched else f"which is not {form}"
            raise StartRefused(f"{name} has {shorten_value(pair)}, {reason}: write {form},... with each name once.")
        found[matched[1]] = matched[2]
    return found


def read_dotted_path(name: str, text: str) -> str:
    """Return one dotted path. Raises Refused."""
    if not _path.fullmatch(text):
        raise StartRefused(f"{name} is {shorten_value(text)}, which is no dotted.path.function: leave it out.")
    return text


def paths(name: str, text: str) -> tuple[str, ...]:
    """Return several paths, each once. Raises Refused."""
    found = tuple(filter(None, map(str.strip, text.split(","))))
    for n, path in enumerate(found):
        if not _path.fullmatch(path) or path in found[:n]:
            reason = "which is there twice" if _path.fullmatch(path) else "which is no dotted.path.NAME"
            raise StartRefused(
                f"{name} has {shorten_value(path)}, {reason}: write dotted.path.NAME,... with each once."
            )
    return found


def syslog(name: str, text: str) -> str:
    """Return the address of a syslog receiver. Raises Refused."""
    parts = urlsplit(text) if text.isascii() and text.isprintable() and " " not in text else urlsplit("")
    try:
        fine = parts.scheme in ("udp", "tcp", "tls") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        message = f"{name} is {shorten_value(text)}: write udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT."
        raise StartRefused(message)
    return text


def log_format(name: str, text: str) -> str:
    """Return the format of log lines. Raises Refused."""
    if text.lower() not in ("text", "json"):
        raise StartRefused(f"{name} is {shorten_value(text)}: use text or json.")
    return text.lower()


def shorten_value(text: str) -> str:
    """Return a value for a sentence, in part where it is long."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def key_caps(name: str, text: str) -> tuple[tuple[str, str, int], ...]:
    """Return caps: endpoint as ``https://host:port``, ``day`` or ``month``, and micro-dollars. Raises Refused."""
    found = []
    for one in filter(None, map(str.strip, text.split(","))):
        url, _, cap = one.rpartition("=")
        usd, _, period = cap.partition("/")
        try:
            parts = urlsplit(url)
            port = parts.port or {"https": 443, "http": 80}[parts.scheme]
            amount = Decimal(usd) * 1_000_000
            if (
                not parts.hostname
                or parts.path.strip("/")
                or period not in ("day", "month")
                or not 0 <= amount <= 10**15
            ):
                raise ValueError
        except (ValueError, KeyError, ArithmeticError):
            raise StartRefused(
                f"{name} has {shorten_value(one)}: write ENDPOINT=DOLLARS/day or /month, as in https://api.openai.com=20/day."
            ) from None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        found.append((f"{parts.scheme}://{host}:{port}", period, int(amount)))
    if len({one[:2] for one in found}) < len(found):
        raise StartRefused(f"{name} names an endpoint twice for the same period: write each once.")
    return tuple(found)


_seed = re.compile(r"[0-9A-Fa-f]{64}")


def secret_key(name: str, text: str) -> str:
    """Return a signing key. Raises Refused."""
    if len(text) < KEY_CHARS_MIN:
        raise StartRefused(
            f"{name} has {len(text)} characters: use a random one of {KEY_CHARS_MIN} or more, or leave it out."
        )
    return text


def audit_key(name: str, text: str) -> str:
    """Return a private key in hex. Raises Refused."""
    if not _seed.fullmatch(text):
        raise StartRefused(f"{name} is no key: give 64 hexadecimal digits, as `openssl rand -hex 32` makes them.")
    return text.lower()


def key_ring(name: str, text: str) -> str:
    """Return keys in hex, separated by commas. Raises Refused."""
    keys = text.lower().replace(",", " ").split()
    if not keys or not all(map(_seed.fullmatch, keys)) or len(set(keys)) < len(keys):
        form = "give keys of 64 hexadecimal digits, each once, as `openssl rand -hex 32` makes them, with commas between them"
        raise StartRefused(f"{name} is no key ring: {form}.")
    return ",".join(keys)


def header(name: str, text: str) -> str:
    """Return a text that is valid in a header. Raises Refused."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise StartRefused(
            f"{name} holds a space or a character that no key has: copy the key again, and nothing else."
        )
    return text


def webhook_secret(name: str, text: str) -> str:
    """Return a secret of the Standard Webhooks form. Raises Refused."""
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not text.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise StartRefused(
            f"{name} is no secret of the Standard Webhooks form: make one with `echo whsec_$(openssl rand -base64 32)`."
        )
    return text


SUFFIX = "_FILE"
BYTES_MAX = 64 * 1024


def read_given(name: str, text: str, file: str) -> str:
    """Return the value of a variable, from its text or from the file that NAME_FILE names.

    Raises Refused if both are set, and for a file that cannot be read.
    """
    if text and file:
        raise StartRefused(f"{name} is set and {name}{SUFFIX} is too: set one of them.")
    return _content(f"{name}{SUFFIX}", Path(file)) if file else text


def open_to_others(names: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Return a sentence for each file that other users may read."""
    for name in names:
        file = environ.get(f"{name}{SUFFIX}", "").strip()
        try:
            mode = Path(file).stat().st_mode if file else 0
        except OSError:
            continue  # Reported where it is read.
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            who = "every user" if mode & stat.S_IROTH else "its group"
            yield f"{name}{SUFFIX} names {file}, which {who} may read: `chmod 600` it, unless that is how your secrets are mounted."


def _content(name: str, path: Path) -> str:
    if not path.is_absolute() or not path.is_file():
        raise StartRefused(f"{name} is {shorten_value(str(path))}: give the absolute path of a file that is there.")
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise StartRefused(
            f"{name} is {shorten_value(str(path))}, which cannot be read ({error.strerror}): grant it to this user."
        ) from error
    if len(raw) > BYTES_MAX:
        raise StartRefused(
            f"{name} is {shorten_value(str(path))}, which has more than {BYTES_MAX:,} bytes: put the value alone into it."
        )
    try:
        text = raw.decode().strip()
    except UnicodeDecodeError:
        text = ""
    if not text:
        raise StartRefused(
            f"{name} is {shorten_value(str(path))}, which is empty or no text: put the value alone into it."
        )
    return text


SECRET_CHARS_MAX = 1_000
HOURS_MAX = 7 * 24
DAY = 24
SECOND_FACTOR = ("offered", "required")
EACH_PERSON, GOOGLE = "*", "accounts.google.com"
_role = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_domain = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_claim = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")


def issuer(name: str, text: str) -> str:
    """Return the provider's own name, an address: https, or http on this machine alone. Raises Refused."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    plain = parts.query or parts.fragment or "@" in parts.netloc or not text.isascii() or not text.isprintable()
    if not host or plain or " " in text or parts.scheme not in ("https", "http"):
        raise StartRefused(
            f"{name} is no issuer: give the address that the provider calls itself, such as https://login.example.org/realms/staff."
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise StartRefused(
            f"{name} is not encrypted: give an https address; http is for a provider on this machine alone."
        )
    return text


def secret(name: str, text: str) -> str:
    """Return a client's secret. Raises Refused, which does not show it."""
    if not (text.isascii() and text.isprintable()) or " " in text or len(text) > SECRET_CHARS_MAX:
        raise StartRefused(f"{name} holds a space or a character that no secret has: copy it again, and nothing else.")
    return text


def groups(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a group and a role. Raises Refused."""
    found = []
    for pair in filter(None, map(str.strip, text.split(","))):
        group, equals, role = (part.strip() for part in pair.rpartition("="))
        if not equals or not group or not group.isprintable() or not _role.fullmatch(role):
            raise StartRefused(
                f"{name} has {shorten_value(pair)}, which is not GROUP=ROLE: write GROUP=ROLE,... with roles in small letters."
            )
        found.append((group, role))
    return tuple(dict.fromkeys(found))


def domains(name: str, text: str) -> tuple[str, ...]:
    """Return domains of mail addresses. Raises Refused."""
    found = tuple(dict.fromkeys(one.strip().lower() for one in text.split(",") if one.strip()))
    for one in found:
        if not _domain.fullmatch(one):
            raise StartRefused(
                f"{name} has {shorten_value(one)}, which is no domain: write them like example.org,example.com."
            )
    return found


def claim(name: str, text: str) -> str:
    """Return the name of a claim. Raises Refused."""
    if not _claim.fullmatch(text):
        raise StartRefused(
            f"{name} is {shorten_value(text)}, which is no claim's name: write it as the provider does, such as groups."
        )
    return text


def label(name: str, text: str) -> str:
    """Return the label of a button. Raises Refused."""
    if not text.isprintable() or len(text) > 40:
        raise StartRefused(f"{name} is {shorten_value(text)}: give up to 40 printable characters, such as Example Ltd.")
    return text


def second_factor(name: str, text: str) -> str:
    """Return the rule for second factors. Raises Refused."""
    if text.lower() not in SECOND_FACTOR:
        raise StartRefused(f"{name} is {shorten_value(text)}: use one of {', '.join(SECOND_FACTOR)}.")
    return text.lower()


def idle_hours(name: str, text: str) -> int:
    """Return the hours without a request after which a sign-in ends. Raises Refused."""
    return _hours(name, text, 1, DAY)


def hours(name: str, text: str) -> int:
    """Return a number of hours. Raises Refused."""
    return _hours(name, text, DAY, HOURS_MAX)


def refuse_together(read: Callable[[str], Any]) -> None:
    """Check settings that are valid alone, but not together. Raises Refused. ``read`` returns a setting's value by
    name.
    """
    table, bound = read("FABRIC_OIDC_ROLES") or (), read("FABRIC_OIDC_DOMAINS")
    for_all = any(group == EACH_PERSON for group, _ in table)
    if not bound and (for_all or GOOGLE in (read("FABRIC_OIDC_ISSUER") or "")):
        which = (
            "FABRIC_OIDC_ROLES has a role for all persons (*)"
            if for_all
            else "FABRIC_OIDC_ISSUER is Google, where anyone can have an account"
        )
        raise StartRefused(f"{which}: say in FABRIC_OIDC_DOMAINS of which domains people are let in.")


def _hours(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and least <= int(text) <= most):
        raise StartRefused(f"{name} is {shorten_value(text)}: give a whole number of hours from {least} to {most}.")
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SECRET = frozenset({"FABRIC_OIDC_CLIENT_SECRET"})
"""Variables that contain secrets, and may be given as a file."""
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
