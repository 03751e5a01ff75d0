"""Budgets that runs share, as a decision sees them: what it may reserve from, what it has asked for, what it was refused.

A decision takes nothing by itself. What is not there is *lacking*: ``engine.decide`` throws the whole decision away and answers ``Need``; the driver
asks for it, and decides about the same input again. A refusal is an answer too: it becomes a trip, and the table's cell says what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fabric.core.events.parts import BucketLevel, GrantUse
from fabric.core.frozen import value

FABRIC, SESSION, WORKSPACE, SESSION_TOKENS = "fabric", "session", "workspace", "session_tokens"
"""Kinds of scopes: what stands before a scope's first colon, and in the evidence of a refusal."""


def unit_of(scope: str) -> Literal["usd_micros", "tokens"]:
    """The unit of a scope's amounts, wherever they stand: a session's tokens are shared by the same rules as money is."""
    return "tokens" if scope.partition(":")[0] == SESSION_TOKENS else "usd_micros"


PROVIDER_BUCKET = 10
"""Retry tokens that all callers of one provider share (semantics.md 4)."""


@value()
class Want:
    """An amount of one scope, out of one grant."""

    scope: str
    usd_micros: int
    """Micro-dollars; of a scope of tokens, tokens (``unit_of``)."""


@value()
class TokenWant:
    """One retry token out of each bucket, for one retry."""

    key: str
    """``command id#attempt``: asked again for the same retry, it is the same token."""
    sizes: tuple[tuple[str, int], ...]
    """``(bucket, how many tokens fit in)``."""
    first_in_stage: bool
    """The run has not retried in this stage, so that an empty bucket may give one on credit."""


@value()
class Refusal:
    """Why a want was not met: where the budget stood. Of retry tokens, ``spent`` are those that are gone of ``cap``."""

    scope: str
    cap: int
    spent: int
    granted: int
    hourly: bool
    asked_at: int
    """Microseconds since the epoch, by the store's clock."""
    unasked: str = ""
    """Why nobody could be asked; the numbers then say nothing."""


@value()
class Given:
    """A retry token out of each bucket that was asked."""

    levels: tuple[BucketLevel, ...] = ()
    asked_at: int = 0
    """Microseconds since the epoch, by the clock of the process that asked."""


@value()
class Need:
    """What ``decide`` answers instead of a decision: it cannot be taken without this. Nothing has been decided."""

    wants: tuple[Want | TokenWant, ...]


class Lacking(Exception):
    """Something is not there, and it is not known yet whether it can be had."""

    def __init__(self, wants: tuple[Want | TokenWant, ...]) -> None:
        self.wants = wants
        super().__init__(f"a decision needs {wants}")


class Held(Protocol):
    """What a process holds of shared budgets (``adapters/grants.py: GrantBook``)."""

    def chunks(self, scope: str) -> Sequence[tuple[str, int]]:
        """The grants that can be reserved from, with what each has left."""
        ...


@value()
class Billed:
    """A bill above its call's reservation: micro-dollars and tokens of both."""

    usd_micros: int = 0
    tokens: int = 0
    reserved_usd_micros: int = 0
    reserved_tokens: int = 0

    def with_dearer(self, other: Billed) -> Billed:
        """The dearer of two bills in each unit, with the reservation that each exceeded."""
        usd = other if other.usd_micros > self.usd_micros else self
        tokens = other if other.tokens > self.tokens else self
        if usd is tokens:
            return usd
        return Billed(usd.usd_micros, tokens.tokens, usd.reserved_usd_micros, tokens.reserved_tokens)


NEVER = Billed()
"""The value of a model that kept to its reservations."""


class Lately(Protocol):
    """The recent bills above reservations that a process knows of a fabric's models (``runtime/surprises.py``)."""

    def dearest(self, model: str, now: int) -> Billed:
        """The dearest such call. ``now``: microseconds since the epoch."""
        ...


class NothingSeen:
    """The value of a process that has seen no such bill."""

    def dearest(self, model: str, now: int) -> Billed:
        """See ``Lately``."""
        return NEVER


class NothingHeld:
    """Of a process that shares nothing."""

    def chunks(self, scope: str) -> Sequence[tuple[str, int]]:
        """See ``Held``."""
        return ()


@dataclass(slots=True)
class Shares:
    """One run's part in what is shared. ``scopes`` empty: it shares no money."""

    scopes: tuple[str, ...] = ()
    """The budgets that its calls are reserved from, besides its own."""
    fabric: str = ""
    """Id of its fabric: whose retry tokens it takes."""
    held: Held = field(default_factory=NothingHeld)
    taken: dict[str, int] = field(default_factory=dict)
    """What decisions took of grants and the process does not know of yet."""
    answers: dict[Want | TokenWant, Refusal | Given] = field(default_factory=dict)
    """What was answered about the input that is decided about."""
    lately: Lately = field(default_factory=NothingSeen)
    """The bills of models above their reservations in earlier runs."""

    def refusal(self, usd_micros: int, tokens: int = 0, keys: tuple[str, ...] = ()) -> Refusal | None:
        """The first scope's that will not give so much; None: all of it is there. Lacking where that is not known. ``keys``: the budgets of the call's key."""
        lacking = []
        for scope, amount in self._amounts(usd_micros, tokens, keys):
            if self._place(scope, amount) is not None:
                continue
            if refused := self._refused(scope, amount):
                return refused
            lacking.append(Want(scope, amount))
        if lacking:
            raise Lacking(tuple(lacking))
        return None

    def take(self, usd_micros: int, tokens: int = 0, keys: tuple[str, ...] = ()) -> tuple[GrantUse, ...]:
        """Reserves from each scope; ``refusal`` was asked before."""
        uses = []
        for scope, amount in self._amounts(usd_micros, tokens, keys):
            grant_id = self._place(scope, amount)
            assert grant_id is not None, f"{scope} has no grant with {amount} left"
            uses.append(GrantUse(grant_id=grant_id, scope=scope, usd_micros=amount))
            self.taken[grant_id] = self.taken.get(grant_id, 0) + amount
        return tuple(uses)

    def _amounts(self, usd_micros: int, tokens: int, keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """``(scope, how much of it)`` for each scope of which something is wanted."""
        for scope in (*self.scopes, *keys) if keys else self.scopes:
            amount = tokens if unit_of(scope) == "tokens" else usd_micros
            if amount:
                yield scope, amount

    def token(self, want: TokenWant) -> Refusal | Given:
        """The token for a retry, or why there is none. Lacking where it was not asked for yet."""
        if want not in self.answers:
            raise Lacking((want,))
        return self.answers[want]

    def given(self, key: str) -> Given | None:
        """The token that was given for a retry; None: no bucket was asked."""
        given = (one for want, one in self.answers.items() if isinstance(want, TokenWant) and want.key == key)
        return next((one for one in given if isinstance(one, Given)), None)

    def _place(self, scope: str, usd_micros: int) -> str | None:
        room = ((grant, left - self.taken.get(grant, 0)) for grant, left in self.held.chunks(scope))
        return next((grant for grant, left in room if left >= usd_micros), None)

    def _refused(self, scope: str, usd_micros: int) -> Refusal | None:
        """What will not give less will not give more."""
        for want, answer in self.answers.items():
            wanted = isinstance(want, Want) and want.scope == scope and want.usd_micros <= usd_micros
            if wanted and isinstance(answer, Refusal):
                return answer
        return None


def scopes_of(
    caps: Mapping[str, int | None], *, fabric_id: str, workspace_id: str, session_key: str, capped: bool
) -> tuple[str, ...]:
    """The shared budgets that a run's calls fall under. ``caps``: what its policy says, by kind; ``capped``: its workspace has a cap."""
    found = []
    if caps.get(FABRIC) is not None:
        found.append(f"{FABRIC}:{fabric_id}")
    sessions = [kind for kind in (SESSION, SESSION_TOKENS) if caps.get(kind) is not None and session_key]
    found += [f"{kind}:{fabric_id}:{session_key}" for kind in sessions]
    if capped:
        found.append(f"{WORKSPACE}:{workspace_id}")
    return tuple(found)
