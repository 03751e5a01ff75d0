"""Planted bugs about bills that differ from the reservation, as in ``plants.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from fabric.core import calls
from fabric.core import events as ev
from fabric.core.charging import NOTHING, Charge
from fabric.core.grants import NEVER
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms import budget, cost_velocity
from fabric.core.spending import Spending
from fabric.core.work import Work
from simulator.kernel import planting


def _refused_at_reservation() -> AbstractContextManager[None]:
    """A refused answer is booked as if its cost were not known."""
    known = calls.charge_of

    def reserved(work: Work, issued: ev.CallIssued, given: ModelReplied | CallFailed) -> Charge:
        if isinstance(given, ModelReplied):
            return known(work, issued, given)
        return Charge(issued.reserved_usd_micros, issued.reserved_tokens) if given.billed else NOTHING

    return planting.attribute(calls, "charge_of", reserved)


def _rate_of_all() -> AbstractContextManager[None]:
    """All that was ever spent counts as the last minute's."""
    return planting.attribute(Spending, "last_minute", lambda spent, _now: (spent.usd_micros, spent.tokens))


MONEY_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "dearest_call_forgotten": lambda: planting.attribute(budget, "dearest", lambda *_: NEVER),
    "refused_answer_at_reservation": _refused_at_reservation,
    "spends_at_any_rate": lambda: planting.attribute(cost_velocity, "_too_fast", lambda *_: None),
    "rate_counts_everything": _rate_of_all,
}
"""Every one by name."""
