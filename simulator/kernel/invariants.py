"""What must be true of a run, always: small named functions over its committed journal (reliability.md 3.4).

Each takes what was seen so far, the next event and the state after it, and says in one sentence what is wrong, or nothing. ``@on`` names the event kinds
that it is asked about. The sums are kept here anew, from the facts alone: an invariant that asked the engine's own ledgers would believe them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fabric.core.commands import Call
from fabric.core.context import Compiled
from fabric.core.decision_table import GRAVITY, Reaction
from fabric.core.envelope import KINDS, Event, Row
from fabric.core.fingerprint import ZERO_HASH, event_hash
from fabric.core.mechanisms import budget
from fabric.core.run import Pending, Run, rung_key
from fabric.core.taxonomy import CLASSIFY, Direct
from fabric.runtime import projection
from fabric.runtime.ports import RunColumns

REPLANS_MAX = 2
"""semantics.md 1: at most 2 replans a stage, whatever a fabric says."""
POST_ORDER, PRE_ORDER = ("schema", "policy", "invariants", "grounding"), ("schema", "policy", "budget", "artifacts")


@dataclass(slots=True)
class Seen:
    """One run as its committed journal shows it, and what was counted on the way."""

    run_id: str
    compiled: Compiled
    run: Run
    head: bytes = ZERO_HASH
    rows: int = 0
    at: int = 0
    fence: int = 0
    owner: str = ""
    consumed: set[str] = field(default_factory=set)
    attempts: dict[str, int] = field(default_factory=dict)
    """The newest attempt of each call."""
    keys: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Micro-dollars reserved by each call in flight."""
    settled: set[tuple[str, int]] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    not_before: dict[str, int] = field(default_factory=dict)
    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Tool calls issued, by step and turn."""
    spent: int = 0
    overrun: int = 0
    billed: int = 0
    """What the provider billed for calls that this run's owners sent."""
    first_attempts: int = 0
    retries: int = 0
    spawned: int = 0
    stage_deadline: int = 0
    run_deadline: int = 0
    stopped: bool = False
    skipped: list[tuple[str, int]] = field(default_factory=list)
    """Rungs skipped since the last event of another kind."""

    def take(self, event: Event, after: Run, hashed: bytes) -> None:
        """Goes on to the next event."""
        self.run, self.head, self.rows, self.at = after, hashed, self.rows + 1, event.at


Check = Callable[[Seen, Event, Any, Run], str]
_CHECKS: dict[str, list[Check]] = {kind: [] for kind in KINDS}


def on(*kinds: str) -> Callable[[Check], Check]:
    """Registers a check for those kinds of event; without any, for all."""

    def register(check: Check) -> Check:
        for kind in kinds or KINDS:
            _CHECKS[kind].append(check)
        return check

    return register


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
    return "" if event.seq == seen.rows + 1 == after.seq else f"its seq is {event.seq}, {seen.rows + 1} is next"


@on()
def terminal_absorbs(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    return f"the run had ended as {seen.run.state}" if seen.run.terminal else ""


@on()
def time_goes_on(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    return "" if event.at >= seen.at else f"it is {seen.at - event.at} us older than the event before it"


@on("run_started")
def started_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    return "" if event.seq == 1 else "the run had started already"


@on("run_ended")
def end_has_a_reason(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if not fact.reason.strip():
        return "no reason is given"
    ending = seen.run.ending
    if ending is not None and ending.state != fact.state:
        return f"it was going to end as {ending.state} and ended as {fact.state}"
    return "" if ending is not None or fact.state == "completed" else f"it ended as {fact.state} without having been stopped"


@on("run_ending", "cancel_accepted")
def stops_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if fact.kind == "run_ending" and seen.run.ending is not None:
        return f"the run was ending already, as {seen.run.ending.state}"
    seen.stopped = True
    return ""


@on("replanned")
def replans_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if fact.epoch != seen.run.epoch + 1:
        return f"epoch {fact.epoch} after {seen.run.epoch}"
    limit = min(REPLANS_MAX, seen.compiled.spec.policy.limits.replans_per_stage)
    return f"replan {after.replans[fact.stage]} of stage {fact.stage}, at most {limit}" if after.replans[fact.stage] > limit else ""


# -- calls -------------------------------------------------------------------------------------------------------------


def epoch_of(command_id: str) -> int:
    """The epoch in a command's name."""
    return int(command_id.split(".")[2][1:])


@on("call_issued")
def nothing_issued_too_late(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if seen.stopped or seen.run.ending is not None:
        return "the run was ending"
    end = min(seen.stage_deadline, seen.run_deadline)
    if event.at >= end:
        return f"it was issued {event.at - end} us after the deadline"
    return "" if fact.deadline_at <= end else "its deadline is after that of its stage or run"


@on("call_issued")
def attempts_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    before = seen.attempts.get(fact.command_id, 0)
    if fact.attempt != before + 1:
        return f"attempt {fact.attempt} after {before}"
    if fact.command_id in seen.answered:
        return "the call had been answered"
    if before and (fact.command_id, before) not in seen.settled:
        return f"attempt {before} is still out"
    if before and seen.keys[fact.command_id] != fact.key:
        return "its idempotency key changed"
    if event.at < seen.not_before.pop(fact.command_id, 0):
        return "it was issued before its time"
    if epoch_of(fact.command_id) != seen.run.epoch:
        return f"it belongs to an epoch that is not {seen.run.epoch}"
    seen.attempts[fact.command_id], seen.keys[fact.command_id] = fact.attempt, fact.key
    seen.first_attempts += fact.attempt == 1
    return ""


@on("call_issued")
def turns_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    limits = seen.compiled.spec.policy.limits
    step = seen.run.steps[fact.step_id]
    if step.status != "active":
        return f"its step is {step.status}"
    if fact.call == "tool":
        seen.calls[fact.step_id, fact.turn] += fact.attempt == 1
        many = seen.calls[fact.step_id, fact.turn]
        return f"{many} calls in a turn, at most {limits.calls_per_turn}" if many > limits.calls_per_turn else ""
    if fact.turn > limits.turns + fact.final:
        return f"turn {fact.turn}, at most {limits.turns}"
    return f"{step.corrections} corrections, at most {limits.corrections_per_step}" if step.corrections > limits.corrections_per_step else ""


@on("model_answered", "tool_answered", "attempt_failed", "attempt_interrupted")
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


@on("retry_scheduled")
def retries_in_bucket(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    retry = seen.compiled.spec.policy.retry
    seen.retries += 1
    seen.not_before[fact.command_id] = fact.not_before
    most = 2 * retry.bucket + retry.earn * seen.first_attempts
    if fact.delay_s > retry.cap_s:
        return f"{fact.delay_s} s is longer than the cap"
    return f"retry {seen.retries}, at most {most:g}" if seen.retries > most + 1e-9 else ""


@on("stage_entered", "step_opened")
def agents_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if fact.stage != "fan_out":
        return ""
    limits = seen.compiled.spec.policy.limits
    seen.spawned += len(fact.agents) if fact.kind == "stage_entered" else 1
    alive = sum(step.status == "active" and step.stage == "fan_out" for step in after.steps.values())
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


@on("call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted")
def settled_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Each reservation is settled exactly once."""
    if fact.kind == "call_issued":
        if fact.command_id in seen.held:
            return "its earlier reservation is still held"
        seen.held[fact.command_id] = fact.reserved_usd_micros
        return ""
    cost = fact.cost_usd_micros if fact.kind == "model_answered" else getattr(fact, "charged_usd_micros", 0)
    attempt = (fact.command_id, fact.attempt)
    if attempt in seen.settled:
        # A retry that is let go of before it goes out has nothing to settle.
        return "" if fact.kind == "call_aborted" and not cost else "its reservation had been settled"
    if fact.command_id not in seen.held:
        return "it held no reservation"
    seen.settled.add(attempt)
    seen.overrun += max(0, cost - seen.held.pop(fact.command_id))
    seen.spent += cost
    return ""


@on("call_issued", "model_answered", "attempt_failed", "attempt_interrupted", "call_aborted")
def budget_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    cap = seen.compiled.spec.policy.budget.run_usd_micros
    used = seen.spent + sum(seen.held.values())
    return f"{used} micro-dollars spent and reserved, the cap is {cap}" if used > cap + seen.overrun else ""


@on("call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted", "replanned", "run_ended")
def ledger_agrees(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What the engine holds reserved is what is in flight, no more and no less."""
    ledger = after.guards.get(budget.NAME) or budget.State()
    out = {key: pending.issued.reserved_usd_micros for key, pending in after.pending.items() if not pending.failed}
    if {key: one.usd_micros for key, one in ledger.reserved.items()} != out:
        return f"reserved is {sorted(ledger.reserved)}, in flight is {sorted(out)}"
    return "" if (ledger.spent_usd_micros, out) == (seen.spent, seen.held) else f"spent {ledger.spent_usd_micros}, counted {seen.spent}"


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
    return "" if reached is None or reached.deadline_at == seen.stage_deadline else f"the deadline of stage {after.stage} moved"


# -- decisions ---------------------------------------------------------------------------------------------------------


@on("rung_skipped")
def skips_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    seen.skipped.append((fact.failure_type, fact.rung))
    return "" if fact.reason else "no reason is given"


@on("reaction_decided")
def decision_follows(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """The decision is derived again from the table, the cause and what was spent before."""
    skipped, seen.skipped = seen.skipped, []
    goes_to = CLASSIFY[fact.cause.cause].goes_to
    if isinstance(goes_to, Direct):
        return "" if fact.failure_type is None else f"{fact.cause.cause} has no row"
    if goes_to != fact.failure_type:
        return f"{fact.cause.cause} belongs to {goes_to}"
    rungs = seen.compiled.table[goes_to, seen.run.tier].rungs
    rung = rungs[fact.rung]
    spent = seen.run.spent_rungs.get(rung_key(fact.failure_type, fact.rung, fact.scope), 0)
    if (fact.spent, fact.bound) != (spent, rung.times):
        return f"{fact.spent} of {fact.bound} uses; the journal says {spent} of {rung.times}"
    if fact.bound is not None and fact.spent >= fact.bound:
        return f"the rung was spent ({fact.spent} of {fact.bound})"
    if fact.reaction not in _possible(seen, fact, rung.reaction):
        return f"the table says {rung.reaction}"
    if fact.reaction != rung.reaction:
        return ""  # What stands for the rung's reaction stands for every rung's.
    for number in range(fact.rung):
        uses = (n for key, n in seen.run.spent_rungs.items() if key.startswith(f"{fact.failure_type}/{number}/"))
        if (fact.failure_type, number) not in skipped and not any(n >= (rungs[number].times or 0) for n in uses):
            return f"rung {number} was neither spent nor skipped"
    return ""


def _possible(seen: Seen, fact: Any, reaction: Reaction) -> set[str]:
    """The rung's reaction, and what stands for it when an answer was the last one or a person was asked often enough."""
    found = {str(reaction)}
    step = seen.run.steps.get(fact.step_id)
    if (step is not None and step.final) or seen.run.truncated:
        found.add(Reaction.SURFACE)
    if reaction is Reaction.ESCALATE:
        found.add(Reaction.ABORT)
    return found


@on("reaction_decided")
def one_reaction_at_a_time(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if seen.run.ending is not None:
        return "the run was ending already"
    return "" if fact.reaction in tuple(GRAVITY) else f"{fact.reaction} is no reaction"


@on("escalation_opened")
def rounds_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    most = seen.compiled.spec.policy.humans.failure_rounds
    if fact.round > most:
        return f"round {fact.round}, at most {most}"
    return "" if event.at <= fact.remind_at <= fact.onward_at <= fact.due_at else "its clocks are not in order"


@on("escalation_decided", "escalation_withdrawn")
def answers_an_open_question(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    return "" if fact.escalation_id in seen.run.questions else "the question is not open"


@on("stage_entered", "stage_left")
def gates_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    if fact.gate is None:
        return "it has no gate" if getattr(fact, "outcome", "passed") == "passed" else ""
    names = tuple(check.name for check in fact.gate.checks)
    if names != (PRE_ORDER if fact.gate.gate == "pre" else POST_ORDER)[: len(names)]:
        return f"the checks came in another order: {', '.join(names)}"
    if not all(check.passed for check in fact.gate.checks[:-1]):
        return "it went on after a failed check"
    passed = len(names) == 4 and fact.gate.checks[-1].passed
    if passed != (fact.gate.cause is None):
        return "its cause and its checks disagree"
    return "a stage was left although its gate had failed" if fact.kind == "stage_left" and not passed else ""


CHECKS: Mapping[str, tuple[Check, ...]] = {kind: tuple(checks) for kind, checks in _CHECKS.items()}
"""Every check by the kind of event that it is asked about."""


# -- after each commit, and at the end ---------------------------------------------------------------------------------


def settled(seen: Seen, columns: RunColumns, open_questions: set[str]) -> Iterator[tuple[str, str]]:
    """What must be true whenever a batch has committed: the tables beside the journal say what the journal says."""
    expected = projection.columns(seen.run)
    if columns != expected:
        yield "columns_are_the_fold", f"the row says {difference(columns, expected)}"
    if open_questions != set(seen.run.questions):
        yield "questions_are_the_fold", f"open are {sorted(open_questions)}, the journal says {sorted(seen.run.questions)}"
    if not seen.run.terminal and seen.run.ending is None and not _may_move(seen.run):
        yield "never_stranded", f"nothing can move it any more: {seen.run.state} in {seen.run.stage}"


def _may_move(run: Run) -> bool:
    return bool(run.pending or run.timers or run.questions) or run.seq == 0


def ended(seen: Seen) -> Iterator[tuple[str, str]]:
    """What must be true of a run that has ended."""
    if seen.held:
        yield "nothing_left_reserved", f"still reserved: {sorted(seen.held)}"
    if seen.billed > seen.spent:
        yield "bills_are_charged", f"the provider billed {seen.billed} micro-dollars, the run counted {seen.spent}"
    if seen.run.pending or seen.run.questions or seen.run.timers:
        yield "end_is_clean", "calls, questions or timers are left"


# -- comparing states --------------------------------------------------------------------------------------------------


def state_bytes(value: Any) -> bytes:
    """A state in one fixed form, the order of its mappings included: equal bytes mean equal in everything a decision can see."""
    return _state_json(value).encode()


def _parts(value: Any) -> Any:
    try:
        names = type(value).__dataclass_fields__
    except AttributeError:
        raise TypeError(f"a state holds a {type(value).__name__}") from None
    return [type(value).__name__, *(getattr(value, name) for name in names)]


_state_json = json.JSONEncoder(default=_parts, separators=(",", ":")).encode


def difference(one: Any, other: Any) -> str:
    """The first fields in which two states differ."""
    found = [
        f"{item.name}: {getattr(one, item.name)!r} and {getattr(other, item.name)!r}"
        for item in fields(one)
        if getattr(one, item.name) != getattr(other, item.name)
    ]
    return "; ".join(found)[:600] or "the order of their mappings"

