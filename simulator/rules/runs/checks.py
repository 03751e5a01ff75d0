"""The rules of every run: small named functions over its committed journal (docs/specification/durability.md).

Each takes the state so far, the next event and the state after it, and returns one sentence about an error, or
nothing. ``@on`` names the event kinds of a check. ``rules/decisions/checks.py`` has the checks of decisions and people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.events.commands import Call
from fabric.core.events.envelope import Event, JournalRow
from fabric.core.mechanisms import budget, find_state
from fabric.core.state.run import Run
from fabric.core.values.command_ids import read_epoch
from fabric.core.values.fingerprint import event_hash
from fabric.core.values.flow import ANSWERED, RunState, Stage
from fabric.core.values.frozen import replace
from fabric.runtime.ports.batch_parts import RunColumns
from simulator.clockwork.clock import CLOCKS_APART_US
from simulator.rules import child_runs as child_checks
from simulator.rules.answers import checks as stream_checks
from simulator.rules.budgets import checks as cap_checks
from simulator.rules.calls import checks as reference_checks
from simulator.rules.compensations import checks as saga_checks
from simulator.rules.conversations import checks as speaker_checks
from simulator.rules.decisions import checks as judgements
from simulator.rules.facts.journals import CHECKS, WatchedRun, difference, register_check
from simulator.rules.gates import checks as judge_checks
from simulator.rules.models import checks
from simulator.rules.progress import loops as loop_checks
from simulator.rules.retries import checks as layer_checks
from simulator.rules.reviews import checks as people_checks
from simulator.rules.runs import controls as control_checks
from simulator.rules.topologies import checks as turn_checks

RULES = (
    reference_checks,
    reference_checks,
    cap_checks,
    child_checks,
    control_checks,
    judgements,
    judge_checks,
    judgements,
    layer_checks,
    loop_checks,
    cap_checks,
    people_checks,
    reference_checks,
    loop_checks,
    people_checks,
    judgements,
    reference_checks,
    saga_checks,
    speaker_checks,
    control_checks,
    stream_checks,
    checks,
    layer_checks,
    turn_checks,
    stream_checks,
)
"""Modules of rules: each registers its checks when it is imported, in this order."""

REPLANS_MAX = 2
"""Largest number of replans of a stage in any fabric (docs/specification/stages.md)."""


def judge(seen: WatchedRun, event: Event, after: Run) -> tuple[str, str]:
    """Return the name and sentence of the first check that fails, or two empty strings."""
    for check in CHECKS[event.fact.kind]:
        sentence = check(seen, event, event.fact, after)
        if sentence:
            return check.__name__, sentence
    return "", ""


def chain(seen: WatchedRun, row: JournalRow) -> str:
    """Each row is chained to the one before it."""
    hashed = event_hash(seen.head, row.seq, row.kind, row.version, row.header, row.payload_hash)
    return "" if hashed == row.hash else f"event {row.seq} {row.kind}: its hash does not follow from the row before it"


# -- order -----------------------------------------------------------------------------------------------------------


@register_check()
def dense_seq(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Events are numbered from 1 without a gap."""
    expected = seen.run.seq + 1
    return "" if event.seq == expected == after.seq else f"its seq is {event.seq}, {expected} is next"


@register_check()
def terminal_absorbs(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An ended run gets no further event."""
    return f"the run had ended as {seen.run.state}" if seen.run.terminal else ""


@register_check()
def time_goes_on(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """No event is older than the one before it."""
    older = seen.at - event.at
    # An owner that could not read the last event uses its own clock, which may lag behind the writer's. A column of the
    # run's row could keep the instant, but would be written with every step for the sake of quarantined runs.
    allowed = CLOCKS_APART_US if seen.unread else 0
    return f"it is {older} us older than the event before it" if older > allowed else ""


@register_check()
def one_batch_an_input(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """All events of an input are in the one batch that consumed it."""
    if event.input_id not in seen.given:
        return ""
    if event.input_id not in seen.consumed:
        return f"it names input {event.input_id}, which its batch does not consume"
    before = seen.caused.setdefault(event.input_id, seen.batch)
    return "" if before == seen.batch else f"input {event.input_id} was decided on before"


@register_check("run_started")
def started_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run starts once: by its first event, after a quarantine before its start, or never if stopped before."""
    return "" if not seen.run.started_at and not seen.run.stages else "the run had started already"


@register_check("run_ended")
def end_has_a_reason(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The last event has a reason, and the run ends as it was going to."""
    if not fact.reason.strip():
        return "no reason is given"
    ending = seen.run.ending
    unread = seen.damaged and seen.run.state is RunState.QUARANTINED
    if ending is not None and ending.state != fact.state and not unread:
        return f"it was going to end as {ending.state} and ended as {fact.state}"
    # A quarantined run whose journal cannot be folded ends in its present state.
    stopped = ending is not None or fact.state in ANSWERED or seen.run.state is RunState.QUARANTINED
    return "" if stopped else f"it ended as {fact.state} without having been stopped"


@register_check("run_ending", "cancel_accepted")
def stops_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run that is ending does not begin to end in another way."""
    if fact.kind == "run_ending" and seen.run.ending is not None:
        return f"the run was ending already, as {seen.run.ending.state}"
    seen.stopped = True
    return ""


@register_check("replanned")
def replans_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """At most two replans a stage, and the epoch rises by one each time."""
    if fact.epoch != seen.run.epoch + 1:
        return f"epoch {fact.epoch} after {seen.run.epoch}"
    limit = min(REPLANS_MAX, seen.compiled.spec.policy.limits.replans_per_stage)
    used = after.replans[fact.stage]
    return f"replan {used} of stage {fact.stage}, at most {limit}" if used > limit else ""


# -- calls -----------------------------------------------------------------------------------------------------------


@register_check("call_issued")
def nothing_issued_too_late(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """No call is issued after a cancel, while the run is ending, or after a deadline."""
    if seen.stopped or seen.run.ending is not None:
        return "the run was ending"
    end = min(seen.stage_deadline, seen.run_deadline)
    if event.at >= end:
        return f"it was issued {event.at - end} us after the deadline"
    return "" if fact.deadline_at <= end else "its deadline is after that of its stage or run"


@register_check("call_issued")
def attempts_in_order(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Attempts of a call follow each other under one key, none early and none at one time."""
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
    if read_epoch(fact.command_id) != seen.run.epoch:
        return f"it belongs to an epoch that is not {seen.run.epoch}"
    seen.attempts[fact.command_id], seen.keys[asked] = fact.attempt, fact.key
    seen.first_attempts += fact.attempt == 1
    return ""


@register_check("call_issued")
def turns_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A step stays within its turns, its corrections and the calls of one answer."""
    step = seen.run.steps[fact.step_id]
    limits = seen.compiled.spec.policy.of_stage(step.stage).limits
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


@register_check("model_answered", "tool_answered", "input_requested", "attempt_failed", "attempt_interrupted")
def answers_what_is_out(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call gets one result, for its open attempt, in its epoch."""
    if fact.command_id in seen.answered:
        return "the call had been answered"
    if seen.attempts.get(fact.command_id) != fact.attempt:
        return f"attempt {seen.attempts.get(fact.command_id)} is the newest, not {fact.attempt}"
    if read_epoch(fact.command_id) != seen.run.epoch:
        return f"it belongs to epoch {read_epoch(fact.command_id)}, and {seen.run.epoch} is current"
    if fact.kind in ("model_answered", "tool_answered"):
        seen.answered.add(fact.command_id)
    return ""


@register_check("retry_scheduled", "node_retry_scheduled")
def retries_in_bucket(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Retries are at most twice the bucket and a share of the first attempts."""
    about = fact.step_id if fact.kind == "node_retry_scheduled" else fact.command_id
    stage = Stage(about.partition(".")[0])
    retry = seen.compiled.spec.policy.of_stage(stage).retry
    if fact.kind == "retry_scheduled":
        seen.not_before[fact.command_id] = fact.not_before
        if fact.source in ("breaker", "named"):  # No endpoint was called, so nothing is repeated.
            return ""
    seen.retries += 1
    most = 2 * retry.bucket + retry.earn * seen.first_attempts
    if fact.delay_s > retry.cap_s:
        return f"{fact.delay_s} s is longer than the cap"
    seen.stage_retries[stage] += 1
    if retry.stage_retries is not None and seen.stage_retries[stage] > retry.stage_retries:
        return f"retry {seen.stage_retries[stage]} of stage {stage}, at most {retry.stage_retries}"
    return f"retry {seen.retries}, at most {most:g}" if seen.retries > most + 1e-9 else ""


@register_check("stage_entered", "step_opened", "turn_opened", "child_spawned")
def agents_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The number of agents spawned, and of agents at work, stays within the limits."""
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


def may_execute(seen: WatchedRun, command: Call, now: int) -> str:
    """Return why a call may not go out. Its intent is not committed, it has a result, or its time is over."""
    if seen.attempts.get(command.command_id) != command.attempt:
        return "its intent is not in the journal"
    if command.command_id in seen.answered:
        return "its result is in the journal"
    return "" if now < command.deadline_at else "its deadline has passed"


# -- money -----------------------------------------------------------------------------------------------------------


ATTEMPTS = (
    *("call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted"),
    *("child_spawned", "child_answered", "input_requested"),
)
"""Kinds of events that reserve or settle money."""


@register_check(*ATTEMPTS)
def settled_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
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
        # A retry that is dropped before it goes out has nothing to settle.
        # And the result of a changing call may be learned after its attempt was given up.
        learned = fact.kind == "tool_answered" and fact.command_id in seen.changes.intended
        return "" if (fact.kind == "call_aborted" or learned) and not cost else "its reservation had been settled"
    if fact.command_id not in seen.held:
        return "it held no reservation"
    seen.settled.add(attempt)
    seen.overrun += max(0, cost - seen.held.pop(fact.command_id))
    seen.spent += cost
    return ""


@register_check(*ATTEMPTS)
def budget_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Spent and reserved money stay within the cap, apart from bills above a reservation."""
    cap = max(seen.compiled.spec.policy.budget.run_usd_micros, seen.raised)
    cap = cap if seen.cap is None else min(cap, seen.cap)
    used = seen.spent + sum(seen.held.values())
    return f"{used} micro-dollars spent and reserved, the cap is {cap}" if used > cap + seen.overrun else ""


@register_check(*ATTEMPTS, "replanned", "run_ended")
def ledger_agrees(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The engine's reservations are exactly those of open calls."""
    blind = fact.kind == "run_ended" and seen.run.state is RunState.QUARANTINED
    if blind:  # Ended without a fold: open calls and children are charged at worst case.
        seen.spent += sum(seen.held.values())
        seen.held.clear()
    ledger = find_state(after.guards, budget)
    out = {key: pending.issued.reserved_usd_micros for key, pending in after.pending.items() if not pending.failed}
    out |= {key: child.fact.reserved_usd_micros for key, child in after.family.alive.items() if not blind}
    if {key: one.usd_micros for key, one in ledger.reserved.items()} != out:
        return f"reserved is {sorted(ledger.reserved)}, in flight is {sorted(out)}"
    agrees = (ledger.spent_usd_micros, out) == (seen.spent, seen.held)
    return "" if agrees else f"the ledger says {ledger.spent_usd_micros} micro-dollars spent, {seen.spent} were counted"


# -- deadlines -------------------------------------------------------------------------------------------------------


@register_check()
def deadlines_move_by_facts_alone(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A deadline changes only by an entry or a re-issue: a stage's, and likewise the run's."""
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


# -- after each commit, and at the end -------------------------------------------------------------------------------


def check_settled(
    seen: WatchedRun, columns: RunColumns, expected: RunColumns, open_reviews: set[str], *, due: bool
) -> Iterator[tuple[str, str]]:
    """Yield violations after a batch has committed: the tables beside the journal must agree with it.

    ``expected``: the columns by the journal. ``due``: the batch released the run, to be claimed at an instant of its
    own.
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
    if open_reviews != set(seen.run.reviews):
        yield (
            "reviews_are_the_fold",
            f"open are {sorted(open_reviews)}, the journal says {sorted(seen.run.reviews)}",
        )
    yield from control_checks.clocks(seen.run)
    if not seen.run.terminal and seen.run.ending is None and not due and not _may_move(seen.run):
        yield "never_stranded", f"nothing can move it any more: {seen.run.state} in {seen.run.stage}"


def _may_move(run: Run) -> bool:
    saga = bool(run.saga.checks or run.saga.unwinding)
    family = bool(run.family.alive)
    return bool(run.pending or run.timers or run.reviews or run.control.paused or saga or family) or run.seq == 0


def check_ended(seen: WatchedRun) -> Iterator[tuple[str, str]]:
    """Yield violations of an ended run."""
    if seen.held:
        yield "nothing_left_reserved", f"still reserved: {sorted(seen.held)}"
    if seen.billed > seen.spent:
        yield "bills_are_charged", f"the provider billed {seen.billed} micro-dollars, the run counted {seen.spent}"
    if seen.run.pending or seen.run.reviews or seen.run.timers:
        yield "end_is_clean", "calls, reviews or timers are left"
