"""Looks for scheduled publications that are due. The code that publishes is loaded when there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fabric.selectors.drafts.change_requests import publications_due
from fabric.worker.process.duties import DutySpec, database_us

LOOK_S, LEASE_S = 5.0, 300.0


def publications_duty(providers: Callable[[], Collection[str]]) -> DutySpec:
    """Return the duty of workers that publishes what is due. ``providers``: names of the provider adapters."""
    return DutySpec(
        name="publications",
        look_s=LOOK_S,
        every_s=0.0,
        lease_s=LEASE_S,
        wanted=publications_wait,
        act=lambda: _carry_out(providers()),
    )


def publications_wait() -> bool:
    """Return True if a publication is due. It costs an index look-up."""
    return publications_due(database_us()).exists()


def _carry_out(providers: Collection[str]) -> int:
    from fabric.services.drafts.scheduled import publications_carry_out  # It reads YAML, which a worker seldom does.

    return publications_carry_out(providers)
