"""Variables that hold names, dotted paths of Python and receivers of logs: how each is read, for the table of console/variables.py. Standard library only."""

import re
from urllib.parse import urlsplit

from console.launch.errors import Refused

_provider = re.compile(r"([A-Za-z0-9_.-]+)=([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)", re.ASCII)
_tool = re.compile(r"([A-Za-z0-9_-]+)=([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)", re.ASCII)
_path = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)


def providers(name: str, text: str) -> dict[str, str]:
    """Classes by the names that fabrics use. Raises Refused."""
    return _named(name, text, _provider, "NAME=dotted.path.Class")


def tools(name: str, text: str) -> dict[str, str]:
    """Functions by the names that fabrics use. Raises Refused."""
    return _named(name, text, _tool, "NAME=dotted.path.function")


def _named(name: str, text: str, pattern: re.Pattern[str], form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        matched = pattern.fullmatch(pair)
        if not matched or matched[1] in found:
            reason = "whose name is there already" if matched else f"which is not {form}"
            raise Refused(f"{name} has {shown(pair)}, {reason}: write {form},... with each name once.")
        found[matched[1]] = matched[2]
    return found


def dotted(name: str, text: str) -> str:
    """One path. Raises Refused."""
    if not _path.fullmatch(text):
        raise Refused(f"{name} is {shown(text)}, which is no dotted.path.function: leave it out.")
    return text


def paths(name: str, text: str) -> tuple[str, ...]:
    """Several paths, each once. Raises Refused."""
    found = tuple(filter(None, map(str.strip, text.split(","))))
    for n, path in enumerate(found):
        if not _path.fullmatch(path) or path in found[:n]:
            reason = "which is there twice" if _path.fullmatch(path) else "which is no dotted.path.NAME"
            raise Refused(f"{name} has {shown(path)}, {reason}: write dotted.path.NAME,... with each once.")
    return found


def syslog(name: str, text: str) -> str:
    """A receiver of syslog messages. Raises Refused."""
    parts = urlsplit(text) if text.isascii() and text.isprintable() and " " not in text else urlsplit("")
    try:
        fine = parts.scheme in ("udp", "tcp", "tls") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        message = f"{name} is {shown(text)}: write udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT."
        raise Refused(message)
    return text


def log_format(name: str, text: str) -> str:
    """How log lines are written. Raises Refused."""
    if text.lower() not in ("text", "json"):
        raise Refused(f"{name} is {shown(text)}: use text or json.")
    return text.lower()


def shown(text: str) -> str:
    """A value for a sentence, in part where it is long."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
