"""Where an act comes from: the request, command or duty in which it is done, so that no service has to be given it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from fabric.core.actor import Actor

By = Literal["session", "token", "cli", "system", "nobody"]
NOBODY = "nobody"
"""Who acts where nobody knows who it is; no member may be called so."""
TOKEN = "token:"  # noqa: S105 - What ``Actor.via`` begins with.


@dataclass(slots=True)
class Origin:
    """What an audit line says of where its act comes from."""

    by: By
    address: str = ""
    """The client's address (``console.client_address``)."""
    request_id: str = ""
    lines: int = 0
    """Audit lines that were made in it so far."""


_current: ContextVar[Origin | None] = ContextVar("fabric_audit_origin", default=None)


@contextmanager
def coming_from(origin: Origin) -> Iterator[Origin]:
    """What is done inside comes from there."""
    before = _current.set(origin)
    try:
        yield origin
    finally:
        _current.reset(before)


def origin_said(actor: Actor) -> dict[str, str]:
    """What a line says of where its act comes from; nothing where nobody said it. Counts the line."""
    origin = _current.get()
    if origin is None:
        return {}
    origin.lines += 1
    by: By = origin.by
    if actor.name == NOBODY:
        by = "nobody"
    elif actor.via.startswith(TOKEN):
        by = "token"
    elif actor.kind == "system":
        by = "system"
    said = {"by": by, "address": origin.address, "request": origin.request_id}
    return {name: value for name, value in said.items() if value}
