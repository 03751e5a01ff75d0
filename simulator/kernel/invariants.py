"""What must be true of a run, always: small named functions over its committed journal (reliability.md 3.4).

Each takes what was seen so far, the next event and the state after it, and says in one sentence what is wrong, or nothing. ``@on`` names the event kinds
that it is asked about; those about decisions and people stand in ``judgements.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.command_ids import epoch_of
from fabric.core.commands import Call
from fabric.core.envelope import Event, Row
from fabric.core.fingerprint import event_hash
from fabric.core.flow import ANSWERED, RunState
from fabric.core.frozen import replace
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run
from fabric.runtime.batch_parts import RunColumns
from simulator.kernel import (  # noqa: F401 - importing them registers their checks
    asking_checks,
    call_checks,
    cap_checks,
    child_checks,
    control_checks,
    decision_checks,
    judge_checks,
    judgements,
    layer_checks,
    loop_checks,
    pace_checks,
    people_checks,
    persona_checks,
    progress_checks,
    question_checks,
    reason_checks,
    reference_checks,
    saga_checks,
    speaker_checks,
    stop_checks,
    stream_checks,
    swap_checks,
    token_checks,
    turn_checks,
    typed_checks,
)
from simulator.kernel.clock import CLOCKS_APART_US
from simulator.kernel.seen import CHECKS, Seen, difference, on

REPLANS_MAX = 2
"""semantics.md 1: at most 2 replans a stage, whatever a fabric says."""


def judge(seen: Seen, event: Event, after: Run) -> tuple[str, str]:
    """``(invariant, what is wrong)`` of the first check that fails, or two empty strings."""
    for check in CHECKS[event.fact.kind]:
        sentence = check(seen, event, event.fact, after)
        if sentence:
            return check.__name__, sentence
    return "", ""


def chain(seen: Seen, row: Row) -> str:
    """Each row is chained to the one before it."""
    hashed = event_hash(seen.head, row.seq, row.kind, row.version, row.header, row.payload_hash)
    return "" if hashed == row.hash else "its hash does not follow from the event before it"


# -- order -------------------------------------------------------------------------------------------------------------


@on()
def dense_seq(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Events are numbered from 1 without a gap."""
    return "" if event.seq == seen.rows + 1 == after.seq else f"its seq is {event.seq}, {seen.rows + 1} is next"


@on()
def terminal_absorbs(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Nothing happens to a run that has ended."""
    return f"the run had ended as {seen.run.state}" if seen.run.terminal else ""


@on()
def time_goes_on(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No event is older than the one before it."""
    older = seen.at - event.at
    # Whoever could not read the last event of a journal goes by its own clock, which may lag behind the one that wrote it: the instant stands in that
    # event alone. A column of the run's row would tell it, and would be written with every step for the sake of a run that is put away.
    allowed = CLOCKS_APART_US if seen.unread else 0
    return f"it is {older} us older than the event before it" if older > allowed else ""


@on()
def one_batch_an_input(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What an input caused stands in the one batch that consumed it."""
    if event.input_id not in seen.given:
        return ""
    if event.input_id not in seen.consumed:
        return f"it names input {event.input_id}, which its batch does not consume"
    before = seen.caused.setdefault(event.input_id, seen.batch)
    return "" if before == seen.batch else f"input {event.input_id} was decided on before"


@on("run_started")
def started_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run starts once, with its first event, behind a quarantine of what had not started yet, or is stopped before it starts."""
    return "" if not seen.run.started_at and not seen.run.stages else "the run had started already"


@on("run_ended")
def end_has_a_reason(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Whoever reads the last event learns why, and the run ends as it was going to."""
    if not fact.reason.strip():
        return "no reason is given"
    ending = seen.run.ending
    unread = seen.damaged and seen.run.state is RunState.QUARANTINED
    if ending is not None and ending.state != fact.state and not unread:
        return f"it was going to end as {ending.state} and ended as {fact.state}"
    # A quarantined run whose journal cannot be folded is ended where it stands.
    stopped = ending is not None or fact.state in ANSWERED or seen.run.state is RunState.QUARANTINED
    return "" if stopped else f"it ended as {fact.state} without having been stopped"


@on("run_ending", "cancel_accepted")
def stops_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run that is ending does not begin to end in another way."""
    if fact.kind == "run_ending" and seen.run.ending is not None:
        return f"the run was ending already, as {seen.run.ending.state}"
    seen.stopped = True
    return ""


@on("replanned")
def replans_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """At most two replans a stage, and the epoch rises by one each time."""
    if fact.epoch != seen.run.epoch + 1:
        return f"epoch {fact.epoch} after {seen.run.epoch}"
    limit = min(REPLANS_MAX, seen.compiled.spec.policy.limits.replans_per_stage)
    used = after.replans[fact.stage]
    return f"replan {used} of stage {fact.stage}, at most {limit}" if used > limit else ""


# -- calls -------------------------------------------------------------------------------------------------------------


@on("call_issued")
def nothing_issued_too_late(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call after a cancel, while the run is ending, or after a deadline."""
    if seen.stopped or seen.run.ending is not None:
        return "the run was ending"
    end = min(seen.stage_deadline, seen.run_deadline)
    if event.at >= end:
        return f"it was issued {event.at - end} us after the deadline"
    return "" if fact.deadline_at <= end else "its deadline is after that of its stage or run"


@on("call_issued")
def attempts_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Attempts of a call follow each other under one key, none before its time, none beside another."""
    before = seen.attempts.get(fact.command_id, 0)
    if fact.attempt != before + 1:
        return f"attempt {fact.attempt} after {before}"
    if fact.command_id in seen.answered:
        return "the call had been answered"
    if before and (fact.command_id, before) not in seen.settled:
        return f"attempt {before} is still out"
    asked = f"{fact.command_id} {fact.target}"  # Another model is another request: a key of its own.
    if before and seen.keys.get(asked, fact.key) != fact.key:
        return "its idempotency key changed"
    if event.at < seen.not_before.pop(fact.command_id, 0):
        return "it was issued before its time"
    if epoch_of(fact.command_id) != seen.run.epoch:
        return f"it belongs to an epoch that is not {seen.run.epoch}"
    seen.attempts[fact.command_id], seen.keys[asked] = fact.attempt, fact.key
    seen.first_attempts += fact.attempt == 1
    return ""


@on("call_issued")
def turns_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A step stays within its turns, its corrections and the calls of one answer."""
    limits = seen.compiled.spec.policy.limits
    step = seen.run.steps[fact.step_id]
    if step.status != "active":
        return f"its step is {step.status}"
    if fact.call == "model":
        seen.calls[fact.step_id, fact.turn] = 0  # Each attempt is another answer.
    if fact.call == "tool":
        seen.calls[fact.step_id, fact.turn] += fact.attempt == 1
        many = seen.calls[fact.step_id, fact.turn]
        return f"{many} calls in a turn, at most {limits.calls_per_turn}" if many > limits.calls_per_turn else ""
    if fact.turn > limits.turns + fact.final:
        return f"turn {fact.turn}, at most {limits.turns}"
    most = limits.corrections_per_step
    return f"{step.corrections} corrections, at most {most}" if step.corrections > most else ""


@on("model_answered", "tool_answered", "input_requested", "attempt_failed", "attempt_interrupted")
def answers_what_is_out(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """One result a call, for the attempt that is out, of this epoch."""
    if fact.command_id in seen.answered:
        return "the call had been answered"
    if seen.attempts.get(fact.command_id) != fact.attempt:
        return f"attempt {seen.attempts.get(fact.command_id)} is the newest, not {fact.attempt}"
    if epoch_of(fact.command_id) != seen.run.epoch:
        return f"it belongs to epoch {epoch_of(fact.command_id)}, and {seen.run.epoch} is current"
    if fact.kind in ("model_answered", "tool_answered"):
        seen.answered.add(fact.command_id)
    return ""


@on("retry_scheduled", "node_retry_scheduled")
def retries_in_bucket(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Retries are at most twice the bucket and a share of the first attempts."""
    retry = seen.compiled.spec.policy.retry
    if fact.kind == "retry_scheduled":
        seen.not_before[fact.command_id] = fact.not_before
        if fact.source in ("breaker", "named"):  # Nobody was called, so nothing is repeated.
            return ""
    seen.retries += 1
    most = 2 * retry.bucket + retry.earn * seen.first_attempts
    if fact.delay_s > retry.cap_s:
        return f"{fact.delay_s} s is longer than the cap"
    return f"retry {seen.retries}, at most {most:g}" if seen.retries > most + 1e-9 else ""


@on("stage_entered", "step_opened", "turn_opened", "child_spawned")
def agents_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No more agents are spawned, and none more work at once, than the limits say."""
    if fact.kind in ("stage_entered", "step_opened") and fact.stage != "fan_out":
        return ""
    limits = seen.compiled.spec.policy.limits
    if fact.kind == "child_spawned":
        seen.spawned += len(fact.briefs) - 1
    elif fact.kind == "turn_opened":
        seen.spawned += int(fact.first)
    else:
        seen.spawned += len(fact.agents) if fact.kind == "stage_entered" else 1
    alive = sum(step.status == "active" and step.stage == "fan_out" for step in after.steps.values())
    alive += sum(len(child.fact.briefs) for child in after.family.alive.values() if not child.let_go)
    if seen.spawned > limits.sub_agents_spawned:
        return f"{seen.spawned} agents were spawned, at most {limits.sub_agents_spawned}"
    return f"{alive} agents are alive, at most {limits.sub_agents_alive}" if alive > limits.sub_agents_alive else ""


def may_execute(seen: Seen, command: Call, now: int) -> str:
    """Whether a call may go out: its intent is committed, it has no result, its time is not over."""
    if seen.attempts.get(command.command_id) != command.attempt:
        return "its intent is not in the journal"
    if command.command_id in seen.answered:
        return "its result is in the journal"
    return "" if now < command.deadline_at else "its deadline has passed"


# -- money -------------------------------------------------------------------------------------------------------------


ATTEMPTS = (
    *("call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted"),
    *("child_spawned", "child_answered", "input_requested"),
)
"""What reserves, and what settles."""


@on(*ATTEMPTS)
def settled_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Each reservation is settled exactly once."""
    if fact.kind in ("call_issued", "child_spawned"):
        if fact.command_id in seen.held:
            return "its earlier reservation is still held"
        seen.held[fact.command_id] = fact.reserved_usd_micros
        return ""
    billed = fact.kind in ("model_answered", "tool_answered", "input_requested", "child_answered")
    cost = fact.cost_usd_micros if billed else getattr(fact, "charged_usd_micros", 0)
    attempt = (fact.command_id, getattr(fact, "attempt", 1))
    if attempt in seen.settled:
        # A retry that is let go of before it goes out has nothing to settle.
        # And what a call that changes the world came to may be learned after its attempt was given up.
        learned = fact.kind == "tool_answered" and fact.command_id in seen.changes.intended
        return "" if (fact.kind == "call_aborted" or learned) and not cost else "its reservation had been settled"
    if fact.command_id not in seen.held:
        return "it held no reservation"
    seen.settled.add(attempt)
    seen.overrun += max(0, cost - seen.held.pop(fact.command_id))
    seen.spent += cost
    return ""


@on(*ATTEMPTS)
def budget_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What is spent and reserved is within the cap, but for what providers billed above a reservation."""
    cap = max(seen.compiled.spec.policy.budget.run_usd_micros, seen.raised)
    cap = cap if seen.cap is None else min(cap, seen.cap)
    used = seen.spent + sum(seen.held.values())
    return f"{used} micro-dollars spent and reserved, the cap is {cap}" if used > cap + seen.overrun else ""


@on(*ATTEMPTS, "replanned", "run_ended")
def ledger_agrees(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What the engine holds reserved is what is in flight, no more and no less."""
    blind = fact.kind == "run_ended" and seen.run.state is RunState.QUARANTINED
    if blind:  # Ended where it stands, without folding it: what was out, children too, is charged at worst case.
        seen.spent += sum(seen.held.values())
        seen.held.clear()
    ledger = state_of(after.guards, budget)
    out = {key: pending.issued.reserved_usd_micros for key, pending in after.pending.items() if not pending.failed}
    out |= {key: child.fact.reserved_usd_micros for key, child in after.family.alive.items() if not blind}
    if {key: one.usd_micros for key, one in ledger.reserved.items()} != out:
        return f"reserved is {sorted(ledger.reserved)}, in flight is {sorted(out)}"
    agrees = (ledger.spent_usd_micros, out) == (seen.spent, seen.held)
    return "" if agrees else f"the ledger says {ledger.spent_usd_micros} micro-dollars spent, {seen.spent} were counted"


# -- deadlines ---------------------------------------------------------------------------------------------------------


@on()
def deadlines_move_by_facts_alone(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A stage's deadline comes from its entry or from a re-issue, and from nothing else; a run's likewise."""
    if fact.kind == "run_started":
        seen.run_deadline = fact.deadline_at
    elif fact.kind == "stage_entered":
        seen.stage_deadline = fact.deadline_at
    elif fact.kind == "deadlines_reissued":
        seen.run_deadline, seen.stage_deadline = fact.run_deadline_at, fact.stage_deadline_at
    reached = after.stages.get(after.stage)
    if after.deadline_at != seen.run_deadline:
        return "the run's deadline moved"
    kept = reached is None or reached.deadline_at == seen.stage_deadline
    return "" if kept else f"the deadline of stage {after.stage} moved"


# -- after each commit, and at the end ---------------------------------------------------------------------------------


def settled(
    seen: Seen, columns: RunColumns, expected: RunColumns, open_questions: set[str], *, due: bool
) -> Iterator[tuple[str, str]]:
    """What must be true whenever a batch has committed: the tables beside the journal say what the journal says.

    ``expected``: what the journal says that the columns are. ``due``: the batch gave the run back, to be claimed again at an instant of its own.
    """
    if not seen.rows:  # Given back before it began: the row is as it was made.
        return
    if not seen.run.started_at:
        columns = replace(columns, deadline_at=0)  # It has the one that it was inserted with.
    if columns != expected:
        yield "columns_are_the_fold", f"the row says {difference(columns, expected)}"
    plain = (columns.epoch, columns.stage, columns.cost_usd_micros, columns.ended_at or 0, columns.deadline_at)
    counted = (
        seen.run.epoch,
        seen.run.stage if seen.run.started_at else "",
        seen.spent,
        seen.run.ended_at,
        seen.run_deadline,
    )
    if plain != counted:
        yield "columns_are_the_fold", f"the row says {plain}, counted were {counted}"
    if seen.run.state is RunState.CANCELLING and seen.run.pending and not due:
        yield "cancel_lets_go", f"cancelled, and {sorted(seen.run.pending)} are still waited for"
    if open_questions != set(seen.run.questions):
        yield (
            "questions_are_the_fold",
            f"open are {sorted(open_questions)}, the journal says {sorted(seen.run.questions)}",
        )
    yield from control_checks.clocks(seen.run)
    if not seen.run.terminal and seen.run.ending is None and not due and not _may_move(seen.run):
        yield "never_stranded", f"nothing can move it any more: {seen.run.state} in {seen.run.stage}"


def _may_move(run: Run) -> bool:
    saga = bool(run.saga.checks or run.saga.unwinding)
    family = bool(run.family.alive)
    return bool(run.pending or run.timers or run.questions or run.control.paused or saga or family) or run.seq == 0


def ended(seen: Seen) -> Iterator[tuple[str, str]]:
    """What must be true of a run that has ended."""
    if seen.held:
        yield "nothing_left_reserved", f"still reserved: {sorted(seen.held)}"
    if seen.billed > seen.spent:
        yield "bills_are_charged", f"the provider billed {seen.billed} micro-dollars, the run counted {seen.spent}"
    if seen.run.pending or seen.run.questions or seen.run.timers:
        yield "end_is_clean", "calls, questions or timers are left"
