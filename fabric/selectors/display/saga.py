"""Calls that change the world, and undoing them."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.words import count, cut, words
from fabric.selectors.display.row import Display, Fact


def _again(fact: Fact) -> str:
    return f", attempt {fact['attempt']}" if fact["attempt"] > 1 else ""


def _why(fact: Fact) -> str:
    return f": {cut(fact['reason'])}" if fact["reason"] else ""


def _mutation_intended(fact: Fact) -> str:
    back = f"undone by {fact['compensation']}" if fact["compensation"] else "it cannot be undone"
    return f"{fact['tool']} is going to change something{_again(fact)}; {back}"


_STATUS = {
    "executed": "was executed",
    "not_executed": "was not executed",
    "unknown": "may have been executed, nobody knows",
}


def _mutation_settled(fact: Fact) -> str:
    late = ", as was learned late" if fact["outcome"] == "late" else ""
    return f"{fact['tool']} {_STATUS.get(fact['status'], words(fact['status']))}{late}{_why(fact)}"


def _reconciliation_issued(fact: Fact) -> str:
    return f"{fact['tool']} is asked whether it was executed{_again(fact)}"


def _reconciliation_failed(fact: Fact) -> str:
    return f"it did not say, and is asked again: {cut(fact['message'])}"


_FOUND = {"executed": "it was executed", "not_executed": "it was not executed", "unknown": "nobody knows"}


def _reconciliation_ended(fact: Fact) -> str:
    return f"{_FOUND[fact['found']]}{_why(fact)}"


def _unwinding_started(fact: Fact) -> str:
    before = "before it plans again" if fact["purpose"] == "replan" else "before it ends"
    return f"the run undoes {count(len(fact['order']), 'change')}, the newest first, {before}"


def _compensation_issued(fact: Fact) -> str:
    return f"{fact['tool']} undoes {fact['of_tool']}{_again(fact)}"


def _compensation_answered(fact: Fact) -> str:
    return f"undone: {fact['tool']} answered"


def _compensation_failed(fact: Fact) -> str:
    last = "" if fact["not_before"] else "; it is not tried again"
    return f"attempt {fact['attempt']} to undo failed, {words(fact['cause'])}: {cut(fact['message'])}{last}"


def _compensation_interrupted(fact: Fact) -> str:
    return f"attempt {fact['attempt']} to undo was lost with its worker, and goes out again under its key"


def _compensation_stuck(fact: Fact) -> str:
    return f"{fact['tool']} is stuck after {count(fact['attempts'], 'attempt')}: {cut(fact['message'])}"


def _compensation_resumed(fact: Fact) -> str:
    return "a person had it tried again"


def _by_hand(fact: Fact) -> str:
    return f"{fact['actor']} undid {fact['tool']} by hand"


def _skipped(fact: Fact) -> str:
    return f"{fact['tool']} stays: {cut(fact['reason'])}"


def _finished(fact: Fact) -> str:
    stays = f"; what stays: {', '.join(fact['stays'])}" if fact["stays"] else ""
    return f"{count(fact['undone'], 'change')} undone{stays}"


def _omitted(fact: Fact) -> str:
    return f"nothing is undone, {cut(fact['reason'])}; what stays: {', '.join(fact['stays'])}"


ROWS: Mapping[str, Display] = {
    "mutation_intended": Display("Change intended", "info", "call", 1, _mutation_intended),
    "mutation_settled": Display("Change known", "neutral", "check", 1, _mutation_settled),
    "reconciliation_issued": Display("Asked what happened", "warn", "ask", 2, _reconciliation_issued),
    "reconciliation_failed": Display("Not learned yet", "warn", "alert", 1, _reconciliation_failed),
    "reconciliation_ended": Display("Learned", "info", "check", 2, _reconciliation_ended),
    "unwinding_started": Display("Undoing", "warn", "undo", 3, _unwinding_started),
    "compensation_issued": Display("Undo", "warn", "undo", 1, _compensation_issued),
    "compensation_answered": Display("Undone", "ok", "check", 2, _compensation_answered),
    "compensation_failed": Display("Undo failed", "warn", "alert", 2, _compensation_failed),
    "compensation_interrupted": Display("Undo lost", "warn", "plug", 1, _compensation_interrupted),
    "compensation_stuck": Display("Undo stuck", "danger", "fail", 3, _compensation_stuck),
    "compensation_resumed": Display("Undo resumed", "human", "retry", 2, _compensation_resumed),
    "compensation_by_hand": Display("Undone by hand", "human", "answer", 3, _by_hand),
    "compensation_skipped": Display("Cannot be undone", "danger", "block", 3, _skipped),
    "compensation_abandoned": Display("Not undone", "danger", "fail", 3, _skipped),
    "unwinding_finished": Display("Undoing over", "ok", "check", 2, _finished),
    "unwinding_omitted": Display("Nothing undone", "danger", "block", 3, _omitted),
}
"""One row a kind."""
