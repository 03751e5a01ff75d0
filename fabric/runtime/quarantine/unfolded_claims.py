"""Readings of a claim without folding its journal: single readable rows, and the snapshot if there is one.

They serve a run that may kill its owners, or whose journal is damaged (``verdicts.py``). Unreadable rows are skipped,
so the result may be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from fabric.core import events as ev
from fabric.core.events.envelope import FOLLOWING, Event, read_row
from fabric.core.mechanisms import budget, find_state
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.saga import STANDING
from fabric.runtime.journal.projection import spent_text
from fabric.runtime.journal.snapshots import restore_run
from fabric.runtime.ports.journal import ClaimedRun, StoredRow
from fabric.runtime.spending.shares import SETTLES

DEALT_WITH = ("compensation_answered", "compensation_by_hand", "compensation_skipped", "compensation_abandoned")


@value()
class Left:
    """Open work of a run that ends where it is."""

    reviews: tuple[str, ...]
    """Open reviews, by id."""
    charged_usd_micros: int
    """Largest possible cost of running calls and live children, whose real cost stays unknown."""
    charged_tokens: int
    spent_on: str | None
    """The row's column with that cost; None: the journal is not whole, so it is not known."""
    stays: tuple[str, ...]
    """Tools whose changes stand, or may stand, the newest first."""
    children: Mapping[str, str]
    """Those that live, as run ids by the command that began them."""
    granted: tuple[tuple[str, int], ...]
    """Running attempts that reserved shared budgets: ``(command id, attempt)``. Only this settles those of a live
    worker.
    """
    whole: bool
    """True if the whole journal was readable, the part before the snapshot through the snapshot."""


def read_leftovers(claimed: ClaimedRun) -> Left:
    """Return the open, reserved and settled work, as far as it is known."""
    run = _snapshot(claimed)
    asked = dict.fromkeys(run.reviews)
    done = {one.key: one.tool for one in run.saga.mutations if one.status in STANDING}
    alive = {key: child.fact.child_id for key, child in run.family.alive.items()}
    granted = {key: one.issued.attempt for key, one in run.pending.items() if one.issued.grants and not one.failed}
    ledger, seen = find_state(run.guards, budget), run.seq
    for event in _events(claimed):
        seen = event.seq if event.seq == seen + 1 else 0
        _review(asked, event.fact)
        _change(done, event.fact)
        _child(alive, event.fact)
        _grant(granted, event.fact)
        if event.fact.kind in budget.OBSERVES:
            ledger = budget.observe(ledger, event)
    held, whole = ledger.reserved.values(), seen == claimed.last_seq
    return Left(
        reviews=tuple(asked),
        charged_usd_micros=sum(one.usd_micros for one in held),
        charged_tokens=sum(one.tokens for one in held),
        spent_on=spent_text(budget.close_ledger(ledger)) if whole else None,
        stays=tuple(reversed(done.values())),
        children=alive,
        granted=tuple(granted.items()),
        whole=whole,
    )


def _snapshot(claimed: ClaimedRun) -> Run:
    """Return the run as its snapshot has it, without rows. Without a sound snapshot, return an empty run."""
    if claimed.snapshot is not None:
        with suppress(ValueError):
            return restore_run(claimed.snapshot)[0]
    return Run(claimed.run_id)


def _review(asked: dict[str, None], fact: ev.Fact) -> None:
    if isinstance(fact, ev.ReviewOpened):
        if fact.item == "follow_up":
            return  # It suspends no run, and stays when its run has ended.
        asked[fact.review_id] = None
    elif isinstance(fact, ev.ReviewDecided | ev.ReviewWithdrawn):
        asked.pop(fact.review_id, None)


def _change(done: dict[str, str], fact: ev.Fact) -> None:
    if isinstance(fact, ev.MutationIntended):
        done.pop(fact.key, None)
        done[fact.key] = fact.tool
    elif isinstance(fact, ev.MutationSettled) and fact.status not in STANDING:
        done.pop(fact.key, None)
    elif isinstance(fact, ev.MutationTakenOver) and fact.status in STANDING:
        done[fact.key] = fact.tool
    elif fact.kind in DEALT_WITH:
        done.pop(getattr(fact, "of_key", ""), None)
    elif isinstance(fact, ev.UnwindingOmitted):
        done.clear()


def _child(alive: dict[str, str], fact: ev.Fact) -> None:
    if isinstance(fact, ev.ChildSpawned):
        alive[fact.command_id] = fact.child_id
    elif isinstance(fact, ev.ChildAnswered):
        alive.pop(fact.command_id, None)


def _grant(granted: dict[str, int], fact: ev.Fact) -> None:
    if isinstance(fact, ev.CallIssued) and fact.grants:
        granted[fact.command_id] = fact.attempt
    elif fact.kind in SETTLES:
        granted.pop(getattr(fact, "command_id", ""), None)


def read(row: StoredRow) -> list[Event]:
    """Return the events of one row; none if it cannot be read."""
    try:
        return read_row(row.seq, row.kind, row.version, row.header)
    except ValueError:
        return []


def _events(claimed: ClaimedRun) -> Iterator[Event]:
    return (event for row in claimed.rows for event in read(row))


def last(claimed: ClaimedRun, kind: str) -> ev.Fact | None:
    """Return the last fact of a kind; None if there is none, or it cannot be read."""
    for row in reversed(claimed.rows):
        if row.kind == kind or kind in FOLLOWING:
            found = [event.fact for event in read(row) if event.fact.kind == kind]
            if found or row.kind == kind:
                return found[-1] if found else None
    return None


def quarantine_review(claimed: ClaimedRun) -> ev.ReviewOpened | None:
    """The review that its quarantine opened."""
    fact = last(claimed, "review_opened")
    return fact if isinstance(fact, ev.ReviewOpened) and fact.item == "quarantine" else None


def own_reviews(claimed: ClaimedRun) -> set[str]:
    """The reviews that quarantines of this run have opened, this one's and earlier ones'."""
    facts = (event.fact for event in _events(claimed))
    return {fact.review_id for fact in facts if isinstance(fact, ev.ReviewOpened) and fact.item == "quarantine"}


def damage(claimed: ClaimedRun) -> str:
    """Return the damage that the run was quarantined for; it is not checked again before its end."""
    fact = last(claimed, "run_quarantined")
    return fact.damage if isinstance(fact, ev.RunQuarantined) else ""


def find_ending(claimed: ClaimedRun) -> ev.RunEnding | None:
    """Return the end that the run was heading for."""
    fact = last(claimed, "run_ending")
    return fact if isinstance(fact, ev.RunEnding) else _snapshot(claimed).ending


def has_started(claimed: ClaimedRun) -> bool:
    """Return True if the run ever started."""
    return claimed.snapshot is not None or any(row.kind == "run_started" for row in claimed.rows)


def stage(claimed: ClaimedRun) -> Stage:
    """Where it had come to."""
    fact = last(claimed, "stage_entered")
    return fact.stage if isinstance(fact, ev.StageEntered) else _snapshot(claimed).stage


def last_at(claimed: ClaimedRun) -> int:
    """The instant of the last of its events that can be read; 0: none can."""
    events = next(filter(None, map(read, reversed(claimed.rows))), [])
    return events[-1].at if events else _snapshot(claimed).at
