"""What became of a batch whose answer was lost, told from where the run's row stands."""

from __future__ import annotations

from fabric.runtime.ports import Batch, Head, Written


def fate_of(batch: Batch, head: Head | None) -> Written | None:
    """What became of a batch, by what its run's row says now (docs/design.md 5); None: it was not written, and may be sent again.

    ``head`` None: there is no such run any more. A batch without rows leaves no mark on the row: it counts as not written. Written
    twice it is refused by what it released or consumed, and its run is loaded again.
    """
    if head is None or head.fence != batch.fence:
        return Written.FENCED
    if batch.rows and head.last_seq == batch.new_seq and head.head == batch.head:
        return Written.COMMITTED
    return None if head.last_seq == batch.last_seq else Written.FENCED
