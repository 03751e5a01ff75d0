"""Damaged journals, snapshots, announced answers and newer programs: what befalls them, and what must be true of them.

Damage is done to what a claim brings, not to the store: so the next claim finds the journal whole, and a run that was let go of must go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from fabric.core.envelope import Event
from fabric.core.flow import FORMAT, RunState
from fabric.core.frozen import replace
from fabric.core.inputs import INBOX, DecisionMade, InboxInput, latest
from fabric.core.run import Run
from fabric.runtime.batch_parts import Snapshot
from fabric.runtime.happenings import Effect, Quarantine
from fabric.runtime.loading import Damage
from fabric.runtime.ports import Batch, Claimed, StoredRow
from fabric.runtime.quarantine import verdict
from fabric.runtime.snapshots import Cadence, UnsoundSnapshot, restored
from fabric.runtime.suspects import is_suspect, together
from simulator.kernel.clock import US
from simulator.kernel.seen import Seen, difference, on, same_state

if TYPE_CHECKING:
    from simulator.kernel.swarm import Setup
    from simulator.kernel.world import World

CADENCES = (Cadence(), Cadence(on_release=1, while_owned=9), Cadence(on_release=5, while_owned=40))
"""How often a seed's processes take snapshots: in some as the product does, in the others so often that short runs have them."""
NOTICE_US = 6 * US
"""How long an answer may be on its way before its run's owner has seen it: a sweep, and a store that is away for a while."""


def cadence(seed: int) -> Cadence:
    """The cadence of a seed."""
    return CADENCES[seed % len(CADENCES)]


# -- damage ------------------------------------------------------------------------------------------------------------


def damaged(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    """The claim with one thing wrong with it, and what its damage is to be called; an empty name: nothing could be damaged."""
    ways = [way for way in WAYS if way is not _snapshot_changed or claimed.snapshot is not None]
    if not claimed.rows:
        ways = [way for way in ways if way is _snapshot_changed]
    return rng.choice(ways)(rng, claimed) if ways else (claimed, "")


def _gap(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    at = rng.randrange(len(claimed.rows))
    rows = (*claimed.rows[:at], *claimed.rows[at + 1 :])
    return replace(claimed, rows=rows), "tail" if at == len(rows) else "gap"


def _tail(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    return replace(claimed, rows=claimed.rows[: rng.randrange(len(claimed.rows))]), "tail"


def _header_changed(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    row = rng.choice(claimed.rows)
    return _with(claimed, replace(row, header=_flipped(rng, row.header))), "changed"


def _hash_changed(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    row = rng.choice(claimed.rows)
    return _with(claimed, replace(row, hash=_flipped(rng, row.hash))), "changed"


def _version_changed(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    row = rng.choice(claimed.rows)
    return _with(claimed, replace(row, version=row.version + 7)), "changed"


def _payload_changed(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    rows = [row for row in claimed.rows if row.payload]
    if not rows:
        return claimed, ""
    row = rng.choice(rows)
    return _with(claimed, replace(row, payload=_flipped(rng, row.payload or b""))), "payload"


def _snapshot_changed(rng: Random, claimed: Claimed) -> tuple[Claimed, str]:
    assert claimed.snapshot is not None
    state = _flipped(rng, claimed.snapshot.state)
    return replace(claimed, snapshot=replace(claimed.snapshot, state=state)), ""


WAYS = (_gap, _tail, _header_changed, _hash_changed, _version_changed, _payload_changed, _snapshot_changed)


def _flipped(rng: Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]


def _with(claimed: Claimed, changed: StoredRow) -> Claimed:
    return replace(claimed, rows=tuple(changed if row.seq == changed.seq else row for row in claimed.rows))


def named(expected: str, effects: Sequence[Effect]) -> str:
    """A damaged journal leads to its name and to nothing else: no batch, no call. What is wrong, or nothing."""
    found = [effect for effect in effects if isinstance(effect, Quarantine)]
    if len(effects) != 1 or len(found) != 1:
        return f"the journal was damaged ({expected}), and the driver asked for {[type(effect).__name__ for effect in effects]}"
    what = found[0].damage.what
    if what != expected:
        return f"the journal was damaged ({expected}), and that was called {what}: {found[0].damage.sentence}"
    return "" if found[0].damage.sentence.strip() else f"damage {what} has no sentence"


# -- snapshots ---------------------------------------------------------------------------------------------------------


def snapshot_is_the_fold(run: Run, snapshot: Snapshot) -> str:
    """A snapshot holds what the journal folds to, byte for byte. ``run``: the fold at the snapshot's event."""
    try:
        kept, _ = restored(snapshot)
    except UnsoundSnapshot as error:
        return str(error)
    return "" if same_state(kept, run) else f"at event {run.seq}: {difference(kept, run)}"


# -- announced answers -------------------------------------------------------------------------------------------------


@on("escalation_decided")
def no_expiry_over_an_answer(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Nobody's silence is assumed while an answer waits for the end of its undo window."""
    if not fact.system:
        return ""
    due_at = seen.run.questions[fact.escalation_id].fact.due_at
    for input_id, at in seen.answers.get(fact.escalation_id, {}).items():
        if at < due_at and input_id not in seen.consumed and event.at - at > NOTICE_US:
            return f"input {input_id} had been there for {(event.at - at) / US:.1f} s"
    return ""


def answered(seen: Seen, given: InboxInput, now: int) -> None:
    """Somebody inserts an answer."""
    if isinstance(given, DecisionMade):
        seen.answers.setdefault(given.escalation_id, {}).setdefault(given.input_id, now)


def withdrawn(seen: Seen, input_id: str) -> None:
    """Somebody takes an answer back."""
    seen.withdrawn.add(input_id)
    for waiting in seen.answers.values():
        waiting.pop(input_id, None)


@on("input_ignored")
def nothing_given_is_lost(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What somebody gave is read, by this program or by a newer one."""
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
            "escalation_reminded",
            "late_result_ignored",
        ),
        *("turn_opened", "turn_overdue"),
        *("mutation_intended", "reconciliation_issued", "reconciliation_failed", "compensation_issued"),
        *("compensation_interrupted", "child_let_go", "call_edited", "call_resolved", "call_skipped", "call_responded"),
        *("call_streamed", "input_given"),
    }
)
"""What an owner that gets nowhere may write again and again."""


def claims_counted(seen: Seen, claimed: Claimed) -> str:
    """Claims without progress add up, whatever their owners wrote of themselves."""
    seen.claims += 1
    return "" if claimed.claims == seen.claims else f"its row says {claimed.claims} claims, {seen.claims} were counted"


def suspects_apart(seen: Seen, held: Iterable[Seen]) -> str:
    """Nobody is owned with more suspects than its claims without progress allow, the last time before it would be put away with none."""
    if not is_suspect(seen.claims - 1):
        return ""
    claims = [one.claims - 1 for one in held if one.heard == seen.heard and is_suspect(one.claims - 1)]
    most = min(map(together, claims), default=1)
    return "" if len(claims) <= most else f"{seen.heard} has {len(claims)} suspects, at most {most}"


def put_away_in_time(seen: Seen, batch: Batch) -> str:
    """A run that was claimed too often without progress is not driven."""
    most = seen.compiled.spec.policy.limits.claims_without_progress
    held = seen.run.state is RunState.QUARANTINED or not batch.rows or batch.rows[0].kind == "run_quarantined"
    count, moves = seen.claims, any(row.kind not in TAKEOVER for row in batch.rows)
    seen.claims = 0 if moves else count
    return "" if held or count <= most else f"it was driven after {count} claims without progress, at most {most}"


@on("run_quarantined")
def says_why(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A quarantine has its reason: damage, or more claims without progress than the policy lets a run have."""
    seen.damaged = bool(fact.damage)
    most = seen.compiled.spec.policy.limits.claims_without_progress
    return "" if fact.damage or fact.claims > most else f"{fact.claims} claims without progress, at most {most}"


# -- caps --------------------------------------------------------------------------------------------------------------


@on("call_issued")
def within_the_caps(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call is issued past a cap of its run; of its events the last tenth is kept for its end."""
    limits = seen.compiled.spec.policy.limits
    if event.seq > limits.run_events * 9 // 10:
        return f"it is event {event.seq} of at most {limits.run_events}"
    if len(after.pending) > limits.pending_calls:
        return f"{len(after.pending)} calls are pending, at most {limits.pending_calls}"
    over = seen.payload >= limits.run_payload_bytes
    return f"the run has {seen.payload} bytes of payload, at most {limits.run_payload_bytes}" if over else ""


@on()
def payload_is_counted(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run knows the bytes of its contents."""
    seen.payload += event.content_bytes
    return "" if after.content_bytes == seen.payload else f"it says {after.content_bytes} bytes, {seen.payload} came"


@on("model_answered", "tool_answered")
def one_content_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No answer is kept that is larger than one may be; what is around it in the journal is the engine's own."""
    most = seen.compiled.spec.policy.limits.content_bytes + 2_000
    return f"it has {event.content_bytes} bytes, at most {most}" if event.content_bytes > most else ""


# -- newer programs ----------------------------------------------------------------------------------------------------

NEXT = FORMAT + 1


def next_body(given: InboxInput) -> bytes:
    """An input as the next version of the program would write it: of a version that this one does not know."""
    body = json.loads(INBOX.dump_json(given))
    return json.dumps({**body, "version": body["version"] + 1}).encode()


def away(claimed: Claimed, now: int, damage: Damage, program: dict[str, Any]) -> Batch:
    """What puts a damaged run away."""
    batch = verdict(claimed, now, damage=damage.sentence.rstrip("."), **program)
    assert batch is not None
    return batch


def program(newer: bool) -> dict[str, Any]:
    """How a driver of this program, or of the next, differs from the default."""
    return {"reads": next_reads, "format": NEXT} if newer else {}


def next_reads(raw: bytes) -> InboxInput:
    """What the next version of the program makes of an inbox row, its own or one of this program's."""
    body = json.loads(raw)
    known = _LATEST[body["kind"]]
    return INBOX.validate_json(json.dumps({**body, "version": min(body["version"], known)}).encode())


_LATEST = {cls.__dataclass_fields__["kind"].default: latest(cls) for cls in get_args(InboxInput)}


def mixed(setup: Setup) -> bool:
    """Whether a seed's fleet runs two versions of the program."""
    return setup.processes > 1 and setup.seed % 4 == 3


def as_sent(world: World, given: InboxInput) -> tuple[bytes, int]:
    """The body and format of an inbox row: in a mixed fleet some are the next version's, and of those some do not say so."""
    if not world.mixed or world.rng.random() < 0.7:
        return INBOX.dump_json(given), INBOX.format_of(given)
    world.sometimes["newer_input"] += 1
    return next_body(given), NEXT if world.rng.random() < 0.5 else 1
