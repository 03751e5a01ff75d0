"""Each decision is derived again from the facts before it (``fabric.core.derivation``) and must be the recorded one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.derivation import Difference, Rules, noted
from fabric.core.derivation.compare import change_pairs, derived_one, differing, retry_pairs
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
    elif event.fact.kind in ("retry_scheduled", "node_retry_scheduled"):
        said = _said("of its retry ", differing(retry_pairs(seen.ledger, fact, Rules.of(seen.compiled))))
    elif event.fact.kind == "model_changed" and not fact.actor and seen.decided is not None:
        pairs = change_pairs(seen.ledger, seen.decided, event, Rules.of(seen.compiled))
        said = _said("of its model ", differing(pairs))
    noted(seen.ledger, event.fact)
    return said


def _said(of: str, differences: Iterable[Difference]) -> str:
    return "; ".join(f"{of}{one.field} is {one.recorded}, derived {one.derived}" for one in differences)
