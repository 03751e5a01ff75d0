"""Holds one process's part in the shared state: its grants, retry tokens and circuit breakers, with each batch's
changes.

Belongs to the loop thread, except ``stop``. The desk, which queries the database, begins with the first want: a process
whose runs share nothing makes no query. First attempts earn shared retry tokens in memory; a retry takes one from the
database with the earned ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from fabric.core.budgets.grants import Refusal, TokenGiven, TokenWant, Want
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.parts import BucketLevel
from fabric.core.mechanisms import retry_budget
from fabric.core.state.context import CompiledFabric
from fabric.core.values.command_ids import is_errand
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Denied, Granted
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, Clock, StoreUnavailable
from fabric.runtime.ports.spending import BucketStore, Budget, GrantStore, GuardStore, TokenAsk, TokensLeft
from fabric.runtime.spending.overruns import KIND as BILLED_ABOVE
from fabric.runtime.spending.overruns import Merge, Surprises
from fabric.runtime.spending.shares import find_cap
from fabric.runtime.spending.usual_rates import KIND as USUAL_RATE
from fabric.runtime.spending.usual_rates import UsualRates
from fabric.worker.spending.breakers import Breakers
from fabric.worker.spending.grant_desk import GrantDesk, Post
from fabric.worker.spending.grants import GrantBook
from fabric.worker.spending.guards import Guards

Told = Callable[[Granted | Denied], None]
NOT_WRITTEN = frozenset({BatchFate.INPUT_GONE, BatchFate.FAMILY_FULL, BatchFate.GRANT_GONE})
"""Fates after which surely nothing of a batch was written. A lost fence is not among them: its commit's answer may
have been lost.
"""

NO_STORE = "this worker was started without the stores of shared budgets and retry tokens, so it sends no call: no store can grant one"


class SharingRun(Protocol):
    """A run that a process drives, as far as shared state needs it."""

    @property
    def claimed(self) -> ClaimedRun:
        """The claim."""
        ...

    @property
    def driver(self) -> RunDriver:
        """The run in memory."""
        ...


class ProcessShare:
    """Shared state of a process. ``desk`` None: nothing is shared, and wants are refused. ``now``: the desk's clock,
    seconds.
    """

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

    def driver(self, compiled: CompiledFabric, *how: Any, **program: Any) -> RunDriver:
        """Return the driver of a run that this process takes. ``how``, ``program``: see ``RunDriver``."""
        return RunDriver(compiled, *how, **program, held=self.book, surprises=self.surprises, usual=self.usual)

    def learn(self, kind: str, scope: str, state: str) -> None:
        """Record a guard row that was read with claims."""
        (self.surprises if kind == BILLED_ABOVE else self.usual).learn(scope, state)

    # -- wants ---------------------------------------------------------------------------------------------------------

    def need(self, owned: SharingRun, want: Want | TokenWant, told: Told) -> None:
        """Request a driver's want; ``told`` follows on the loop, never at once."""
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
        cap = find_cap(
            want.scope, owned.claimed, owned.driver.compiled_fabric.spec.policy, owned.driver.compiled_fabric.key_caps
        )
        self.book.need(want.scope, want.usd_micros, lambda found: told(_answer(want, found)), cap)

    def _need_token(self, tokens: RetryTokens, want: TokenWant, told: Told) -> None:
        sizes = {scope: size * retry_budget.UNITS for scope, size in want.sizes}

        def take_answer(left: TokensLeft) -> None:
            now = self._clock.now()
            told(Granted(want, _build_token(left, now)) if left.given else Denied(want, _emptiest(want, left, now)))

        tokens.retry(sizes, first_in_stage=want.first_in_stage, answered=take_answer)

    def performs(self, owned: SharingRun, command: CallModel | CallTool) -> None:
        """Record a call that goes out: a first attempt earns a share of a retry token. A saga's own attempts take
        none and earn none.
        """
        policy = owned.driver.compiled_fabric.spec.policy.retry
        if self._tokens is None or not policy.shared or command.attempt > 1 or is_errand(command.command_id):
            return
        model = command.model if isinstance(command, CallModel) else ""
        spec, earns = owned.driver.compiled_fabric.spec, round(policy.earn * retry_budget.UNITS)
        for scope, size in retry_budget.buckets(policy, owned.claimed.fabric_id, spec, model):
            self._tokens.first_attempt(scope, size=size * retry_budget.UNITS, earns=earns)

    def beat(self) -> None:
        """Report tokens earned by first attempts, once a token was requested; before, the first request reports
        them.
        """
        if self._tokens is not None:
            self._tokens.tick()

    # -- batches -------------------------------------------------------------------------------------------------------

    def spend_reservations(self, batch: Batch) -> None:
        """Spend the reservations of a batch that a driver handed out."""
        if batch.reserved:
            self.book.spend(batch.reserved)

    def apply_fate(self, batch: Batch, fate: BatchFate | Exception) -> None:
        """Apply the fate of a batch. An unknown fate is left: closing a grant counts what exists."""
        if fate is BatchFate.COMMITTED:
            self.book.settle_grants(batch.settled)
        elif fate in NOT_WRITTEN or (not isinstance(fate, BatchFate) and not _perhaps(fate)):
            self.unwritten(batch)
        if fate is BatchFate.GRANT_GONE:
            self.book.drop_grants({one.grant_id for one in batch.reserved})

    def unwritten(self, batch: Batch | None) -> None:
        """Put back the reservations of a batch that was never written, and will not be."""
        if batch is not None:
            self.book.unspend(batch.reserved)

    def forget_all(self) -> None:
        """Forget all grants: the incarnation is gone, so the reaper collects them."""
        self.book.forget_all()

    def stop(self) -> None:
        """Give back all grants. Call it after the end of loop and writer: a grant must not be closed under a batch that
        reserves from it.
        """
        self.book.end()
        if self._desk is not None and self._asks:
            self._desk.stop()
        self.breakers.stop()


class SharedStores(Protocol):
    """Stores of guard rows, and of the budgets by which rates are judged."""

    @property
    def guards(self) -> GuardStore | None:
        """Store of guards; None: none are shared."""
        ...

    @property
    def grants(self) -> GrantStore | None:
        """Store of budgets; None: there are none."""
        ...


def find_guards(stores: SharedStores, post: Post) -> Guards | None:
    """Return the guards over these stores; None without them."""
    return None if stores.guards is None else Guards(stores.guards, post, grants=stores.grants)


def find_desk(
    grants: GrantStore | None, buckets: BucketStore | None, incarnation: Callable[[], str], post: Post
) -> GrantDesk | None:
    """Return the desk over these stores; None without them."""
    return None if grants is None or buckets is None else GrantDesk(grants, buckets, incarnation, post)


def _merge(guards: Guards, kind: str, scope: str, merged: Merge) -> None:
    guards.start()
    guards.merge(scope, kind, merged)


class NoDesk:
    """The desk of a process that shares nothing: no request comes."""

    def ask(self, *_: object) -> None:
        """See ``grants.GrantClient``."""

    keep = close = ask


def _perhaps(error: Exception) -> bool:
    """Return True if the write may have happened all the same."""
    return isinstance(error, StoreUnavailable) and error.unknown


def _answer(want: Want, found: Budget | None) -> Granted | Denied:
    if found is None:
        return Granted(want)
    return Denied(want, Refusal(found.scope, found.cap, found.spent, found.granted, found.hourly, found.asked_at))


def _build_token(left: TokensLeft, now: int) -> TokenGiven:
    levels = (BucketLevel(bucket=scope, level=level) for scope, level in sorted(left.levels.items()))
    return TokenGiven(tuple(levels), now)


def _emptiest(want: TokenWant, left: TokensLeft, now: int) -> Refusal:
    """Return the emptiest bucket."""
    scope, size = min(want.sizes, key=lambda one: (left.levels.get(one[0], 0), one[0]))
    return Refusal(scope, size, size - left.levels.get(scope, 0) // retry_budget.UNITS, 0, False, now)


class TokenDesk(Protocol):
    """Client of the store (``grant_desk.GrantDesk``)."""

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool, answered: Callable[[TokensLeft], None]) -> None:
        """Take a token from each bucket."""
        ...

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """Credit earned tokens."""
        ...


class RetryTokens:
    """Retry tokens of a process, in thousandths of a token. Belongs to the loop thread."""

    def __init__(self, desk: TokenDesk) -> None:
        self._desk = desk
        self._earned: dict[str, TokenAsk] = {}
        self._asked = False

    def first_attempt(self, scope: str, *, size: int, earns: int) -> None:
        """Record a first attempt under this scope."""
        known = self._earned.get(scope)
        self._earned[scope] = TokenAsk(scope, size, earns + (known.earned if known else 0))

    def retry(
        self,
        sizes: dict[str, int],
        *,
        first_in_stage: bool,
        answered: Callable[[TokensLeft], None],
    ) -> None:
        """Request a token of each of these scopes with their sizes; ``answered`` follows."""
        self._asked = True
        asks = [TokenAsk(scope, size, self._take(scope)) for scope, size in sorted(sizes.items())]
        self._desk.retry(asks, first_in_stage=first_in_stage, answered=answered)

    def _take(self, scope: str) -> int:
        known = self._earned.pop(scope, None)
        return known.earned if known else 0

    def tick(self) -> None:
        """Report earned tokens that no request has reported; call it with each beat.

        A process that never retried reports nothing: the bucket is as full as those who retried left it, and
        unreported tokens only make retries fewer.
        """
        if not self._asked:
            return
        asks, self._earned = [self._earned[scope] for scope in sorted(self._earned)], {}
        if asks:
            self._desk.earn(asks)
