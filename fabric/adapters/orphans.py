"""Runs whose rows name this incarnation while its host does not drive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Orphans:
    """Which runs are to be asked for by name, and when. Used on the host's loop alone.

    A run whose write was refused as another's may be this incarnation's all the same: a commit can come after its fate was asked for. And a
    claim can be made whose answer never came. The store is looked at for those now and then; since a look crosses what is on its way, only a run
    that is unknown on two of them running is asked for. A claim of it, once too often, would cost nothing but a fence.
    """

    def __init__(self) -> None:
        self._asked_at: dict[str, int] = {}
        self._unknown: set[str] = set()
        self._crowded: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._asked_at or self._unknown)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._asked_at

    def suspect(self, run_id: str, at: int) -> None:
        """Asks for it from ``at`` on (microseconds since the epoch)."""
        self._asked_at[run_id] = at

    def crowded(self, run_id: str) -> None:
        """The children that it wanted were refused: it is to be taken again with that in mind."""
        self._crowded.add(run_id)

    def is_crowded(self, run_id: str) -> bool:
        """Whether that was so when it was let go; it is forgotten with the answer."""
        found = run_id in self._crowded
        self._crowded.discard(run_id)
        return found

    def looked(self, owned: Iterable[str], known: Callable[[str], bool], now: int) -> None:
        """Takes in which runs the store says are this incarnation's. ``known``: whether the host drives or holds one."""
        unknown = {run_id for run_id in owned if not known(run_id)}
        for run_id in sorted(unknown & self._unknown):
            self._asked_at.setdefault(run_id, now)
        self._unknown = unknown

    def due(self, now: int) -> tuple[str, ...]:
        """Whom to ask for with the next claim."""
        return tuple(run_id for run_id, at in self._asked_at.items() if at <= now)

    def claimed(self, run_id: str) -> None:
        """It is driven from now on."""
        self._asked_at.pop(run_id, None)
        self._unknown.discard(run_id)

    def not_given(self, run_id: str) -> None:
        """The store was asked and did not give it: it is somebody else's, it has ended, or it is a suspect that has to wait for its turn.

        The next look tells which. It goes on counting as unknown until then, so that all that wait are asked for with one claim: of two that have to
        be alone, each is held as long as the other alone is asked for (``runtime/suspects.py``).
        """
        self._asked_at.pop(run_id, None)

    def clear(self) -> None:
        """Forgets them all: the incarnation that they would be of is gone."""
        self._asked_at.clear()
        self._crowded.clear()
        self._unknown.clear()
