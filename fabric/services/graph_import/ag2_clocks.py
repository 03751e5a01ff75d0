"""The clocks of an AG2 channel: what is expected of its pace, and when it expires (S4 "Default expectations")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

JSON = Any
HERE = ("warn", "auto_close")
TURN = "turn_within"
DEFAULT_S = 120
"""AG2's bound where an expectation gives no seconds."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Their counterparts here."""

    fields: dict[str, JSON] = field(default_factory=dict)
    """Of a graph."""
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


NO_CLOCKS = Clocks()


def clocks_of(tree: dict[str, JSON]) -> Clocks:
    """The clocks of a channel's metadata. AG2's defaults hold where its manifest is silent; they are ours too."""
    fields: dict[str, JSON] = {}
    notes: list[str] = []
    lost: list[str] = []
    given = tree["manifest"].get("expectations")
    if isinstance(given, list):
        fields["expectations"] = []
        for n, one in enumerate(given):
            path = f"manifest.expectations.{n}"
            read = _expectation(one)
            if isinstance(read, dict):
                fields["expectations"].append(read)
            else:
                (notes if read.startswith("audit") else lost).append(f"{path}: {read}")
    lived = _lives(tree)
    if isinstance(lived, float):
        fields["ttl_s"] = lived
    elif lived:
        lost.append(lived)
    return Clocks(fields, tuple(notes), tuple(lost))


def _expectation(one: JSON) -> dict[str, JSON] | str:
    """An expectation here; a sentence: there is none."""
    given = one if isinstance(one, dict) else {}
    name, what = given.get("name"), given.get("on_violation", "warn")
    params: JSON = given.get("params")
    seconds: JSON = params.get("seconds", DEFAULT_S) if isinstance(params, dict) else DEFAULT_S
    if what == "audit":
        return "audit is a line in a record, and every event is one here"
    if name != TURN:
        return f"nothing of the kind {name!r} is expected here; there is: {TURN}"
    if what not in HERE:
        return f"a late turn is met by {' or '.join(HERE)} here, and not by {what!r}"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        return f"{seconds!r} is no number of seconds"
    return {"kind": TURN, "seconds": seconds, "on_violation": what}


def _lives(tree: dict[str, JSON]) -> float | str:
    """How long the channel lives, in seconds; a sentence: that cannot be read; empty: it has no end."""
    ends = tree.get("expires_at")
    if ends is None:
        return ""
    instants = list(_instants(tree.get("created_at"), ends))
    if len(instants) < 2 or instants[1] <= instants[0]:
        return f"expires_at: {ends!r} is no instant after created_at ({tree.get('created_at')!r}), so that nobody knows how long it lives"
    return float(instants[1] - instants[0])


def _instants(*given: JSON) -> Iterator[float]:
    for one in given:
        if isinstance(one, int | float) and not isinstance(one, bool):
            yield float(one)
        elif isinstance(one, str):
            try:
                yield datetime.fromisoformat(one).timestamp()
            except ValueError:
                return
