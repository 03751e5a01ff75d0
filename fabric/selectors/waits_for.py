"""Whom a run waits for: read from its own row's columns, in Python and as a condition on rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from django.db.models import Q

from fabric.core.flow import PROVIDER_AWAY, RunState

WaitsFor = Literal["person", "provider"]
WAITS: Mapping[WaitsFor, Q] = {
    "person": Q(state=RunState.WAITING.value),
    "provider": Q(state=RunState.RUNNING.value, reason__startswith=PROVIDER_AWAY),
}
"""The runs that wait for each; total over ``WaitsFor``. All of them are live."""


class Waiting:
    """A run as some list or page shows it, with its columns ``state`` and ``reason``."""

    __slots__ = ()
    state: str
    reason: str

    @property
    def waits_for(self) -> WaitsFor | None:
        """Whom it waits for, and does nothing else meanwhile. A run that waits for a provider goes on by itself."""
        if self.state == RunState.WAITING:
            return "person"
        away = self.state == RunState.RUNNING and self.reason.startswith(PROVIDER_AWAY)
        return "provider" if away else None
