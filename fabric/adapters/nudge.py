"""Nudges: lossy "there is more to read". Whoever needs one for being right, and not only for being quick, has a bug.

``nudge_socket`` carries them between the processes of one data directory, ``nudge_postgresql`` inside the database. Both speak the same
text: ``run:seq,run:seq``; a wake has no seq.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["wake", "told"]


@dataclass(frozen=True, slots=True)
class Nudged:
    """What arrived. ``wake``: something is due for a host; ``told``: these runs' journals reach these seqs.

    Without any run: something may have been missed, so look everywhere.
    """

    kind: Kind
    run_seqs: Mapping[str, int] = field(default_factory=dict)


OnMessage = Callable[[Nudged], None]
"""Called on the listener's own thread; must return soon and not raise."""


class Listener(Protocol):
    """Hears nudges on a thread of its own until it is stopped."""

    def start(self) -> None:
        """Begins to listen, and returns when nothing said from now on is missed (or when the far end cannot be reached yet)."""
        ...

    def stop(self) -> None:
        """Ends the thread. May be called twice."""
        ...


class NullNudge:
    """Says nothing to nobody: for tests, and where the store itself notifies."""

    def wake(self, run_id: str) -> None:
        """Does nothing."""

    def told(self, run_seqs: Mapping[str, int]) -> None:
        """Does nothing."""


def read_told(text: str) -> dict[str, int]:
    """``run:seq,run:seq`` as a mapping; what was cut off or is no number is left out."""
    pairs = (part.rpartition(":") for part in text.split(","))
    return {run: int(seq) for run, _, seq in pairs if run and seq.isdecimal()}
