"""What a claim says of its run without being folded: single rows that can be read, and the snapshot where there is one.

For a run that may be what kills its owners, or whose journal is damaged (``quarantine.py``). What cannot be read is passed over, so all of it is what
is known, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from fabric.core import events as ev
from fabric.core.envelope import Event, from_row
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run
from fabric.core.saga import STANDING
from fabric.runtime.ports import Claimed, StoredRow
from fabric.runtime.shares import SETTLES
from fabric.runtime.snapshots import restored

DEALT_WITH = ("compensation_answered", "compensation_by_hand", "compensation_skipped", "compensation_abandoned")


@value()
class Left:
    """What a run leaves behind that ends where it stands."""

    questions: tuple[str, ...]
    """Open questions, by id."""
    charged_usd_micros: int
    """Worst case of the calls that are out and the children that live: nobody will learn what they cost."""
    charged_tokens: int
    stays: tuple[str, ...]
    """Tools whose changes stand, or may stand, the newest first."""
    children: Mapping[str, str]
    """Those that live, as run ids by the command that began them."""
    granted: tuple[tuple[str, int], ...]
    """Attempts that are out and reserved from shared budgets: ``(command id, attempt)``. Nobody else settles those of a worker that lives on."""
    whole: bool
    """Whether all of the journal could be read, the part before the snapshot by way of it: what is not named is not there."""


def left(claimed: Claimed) -> Left:
    """What is known to be open, reserved and done."""
    run = _snapshot(claimed)
    asked = dict.fromkeys(run.questions)
    done = {one.key: one.tool for one in run.saga.mutations if one.status in STANDING}
    alive = {key: child.fact.child_id for key, child in run.family.alive.items()}
    granted = {key: one.issued.attempt for key, one in run.pending.items() if one.issued.grants and not one.failed}
    ledger, seen = state_of(run.guards, budget), run.seq
    for event in _events(claimed):
        seen = event.seq if event.seq == seen + 1 else 0
        _question(asked, event.fact)
        _change(done, event.fact)
        _child(alive, event.fact)
        _grant(granted, event.fact)
        if event.fact.kind in budget.OBSERVES:
            ledger = budget.observe(ledger, event)
    held = ledger.reserved.values()
    return Left(
        questions=tuple(asked),
        charged_usd_micros=sum(one.usd_micros for one in held),
        charged_tokens=sum(one.tokens for one in held),
        stays=tuple(reversed(done.values())),
        children=alive,
        granted=tuple(granted.items()),
        whole=seen == claimed.last_seq,
    )


def _snapshot(claimed: Claimed) -> Run:
    """The run as its snapshot has it, of which no row is here; without one that is sound, a run of which nothing is known."""
    if claimed.snapshot is not None:
        with suppress(ValueError):
            return restored(claimed.snapshot)[0]
    return Run(claimed.run_id)


def _question(asked: dict[str, None], fact: ev.Fact) -> None:
    if isinstance(fact, ev.EscalationOpened):
        if fact.item == "ticket":
            return  # It parks nothing, and stays when its run has ended.
        asked[fact.escalation_id] = None
    elif isinstance(fact, ev.EscalationDecided | ev.EscalationWithdrawn):
        asked.pop(fact.escalation_id, None)


def _change(done: dict[str, str], fact: ev.Fact) -> None:
    if isinstance(fact, ev.MutationIntended):
        done.pop(fact.key, None)
        done[fact.key] = fact.tool
    elif isinstance(fact, ev.MutationSettled) and fact.status not in STANDING:
        done.pop(fact.key, None)
    elif isinstance(fact, ev.MutationTakenOver | ev.MutationInherited) and fact.status in STANDING:
        done[fact.key] = fact.tool
    elif isinstance(fact, ev.ChildSpawned):
        for key in fact.handed_down:
            done.pop(key, None)
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


def read(row: StoredRow) -> Event | None:
    """The event of one row; None where it cannot be read."""
    try:
        return from_row(row.seq, row.kind, row.version, row.header)
    except ValueError:
        return None


def _events(claimed: Claimed) -> Iterator[Event]:
    return (event for event in map(read, claimed.rows) if event is not None)


def last(claimed: Claimed, kind: str) -> ev.Fact | None:
    """The last fact of a kind, where it is there and can be read."""
    row = next((row for row in reversed(claimed.rows) if row.kind == kind), None)
    event = None if row is None else read(row)
    return None if event is None else event.fact


def question(claimed: Claimed) -> ev.EscalationOpened | None:
    """The question that its quarantine asks."""
    fact = last(claimed, "escalation_opened")
    return fact if isinstance(fact, ev.EscalationOpened) and fact.item == "quarantine" else None


def own_questions(claimed: Claimed) -> set[str]:
    """The questions that quarantines of this run have asked, this one's and earlier ones'."""
    facts = (event.fact for event in _events(claimed))
    return {fact.escalation_id for fact in facts if isinstance(fact, ev.EscalationOpened) and fact.item == "quarantine"}


def damage(claimed: Claimed) -> str:
    """What it was quarantined for, where that was damage: nobody looks again before its end is written."""
    fact = last(claimed, "run_quarantined")
    return fact.damage if isinstance(fact, ev.RunQuarantined) else ""


def ending(claimed: Claimed) -> ev.RunEnding | None:
    """How it was going to end."""
    fact = last(claimed, "run_ending")
    return fact if isinstance(fact, ev.RunEnding) else _snapshot(claimed).ending


def started(claimed: Claimed) -> bool:
    """Whether it ever began."""
    return claimed.snapshot is not None or any(row.kind == "run_started" for row in claimed.rows)


def stage(claimed: Claimed) -> Stage:
    """Where it had come to."""
    fact = last(claimed, "stage_entered")
    return fact.stage if isinstance(fact, ev.StageEntered) else _snapshot(claimed).stage


def last_at(claimed: Claimed) -> int:
    """The instant of the last of its events that can be read; 0: none can."""
    event = next((event for event in map(read, reversed(claimed.rows)) if event is not None), None)
    return _snapshot(claimed).at if event is None else event.at
