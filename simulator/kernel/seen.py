"""One run as its committed journal shows it, how invariants are named and found, and how two states are compared.

The sums are counted here anew, from the facts alone: an invariant that asked the engine's own ledgers would believe them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from fabric.core.context import Compiled
from fabric.core.envelope import KINDS, Event
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.inputs import InboxInput
from fabric.core.run import Run


@dataclass(slots=True)
class Seen:
    """One run as its committed journal shows it, and what was counted on the way."""

    run_id: str
    compiled: Compiled
    run: Run
    head: bytes = ZERO_HASH
    rows: int = 0
    at: int = 0
    fence: int = 0
    owner: str = ""
    consumed: set[str] = field(default_factory=set)
    attempts: dict[str, int] = field(default_factory=dict)
    """The newest attempt of each call."""
    keys: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Micro-dollars reserved by each call in flight."""
    settled: set[tuple[str, int]] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    not_before: dict[str, int] = field(default_factory=dict)
    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Tool calls issued, by step and turn."""
    spent: int = 0
    overrun: int = 0
    billed: int = 0
    """What the provider billed for calls that this run's owners sent."""
    first_attempts: int = 0
    retries: int = 0
    spawned: int = 0
    stage_deadline: int = 0
    run_deadline: int = 0
    stopped: bool = False
    given: dict[str, InboxInput] = field(default_factory=dict)
    """Every input that was inserted for this run, by id."""
    batch: int = 0
    """Batches committed so far."""
    caused: dict[str, int] = field(default_factory=dict)
    """The batch that holds the events of an input."""
    windows: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    """Tool calls of each step, oldest first: tool, arguments, call id, masked result."""
    skipped: list[tuple[str, int]] = field(default_factory=list)
    """Rungs skipped since the last event of another kind."""

    def take(self, event: Event, after: Run, hashed: bytes) -> None:
        """Goes on to the next event."""
        self.run, self.head, self.rows, self.at = after, hashed, self.rows + 1, event.at


Check = Callable[[Seen, Event, Any, Run], str]
CHECKS: dict[str, list[Check]] = {kind: [] for kind in KINDS}
"""Every check by the kind of event that it is asked about."""


def on(*kinds: str) -> Callable[[Check], Check]:
    """Registers a check for those kinds of event; without any, for all."""

    def register(check: Check) -> Check:
        for kind in kinds or KINDS:
            CHECKS[kind].append(check)
        return check

    return register


# -- comparing states --------------------------------------------------------------------------------------------------


def state_bytes(value: Any) -> bytes:
    """A state in one fixed form, the order of its mappings included: equal bytes mean equal in everything a decision can see."""
    return _state_json(value).encode()


def _parts(value: Any) -> Any:
    try:
        names = type(value).__dataclass_fields__
    except AttributeError:
        raise TypeError(f"a state holds a {type(value).__name__}") from None
    return [type(value).__name__, *(getattr(value, name) for name in names)]


_state_json = json.JSONEncoder(default=_parts, separators=(",", ":")).encode


def difference(one: Any, other: Any) -> str:
    """The first fields in which two states differ."""
    found = [
        f"{item.name}: {getattr(one, item.name)!r} and {getattr(other, item.name)!r}"
        for item in fields(one)
        if getattr(one, item.name) != getattr(other, item.name)
    ]
    return "; ".join(found)[:600] or "the order of their mappings"
