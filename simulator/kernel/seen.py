"""One run as its committed journal shows it, how invariants are named and found, and how two states are compared.

The sums are counted here anew, from the facts alone: an invariant that asked the engine's own ledgers would believe them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from fabric.core.context import Compiled
from fabric.core.derivation import Ledger
from fabric.core.derivation.speakers import Speakers
from fabric.core.envelope import KINDS, Event
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.inputs import InboxInput
from fabric.core.run import Run
from simulator.kernel.changes import Changes
from simulator.kernel.purse import Purse, Rate


@dataclass(slots=True)
class Fruitless:
    """A turn of a step that may have come to nothing."""

    results: set[str] = field(default_factory=set)
    made: set[tuple[str, str]] = field(default_factory=set)
    """Its calls that came back: tool and fingerprint of the arguments."""
    proposed: tuple[tuple[str, str], ...] = ()
    scans: bool = False
    """True: it proposed an argument that may be a number, a date or an id and nothing else."""


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
    began: dict[str, int] = field(default_factory=dict)
    """When the newest attempt of each call was issued."""
    call_us: Counter[str] = field(default_factory=Counter)
    """Microseconds of each call's time that its failed attempts took."""
    named: set[str] = field(default_factory=set)
    """Calls whose last attempt ended with an endpoint's word on when to come back."""
    keys: dict[str, str] = field(default_factory=dict)
    """By call and whom it goes to."""
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
    told_costs: dict[tuple[str, int], int] = field(default_factory=dict)
    """What an endpoint said that an attempt cost, micro-dollars, by call and attempt."""
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
    """Its row was marked by who did not fold it: the next owner says what it is to show."""
    unread: bool = False
    """Who writes to it now could not read all of its journal."""
    damaged: bool = False
    """It is quarantined because its journal could not be read."""
    terminated: bool = False
    """Somebody terminated it before anything else had begun to end it."""
    forked_from: Any = None
    """Of a fork: what its origin had settled there, ``(stages, branches, parts)``."""
    scopes: tuple[str, ...] = ()
    """The shared budgets that it falls under."""
    fabric_id: str = ""
    earning: Counter[str] = field(default_factory=Counter)
    """First attempts, by the shared bucket of retry tokens that they earn for."""
    retried: Counter[str] = field(default_factory=Counter)
    """Retries, by the shared bucket that they took a token of."""
    granted: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """The grants that its attempts are reserved from."""
    charges: dict[tuple[str, int], int] = field(default_factory=dict)
    """What its journal says that attempts cost."""
    given: dict[str, InboxInput] = field(default_factory=dict)
    """Every input that was inserted for this run, by id."""
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    """When answers were inserted, by question and input id; without those that were taken back."""
    withdrawn: set[str] = field(default_factory=set)
    """Inputs that were taken back."""
    claims: int = 0
    """Claims since it made progress."""
    heard: str = ""
    """The incarnation that claimed it last and was told so."""
    payload: int = 0
    """Bytes of contents so far."""
    fruitless: dict[str, list[Fruitless]] = field(default_factory=dict)
    """Of each step its turns, since the run last brought something."""
    put_to_people: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """By a step's place: the calls that a person was asked about last, as a loop or a standstill."""
    polls: set[tuple[str, str, str]] = field(default_factory=set)
    """Calls that a person let go on: the step's place, tool and fingerprint of the arguments."""
    streaming: dict[str, Fruitless] = field(default_factory=dict)
    """The same of calls that began before their answer was whole."""
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By step: what is known of the calls of its present turn (``stream_checks``)."""
    visits: Counter[str] = field(default_factory=Counter)
    """How often each stage was entered."""
    node_retries: Counter[str] = field(default_factory=Counter)
    """How often each node (a branch in its epoch) was to run again."""
    node_not_before: dict[str, int] = field(default_factory=dict)
    """Of each failed step whose node waits: when it runs again."""
    handing: bool = False
    """The last decision was to hand over."""
    agreed: dict[str, list[str]] = field(default_factory=dict)
    """By question: who has let pass what is asked about now, in order."""
    wrote: dict[str, str] = field(default_factory=dict)
    """By question: who wrote what is asked about now."""
    holds: Callable[[str], str | None] = field(default=lambda name: None)
    """What somebody holds in the workspace at this moment; None: they are no member."""
    batch: int = 0
    """Batches committed so far."""
    caused: dict[str, int] = field(default_factory=dict)
    """The batch that holds the events of an input."""
    windows: dict[str, list[tuple[str, str, str, str, int]]] = field(default_factory=dict)
    """Tool calls of each step, oldest first: tool, arguments, call id, masked result, turn."""
    warned: set[str] = field(default_factory=set)
    """Steps of which a call was blocked as a loop."""
    proposed: dict[str, int] = field(default_factory=dict)
    """How many calls each step's last answer proposed."""
    errors: dict[str, set[str]] = field(default_factory=dict)
    """The turns in which a tool gave its model an error, by what makes it the same."""
    heard_errors: set[str] = field(default_factory=set)
    """Errors that a person has spoken since."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """By step: the error that came as often as it may, and has not been decided about."""
    changes: Changes = field(default_factory=Changes)
    """Calls that change the world, and what was done about them."""
    decided: Any = None
    """The latest decision."""
    skipped: list[tuple[str, int]] = field(default_factory=list)
    """Rungs skipped since the last event of another kind."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why the newest failed attempt of each call failed."""
    shut: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The models before which a circuit breaker was open then."""
    offered: dict[str, str] = field(default_factory=dict)
    """The model that each question names."""
    family: Mapping[str, Seen] = field(default_factory=dict)
    """Every run of the world, by id."""
    children: dict[str, Any] = field(default_factory=dict)
    """The fact that spawned each child, by the child's id."""
    ended_children: set[str] = field(default_factory=set)
    stopping: dict[str, int] = field(default_factory=dict)
    """When each child was told to stop."""
    cap: int | None = None
    """Of a child: micro-dollars that its parent reserved for it."""
    raised: int = 0
    """Micro-dollars that a person raised the run's cap to; 0: nobody did."""
    purse: Purse = field(default_factory=Purse)
    """What it, its stages and its agents spend."""
    rate: Rate = field(default_factory=Rate)
    """How fast it spends."""
    paced: set[tuple[Any, Any]] = field(default_factory=set)
    """Counts of what runs spend together that refused one of its calls: the budget and the generation of its row."""
    put_away: bool = False
    """It was quarantined at least once."""
    blind: bool = False
    """It was ended without being folded."""
    referred: dict[str, dict[str, Any]] = field(default_factory=dict)
    server_questions: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    """By command id, of calls whose server asked: the digest of the question, the attempt that asked, whether it was answered."""
    """By step: the calls of its last answer, what they were sent with, and what came back."""
    content: bytes = b""
    """Of the event at hand, as it was journaled."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """What agents and stages said, by where it stands."""
    verdicts: dict[tuple[str, int], tuple[bytes, bool]] = field(default_factory=dict)
    """By stage and branch of a judge: what it judges, and whether it has accepted that."""
    shown: dict[str, bytes] = field(default_factory=dict)
    """Unsafe outputs as people were shown them, by question."""
    let_pass: set[bytes] = field(default_factory=set)
    """Those that a person let pass, here or in a child."""
    releases: set[str] = field(default_factory=set)
    """What their questions say of them."""
    questions: set[str] = field(default_factory=set)
    """All that it ever asked."""
    speakers: Speakers | None = None
    """Of a conversation: what its speakers are chosen from anew."""
    anew_from: int = 0
    """The turn with which it began anew the last time."""
    failed_as: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Class and words of each turn's failure, by its step."""
    crossings: Counter[str] = field(default_factory=Counter)
    """Failures that crossed a restart edge, by signature."""
    spoken: dict[str, Any] = field(default_factory=dict)
    """Contents that it reads, by reference."""
    chosen: tuple[str, int] | None = None
    """Who was chosen last, and how many turns there had been; None: nobody yet."""
    hops: int = 0
    """Handovers so far."""
    keys_epoch: int = 0
    """Of a child: the epoch that keys of its own calls name."""
    keys_spent: bool = False
    """A child said that something under its keys was undone."""
    key_epochs: dict[str, int] = field(default_factory=dict)
    """Of each child the epoch that keys of its branch name."""
    tries_begun: dict[str, str] = field(default_factory=dict)
    """Of each child the one with which the tries began that it has its keys from; empty: they began with the first one."""
    tried: dict[str, str | None] = field(default_factory=dict)
    """That one, of the branches that children did; None: their last one has undone something, or has not said that it did not."""
    handed_down: dict[str, dict[str, str]] = field(default_factory=dict)
    """By child: how changes stood that were handed down to it and that it has not taken yet, by key."""
    done_without: set[int] = field(default_factory=set)
    """Briefs of slices that this epoch goes on without, their retries exhausted."""
    cut_short: set[str] = field(default_factory=set)
    """Steps whose agent, or child run, a protection stopped early."""
    turns: list[Any] = field(default_factory=list)
    """The turns of this epoch."""
    ledger: Ledger = field(init=False)
    """What decisions are derived from anew."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.run.tier)

    def take(self, event: Event, after: Run, hashed: bytes) -> None:
        """Goes on to the next event."""
        self.run, self.head, self.rows, self.at = after, hashed, self.rows + 1, event.at


Check = Callable[[Seen, Event, Any, Run], str]
CHECKS: dict[str, list[Check]] = {kind: [] for kind in KINDS}
"""Every check by the kind of event that it is asked about."""


def on(*kinds: str) -> Callable[[Check], Check]:
    """Registers a check for those kinds of event; without any, for all."""

    def register(check: Check) -> Check:
        for kind in kinds or KINDS:
            CHECKS[kind].append(check)
        return check

    return register


def step_before(seen: Seen, opened: Any) -> str:
    """The id of the step whose place a step takes that is being opened; empty: the place was free."""
    place = (opened.stage, opened.branch)
    return next((key for key, one in seen.run.steps.items() if (one.stage, one.branch) == place), "")


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
_packed = msgspec.msgpack.Encoder().encode


def same_state(one: Any, other: Any) -> bool:
    """Whether two states have the same ``state_bytes``, mostly without making them: a state is big, and is compared with each snapshot and at each end.

    What is equal, and is packed to the same bytes, is the same: types show in the equality, the order of mappings and the kind of a number in the bytes.
    """
    return (one == other and _packed(one) == _packed(other)) or state_bytes(one) == state_bytes(other)


def difference(one: Any, other: Any) -> str:
    """The first fields in which two states differ."""
    found = [
        f"{item.name}: {getattr(one, item.name)!r} and {getattr(other, item.name)!r}"
        for item in fields(one)
        if getattr(one, item.name) != getattr(other, item.name)
    ]
    return "; ".join(found)[:600] or "the order of their mappings"
