"""One process's part in what runs share across processes: its book of grants, its retry tokens, its circuit breakers, and what becomes of them with each batch.

Belongs to the loop thread, but for ``stop``. The desk, which asks the database, begins with the first want: a process whose runs share nothing asks nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from fabric.adapters.breakers import Breakers
from fabric.adapters.grant_desk import GrantDesk, Post
from fabric.adapters.grants import GrantBook
from fabric.adapters.guards import Guards
from fabric.adapters.retry_tokens import RetryTokens
from fabric.core.command_ids import is_errand
from fabric.core.commands import CallModel, CallTool
from fabric.core.context import Compiled
from fabric.core.events.parts import BucketLevel
from fabric.core.grants import Given, Refusal, TokenWant, Want
from fabric.core.mechanisms import retry_budget
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import BucketStore, Budget, GrantStore, GuardStore, TokensLeft
from fabric.runtime.happenings import Denied, Granted
from fabric.runtime.ports import Batch, Claimed, Clock, StoreUnavailable, Written
from fabric.runtime.shares import cap_of
from fabric.runtime.surprises import KIND as BILLED_ABOVE
from fabric.runtime.surprises import Merge, Surprises
from fabric.runtime.usual_rates import KIND as USUAL_RATE
from fabric.runtime.usual_rates import UsualRates

Told = Callable[[Granted | Denied], None]
NOT_WRITTEN = frozenset({Written.INPUT_GONE, Written.FAMILY_FULL, Written.GRANT_GONE})
"""Fates that say for sure that nothing of a batch was written; a fence may have been lost after a commit whose answer was."""

NO_STORE = "this worker was started without the stores of shared budgets and retry tokens, so nobody can be asked, and nothing goes out unasked"


class Sharing(Protocol):
    """A run that a process drives, as far as it matters here."""

    @property
    def claimed(self) -> Claimed:
        """As it was claimed."""
        ...

    @property
    def driver(self) -> RunDriver:
        """It in memory."""
        ...


class Shared:
    """``desk`` None: nothing is shared, and what is wanted is refused. ``now``: the desk's clock, seconds."""

    def __init__(
        self,
        desk: GrantDesk | None,
        *,
        post: Post,
        clock: Clock,
        now: Callable[[], float] = time.monotonic,
        guards: Guards | None = None,
    ) -> None:
        self._post, self._clock, self._desk = post, clock, desk
        self._tokens = None if desk is None else RetryTokens(desk)
        self.book = GrantBook(desk or NoDesk(), now)
        self.surprises = Surprises(None if guards is None else partial(_merge, guards, BILLED_ABOVE))
        self.usual = UsualRates(None if guards is None else partial(_merge, guards, USUAL_RATE))
        self.breakers = Breakers(guards, clock.now)
        self._asks = False

    def driver(self, compiled: Compiled, *how: Any, **program: Any) -> RunDriver:
        """The driver of a run that this process takes. ``how``, ``program``: see ``RunDriver``."""
        return RunDriver(compiled, *how, **program, held=self.book, surprises=self.surprises, usual=self.usual)

    def learn(self, kind: str, scope: str, state: str) -> None:
        """Takes in a guard row that was read with claims."""
        (self.surprises if kind == BILLED_ABOVE else self.usual).learn(scope, state)

    # -- wants ---------------------------------------------------------------------------------------------------------

    def need(self, owned: Sharing, want: Want | TokenWant, told: Told) -> None:
        """Asks for what a driver wants; ``told`` follows on the loop, never at once."""
        if self._desk is None or self._tokens is None:
            scope = want.scope if isinstance(want, Want) else want.sizes[0][0]
            none = Refusal(scope, 0, 0, 0, False, self._clock.now(), NO_STORE)
            self._post(lambda: told(Denied(want, none)))
            return
        if not self._asks:
            self._asks = True
            self._desk.start(self.book)
        if isinstance(want, TokenWant):
            self._need_token(self._tokens, want, told)
            return
        cap = cap_of(want.scope, owned.claimed, owned.driver.compiled.spec.policy, owned.driver.compiled.key_caps)
        self.book.need(want.scope, want.usd_micros, lambda found: told(_answer(want, found)), cap)

    def _need_token(self, tokens: RetryTokens, want: TokenWant, told: Told) -> None:
        sizes = {scope: size * retry_budget.UNITS for scope, size in want.sizes}

        def answered(left: TokensLeft) -> None:
            now = self._clock.now()
            told(Granted(want, _given(left, now)) if left.given else Denied(want, _emptiest(want, left, now)))

        tokens.retry(sizes, first_in_stage=want.first_in_stage, answered=answered)

    def performs(self, owned: Sharing, command: CallModel | CallTool) -> None:
        """A call goes out: a first attempt earns a share of a retry token. What the saga does has attempts of its own, which take none and earn none."""
        policy = owned.driver.compiled.spec.policy.retry
        if self._tokens is None or not policy.shared or command.attempt > 1 or is_errand(command.command_id):
            return
        model = command.model if isinstance(command, CallModel) else ""
        spec, earns = owned.driver.compiled.spec, round(policy.earn * retry_budget.UNITS)
        for scope, size in retry_budget.buckets(policy, owned.claimed.fabric_id, spec, model):
            self._tokens.first_attempt(scope, size=size * retry_budget.UNITS, earns=earns)

    def beat(self) -> None:
        """Tells what first attempts earned, where a token was asked for; until then it is told with the first that is."""
        if self._tokens is not None:
            self._tokens.tick()

    # -- batches -------------------------------------------------------------------------------------------------------

    def decided(self, batch: Batch) -> None:
        """A driver handed out a batch: what it reserves is spent from here on."""
        if batch.reserved:
            self.book.spend(batch.reserved)

    def written(self, batch: Batch, fate: Written | Exception) -> None:
        """What became of a batch. What is not known is left: closing a grant counts what is there."""
        if fate is Written.COMMITTED:
            self.book.settled(batch.settled)
        elif fate in NOT_WRITTEN or (not isinstance(fate, Written) and not _perhaps(fate)):
            self.unwritten(batch)
        if fate is Written.GRANT_GONE:
            self.book.gone({one.grant_id for one in batch.reserved})

    def unwritten(self, batch: Batch | None) -> None:
        """A batch was never written, and will not be."""
        if batch is not None:
            self.book.unspend(batch.reserved)

    def lost(self) -> None:
        """The incarnation is no more: what it held is the reaper's."""
        self.book.lost()

    def stop(self) -> None:
        """Gives back what is held. For whoever ended the loop and the writer before: a grant is not closed under a batch that reserves from it."""
        self.book.end()
        if self._desk is not None and self._asks:
            self._desk.stop()
        self.breakers.stop()


class Stores(Protocol):
    """Where guard rows are, and the budgets that rates are held against."""

    @property
    def guards(self) -> GuardStore | None:
        """None: nothing is shared of them."""
        ...

    @property
    def grants(self) -> GrantStore | None:
        """None: there are no budgets."""
        ...


def guards_of(stores: Stores, post: Post) -> Guards | None:
    """Who looks after the guard rows of these stores; None without them."""
    return None if stores.guards is None else Guards(stores.guards, post, grants=stores.grants)


def desk_of(
    grants: GrantStore | None, buckets: BucketStore | None, incarnation: Callable[[], str], post: Post
) -> GrantDesk | None:
    """Who asks these stores; None without them."""
    return None if grants is None or buckets is None else GrantDesk(grants, buckets, incarnation, post)


def _merge(guards: Guards, kind: str, scope: str, merged: Merge) -> None:
    guards.start()
    guards.merge(scope, kind, merged)


class NoDesk:
    """Of a process that shares nothing: nobody comes to ask."""

    def ask(self, *_: object) -> None:
        """See ``grants.Desk``."""

    keep = close = ask


def _perhaps(error: Exception) -> bool:
    """Whether something may have been written all the same."""
    return isinstance(error, StoreUnavailable) and error.unknown


def _answer(want: Want, found: Budget | None) -> Granted | Denied:
    if found is None:
        return Granted(want)
    return Denied(want, Refusal(found.scope, found.cap, found.spent, found.granted, found.hourly, found.asked_at))


def _given(left: TokensLeft, now: int) -> Given:
    levels = (BucketLevel(bucket=scope, level=level) for scope, level in sorted(left.levels.items()))
    return Given(tuple(levels), now)


def _emptiest(want: TokenWant, left: TokensLeft, now: int) -> Refusal:
    """The bucket that stands lowest."""
    scope, size = min(want.sizes, key=lambda one: (left.levels.get(one[0], 0), one[0]))
    return Refusal(scope, size, size - left.levels.get(scope, 0) // retry_budget.UNITS, 0, False, now)
