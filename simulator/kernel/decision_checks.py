"""Each decision is derived again from the facts before it (``fabric.core.derivation``) and must be the recorded one."""

from __future__ import annotations

from typing import Any

from fabric.core.derivation import Rules, noted
from fabric.core.derivation.compare import derived_one, derived_retry
from fabric.core.envelope import Event
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on()
def decision_derives(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a decision recorded of its cause leads to the same row, cell, rung and reaction once more, by the journal alone."""
    said = ""
    if event.fact.kind == "reaction_decided":
        found = derived_one(seen.ledger, event, Rules.of(seen.compiled))
        said = "; ".join(f"{one.field} is {one.recorded}, derived {one.derived}" for one in found.differences)
        if found.verdict == "other_table":
            said = f"it names table {fact.table}, which is not the fabric's"
    elif event.fact.kind == "retry_scheduled":
        found_so = derived_retry(seen.ledger, fact, Rules.of(seen.compiled))
        said = "; ".join(f"of its retry {one.field}: {one.recorded}, derived {one.derived}" for one in found_so)
    noted(seen.ledger, event.fact)
    return said
