"""Calls that change the world, and undoing them."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values.words import count, cut, join_words, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts, always


def _again(fact: Fact) -> str:
    return f"attempt {fact['attempt']}" if fact["attempt"] > 1 else ""


def _mutation_intended(fact: Fact) -> Parts:
    back = f"undone by {fact['compensation']}" if fact["compensation"] else "it cannot be undone"
    return Parts("The engine", f"prepared a change by {fact['tool']}", join_words(back, _again(fact)))


_STATUS = {"executed": "was executed", "not_executed": "was not executed", "unknown": "may have been executed"}


def _mutation_settled(fact: Fact) -> Parts:
    late = "learned late" if fact["outcome"] == "late" else ""
    status = _STATUS.get(fact["status"], f"was {words(fact['status'])}")
    return Parts(fact["tool"], status, late, cut(fact["reason"]))


_FOUND = {
    "executed": "learned that the call was executed",
    "not_executed": "learned that the call was not executed",
    "unknown": "could not learn whether the call was executed",
}


def _unwinding_started(fact: Fact) -> Parts:
    before = "before a new plan" if fact["purpose"] == "replan" else "before it ends"
    return Parts("The run", f"began to undo {count(len(fact['order']), 'change')}, the newest first", before)


def _compensation_failed(fact: Fact) -> Parts:
    last = "" if fact["not_before"] else "it was the last attempt"
    return Parts(
        f"Attempt {fact['attempt']} to undo", "failed", last, f"{words(fact['cause'])}, {cut(fact['message'])}"
    )


def _stays(fact: Fact) -> str:
    return f"not undone: {', '.join(fact['stays'])}" if fact["stays"] else ""


ROWS: Mapping[str, EventDisplay] = {
    "mutation_intended": EventDisplay(
        "Change intended", "info", "call", 1, _mutation_intended,
        "The journal has it before the call goes out. The key is the same when a step runs again, so its change is found.",
    ),
    "mutation_settled": EventDisplay(
        "Change known", "neutral", "check", 1, _mutation_settled,
        "A change that was executed, or may have been, is undone when the run ends badly. "
        "A call with an unknown outcome is never sent again without a person's word.",
        fails=lambda fact: fact.get("status") == "unknown",
    ),
    "reconciliation_issued": EventDisplay(
        "Outcome checked", "warn", "ask", 2,
        lambda fact: Parts("The engine", f"asked {fact['tool']} for the outcome of the call", _again(fact)),
    ),
    "reconciliation_failed": EventDisplay(
        "Outcome still unknown", "warn", "alert", 1,
        lambda fact: Parts("The engine", "did not learn the outcome yet", _again(fact), cut(fact["message"])),
    ),
    "reconciliation_ended": EventDisplay(
        "Outcome known", "info", "check", 2, lambda fact: Parts("The engine", _FOUND[fact["found"]], why=cut(fact["reason"]))
    ),
    "unwinding_started": EventDisplay(
        "Undoing", "warn", "undo", 3, _unwinding_started,
        "Changes are undone one at a time. The run's deadlines do not count meanwhile.", fails=always, follows=True,
    ),
    "compensation_issued": EventDisplay(
        "Undo", "warn", "undo", 1,
        lambda fact: Parts("The engine", f"called {fact['tool']} to undo {fact['of_tool']}", _again(fact)),
    ),
    "compensation_answered": EventDisplay(
        "Undone", "ok", "check", 2, lambda fact: Parts(fact["tool"], "undid the change", _again(fact))
    ),
    "compensation_failed": EventDisplay(
        "Undo failed", "warn", "alert", 2, _compensation_failed, fails=always
    ),
    "compensation_interrupted": EventDisplay(
        "Undo lost", "warn", "plug", 1,
        lambda fact: Parts(f"Attempt {fact['attempt']} to undo", "was lost with its worker"),
        "It goes out again under its key.",
    ),
    "compensation_stuck": EventDisplay(
        "Undo stuck", "danger", "fail", 3,
        lambda fact: Parts(fact["tool"], f"failed to undo {count(fact['attempts'], 'time')}", why=cut(fact["message"])),
        "A person is asked: approve tries again, respond says that it was done by hand.", fails=always, follows=True,
    ),
    "compensation_resumed": EventDisplay(
        "Undo resumed", "human", "retry", 2, lambda fact: Parts("A person", "had the change undone again")
    ),
    "compensation_by_hand": EventDisplay(
        "Undone by hand", "human", "answer", 3, lambda fact: Parts(fact["actor"], f"undid {fact['tool']} by hand")
    ),
    "compensation_skipped": EventDisplay(
        "Cannot be undone", "danger", "block", 3,
        lambda fact: Parts("The engine", f"could not undo {fact['tool']}", why=cut(fact["reason"])), fails=always,
    ),
    "compensation_abandoned": EventDisplay(
        "Not undone", "danger", "fail", 3,
        lambda fact: Parts("The engine", f"gave up undoing {fact['tool']}", why=cut(fact["reason"])), fails=always,
    ),
    "unwinding_finished": EventDisplay(
        "Undoing over", "ok", "check", 2,
        lambda fact: Parts("The run", f"undid {count(fact['undone'], 'change')}", _stays(fact)), follows=True,
    ),
    "unwinding_omitted": EventDisplay(
        "Nothing undone", "danger", "block", 3,
        lambda fact: Parts("The run", "undid nothing", _stays(fact), cut(fact["reason"])), fails=always,
    ),
}  # fmt: skip
