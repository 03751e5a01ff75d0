"""Parent runs and child runs."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values.words import count, cut, dollars, join_words
from fabric.selectors.runs.display.lifecycle import end_words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts, always


def _lineage_pinned(fact: Fact) -> Parts:
    briefs = count(len(fact["briefs"]), "brief") if fact["purpose"] == "slice" else "one brief as a flow of its own"
    numbers = join_words(briefs, f"at most {dollars(fact['cap_usd_micros'])}")
    return Parts(f"Run {fact['parent_run_id']}", "started this child run", numbers)


def _child_spawned(fact: Fact) -> Parts:
    numbers = join_words(count(len(fact["briefs"]), "brief"), f"{dollars(fact['reserved_usd_micros'])} reserved")
    return Parts("The run", f"started child run {fact['child_id']}", numbers)


def _child_answered(fact: Fact) -> Parts:
    late = "too late to matter" if fact["late"] else ""
    missing = f"{count(len(fact['missing']), 'brief')} without a result" if fact["missing"] else ""
    numbers = join_words(late, f"{dollars(fact['cost_usd_micros'])} spent", missing)
    reason = "" if fact["state"] == "completed" else cut(fact["reason"])
    return Parts(f"Child run {fact['child_id']}", end_words(fact["state"]), numbers, reason)


def _child_waiting(fact: Fact) -> Parts:
    return Parts(f"Child run {fact['child_id']}", "began to wait for people alone" if fact["waiting"] else "went on")


def _child_let_go(fact: Fact) -> Parts:
    child = f"child run {fact['child_id']}"
    what = f"told {child} to stop" if fact["how"] == "cancel" else f"terminated {child}"
    return Parts("The run", what, why=cut(fact["reason"]))


def _mutation_taken_over(fact: Fact) -> Parts:
    stays = {"skipped": "it cannot be undone", "abandoned": "it stays as it is"}
    what = f"took over what {fact['tool']} changed for child run {fact['child_id']}"
    return Parts("The run", what, stays.get(fact["status"], "to be undone with its own"))


ROWS: Mapping[str, EventDisplay] = {
    "lineage_pinned": EventDisplay(
        "Child run", "info", "branch", 2, _lineage_pinned, content="Its part of the plan"
    ),
    "child_spawned": EventDisplay(
        "Child run began", "info", "branch", 2, _child_spawned,
        "Any worker with room claims it, like any other run. Money that it does not spend comes back when it ends.",
    ),
    "child_answered": EventDisplay(
        "Child run ended", "ok", "branch", 2, _child_answered, content="Result",
        fails=lambda fact: fact.get("state") != "completed" or bool(fact.get("missing")),
    ),
    "child_waiting": EventDisplay("Child run waits", "human", "pause", 1, _child_waiting),
    "child_let_go": EventDisplay(
        "Child run stopped", "neutral", "cut", 1, _child_let_go,
        "The run waits for it all the same: the child's own end says what it cost.",
    ),
    "child_quarantined": EventDisplay(
        "Child run quarantined", "danger", "alert", 3,
        lambda fact: Parts("The engine", f"put child run {fact['child_id']} into quarantine", why=cut(fact["reason"])),
        "A person is asked here too: approve has the child try again, reject aborts it. "
        "The decision table says what an abort means for its branch.",
        fails=always,
    ),
    "child_freed": EventDisplay(
        "Child run freed", "info", "branch", 2, lambda fact: Parts(f"Child run {fact['child_id']}", "left quarantine")
    ),
    "mutation_taken_over": EventDisplay(
        "Change taken over", "neutral", "undo", 2, _mutation_taken_over,
        "The child is over and takes in nothing more, so this run undoes the change if it ends badly.",
        "Call and answer",
    ),
}  # fmt: skip
