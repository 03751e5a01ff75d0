"""What became of a flush, told to the loop in one message, so that all its runs go on in one turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fabric.adapters.loop_thread import Message
from fabric.adapters.owned import Owned
from fabric.adapters.writer import OnDone
from fabric.runtime.ports import Batch, Written


class FlushFates:
    """Fates of the flush under way; the writer's thread alone touches them. ``put`` takes a message to the loop; ``term`` is the lease's by now."""

    def __init__(self, put: Callable[[Message], None], term: Callable[[], int]) -> None:
        self._put, self._term = put, term
        self._begun_in = 0
        self._fates: list[tuple[Owned, Batch, Written | Exception]] = []

    def of(self, owned: Owned, batch: Batch) -> OnDone:
        """Whom the writer tells what became of a batch."""
        return partial(self._note, owned, batch)

    def begun(self) -> None:
        """The store is about to be asked to write: a run that it commits for was owned in this term of the lease, or later."""
        self._begun_in = self._term()

    def freed(self, run_id: str) -> OnDone:
        """Whom it tells that a held run was given back, or was not."""
        return lambda fate: self._put(("freed", run_id, fate))

    def _note(self, owned: Owned, batch: Batch, fate: Written | Exception) -> None:
        if fate is Written.COMMITTED:
            owned.term = max(owned.term, self._begun_in)
        self._fates.append((owned, batch, fate))

    def flushed(self) -> None:
        """The flush is over."""
        if self._fates:
            fates, self._fates = self._fates, []
            self._put(("written", fates))
