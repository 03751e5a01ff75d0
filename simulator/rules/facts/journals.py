"""Tracks a run by its committed journal, registers invariants, and compares two states.

All sums are counted anew from the facts alone: an invariant must not believe the engine's own ledgers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from fabric.auditor import Ledger
from fabric.core.events.envelope import KINDS, Event
from fabric.core.events.inputs import InboxInput
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH
from simulator.rules.facts.speakers import Speakers
from simulator.rules.facts.spending import Changes, Purse, Rate


@dataclass(slots=True)
class Fruitless:
    """A turn of a step that may have been fruitless."""

    results: set[str] = field(default_factory=set)
    made: set[tuple[str, str]] = field(default_factory=set)
    """Its calls that came back: tool and fingerprint of the arguments."""
    proposed: tuple[tuple[str, str], ...] = ()
    scans: bool = False
    """True if it proposed an argument that is only a number, a date or an id."""


@dataclass(slots=True)
class WatchedRun:
    """One run as its committed journal shows it, with the counts of the checks."""

    run_id: str
    compiled: CompiledFabric
    run: Run
    head: bytes = ZERO_HASH
    rows: int = 0
    """Number of its journal's rows that were checked."""
    at: int = 0
    fence: int = 0
    owner: str = ""
    consumed: set[str] = field(default_factory=set)
    attempts: dict[str, int] = field(default_factory=dict)
    """The newest attempt of each call."""
    began: dict[str, int] = field(default_factory=dict)
    """Instant at which the newest attempt of each call was issued."""
    call_us: Counter[str] = field(default_factory=Counter)
    """Microseconds of each call's time that its failed attempts took."""
    named: set[str] = field(default_factory=set)
    """Calls whose last attempt ended with an endpoint's Retry-After."""
    keys: dict[str, str] = field(default_factory=dict)
    """Key by call and target."""
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
    """Bills of the provider for calls of this run's owners, in micro-dollars."""
    told_costs: dict[tuple[str, int], int] = field(default_factory=dict)
    """Cost of an attempt by its endpoint, micro-dollars, by call and attempt."""
    first_attempts: int = 0
    retries: int = 0
    stage_retries: Counter[str] = field(default_factory=Counter)
    spawned: int = 0
    agents_started: int = 0
    """Agents of its fan-outs that were started, replans included."""
    stage_deadline: int = 0
    run_deadline: int = 0
    stopped: bool = False
    marked: bool = False
    """True if a process that did not fold the run marked its row: the next owner sets its columns."""
    unread: bool = False
    """True if its present owner could not read all of its journal."""
    damaged: bool = False
    """True if it is quarantined because its journal could not be read."""
    terminated: bool = False
    """True if a person terminated it before anything else began to end it."""
    forked_from: Any = None
    """Settled results of a fork's origin, ``(stages, branches, parts)``."""
    scopes: tuple[str, ...] = ()
    """Shared budgets of the run."""
    fabric_id: str = ""
    earning: Counter[str] = field(default_factory=Counter)
    """First attempts, by the shared bucket of retry tokens that they earn for."""
    retried: Counter[str] = field(default_factory=Counter)
    """Retries, by the shared bucket that they took a token of."""
    granted: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """Grants from which its attempts are reserved."""
    charges: dict[tuple[str, int], int] = field(default_factory=dict)
    """Costs of attempts by the journal."""
    given: dict[str, InboxInput] = field(default_factory=dict)
    """Every input that was inserted for this run, by id."""
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    """Instants of inserted answers, by review and input id, without withdrawn ones."""
    withdrawn: set[str] = field(default_factory=set)
    """Withdrawn inputs."""
    claims: int = 0
    """Claims since it made progress."""
    heard: str = ""
    """The incarnation that claimed it last and got the answer."""
    payload: int = 0
    """Bytes of contents so far."""
    fruitless: dict[str, list[Fruitless]] = field(default_factory=dict)
    """Turns of each step since the run last made progress."""
    put_to_people: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """Calls of the last review about a loop or a standstill, by the step's place."""
    polls: set[tuple[str, str, str]] = field(default_factory=set)
    """Calls that a person allowed to continue: the step's place, tool and fingerprint of the arguments."""
    streaming: dict[str, Fruitless] = field(default_factory=dict)
    """Turns of each step whose calls began before their answer was complete."""
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    """State of the calls of the present turn, by step (``stream_checks``)."""
    visits: Counter[str] = field(default_factory=Counter)
    """Number of entries of each stage."""
    node_retries: Counter[str] = field(default_factory=Counter)
    """Number of retries of each node (a branch in its epoch)."""
    node_not_before: dict[str, int] = field(default_factory=dict)
    """Instant at which a waiting node runs again, by failed step."""
    handing: bool = False
    """True if the last decision was to hand over."""
    agreed: dict[str, list[str]] = field(default_factory=dict)
    """People who have approved the present content, in order, by review."""
    wrote: dict[str, str] = field(default_factory=dict)
    """Author of the present content, by review."""
    holds: Callable[[str], str | None] = field(default=lambda name: None)
    """Returns a person's present roles in the workspace; None if they are no member."""
    batch: int = 0
    """Number of committed batches."""
    caused: dict[str, int] = field(default_factory=dict)
    """Number of the batch with the events of an input."""
    windows: dict[str, list[tuple[str, str, str, str, int]]] = field(default_factory=dict)
    """Tool calls of each step, oldest first: tool, arguments, call id, masked result, turn."""
    warned: set[str] = field(default_factory=set)
    """Steps with a call that was blocked as a loop."""
    proposed: dict[str, int] = field(default_factory=dict)
    """Number of calls proposed by each step's last answer."""
    errors: dict[str, set[str]] = field(default_factory=dict)
    """Turns in which a tool returned an error to its model, by the error's fingerprint."""
    heard_errors: set[str] = field(default_factory=set)
    """Errors after which a person has answered."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """Error that reached its limit and waits for a decision, by step."""
    changes: Changes = field(default_factory=Changes)
    """Calls that change the world, and their compensations."""
    decided: Any = None
    """The latest decision."""
    skipped: list[tuple[str, int]] = field(default_factory=list)
    """Rungs skipped since the last event of another kind."""
    failed: dict[str, str] = field(default_factory=dict)
    """Cause of the newest failed attempt of each call."""
    shut: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Models with an open circuit breaker then."""
    offered: dict[str, str] = field(default_factory=dict)
    """Model that each review names."""
    family: Mapping[str, WatchedRun] = field(default_factory=dict)
    """Every run of the world, by id."""
    children: dict[str, Any] = field(default_factory=dict)
    """The fact that spawned each child, by the child's id."""
    ended_children: set[str] = field(default_factory=set)
    stopping: dict[str, int] = field(default_factory=dict)
    """Instant at which each child was stopped."""
    cap: int | None = None
    """Micro-dollars that a child's parent reserved for it; None for a root."""
    raised: int = 0
    """Micro-dollars to which a person raised the run's cap; 0 if none did."""
    purse: Purse = field(default_factory=Purse)
    """Spending of the run, its stages and its agents."""
    rate: Rate = field(default_factory=Rate)
    """Rate of spending."""
    paced: set[tuple[Any, Any]] = field(default_factory=set)
    """Joint counts that refused one of its calls: the budget and the generation of its row."""
    put_away: bool = False
    """True if it was quarantined at least once."""
    blind: bool = False
    """True if it was ended without being folded."""
    referred: dict[str, dict[str, Any]] = field(default_factory=dict)
    server_questions: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    """Server's questions by command id: digest of the question, attempt that asked, and True if answered."""
    """Calls of a step's last answer, with their arguments and results."""
    content: bytes = b""
    """Content of the present event, as it was journaled."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """Outputs of agents and stages, by their reference."""
    verdicts: dict[tuple[str, int], tuple[bytes, bool]] = field(default_factory=dict)
    """Judged content and acceptance of a judge, by stage and branch."""
    shown: dict[str, bytes] = field(default_factory=dict)
    """Unsafe outputs as people saw them, by review."""
    let_pass: set[bytes] = field(default_factory=set)
    """Unsafe outputs that a person released, here or in a child."""
    releases: set[str] = field(default_factory=set)
    """Releases named by its reviews."""
    reviews: set[str] = field(default_factory=set)
    """All reviews of the run."""
    speakers: Speakers | None = None
    """State of a conversation, from which its speakers are chosen anew; None without one."""
    anew_from: int = 0
    """Turn of the last new beginning."""
    failed_as: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Class and words of each turn's failure, by its step."""
    crossings: Counter[str] = field(default_factory=Counter)
    """Failures that crossed a restart edge, by signature."""
    spoken: dict[str, Any] = field(default_factory=dict)
    """Contents that speakers read, by reference."""
    chosen: tuple[str, int] | None = None
    """The speaker chosen last, and the number of turns before; None: none was chosen yet."""
    hops: int = 0
    """Number of handovers."""
    done_without: set[int] = field(default_factory=set)
    """Briefs of slices without which this epoch goes on, their retries exhausted."""
    cut_short: set[str] = field(default_factory=set)
    """Steps whose agent, or child run, a protection stopped early."""
    turns: list[Any] = field(default_factory=list)
    """The turns of this epoch."""
    ledger: Ledger = field(init=False)
    """Ledger from which decisions are derived anew."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.run)

    def take(self, event: Event, after: Run, hashed: bytes) -> None:
        """Proceed to the next event."""
        self.run, self.head, self.at = after, hashed, event.at


Check = Callable[[WatchedRun, Event, Any, Run], str]
CHECKS: dict[str, list[Check]] = {kind: [] for kind in KINDS}
"""Checks by the kind of their event."""


def register_check(*kinds: str) -> Callable[[Check], Check]:
    """Register a check for kinds of events; by default for all."""

    def register(check: Check) -> Check:
        for kind in kinds or KINDS:
            CHECKS[kind].append(check)
        return check

    return register


def step_before(seen: WatchedRun, opened: Any) -> str:
    """Return the id of the step whose place an opened step takes; empty if the place was free."""
    place = (opened.stage, opened.branch)
    return next((key for key, one in seen.run.steps.items() if (one.stage, one.branch) == place), "")


# -- comparing states ------------------------------------------------------------------------------------------------


def state_bytes(value: Any) -> bytes:
    """Return a state in one fixed form, the order of its mappings included. Equal bytes mean equal states to a
    decision.
    """
    return _state_json(value).encode()


def _parts(value: Any) -> Any:
    try:
        names = type(value).__dataclass_fields__
    except AttributeError:
        raise TypeError(f"a state holds a {type(value).__name__}") from None
    return [type(value).__name__, *(getattr(value, name) for name in names)]


_state_json = json.JSONEncoder(default=_parts, separators=(",", ":")).encode
_packed = msgspec.msgpack.Encoder().encode


def same_state(one: Any, other: Any) -> bool:
    """Return True if two states have equal ``state_bytes``, mostly without computing them.

    States are big, and are compared at each snapshot and each end. Equality and equal packed bytes are enough:
    equality shows types, and the bytes show the order of mappings and the kind of numbers.
    """
    return (one == other and _packed(one) == _packed(other)) or state_bytes(one) == state_bytes(other)


def difference(one: Any, other: Any) -> str:
    """Return the first fields in which two states differ."""
    found = [
        f"{item.name}: {getattr(one, item.name)!r} and {getattr(other, item.name)!r}"
        for item in fields(one)
        if getattr(one, item.name) != getattr(other, item.name)
    ]
    return "; ".join(found)[:600] or "the order of their mappings"
