"""Retry tokens that runs share: first attempts earn in memory, a retry takes from the database with what was earned since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fabric.runtime.grant_ports import TokenAsk, TokensLeft


class TokenDesk(Protocol):
    """Who asks the store (``grant_desk.GrantDesk``)."""

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool, answered: Callable[[TokensLeft], None]) -> None:
        """Takes a token from each bucket."""
        ...

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """Credits what was earned."""
        ...


class RetryTokens:
    """Belongs to the loop thread. Amounts are thousandths of a token."""

    def __init__(self, desk: TokenDesk) -> None:
        self._desk = desk
        self._earned: dict[str, TokenAsk] = {}
        self._asked = False

    def first_attempt(self, scope: str, *, size: int, earns: int) -> None:
        """A first attempt went out under this scope."""
        known = self._earned.get(scope)
        self._earned[scope] = TokenAsk(scope, size, earns + (known.earned if known else 0))

    def retry(
        self,
        sizes: dict[str, int],
        *,
        first_in_stage: bool,
        answered: Callable[[TokensLeft], None],
    ) -> None:
        """Asks for a token of each of these scopes, given with their sizes; ``answered`` follows."""
        self._asked = True
        asks = [TokenAsk(scope, size, self._take(scope)) for scope, size in sorted(sizes.items())]
        self._desk.retry(asks, first_in_stage=first_in_stage, answered=answered)

    def _take(self, scope: str) -> int:
        known = self._earned.pop(scope, None)
        return known.earned if known else 0

    def tick(self) -> None:
        """Tells what was earned and nobody has asked with; call it with each beat. A process that never retried tells nothing: the bucket is as full as
        those left it who did, and what it keeps to itself can only make retries fewer.
        """
        if not self._asked:
            return
        asks, self._earned = [self._earned[scope] for scope in sorted(self._earned)], {}
        if asks:
            self._desk.earn(asks)
