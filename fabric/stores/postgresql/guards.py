"""Stores retry tokens and guard rows on PostgreSQL. Every call is one statement, a conditional update on the values
that the caller saw.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fabric.core.values.units import US
from fabric.runtime.ports.spending import GuardChanged, GuardRow, RunLine, SignalCount, TokenAsk, TokensLeft
from fabric.stores.postgresql.connection import bigints, bools, texts
from fabric.stores.postgresql.grants import SharedConnections
from fabric.stores.postgresql.statements import guards as statements
from fabric.stores.rows import audit_values


class PostgresqlGuards(SharedConnections):
    """``ports.spending.BucketStore`` and ``GuardStore`` on PostgreSQL 14 or later."""

    # -- retry tokens --------------------------------------------------------------------------------------------------

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """See ``ports.spending.BucketStore``."""
        found = self._tokens(asks, take=True, first=first_in_stage)
        return TokensLeft(bool(found and found[0][2]), {scope: level for scope, level, _ in found})

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """See ``ports.spending.BucketStore``."""
        self._tokens(asks, take=False, first=False)

    def _tokens(self, asks: Sequence[TokenAsk], *, take: bool, first: bool) -> list[tuple[str, int, bool]]:
        values = {
            "scopes": texts([ask.scope for ask in asks]),
            "sizes": bigints([ask.size for ask in asks]),
            "earned": bigints([ask.earned for ask in asks]),
        }
        found = self.run(statements.TOKENS, values | {"take": take, "first": first})
        if not found:
            self.run(statements.FILL, values)
            found = self.run(statements.TOKENS, values | {"take": take, "first": first})
        return [(scope, level, given) for scope, level, given in found]

    # -- guard rows ----------------------------------------------------------------------------------------------------

    def guards(self, keys: Sequence[tuple[str, str]]) -> list[GuardRow]:
        """See ``ports.spending.GuardStore``."""
        values = {"scopes": texts([scope for scope, _ in keys]), "kinds": texts([kind for _, kind in keys])}
        counts: dict[tuple[str, str], dict[str, int]] = {key: {} for key in keys}
        rows = {}
        for scope, kind, *standing, signal, n in self.run(statements.GUARDS, values, changes=False):
            rows[scope, kind] = standing
            if signal is not None:
                counts[scope, kind][signal] = n
        return [_row(key, rows[key], counts[key]) for key in keys]

    def tell(self, counts: Sequence[SignalCount]) -> None:
        """See ``ports.spending.GuardStore``."""
        # Instants first: a reader who sees a counted failure also sees its instant.
        if instants := [one for one in counts if one.until]:
            self.run(statements.UNTIL, _values(instants))
        if others := [one for one in counts if not one.until]:
            self.run(statements.TELL, _values(others) | {"windowed": bools([one.windowed for one in others])})

    def change(
        self,
        scope: str,
        kind: str,
        *,
        generation: int,
        state: str,
        holder: str = "",
        keeps: bool = False,
        line: RunLine | None = None,
    ) -> bool:
        """See ``ports.spending.GuardStore``."""
        values: dict[str, Any] = {"scope": scope, "kind": kind, "generation": generation, "state": state}
        values |= {"holder": holder, "keeps": keeps}
        if line is None:
            return bool(self.run(statements.CHANGE, values))
        told = audit_values(line.entry) | {"run_id": line.run_id}
        return bool(self.run(statements.CHANGE_AUDITED, values | told))

    def changes(self, scope: str, kind: str) -> list[GuardChanged]:
        """See ``ports.spending.GuardStore``."""
        found = self.run(statements.CHANGES, {"scope": scope, "kind": kind}, changes=False)
        return [GuardChanged(*row) for row in found]

    def permit(self, scope: str, kind: str, *, generation: int, holder: str, for_s: float, most: int = 1) -> bool:
        """See ``ports.spending.GuardStore``."""
        values = {"scope": scope, "kind": kind, "generation": generation, "holder": holder, "most": most}
        return bool(self.run(statements.PERMIT, values | {"for": round(for_s * US)}))

    def give_up(self, scope: str, kind: str, *, holder: str) -> bool:
        """See ``ports.spending.GuardStore``."""
        return bool(self.run(statements.GIVE_UP, {"scope": scope, "kind": kind, "holder": holder}))


def _values(counts: Sequence[SignalCount]) -> dict[str, bytes]:
    return {
        "scopes": texts([one.scope for one in counts]),
        "kinds": texts([one.kind for one in counts]),
        "generations": bigints([one.generation for one in counts]),
        "signals": texts([one.signal for one in counts]),
        "ns": bigints([one.n for one in counts]),
        "resets": bools([one.reset for one in counts]),
    }


def _row(key: tuple[str, str], standing: list[object], counts: dict[str, int]) -> GuardRow:
    state, generation, changed_at, permits, us = standing
    values = {"state": state, "generation": generation, "changed_at": changed_at, "asked_at": us}
    return GuardRow(scope=key[0], kind=key[1], counts=counts, permits=json.loads(str(permits)), **values)  # type: ignore[arg-type]
