"""The table of environment variables that Fabric Flow reads.

1. Standard library only: `up` reads it before anything is installed.
2. An unusable value is refused with one sentence, which never shows a possible secret. An empty value counts as none.
3. docs/reference/settings.md describes each variable. A test compares the table, the document and the code.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from console.launch.processes.errors import StartRefused
from console.launch.variables import addresses
from console.launch.variables import readers as variable_paths
from console.launch.variables.readers import shorten_value

PORT_MAX = 65_535
_TRIES_MAX = 1_000
_COUNT_DIGITS = 9
_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_TLS = ("starttls", "tls", "off")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_HOST = r"(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
_host = re.compile(_HOST)
_host_port = re.compile(rf"{_HOST}:([0-9]{{1,5}})")
_field = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_fabric = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_mail = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Kind(Enum):
    """Owner of a variable."""

    SETTING = "set by the operator; no test may see it"
    CHECK = "for `manage.py test`"
    SYSTEM = "set by the system; what cannot be used is passed over"
    HARNESS = "set by drills, benchmarks and tests for the processes that they start"


@dataclass(frozen=True)
class Variable:
    """A variable. ``read`` takes its name and text, and returns the value or raises Refused."""

    kind: Kind
    read: Callable[[str, str], Any]
    secret: bool = False
    """True if it may contain a secret. Then it may be given as NAME_FILE: the path of a file with the value."""


def read(name: str, environ: Mapping[str, str] = os.environ) -> Any:
    """Return the value of a variable; None if it is not set. Raises Refused."""
    variable = VARIABLES[name]
    text = environ.get(name, "").strip()
    if variable.secret:
        text = variable_paths.read_given(name, text, environ.get(f"{name}{variable_paths.SUFFIX}", "").strip())
    return variable.read(name, text) if text else None


def secret_values(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the set variables that may contain a secret, as they are written, by name. Raises Refused."""
    texts = {name: environ.get(name, "").strip() for name in SECRETS}
    files = {name: environ.get(f"{name}{variable_paths.SUFFIX}", "").strip() for name in SECRETS}
    found = {name: variable_paths.read_given(name, texts[name], files[name]) for name in SECRETS}
    return {name: text for name, text in found.items() if text}


def drop_secrets(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment for a foreign program: without possible secrets, and without tools' variables."""
    named = {one.partition("@")[0] for one in environ.get("FABRIC_TOOL_VARIABLES", "").replace(" ", "").split(",")}
    left_out = {*SECRETS, *(f"{name}{variable_paths.SUFFIX}" for name in SECRETS), *named}
    return {name: text for name, text in environ.items() if name not in left_out}


def refuse_unusable(environ: Mapping[str, str] = os.environ) -> None:
    """Raise Refused for the first setting that is unusable, or lacks another one."""
    for name in SETTINGS:
        read(name, environ)
    for name, needed in NEEDS.items():
        for other in needed:
            if read(name, environ) and not read(other, environ):
                raise StartRefused(f"{name} is set and {other} is not: set both, or neither.")
    variable_paths.refuse_together(lambda name: read(name, environ))


def port_number(text: str) -> int | None:
    """Return the TCP port that a text names; None if it names none."""
    if text.isascii() and text.isdecimal() and 0 < int(text) <= PORT_MAX:
        return int(text)
    return None


def _text(name: str, text: str) -> str:
    if not text.isprintable():
        raise StartRefused(f"{name} holds a control character: write it on one line, without any.")
    return text


def _module(name: str, text: str) -> str:
    try:
        found = find_spec(text)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise StartRefused(f"{name} is {shorten_value(text)}, which is no module here: leave it out.")
    return text


def _port(name: str, text: str) -> int:
    number = port_number(text)
    if number is None:
        raise StartRefused(f"{name} is {shorten_value(text)}: give a number from 1 to {PORT_MAX}.")
    return number


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _COUNT_DIGITS):
        raise StartRefused(f"{name} is {shorten_value(text)}: give a whole number, 0 for no bound.")
    return int(text)


def _tries(name: str, text: str) -> int:
    if not 1 <= (found := _count(name, text)) <= _TRIES_MAX:
        raise StartRefused(f"{name} is {shorten_value(text)}: give a whole number from 1 to {_TRIES_MAX}.")
    return found


def _networks(name: str, text: str) -> tuple[str, ...]:
    found = _words(name, text)
    for one in found:
        try:
            ip_network(one)
        except ValueError:
            message = f"{name} has {shorten_value(one)}: write addresses and networks of proxies, such as 10.0.0.7,10.1.0.0/16."
            raise StartRefused(message) from None
    return found


def _flag(name: str, text: str) -> bool:
    if text.lower() not in _ON + _OFF:
        raise StartRefused(f"{name} is {shorten_value(text)}: write 1 to switch it on, or leave it out.")
    return text.lower() in _ON


def _level(name: str, text: str) -> str:
    if text.upper() not in _LEVELS:
        raise StartRefused(f"{name} is {shorten_value(text)}: use one of {', '.join(_LEVELS)}.")
    return text.upper()


def _folder(name: str, text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or not path.is_dir():
        raise StartRefused(f"{name} is {shorten_value(text)}: give the absolute path of a directory that is there.")
    if not os.access(path, os.W_OK | os.X_OK):
        raise StartRefused(
            f"{name} is {shorten_value(text)}, where this user cannot write: grant it, or name another directory."
        )
    return path


def _public_url(name: str, text: str) -> str:
    parts = _web(name, text)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise StartRefused(
            f"{name} has something after the host: give Fabric Flow a host of its own, as in {_EXAMPLE}."
        )
    # As a browser writes an origin: in small letters and without the port that goes without saying.
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    if parts.port and parts.port != _DEFAULT_PORTS[parts.scheme]:
        host += f":{parts.port}"
    return f"{parts.scheme}://{host}"


def _base_url(name: str, text: str) -> str:
    parts = _web(name, text)
    if parts.query or parts.fragment:
        raise StartRefused(
            f"{name} has a `?` or a `#` in it: give the base address alone, as in https://example.org/v1."
        )
    return text


def _web(name: str, text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in _DEFAULT_PORTS or port == 0 or not text.isprintable():
        raise StartRefused(f"{name} is no web address: write one like {_EXAMPLE}.")
    if "@" in parts.netloc:
        raise StartRefused(f"{name} has a user name or a password in it: leave them out, as in {_EXAMPLE}.")
    if not _host.fullmatch(f"[{host}]" if ":" in host else host):
        raise StartRefused(f"{name} has a host that is no host name: write it in ASCII, as in {_EXAMPLE}.")
    return parts


def _hosts(name: str, text: str) -> tuple[str, ...]:
    found = tuple(filter(None, map(str.strip, text.split(","))))
    for host in found:
        matched = _host_port.fullmatch(host.lower())
        if not matched or port_number(matched[1]) is None:
            raise StartRefused(
                f"{name} has {shorten_value(host)}, which is not HOST:PORT: write it like models.internal:8000."
            )
    return found


def _commands(name: str, text: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for line in filter(None, map(str.strip, text.replace("\n", ";").split(";"))):
        try:
            words = tuple(shlex.split(line))
        except ValueError:
            words = ()
        if not words or words[0] == "...":
            raise StartRefused(
                f"{name} has {shorten_value(line)}, which is no command line: write it as a shell would read it."
            )
        found.append(words)
    return tuple(found)


def _words(name: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _fields(name: str, text: str) -> tuple[str, ...]:
    found = _words(name, text)
    for one in found:
        if not _field.fullmatch(one):
            raise StartRefused(f"{name} has {shorten_value(one)}, which names no field: write FIELD or FIELD.FIELD,...")
    return found


def _models(name: str, text: str) -> tuple[str, ...]:
    found = _words(name, text)
    for one in found:
        if re.search(r"\s", one):
            raise StartRefused(f"{name} has {shorten_value(one)}, which is no model's id: write MODEL,...")
    return found


def _list_permits(name: str, text: str) -> tuple[str, ...]:
    found = tuple(filter(None, map(str.strip, text.split(","))))
    for one in found:
        variable, at, host = one.partition("@")
        if not _variable.fullmatch(variable) or variable in VARIABLES:
            reason = "a variable of Fabric Flow's own" if variable in VARIABLES else "which names no variable"
            raise StartRefused(
                f"{name} has {shorten_value(one)}, {reason}: write NAME for commands and functions, NAME@HOST:PORT for a header."
            )
        if at:
            _hosts(name, host)
    return tuple(f"{variable}{at}{host.lower()}" for variable, at, host in (one.partition("@") for one in found))


def _mailbox(name: str, text: str) -> str:
    if not _mail.fullmatch(text):
        raise StartRefused(
            f"{name} has {shorten_value(text)}, which is no e-mail address: write it like ops@example.org."
        )
    return text


def _mailboxes(name: str, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_mailbox(name, one) for one in filter(None, map(str.strip, text.split(",")))))


def _webhooks(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for address in found:
        if _web(name, address).fragment or not address.isascii() or " " in address:
            raise StartRefused(f"{name} has a `#`, a space or a letter beyond ASCII in it: give web addresses alone.")
    return found


def _fabrics(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for one in found:
        if one != "*" and not _fabric.fullmatch(one):
            raise StartRefused(f"{name} has {shorten_value(one)} in it, which is no fabric's name: write names, or *.")
    return found


def _smtp_host(name: str, text: str) -> str:
    if not _host.fullmatch(text.lower()):
        raise StartRefused(f"{name} is {shorten_value(text)}, which is no host name: write it like mail.example.org.")
    return text


def _smtp_tls(name: str, text: str) -> str:
    if text.lower() not in _TLS:
        raise StartRefused(f"{name} is {shorten_value(text)}: use one of {', '.join(_TLS)}.")
    return text.lower()


def _database(_name: str, text: str) -> str:
    addresses.database(text, Path())
    return text


def _broker(_name: str, text: str) -> str:
    addresses.broker(text, Path())
    return text


def _channel_layer(_name: str, text: str) -> str:
    addresses.channel_layer(text)
    return text


_EXAMPLE = "https://fabric.example.org"

VARIABLES: Mapping[str, Variable] = {
    "FABRIC_DATA": Variable(Kind.SETTING, _text),
    "FABRIC_PORT": Variable(Kind.SETTING, _port),
    "FABRIC_PUBLIC_URL": Variable(Kind.SETTING, _public_url),
    "FABRIC_SECRET_KEY": Variable(Kind.SETTING, variable_paths.secret_key, secret=True),
    "FABRIC_KEY_RING": Variable(Kind.SETTING, variable_paths.key_ring, secret=True),
    "DATABASE_URL": Variable(Kind.SETTING, _database, secret=True),
    "CELERY_BROKER_URL": Variable(Kind.SETTING, _broker, secret=True),
    "CHANNEL_URL": Variable(Kind.SETTING, _channel_layer, secret=True),
    "FABRIC_MODEL_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_MODEL": Variable(Kind.SETTING, _text),
    "FABRIC_MODEL_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_ANTHROPIC_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_ANTHROPIC_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_GOOGLE_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_GOOGLE_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_AZURE_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_AZURE_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_BEDROCK_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_BEDROCK_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_VERTEX_URL": Variable(Kind.SETTING, _base_url),
    "FABRIC_VERTEX_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_PROVIDERS": Variable(Kind.SETTING, variable_paths.providers),
    "FABRIC_TOOLS": Variable(Kind.SETTING, variable_paths.tools),
    "FABRIC_GRAPH_RULES": Variable(Kind.SETTING, variable_paths.paths),
    "FABRIC_ALLOWED_HOSTS": Variable(Kind.SETTING, _hosts),
    "FABRIC_MCP_COMMANDS": Variable(Kind.SETTING, _commands),
    "FABRIC_EXTRA_BODY": Variable(Kind.SETTING, _fields),
    "FABRIC_BELOW_LIST_PRICE": Variable(Kind.SETTING, _models),
    "FABRIC_KEY_CAPS": Variable(Kind.SETTING, variable_paths.key_caps),
    "FABRIC_TOOL_VARIABLES": Variable(Kind.SETTING, _list_permits),
    "FABRIC_AUDIT_KEY": Variable(Kind.SETTING, variable_paths.audit_key, secret=True),
    "FABRIC_AUDIT_SYSLOG": Variable(Kind.SETTING, variable_paths.syslog),
    "FABRIC_AUDIT_OTLP": Variable(Kind.SETTING, _base_url),
    "FABRIC_AUDIT_OTLP_KEY": Variable(Kind.SETTING, variable_paths.header, secret=True),
    "FABRIC_LOG_FORMAT": Variable(Kind.SETTING, variable_paths.log_format),
    "FABRIC_CHECKPOINTS": Variable(Kind.SETTING, _folder),
    "FABRIC_NOTIFY_MAIL": Variable(Kind.SETTING, _mailboxes),
    "FABRIC_NOTIFY_WEBHOOKS": Variable(Kind.SETTING, _webhooks, secret=True),
    "FABRIC_NOTIFY_SLACK": Variable(Kind.SETTING, _webhooks, secret=True),
    "FABRIC_NOTIFY_TEAMS": Variable(Kind.SETTING, _webhooks, secret=True),
    "FABRIC_NOTIFY_RUN_ENDS": Variable(Kind.SETTING, _fabrics),
    "FABRIC_WEBHOOK_SECRET": Variable(Kind.SETTING, variable_paths.webhook_secret, secret=True),
    "FABRIC_MAIL_FROM": Variable(Kind.SETTING, _mailbox),
    "FABRIC_SMTP_HOST": Variable(Kind.SETTING, _smtp_host),
    "FABRIC_SMTP_PORT": Variable(Kind.SETTING, _port),
    "FABRIC_SMTP_USER": Variable(Kind.SETTING, _text),
    "FABRIC_SMTP_PASSWORD": Variable(Kind.SETTING, _text, secret=True),
    "FABRIC_SMTP_TLS": Variable(Kind.SETTING, _smtp_tls),
    "FABRIC_API_PER_MINUTE": Variable(Kind.SETTING, _count),
    "FABRIC_SIGN_IN_TRIES": Variable(Kind.SETTING, _tries),
    "FABRIC_TRUSTED_PROXIES": Variable(Kind.SETTING, _networks),
    **{
        name: Variable(Kind.SETTING, reader, secret=name in variable_paths.SECRET)
        for name, reader in variable_paths.READERS.items()
    },
    "FABRIC_MODEL_TESTS_PER_MINUTE": Variable(Kind.SETTING, _count),
    "FABRIC_LOG_LEVEL": Variable(Kind.SETTING, _level),
    "FABRIC_DEBUG": Variable(Kind.SETTING, _flag),
    "DJANGO_SETTINGS_MODULE": Variable(Kind.SETTING, _module),
    "CI": Variable(Kind.CHECK, _text),
    "TEST_DATABASE_URL": Variable(Kind.CHECK, _text),
    "TEST_REDIS_URL": Variable(Kind.CHECK, _text),
    "TEST_AMQP_URL": Variable(Kind.CHECK, _text),
    "TEST_CHROMIUM": Variable(Kind.CHECK, _text),
    "XDG_DATA_HOME": Variable(Kind.SYSTEM, _text),
    "XDG_CACHE_HOME": Variable(Kind.SYSTEM, _text),
    "SSH_CONNECTION": Variable(Kind.SYSTEM, _text),
    "DISPLAY": Variable(Kind.SYSTEM, _text),
    "WAYLAND_DISPLAY": Variable(Kind.SYSTEM, _text),
    "CELERY_SKIP_CHECKS": Variable(Kind.SYSTEM, _text),
    "NO_COLOR": Variable(Kind.SYSTEM, _text),
    "TERM": Variable(Kind.SYSTEM, _text),
    "FABRIC_FAULTS": Variable(Kind.HARNESS, variable_paths.read_dotted_path),
    "FABRIC_CHAOS": Variable(Kind.HARNESS, _text),
    "FABRIC_BENCH_INSIDE": Variable(Kind.HARNESS, _text),
    "FABRIC_SCOREBOARD": Variable(Kind.HARNESS, _text),
    "TEST_PEERS_PYTHON": Variable(Kind.HARNESS, _text),
    "TEST_PEERS_NODE": Variable(Kind.HARNESS, _text),
}

SECRETS = tuple(name for name, variable in VARIABLES.items() if variable.secret)
SETTINGS = tuple(name for name, variable in VARIABLES.items() if variable.kind is Kind.SETTING)

NEEDS: Mapping[str, tuple[str, ...]] = {
    "FABRIC_NOTIFY_MAIL": ("FABRIC_SMTP_HOST", "FABRIC_MAIL_FROM"),
    "FABRIC_NOTIFY_WEBHOOKS": ("FABRIC_WEBHOOK_SECRET",),
    "FABRIC_NOTIFY_RUN_ENDS": ("FABRIC_NOTIFY_WEBHOOKS",),
    "FABRIC_AUDIT_OTLP_KEY": ("FABRIC_AUDIT_OTLP",),
    "FABRIC_OIDC_ISSUER": ("FABRIC_OIDC_CLIENT_ID", "FABRIC_OIDC_ROLES"),
    "FABRIC_SMTP_USER": ("FABRIC_SMTP_PASSWORD",),
    "FABRIC_SMTP_PASSWORD": ("FABRIC_SMTP_USER",),
}
"""Settings that a setting needs."""
