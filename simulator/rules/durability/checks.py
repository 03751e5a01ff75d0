"""Damages journals, snapshots and announced answers, mixes program versions, and checks the consequences.

Damage is done to the contents of a claim, not to the store. So the next claim finds the journal whole, and a released
run must continue. Planted bugs are about claimed, quarantined, paused, resumed and compensated runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, get_args

from fabric.core import events as ev
from fabric.core import evolve, handlers
from fabric.core.calls import issue as calls
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import INBOX, DecisionMade, InboxInput, TerminateRequested, latest
from fabric.core.reactions import react as reactions
from fabric.core.reactions import unwinding
from fabric.core.sagas import mutations
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.flow import FORMAT, RunState
from fabric.core.values.frozen import replace
from fabric.core.values.saga import Mutation, Outcome, Status, undo_order
from fabric.core.values.units import US
from fabric.runtime import arrivals, driver
from fabric.runtime.arrivals import Arrivals
from fabric.runtime.happenings import Quarantine
from fabric.runtime.hosting import machine
from fabric.runtime.hosting.machine import HostEffect
from fabric.runtime.hosting.release import Orphans
from fabric.runtime.journal import progress
from fabric.runtime.journal.snapshots import Cadence, UnsoundSnapshot, restore_run
from fabric.runtime.ports.batch_parts import Snapshot
from fabric.runtime.ports.journal import Batch, ClaimedRun, StoredRow
from fabric.runtime.quarantine.verdicts import SUSPECTS_MAX, is_suspect
from simulator.clockwork.clock import SeenWorld
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, difference, register_check, same_state
from simulator.stores.memory import journal as memory_store

CADENCES = (Cadence(), Cadence(on_release=1, while_owned=9), Cadence(on_release=5, while_owned=40))
"""Intervals of a seed's snapshots: the product's, or short ones, so that short runs have snapshots too."""
NOTICE_US = 6 * US
"""Longest time for which an answer may be unknown to its run's owner. It covers a sweep, and an absence of
the store.
"""


def cadence(seed: int) -> Cadence:
    """Return a seed's intervals of snapshots."""
    return CADENCES[seed % len(CADENCES)]


# -- damage ----------------------------------------------------------------------------------------------------------


def damage_claim(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    """Return the claim with one defect, and the name of its damage; empty if nothing could be damaged."""
    ways = [way for way in WAYS if way is not _snapshot_changed or claimed.snapshot is not None]
    if not claimed.rows:
        ways = [way for way in ways if way is _snapshot_changed]
    return rng.choice(ways)(rng, claimed) if ways else (claimed, "")


def _gap(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    at = rng.randrange(len(claimed.rows))
    rows = (*claimed.rows[:at], *claimed.rows[at + 1 :])
    return replace(claimed, rows=rows), "tail" if at == len(rows) else "gap"


def _tail(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    return replace(claimed, rows=claimed.rows[: rng.randrange(len(claimed.rows))]), "tail"


def _header_changed(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    row = rng.choice(claimed.rows)
    return _replace_row(claimed, replace(row, header=_flip_bit(rng, row.header))), "changed"


def _hash_changed(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    row = rng.choice(claimed.rows)
    return _replace_row(claimed, replace(row, hash=_flip_bit(rng, row.hash))), "changed"


def _version_changed(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    row = rng.choice(claimed.rows)
    return _replace_row(claimed, replace(row, version=row.version + 7)), "changed"


def _payload_changed(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    rows = [row for row in claimed.rows if row.payload]
    if not rows:
        return claimed, ""
    row = rng.choice(rows)
    return _replace_row(claimed, replace(row, payload=_flip_bit(rng, row.payload or b""))), "payload"


def _snapshot_changed(rng: Random, claimed: ClaimedRun) -> tuple[ClaimedRun, str]:
    assert claimed.snapshot is not None
    state = _flip_bit(rng, claimed.snapshot.state)
    return replace(claimed, snapshot=replace(claimed.snapshot, state=state)), ""


WAYS = (_gap, _tail, _header_changed, _hash_changed, _version_changed, _payload_changed, _snapshot_changed)


def _flip_bit(rng: Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]


def _replace_row(claimed: ClaimedRun, changed: StoredRow) -> ClaimedRun:
    return replace(claimed, rows=tuple(changed if row.seq == changed.seq else row for row in claimed.rows))


def check_damage_named(expected: str, effects: Sequence[HostEffect]) -> str:
    """Return an error unless a damaged journal leads only to a quarantine with its damage, without batches or calls."""
    found = [effect for effect in effects if isinstance(effect, Quarantine)]
    if len(effects) != 1 or len(found) != 1:
        return f"the journal was damaged ({expected}), and the driver asked for {[type(effect).__name__ for effect in effects]}"
    what = found[0].damage.what
    if what != expected:
        return f"the journal was damaged ({expected}), and that was called {what}: {found[0].damage.sentence}"
    return "" if found[0].damage.sentence.strip() else f"damage {what} has no sentence"


# -- snapshots -------------------------------------------------------------------------------------------------------


def snapshot_is_the_fold(run: Run, snapshot: Snapshot) -> str:
    """Return an error unless a snapshot equals the fold of the journal. ``run``: the fold at the snapshot's event."""
    try:
        kept, _ = restore_run(snapshot)
    except UnsoundSnapshot as error:
        return str(error)
    return "" if same_state(kept, run) else f"at event {run.seq}: {difference(kept, run)}"


# -- announced answers -----------------------------------------------------------------------------------------------


@register_check("review_decided")
def no_expiry_over_an_answer(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A review does not expire while an answer waits for the end of its undo window."""
    if not fact.system:
        return ""
    due_at = seen.run.reviews[fact.review_id].fact.due_at
    for input_id, at in seen.answers.get(fact.review_id, {}).items():
        if at < due_at and input_id not in seen.consumed and event.at - at > NOTICE_US:
            return f"input {input_id} had been there for {(event.at - at) / US:.1f} s"
    return ""


def record_answer(seen: WatchedRun, given: InboxInput, now: int) -> None:
    """Record an inserted answer."""
    if isinstance(given, DecisionMade):
        seen.answers.setdefault(given.review_id, {}).setdefault(given.input_id, now)


def record_withdrawal(seen: WatchedRun, input_id: str) -> None:
    """Record a withdrawn answer."""
    seen.withdrawn.add(input_id)
    for waiting in seen.answers.values():
        waiting.pop(input_id, None)


@register_check("input_ignored")
def nothing_given_is_lost(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Every given input is read, by this program or by a newer one."""
    lost = fact.input_kind in ("unreadable", "unknown") and event.input_id in seen.given
    return f"input {event.input_id} was thrown away: {fact.reason}" if lost else ""


TAKEOVER = frozenset(
    {
        *("ownership_taken", "policy_taken_up", "attempt_interrupted", "call_issued", "call_aborted"),
        *("call_deduplicated", "step_opened"),
        *(
            "retry_scheduled",
            "node_retry_scheduled",
            "deadlines_suspended",
            "deadlines_reissued",
            "review_reminded",
            "late_result_ignored",
        ),
        *("turn_opened", "turn_overdue"),
        *("mutation_intended", "reconciliation_issued", "reconciliation_failed", "compensation_issued"),
        *("compensation_interrupted", "child_let_go", "call_edited", "call_resolved", "call_skipped", "call_responded"),
        *("call_streamed", "input_given"),
    }
)
"""Events that an owner without progress may write again and again."""


def claims_counted(seen: WatchedRun, claimed: ClaimedRun) -> str:
    """Claims without progress add up, even though each owner writes events about itself."""
    seen.claims += 1
    return "" if claimed.claims == seen.claims else f"its row says {claimed.claims} claims, {seen.claims} were counted"


def suspects_apart(seen: WatchedRun, held: Iterable[WatchedRun]) -> str:
    """Return a sentence where a worker owns more suspects than one; else an empty text."""
    if not is_suspect(seen.claims - 1):
        return ""
    count = sum(one.heard == seen.heard and is_suspect(one.claims - 1) for one in held)
    return "" if count <= SUSPECTS_MAX else f"{seen.heard} has {count} suspects, at most {SUSPECTS_MAX}"


def put_away_in_time(seen: WatchedRun, batch: Batch) -> str:
    """A run with too many claims without progress is not driven."""
    most = seen.compiled.spec.policy.limits.claims_without_progress
    held = seen.run.state is RunState.QUARANTINED or not batch.rows or batch.rows[0].kind == "run_quarantined"
    count, moves = seen.claims, any(row.kind not in TAKEOVER for row in batch.rows)
    seen.claims = 0 if moves else count
    return "" if held or count <= most else f"it was driven after {count} claims without progress, at most {most}"


@register_check("run_quarantined")
def says_why(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A quarantine has its reason: damage, or more claims without progress than the policy allows."""
    seen.damaged = bool(fact.damage)
    most = seen.compiled.spec.policy.limits.claims_without_progress
    return "" if fact.damage or fact.claims > most else f"{fact.claims} claims without progress, at most {most}"


# -- caps ------------------------------------------------------------------------------------------------------------


@register_check("call_issued")
def within_the_caps(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Calls are issued only within the caps of the run. The last tenth of its events is reserved for its end."""
    limits = seen.compiled.spec.policy.limits
    if event.seq > limits.run_events * 9 // 10:
        return f"it is event {event.seq} of at most {limits.run_events}"
    if len(after.pending) > limits.pending_calls:
        return f"{len(after.pending)} calls are pending, at most {limits.pending_calls}"
    over = seen.payload >= limits.run_payload_bytes
    return f"the run has {seen.payload} bytes of payload, at most {limits.run_payload_bytes}" if over else ""


@register_check()
def payload_is_counted(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run's count of content bytes is right."""
    seen.payload += event.content_bytes
    return "" if after.content_bytes == seen.payload else f"it says {after.content_bytes} bytes, {seen.payload} came"


@register_check("model_answered", "tool_answered")
def one_content_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Each kept content is within its limit, apart from the engine's own parts."""
    most = seen.compiled.spec.policy.limits.content_bytes + 2_000
    return f"it has {event.content_bytes} bytes, at most {most}" if event.content_bytes > most else ""


# -- newer programs --------------------------------------------------------------------------------------------------

NEXT = FORMAT + 1


def next_body(given: InboxInput) -> bytes:
    """Return an input as the next version of the program writes it: in a format unknown to this one."""
    body = json.loads(INBOX.dump_json(given))
    return json.dumps({**body, "version": body["version"] + 1}).encode()


def program(newer: bool) -> dict[str, Any]:
    """Return the driver's options for this program, or for the next version."""
    return {"reads": next_reads, "format": NEXT} if newer else {}


def next_reads(raw: bytes) -> InboxInput:
    """Return an inbox row as the next version of the program reads it."""
    body = json.loads(raw)
    known = _LATEST[body["kind"]]
    return INBOX.validate_json(json.dumps({**body, "version": min(body["version"], known)}).encode())


_LATEST = {cls.__dataclass_fields__["kind"].default: latest(cls) for cls in get_args(InboxInput)}


def is_mixed(processes: int, seed: int) -> bool:
    """Return True if a seed's fleet runs two versions of the program."""
    return processes > 1 and seed % 4 == 3


def as_sent(world: SeenWorld, given: InboxInput) -> tuple[bytes, int]:
    """Return body and format of an inbox row. In a mixed fleet some are the next version's, and some hide it."""
    if not world.mixed or world.rng.random() < 0.7:
        return INBOX.dump_json(given), INBOX.format_of(given)
    world.sometimes["newer_input"] += 1
    return next_body(given), NEXT if world.rng.random() < 0.5 else 1


# -- owned, put away ---------------------------------------------------------------------------------------------------


def _orphan_not_reclaimed() -> AbstractContextManager[None]:
    return planting.attribute(Orphans, "due", lambda self, now: ())


def _progress_counts_takeover() -> AbstractContextManager[None]:
    return planting.entry(progress.PROGRESS, "ownership_taken", True)


def _quarantine_never() -> AbstractContextManager[None]:
    judged = vars(machine)["verdict"]

    def lenient(claimed: ClaimedRun, now: int, **about: Any) -> Batch | None:
        found: Batch | None = judged(replace(claimed, claims=0), now, **about)
        return found

    return planting.attribute(machine, "verdict", lenient)


def _suspects_together() -> AbstractContextManager[None]:
    return planting.attribute(memory_store, "count_admitted", lambda owned: sys.maxsize)


def _newer_input_discarded() -> AbstractContextManager[None]:
    return planting.attribute(arrivals, "NewerInput", type("Never", (ValueError,), {}))


def _stale_snapshot() -> AbstractContextManager[None]:
    taken, earlier = vars(driver)["build_snapshot"], dict[str, Run]()

    def stale(run: Run, head: bytes, contents: Contents, *, sources: bool = False) -> Snapshot:
        before, earlier[run.id] = earlier.get(run.id, run), run
        found: Snapshot = taken(replace(before, seq=run.seq), head, contents, sources=sources)
        return found

    return planting.attribute(driver, "build_snapshot", stale)


# -- held, ended, answered ---------------------------------------------------------------------------------------------


def _pause_issues() -> AbstractContextManager[None]:
    return planting.attribute(Work, "held", property(lambda self: self.ctx.draining))


def _terminate_cancels() -> AbstractContextManager[None]:
    def terminate_at_once(work: Work, given: TerminateRequested) -> None:
        work.emit(ev.TerminateAccepted(actor=given.actor, reason=given.reason))
        calls.let_go_all(work, "terminated")
        if work.run.ending is None:
            reactions.end(work, RunState.CANCELLED, "cancel", f"terminated by {given.actor}")

    return planting.entry(handlers.HANDLERS, TerminateRequested, terminate_at_once)


def _expiry_over_answer() -> AbstractContextManager[None]:
    return planting.attribute(Arrivals, "answers", lambda self: frozenset())


# -- undone ------------------------------------------------------------------------------------------------------------


def _refusal_settles_doubt() -> AbstractContextManager[None]:
    def believe_outcome(mutation: Mutation | None, outcome: Outcome) -> Outcome:
        return outcome

    return planting.attribute(mutations, "outcome_for_key", believe_outcome)


def _compensation_twice() -> AbstractContextManager[None]:
    answered = evolve.EVOLVE["compensation_answered"]

    def forgets(run: Run, event: Event, fact: Any) -> Run:
        after = answered(run, event, fact)
        before = run.saga.unwinding
        assert after.saga.unwinding is not None
        assert before is not None
        again = before.left if event.seq % 2 else after.saga.unwinding.left
        return replace(after, saga=replace(after.saga, unwinding=replace(after.saga.unwinding, left=again)))

    return planting.entry(evolve.EVOLVE, "compensation_answered", forgets)


def _compensation_missed() -> AbstractContextManager[None]:
    def all_but_the_oldest(given: Iterable[Mutation], *, replan: bool) -> Sequence[str]:
        known = [one for one in given if one.status is not Status.UNDONE]
        return undo_order(known, replan=replan)[: max(1, len(known) - 1)]

    return planting.attribute(unwinding, "undo_order", all_but_the_oldest)


DURABLE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "withdrawn_stays": nullcontext,
    "orphan_not_reclaimed": _orphan_not_reclaimed,
    "progress_counts_takeover": _progress_counts_takeover,
    "quarantine_never": _quarantine_never,
    "suspects_together": _suspects_together,
    "newer_input_discarded": _newer_input_discarded,
    "stale_snapshot": _stale_snapshot,
    "pause_issues": _pause_issues,
    "terminate_cancels": _terminate_cancels,
    "expiry_over_answer": _expiry_over_answer,
    "refusal_settles_doubt": _refusal_settles_doubt,
    "compensation_twice": _compensation_twice,
    "compensation_missed": _compensation_missed,
}
"""Plants by name."""
