"""Budgets that runs share, as a decision sees them: the amounts to reserve from, its requests, the refusals.

A decision takes nothing by itself. If an amount is *lacking*, ``engine.decide`` discards the whole decision and
returns ``Need``; the driver requests it, and decides about the input again. A refusal is an answer too: it becomes a
trip, and the table's cell decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fabric.core.events.parts import BucketLevel, GrantUse
from fabric.core.values.frozen import value

FABRIC, SESSION, WORKSPACE, SESSION_TOKENS = "fabric", "session", "workspace", "session_tokens"
"""Kinds of scopes: the part of a scope before its first colon, also in the evidence of a refusal."""


def find_unit(scope: str) -> Literal["usd_micros", "tokens"]:
    """Return the unit of a scope's amounts; a session's tokens are shared by the rules for money."""
    return "tokens" if scope.partition(":")[0] == SESSION_TOKENS else "usd_micros"


PROVIDER_BUCKET = 10
"""Retry tokens that all callers of one provider share (docs/specification/protections.md)."""


@value()
class Want:
    """An amount of one scope, out of one grant."""

    scope: str
    usd_micros: int
    """Micro-dollars; of a scope of tokens, tokens (``find_unit``)."""


@value()
class TokenWant:
    """One retry token out of each bucket, for one retry."""

    key: str
    """``command id#attempt``: a repeated request for one retry takes one token."""
    sizes: tuple[tuple[str, int], ...]
    """``(bucket, capacity in tokens)``."""
    first_in_stage: bool
    """The run has not retried in this stage, so that an empty bucket may give one on credit."""


@value()
class Refusal:
    """Reason for an unmet want: the state of the budget. For retry tokens, ``spent`` of ``cap`` tokens are gone."""

    scope: str
    cap: int
    spent: int
    granted: int
    hourly: bool
    asked_at: int
    """Microseconds since the epoch, by the store's clock."""
    unasked: str = ""
    """Reason why the budget could not be read; the numbers then mean nothing."""


@value()
class TokenGiven:
    """A retry token from each requested bucket."""

    levels: tuple[BucketLevel, ...] = ()
    asked_at: int = 0
    """Microseconds since the epoch, by the clock of the process that asked."""


@value()
class Need:
    """Result of ``decide`` in place of a decision: the requests without which it cannot be made. Nothing has been
    decided.
    """

    wants: tuple[Want | TokenWant, ...]


class Lacking(Exception):
    """Raised when a decision needs shared state that is not read yet."""

    def __init__(self, wants: tuple[Want | TokenWant, ...]) -> None:
        self.wants = wants
        super().__init__(f"a decision needs {wants}")


class HeldGrants(Protocol):
    """A process's grants of shared budgets (``worker/spending/grants.py: GrantBook``)."""

    def chunks(self, scope: str) -> Sequence[tuple[str, int]]:
        """Return the grants that can be reserved from, with what each has left."""
        ...


@value()
class BilledAbove:
    """A bill above its call's reservation: micro-dollars and tokens of both."""

    usd_micros: int = 0
    tokens: int = 0
    reserved_usd_micros: int = 0
    reserved_tokens: int = 0

    def with_dearer(self, other: BilledAbove) -> BilledAbove:
        """Return the dearer of two bills in each unit, with the reservation that each exceeded."""
        usd = other if other.usd_micros > self.usd_micros else self
        tokens = other if other.tokens > self.tokens else self
        if usd is tokens:
            return usd
        return BilledAbove(usd.usd_micros, tokens.tokens, usd.reserved_usd_micros, tokens.reserved_tokens)


NEVER = BilledAbove()
"""The value of a model that kept to its reservations."""


class Lately(Protocol):
    """Recent bills above reservations that a process has seen for a fabric's models
    (``runtime/spending/overruns.py``).
    """

    def dearest(self, model: str, now: int) -> BilledAbove:
        """Return the dearest such bill. ``now``: microseconds since the epoch."""
        ...


class NothingSeen:
    """The value of a process that has seen no such bill."""

    def dearest(self, model: str, now: int) -> BilledAbove:
        """See ``Lately``."""
        return NEVER


class NoGrants:
    """Grants of a process that shares nothing."""

    def chunks(self, scope: str) -> Sequence[tuple[str, int]]:
        """See ``HeldGrants``."""
        return ()


@dataclass(slots=True)
class Shares:
    """One run's part in shared budgets. ``scopes`` empty: it shares no money."""

    scopes: tuple[str, ...] = ()
    """The budgets that its calls are reserved from, besides its own."""
    fabric: str = ""
    """Id of the fabric whose retry tokens it takes."""
    held: HeldGrants = field(default_factory=NoGrants)
    taken: dict[str, int] = field(default_factory=dict)
    """Amounts that decisions took of grants, not yet booked by the process."""
    answers: dict[Want | TokenWant, Refusal | TokenGiven] = field(default_factory=dict)
    """Answers to the requests for the input that is being decided."""
    lately: Lately = field(default_factory=NothingSeen)
    """The bills of models above their reservations in earlier runs."""

    def refusal(self, usd_micros: int, tokens: int = 0, keys: tuple[str, ...] = ()) -> Refusal | None:
        """Return the refusal of the first scope that grants too little; None: all of it is granted. Raises Lacking
        where that is not known. ``keys``: the budgets of the call's key.
        """
        if not (self.scopes or keys):
            return None
        lacking = []
        for scope, amount in self._amounts(usd_micros, tokens, keys):
            if self._place(scope, amount) is not None:
                continue
            if refused := self._find_refusal(scope, amount):
                return refused
            lacking.append(Want(scope, amount))
        if lacking:
            raise Lacking(tuple(lacking))
        return None

    def take(self, usd_micros: int, tokens: int = 0, keys: tuple[str, ...] = ()) -> tuple[GrantUse, ...]:
        """Reserve from each scope; call ``refusal`` before."""
        if not (self.scopes or keys):
            return ()
        uses = []
        for scope, amount in self._amounts(usd_micros, tokens, keys):
            grant_id = self._place(scope, amount)
            assert grant_id is not None, f"{scope} has no grant with {amount} left"
            uses.append(GrantUse(grant_id=grant_id, scope=scope, usd_micros=amount))
            self.taken[grant_id] = self.taken.get(grant_id, 0) + amount
        return tuple(uses)

    def _amounts(self, usd_micros: int, tokens: int, keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """Yield ``(scope, amount)`` for each scope from which something is requested."""
        for scope in (*self.scopes, *keys) if keys else self.scopes:
            amount = tokens if find_unit(scope) == "tokens" else usd_micros
            if amount:
                yield scope, amount

    def token(self, want: TokenWant) -> Refusal | TokenGiven:
        """Return the token for a retry, or the refusal. Raises Lacking where it was not asked for yet."""
        if want not in self.answers:
            raise Lacking((want,))
        return self.answers[want]

    def find_token(self, key: str) -> TokenGiven | None:
        """Return the token granted for a retry; None: the retry took none."""
        given = (one for want, one in self.answers.items() if isinstance(want, TokenWant) and want.key == key)
        return next((one for one in given if isinstance(one, TokenGiven)), None)

    def _place(self, scope: str, usd_micros: int) -> str | None:
        room = ((grant, left - self.taken.get(grant, 0)) for grant, left in self.held.chunks(scope))
        return next((grant for grant, left in room if left >= usd_micros), None)

    def _find_refusal(self, scope: str, usd_micros: int) -> Refusal | None:
        """Return the refusal of an amount no larger than this one, since a larger request is refused too."""
        for want, answer in self.answers.items():
            wanted = isinstance(want, Want) and want.scope == scope and want.usd_micros <= usd_micros
            if wanted and isinstance(answer, Refusal):
                return answer
        return None


def list_scopes(
    caps: Mapping[str, int | None], *, fabric_id: str, workspace_id: str, session_key: str, capped: bool
) -> tuple[str, ...]:
    """Return the shared budgets that a run's calls fall under. ``caps``: its policy's caps, by kind; ``capped``:
    True if its workspace has a cap.
    """
    found = []
    if caps.get(FABRIC) is not None:
        found.append(f"{FABRIC}:{fabric_id}")
    sessions = [kind for kind in (SESSION, SESSION_TOKENS) if caps.get(kind) is not None and session_key]
    found += [f"{kind}:{fabric_id}:{session_key}" for kind in sessions]
    if capped:
        found.append(f"{WORKSPACE}:{workspace_id}")
    return tuple(found)
