"""The parts of a run's story: attempts, waits, back-offs, stages, steps, trips. Instants are microseconds, UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

UNTOLD: Mapping[str, int] = MappingProxyType({})
BarEnd = Literal["open", "done", "failed", "let_go"]


@dataclass(slots=True)
class Bar:
    """One attempt of one call, or a child run. ``end`` is None while it is out."""

    call: Literal["model", "tool", "child"]
    target: str
    start: int
    seq: int
    attempt: int
    end: int | None = None
    became: BarEnd = "open"
    cost_usd_micros: int = 0
    tokens: int = 0
    due: int = 0
    """Deadline of the attempt; 0: unknown."""
    instead_of: str = ""
    """The model that the attempt before went to, where it was another one."""


@dataclass(slots=True)
class Span:
    """A back-off or a wait for a person. ``end`` is None while it lasts."""

    start: int
    end: int | None
    seq: int
    word: str
    """Person or reason of the wait."""


@dataclass(frozen=True, slots=True)
class Tripped:
    """A mechanism that fired, and what was done about it."""

    at: int
    seq: int
    mechanism: str
    reaction: str
    message: str
    sentence: str
    """The decision in a sentence."""
    cause: str = ""
    cycle: tuple[str, ...] = ()
    """For the deadlock monitor: the agents in their order, and the next one."""


@dataclass(slots=True)
class SpokenMessage:
    """A person's message to a run's conversation. Its words stand in the content of its event."""

    seq: int
    at: int
    actor: str
    """Author of the message; ``""``: unknown, because it was refused."""
    epoch: int
    after: int
    """Turns of that epoch that had begun by then."""
    reader: str = ""
    """First reader; ``""``: unread."""
    turn: int = 0
    """The turn in which they did, from 1."""
    read_seq: int = 0
    """The event that opened that turn."""
    refused: str = ""
    """Why it was not taken; empty: it was."""


@dataclass(slots=True)
class CallSums:
    """The sums of calls and child runs."""

    calls: int = 0
    children: int = 0
    """Child runs that were spawned; their calls are in their own journals."""
    tokens: int = 0
    cost_usd_micros: int = 0
    unconfirmed: int = 0
    """The part of its cost that was charged at its maximum, since the bill is not known; micro-dollars."""
    tools: Counter[str] = field(default_factory=Counter)
    """The part of its cost that calls of tools came to, micro-dollars by tool."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Its tokens by kind (``cost.TOKEN_KINDS``), as far as the journal has them."""

    @property
    def untold(self) -> int:
        """Tokens whose kind is not known: of attempts that are charged their reservation, and of child runs."""
        return self.tokens - self.kinds.total()

    @property
    def any(self) -> bool:
        """True: something happened that can cost money."""
        return bool(self.calls or self.children)

    def add(self, tokens: int, cost: int, kinds: Mapping[str, int] = UNTOLD, *, tool: str = "") -> None:
        """Add one attempt or child run. ``tool``: the tool that was called; empty for anything else."""
        self.tokens += tokens
        self.cost_usd_micros += cost
        if tool and cost:
            self.tools[tool] += cost
        self.kinds.update(kinds)


@dataclass(slots=True)
class StageSpan:
    """One passage of a stage in one epoch."""

    stage: str
    epoch: int
    start: int
    seq: int
    branches: int
    end: int | None = None
    end_seq: int = 0
    outcome: str = ""
    pre: bool | None = None
    """True if its pre-gate passed; None: it had none."""
    post: bool | None = None


@dataclass(slots=True)
class Lane:
    """One step: an agent's activation in a stage, branch, epoch and round."""

    id: str
    stage: str
    branch: int
    epoch: int
    round: int
    agent: str
    start: int
    end: int | None = None
    state: Literal["active", "waiting", "done", "failed", "stopped", "void"] = "active"
    stopped: str = ""
    """Why it was stopped although it did not fail."""
    bars: list[Bar] = field(default_factory=list)
    backoffs: list[Span] = field(default_factory=list)
    waits: list[Span] = field(default_factory=list)
    trips: list[Tripped] = field(default_factory=list)
    tally: CallSums = field(default_factory=CallSums)
    answered: bool = False
    """True if it has an output, even one under review."""
    hears: tuple[int, ...] | None = None
    """For a turn: the turns whose output it reads; None: no turn."""
    opened: int = 0
    """For a turn: the event that opened it."""
    kept: int = 0
    """For a fork: the event that took its output over from the origin; 0: none."""
