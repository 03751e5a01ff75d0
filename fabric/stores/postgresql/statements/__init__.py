"""The statements of the PostgreSQL store. Each is the whole of a call: one statement, one transaction, one round
trip.

- Parameters are written ``:name``.
- The clock is the database's; ``clock_timestamp()`` is read once a statement, in ``now``, so that an index can be
  searched with it.
- ``coalesce`` for "is null" or "is not in" keeps the planner from a partial index that looks cheap while the tables
  are small: the plan is made once and must do for large ones too.
- READ COMMITTED: a row that changed since the statement began is checked again before it is updated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
WAKE_CHANNEL = "fabric_wake"
TOLD_CHANNEL = "fabric_told"


class Statement:
    """SQL with named parameters, in the numbered form that PostgreSQL prepares."""

    def __init__(self, text: str) -> None:
        self._names: list[str] = []
        self.sql = _PARAMETER.sub(self._number, text).encode()

    def _number(self, found: re.Match[str]) -> str:
        name = found[1]
        if name not in self._names:
            self._names.append(name)
        return f"${self._names.index(name) + 1}"

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the parameters' values in their order. Raises KeyError for a missing one."""
        return [values[name] for name in self._names]


NOW = "now AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us)"
