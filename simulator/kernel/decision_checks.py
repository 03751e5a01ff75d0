"""Each decision is derived again from the facts before it (``fabric.core.derivation``) and must be the recorded one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.derivation import Difference, Rules, noted
from fabric.core.derivation.compare import carrying_out, derived_one, differing, follows
from fabric.core.envelope import Event
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on()
def decision_derives(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a decision recorded of its cause leads to the same row, cell, rung and reaction once more, by the journal alone."""
    said = ""
    if event.fact.kind == "reaction_decided":
        found = derived_one(seen.ledger, event, Rules.of(seen.compiled))
        said = _said("", found.differences)
        if found.verdict == "other_table":
            said = f"it names table {fact.table}, which is not the fabric's"
    elif seen.decided is not None and follows(seen.decided, fact):
        pairs = carrying_out(seen.ledger, seen.decided, event, Rules.of(seen.compiled))
        said = _said(f"of {event.fact.kind} ", differing(pairs))
    noted(seen.ledger, event.fact)
    return said


def _said(of: str, differences: Iterable[Difference]) -> str:
    return "; ".join(f"{of}{one.field} is {one.recorded}, derived {one.derived}" for one in differences)
