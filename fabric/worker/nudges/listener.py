"""Nudges: lossy messages that there is more to read. Correctness must never depend on one, only speed.

``local_socket`` carries them between the processes of one data directory, ``postgresql`` inside the database.
Both use one text: ``run:seq,run:seq``; a wake has no seq.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["wake", "told"]


@dataclass(frozen=True, slots=True)
class ReceivedNudge:
    """A received nudge. ``wake``: a host has work. ``told``: the last seq of each named run's journal.

    Without any run: messages may have been missed, so look everywhere.
    """

    kind: Kind
    run_seqs: Mapping[str, int] = field(default_factory=dict)


OnMessage = Callable[[ReceivedNudge], None]
"""Called on the listener's own thread; must return soon and not raise."""


class Listener(Protocol):
    """Receives nudges on a thread of its own until it is stopped."""

    def start(self) -> None:
        """Begin to listen; return once later nudges are not missed, or when the far end cannot be reached yet."""
        ...

    def stop(self) -> None:
        """End the thread. May be called twice."""
        ...


class NullNudge:
    """Sends nothing: for tests, and where the store itself notifies."""

    def wake(self, run_id: str) -> None:
        """Do nothing."""

    def announce(self, run_seqs: Mapping[str, int]) -> None:
        """Do nothing."""


def read_told(text: str) -> dict[str, int]:
    """Return ``run:seq,run:seq`` as a mapping, without truncated or malformed parts."""
    pairs = (part.rpartition(":") for part in text.split(","))
    return {run: int(seq) for run, _, seq in pairs if run and seq.isdecimal()}
