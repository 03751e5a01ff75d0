"""Parents and children."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.words import count, cut, dollars
from fabric.selectors.display.row import Display, Fact


def _lineage_pinned(fact: Fact) -> str:
    briefs = fact["briefs"]
    what = count(len(briefs), "brief", "briefs") if fact["purpose"] == "slice" else "one brief as a flow of its own"
    return f"a child of run {fact['parent_run_id']}: {what}, at most {dollars(fact['cap_usd_micros'])}"


def _child_spawned(fact: Fact) -> str:
    what = count(len(fact["briefs"]), "brief", "briefs")
    return f"child run {fact['child_id']} does {what}, {dollars(fact['reserved_usd_micros'])} reserved"


def _child_answered(fact: Fact) -> str:
    late = ", too late to matter" if fact["late"] else ""
    missing = f", {count(len(fact['missing']), 'brief', 'briefs')} without a result" if fact["missing"] else ""
    reason = "" if fact["state"] == "completed" else f": {cut(fact['reason'])}"
    return (
        f"child run {fact['child_id']} {fact['state']}{late}, {dollars(fact['cost_usd_micros'])} spent{missing}{reason}"
    )


def _child_waiting(fact: Fact) -> str:
    return f"child run {fact['child_id']} " + ("waits for a person alone" if fact["waiting"] else "goes on")


def _child_let_go(fact: Fact) -> str:
    how = "was told to stop" if fact["how"] == "cancel" else "was terminated"
    return f"child run {fact['child_id']} {how}: {cut(fact['reason'])}"


def _child_quarantined(fact: Fact) -> str:
    return f"child run {fact['child_id']} may not be driven on before a person says so: {cut(fact['reason'])}"


def _child_freed(fact: Fact) -> str:
    return f"child run {fact['child_id']} is quarantined no longer"


def _mutation_taken_over(fact: Fact) -> str:
    stays = {"skipped": ", which cannot be undone", "abandoned": ", which stays as it is"}.get(fact["status"], "")
    return f"what {fact['tool']} changed for child run {fact['child_id']} is this run's now{stays or ', to be undone with its own'}"


def _mutation_inherited(fact: Fact) -> str:
    return f"what {fact['tool']} changed in an earlier try, child run {fact['child_id']}, is this run's now"


ROWS: Mapping[str, Display] = {
    "lineage_pinned": Display("Child run", "info", "branch", 2, _lineage_pinned),
    "child_spawned": Display("Child run began", "info", "branch", 2, _child_spawned),
    "child_answered": Display("Child run ended", "ok", "branch", 2, _child_answered),
    "child_waiting": Display("Child run waits", "human", "pause", 1, _child_waiting),
    "child_let_go": Display("Child run stopped", "neutral", "cut", 1, _child_let_go),
    "child_quarantined": Display("Child run quarantined", "danger", "alert", 3, _child_quarantined),
    "child_freed": Display("Child run freed", "info", "branch", 2, _child_freed),
    "mutation_inherited": Display("Change of an earlier try", "neutral", "undo", 2, _mutation_inherited),
    "mutation_taken_over": Display("Change taken over", "neutral", "undo", 2, _mutation_taken_over),
}
