"""The judge: holds the ledger of the outside against the journals and says what must never be. Pure, so that each verdict is tested by a planted fault.

A verdict is a list of sentences, one a case; none means that there is nothing to say. docs/specification/durability.md explains each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from fabric.core.values.units import JSON
from fabric.runtime.journal.progress import PROGRESS
from fabric.runtime.quarantine.verdicts import CLAIMS_MAX
from simulator.booking import Entry
from tests.chaos.judging import remembered, shares
from tests.chaos.judging.remembered import Kept
from tests.chaos.judging.shares import Shared

ENDED = ("completed", "stopped", "failed", "aborted", "cancelled")
UNDONE = ("failed", "aborted", "cancelled")
"""Ends after which nothing that a run did may stand."""
ISSUED = ("call_issued", "compensation_issued")
RESULTS = ("model_answered", "tool_answered", "compensation_answered")
ONCE = ("run_started", "run_ended", "cancel_accepted", "review_decided")
"""Facts of which a run has one at most; of the last one, one a review."""
QUIET_SHARE = 0.95
BETWEEN_SHORT, BETWEEN_LONG = 5, 200
WITHHELD = "withheld"
"""What a ledger's line says of an answer after which its run must be aborted."""
_DIGITS = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker's death on purpose."""

    at: int
    """Microseconds since the epoch."""
    pid: int
    place: str
    """The failpoint, or ``random``."""
    runs: tuple[str, ...]
    """Live runs that it owned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that the judge looks at."""

    ledger: Sequence[Entry]
    journals: Mapping[str, Sequence[Mapping[str, JSON]]]
    """Facts by run, in order, each with its ``kind`` and ``at``."""
    accepted: frozenset[str] = frozenset()
    """Runs whose start was confirmed."""
    states: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, int] = field(default_factory=dict)
    """What the run rows say was spent, micro-dollars."""
    cap: int = 0
    """Most one run may spend, micro-dollars."""
    shared: Sequence[Shared] = ()
    """Budgets that all of the runs share."""
    memory: Sequence[Kept] = ()
    """What the fabric remembers."""
    cancelled: frozenset[str] = frozenset()
    """Runs that were to be cancelled."""
    mutating: bool = False
    """Whether bookings are declared as mutations, so that they are undone."""
    kills: Sequence[Kill] = ()
    parted: Sequence[Kill] = ()
    """Owners that lost their runs and lived on."""
    away: Sequence[tuple[int, int]] = ()
    """From when to when there was no database."""
    stale: Sequence[str] = ()
    """Writes of one who did not own the row, as the database logged them."""
    refused: int = 0
    """Writes that were refused as another worker's."""
    probes: tuple[int, int] = (0, 0)
    """Runs started in quiet phases, and how many of them completed in time."""
    late: Sequence[str] = ()
    """Those that did not, each with what it waited for (``describe_wait``)."""


# -- what must never be ----------------------------------------------------------------------------------------------


def lost(case: Case) -> list[str]:
    """Accepted starts that have no end after everything was healed and drained; writes to a memory that are not there."""
    return [
        f"run {run} was accepted and is {case.states.get(run, 'not there')}"
        for run in sorted(case.accepted)
        if case.states.get(run) not in ENDED
    ] + remembered.lost(case.memory, case.journals)


def reexecuted(case: Case) -> list[str]:
    """Attempts that were made twice, without an intent, or after the call's result was journaled; writes to a memory that stand twice or unmeant."""
    intended, results = _intents(case), _results(case)
    twice = Counter((entry.run, entry.command, entry.attempt) for entry in case.ledger)
    found = [f"{_named(key)} was made {count} times" for key, count in twice.items() if count > 1]
    found += remembered.twice(case.memory, case.journals)
    for entry in case.ledger:
        key = (entry.run, entry.command, entry.attempt)
        if key not in intended:
            found.append(f"{_named(key)} was made without an intent")
        result = results.get(key[:2])
        if result is not None and entry.attempt != result[0] and entry.at > result[1]:
            found.append(
                f"{_named(key)} was made {(entry.at - result[1]) / 1e6:.3f} s after attempt {result[0]} was journaled"
            )
    return found


def compensations_missed(case: Case) -> list[str]:
    """Bookings, and what was written to a memory, that stand although their run ended badly, and bookings that were undone before a later one was."""
    found = remembered.not_undone(case.memory, case.journals, case.states)
    if not case.mutating:
        return found
    cancelled = {entry.about["id"]: entry for entry in case.ledger if entry.kind == "cancel" and entry.applied}
    for run, booked in _bookings(case).items():
        if case.states.get(run) in UNDONE:
            found += [
                f"booking {one.about['id']} of run {run} ({case.states[run]}) stands"
                for one in booked
                if one.about["id"] not in cancelled
            ]
        found += _out_of_order(run, booked, cancelled)
    return found


def _out_of_order(run: str, booked: Sequence[Entry], cancelled: Mapping[str, Entry]) -> Iterator[str]:
    for earlier, later in pairwise(booked):
        undone, undone_later = cancelled.get(earlier.about["id"]), cancelled.get(later.about["id"])
        # What was booked only after the earlier one had been undone belongs to another unwinding.
        if undone and undone_later and later.n < undone.n < undone_later.n:
            yield f"booking {earlier.about['id']} of run {run} was undone before {later.about['id']}, which came after it"


def compensations_repeated(case: Case) -> list[str]:
    """Bookings that were undone under more than one key, or although their run completed without unwinding; writes to a memory that no run meant to undo."""
    keys: dict[str, set[str]] = {}
    for entry in case.ledger:
        if entry.kind == "cancel" and entry.about.get("id"):
            keys.setdefault(entry.about["id"], set()).add(entry.key)
    found = remembered.undone_unasked(case.memory, case.journals)
    found += [
        f"booking {booking} was undone under {len(under)} keys" for booking, under in keys.items() if len(under) > 1
    ]
    for run, booked in _bookings(case).items():
        unwound = any(fact["kind"] == "unwinding_started" for fact in case.journals.get(run, ()))
        if case.states.get(run) == "completed" and not unwound:
            found += [
                f"booking {one.about['id']} of the completed run {run} was undone"
                for one in booked
                if one.about["id"] in keys
            ]
    return found


def overspent(case: Case) -> list[str]:
    """Runs and shared budgets of which answers, at the ledger's prices, cost more than the cap or more than is known there."""
    spent: Counter[str] = Counter()
    for entry in case.ledger:
        spent[entry.run] += int(entry.about.get("usd_micros", 0))
    over = [f"run {run} spent {cost} of {case.cap} micro-dollars" for run, cost in spent.items() if cost > case.cap]
    over += shares.overspent(case.ledger, case.shared)
    return over + [
        f"run {run} spent {cost} micro-dollars and its journal knows of {case.costs[run]}"
        for run, cost in spent.items()
        if case.states.get(run) in ENDED and cost > case.costs.get(run, 0)
    ]


def stale_writes_accepted(case: Case) -> list[str]:
    """Rows that moved under one who did not own them, and journals whose fences go back."""
    found = list(case.stale)
    for run, facts in case.journals.items():
        fences = [fact["fence"] for fact in facts if fact["kind"] == "ownership_taken"]
        if any(later <= earlier for earlier, later in pairwise(fences)):
            found.append(f"the fences in the journal of run {run} go back: {fences}")
    return found


def put_away(case: Case) -> list[str]:
    """Runs that were quarantined although their journal is whole and no more of their owners died, or were parted from them, than a run may lose.

    A claim more is no wonder: one that waited for its time between two deaths was claimed for that.
    """
    losses = (*case.kills, *case.parted)
    found = []
    for run, facts in case.journals.items():
        since = 0
        for fact in facts:
            if fact["kind"] == "run_quarantined":
                lost_by = sum(since <= kill.at <= fact["at"] and run in kill.runs for kill in losses)
                if fact.get("damage"):
                    found.append(f"run {run} was quarantined: {fact['damage']}")
                elif lost_by < min(fact["claims"] - 1, CLAIMS_MAX):
                    found.append(
                        f"run {run} was quarantined at claim {fact['claims']}, and {lost_by} owners died or were parted from it since it got on"
                    )
            if PROGRESS[fact["kind"]]:
                since = fact["at"]
    return found


def ended_otherwise(case: Case) -> list[str]:
    """Runs that ended as no starter wanted: cancelled or aborted without a cause for it, or completed although their last answer was withheld."""
    withheld = {entry.run for entry in case.ledger if entry.about.get(WITHHELD)}
    found = []
    for run in sorted(case.accepted):
        state = case.states.get(run)
        wanted = {"aborted"} if run in withheld else {"completed"}
        if run in case.cancelled:
            wanted.add("cancelled")
        if state in ENDED and state not in wanted:
            found.append(f"run {run} is {state}, and not {' or '.join(sorted(wanted))}")
    return found


def not_once(case: Case) -> list[str]:
    """Return what arrived more than once, or without a sender: starts, ends, cancellations, answers of people, and what they allowed."""
    found = [
        f"run {run} is there, and no start of it was confirmed" for run in sorted(case.states.keys() - case.accepted)
    ]
    for run, facts in case.journals.items():
        times = Counter((fact["kind"], fact.get("review_id", "")) for fact in facts if fact["kind"] in ONCE)
        found += [f"run {run} has {count} times {kind}" for (kind, _), count in times.items() if count > 1]
    sent = Counter(entry.run for entry in case.ledger if entry.kind == "notice")
    return found + [f"the notice of run {run} was sent {count} times" for run, count in sent.items() if count > 1]


VERDICTS: Mapping[str, Callable[[Case], list[str]]] = {
    "lost": lost,
    "reexecuted": reexecuted,
    "compensations_missed": compensations_missed,
    "compensations_repeated": compensations_repeated,
    "overspent": overspent,
    "stale_writes_accepted": stale_writes_accepted,
}
"""What makes a run of chaos bad, by its name in the last line."""


# -- figures ---------------------------------------------------------------------------------------------------------


def between_effect_and_commit(case: Case) -> int:
    """Kills before which something had happened outside that was not journaled: the ledger has the attempt, the journal no result of it."""
    answered = {
        (run, fact["command_id"], fact["attempt"])
        for run, facts in case.journals.items()
        for fact in facts
        if fact["kind"] in (*RESULTS, "attempt_failed", "compensation_failed")
    }
    hit: set[tuple[int, int]] = set()
    kills = sorted(case.kills, key=lambda kill: kill.at)
    for entry in case.ledger:
        if (entry.run, entry.command, entry.attempt) not in answered:
            first = next((kill for kill in kills if kill.at >= entry.at and entry.run in kill.runs), None)
            if first is not None:
                hit.add((first.at, first.pid))
    return len(hit)


def recoveries_s(case: Case) -> list[float]:
    """Seconds from each kill to the next event of each run that the killed worker owned, without those in which there was no database."""
    found = []
    for kill in case.kills:
        for run in kill.runs:
            later = (fact["at"] for fact in case.journals.get(run, ()) if fact["at"] > kill.at)
            if (first := next(later, None)) is not None:
                found.append((first - kill.at - _overlap(kill.at, first, case.away)) / 1e6)
    return found


def _overlap(since: int, until: int, spans: Sequence[tuple[int, int]]) -> int:
    return sum(max(0, min(until, end) - max(since, start)) for start, end in spans)


def undone(case: Case) -> int:
    """Bookings that were cancelled."""
    return sum(entry.kind == "cancel" and entry.applied for entry in case.ledger)


def asked(case: Case) -> dict[str, int]:
    """Why runs asked a person, each reason with the number of reviews: the kind of review, its failure's row and cause, and what it says."""
    found: Counter[str] = Counter()
    for facts in case.journals.values():
        cause: Mapping[str, JSON] = {}
        for fact in facts:
            if fact["kind"] == "reaction_decided":
                cause = fact["cause"]
            elif fact["kind"] == "review_opened":
                decided = fact["item"] in ("failure", "post_stage")  # The others follow from no decision of the table.
                about = (fact["item"], fact.get("failure_type"), cause.get("cause") if decided else None)
                found[f"{' / '.join(filter(None, about))}: {_DIGITS.sub('#', fact['reason'])}"] += 1
    return dict(found)


def takeovers_s(case: Case) -> list[float]:
    """Seconds from each kill to when another owner of each run that the killed worker owned, with a call out, had taken it."""
    found = []
    for kill in case.kills:
        for run in kill.runs:
            facts = (fact for fact in case.journals.get(run, ()) if fact["at"] > kill.at)
            if (first := next(facts, None)) is not None and first["kind"] == "ownership_taken":
                found.append((first["at"] - kill.at) / 1e6)
    return found


def calls_out(case: Case, at: int) -> int:
    """Calls that were issued by an instant (microseconds since the epoch) and had no result by then."""
    out = 0
    for facts in case.journals.values():
        open_: set[str] = set()
        for fact in facts:
            if fact["at"] > at:
                break
            if fact["kind"] in ISSUED:
                open_.add(fact["command_id"])
            elif fact["kind"] in (*RESULTS, "attempt_failed", "attempt_interrupted"):
                open_.discard(fact["command_id"])
        out += len(open_)
    return out


def void(case: Case, *, least_between: int, unseen: Sequence[str] = ()) -> list[str]:
    """Why nothing follows from this run. ``least_between``: kills between effect and commit that it needs; ``unseen``: other reasons."""
    found = list(unseen)
    between = between_effect_and_commit(case)
    if between < least_between:
        found.append(f"{between} kills came between an effect and its commit; {least_between} are needed")
    asked, completed = case.probes
    if completed < QUIET_SHARE * asked or not asked:
        found.append(f"{completed} of {asked} runs that were started in quiet phases completed; 95 % are needed")
        found += case.late
    if not case.ledger:
        found.append("nothing happened outside")
    return found


def describe_wait(run: str, state: str, facts: Sequence[Mapping[str, JSON]], now: int) -> str:
    """Return one sentence about a late run: its last fact, its calls without a result, its last failure. ``now``: microseconds."""
    if not facts:
        return f"run {run} is {state}, and no worker has begun it"
    open_: dict[str, str] = {}
    failed = ""
    for fact in facts:
        if fact["kind"] in ISSUED:
            open_[fact["command_id"]] = f"{fact['command_id']} (attempt {fact['attempt']})"
        elif fact["kind"] in (*RESULTS, "attempt_failed", "attempt_interrupted", "compensation_failed"):
            open_.pop(fact["command_id"], None)
        if fact["kind"] == "attempt_failed":
            failed = f"; last failure, {(now - fact['at']) / 1e6:.1f} s ago: {fact['message']}"
    out = f"; calls out: {', '.join(open_.values())}" if open_ else ""
    last = facts[-1]
    return f"run {run} is {state}; last fact, {(now - last['at']) / 1e6:.1f} s ago: {last['kind']}{out}{failed}"


def line(case: Case, *, is_void: bool) -> dict[str, JSON]:
    """The last line: figures and the number of cases of each verdict."""
    cases = {name: len(judge(case)) for name, judge in VERDICTS.items()}
    recovered = recoveries_s(case)
    return {
        "kills": len(case.kills),
        "kills_between_effect_and_commit": between_effect_and_commit(case),
        "runs": len(case.accepted),
        **cases,
        "stale_writes_refused": case.refused,
        "void": is_void,
        "recovery_p50_s": round(median(recovered), 2) if recovered else None,
        "recovery_max_s": round(max(recovered), 2) if recovered else None,
    }


def _intents(case: Case) -> set[tuple[str, str, int]]:
    return {
        (run, fact["command_id"], fact["attempt"])
        for run, facts in case.journals.items()
        for fact in facts
        if fact["kind"] in ISSUED
    }


def _results(case: Case) -> dict[tuple[str, str], tuple[int, int]]:
    """The attempt that answered a call, and when that was journaled."""
    return {
        (run, fact["command_id"]): (fact["attempt"], fact["at"])
        for run, facts in case.journals.items()
        for fact in facts
        if fact["kind"] in RESULTS
    }


def _bookings(case: Case) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in case.ledger:
        if entry.kind == "book" and entry.applied:
            found.setdefault(entry.run, []).append(entry)
    return found


def _named(key: tuple[str, str, int]) -> str:
    return f"attempt {key[2]} of {key[1]} of run {key[0]}"
