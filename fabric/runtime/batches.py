"""Two batches of one run as one."""

from __future__ import annotations

from fabric.runtime.ports import Batch


def merged(first: Batch, second: Batch) -> Batch:
    """Two consecutive batches of one run as one, so that what became ready together is one commit.

    A release stands: what a released run still records (a late result) does not take it back.
    """
    assert first.fence == second.fence
    assert first.new_seq == second.last_seq
    return Batch(
        run_id=first.run_id,
        fence=first.fence,
        last_seq=first.last_seq,
        rows=first.rows + second.rows,
        head=second.head,
        columns=second.columns or first.columns,
        consumed=first.consumed + second.consumed,
        standings=first.standings + second.standings,
        escalations=first.escalations + second.escalations,
        wake_at=second.wake_at if second.release else first.wake_at,
        release=first.release or second.release,
        children=first.children + second.children,
        caps=first.caps or second.caps,
        sends=first.sends + second.sends,
        snapshot=second.snapshot or first.snapshot,
        format=max(first.format, second.format),
        reserved=first.reserved + second.reserved,
        settled=first.settled + second.settled,
    )
