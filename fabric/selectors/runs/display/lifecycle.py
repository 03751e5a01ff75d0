"""Start, stages and end of a run."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.spec.policies.budgets import RUN, amount_words
from fabric.core.values.flow import ANSWERED
from fabric.core.values.units import JSON
from fabric.core.values.words import count, cut, join_words, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts, always


def _usual_rates(fact: Fact) -> Parts:
    found = next((one for one in fact["rates"] if one["scope"] == RUN), None)
    numbers = count(len(fact["rates"]), "part")
    if found is not None:
        amount = amount_words(found["usd_micros"], "usd_micros")
        numbers = f"{amount} in the busiest minute, over {count(found['runs'], 'run')}"
    return Parts("The run", "took up what its fabric usually spends", numbers)


def _policy_taken_up(fact: Fact) -> Parts:
    most = fact["run_usd_micros"]
    cap = "" if most is None else f"a run may spend {amount_words(most, 'usd_micros')}"
    return Parts("The run", f"took up version {fact['number']} of the workspace's policy", cap)


def gate_refused(fact: Fact) -> bool:
    """Return True where the fact has a gate that did not pass."""
    return bool((fact.get("gate") or {}).get("cause"))


def _score(gate: JSON) -> str:
    scored = gate and gate.get("score") is not None
    return f"score {gate['score']:.2f} of {gate['tau']:.2f} needed" if scored else ""


def _problem(gate: JSON) -> str:
    if not gate or not gate.get("cause"):
        return ""
    failed = next(check for check in gate["checks"] if check["result"] == "failed")
    return f"{gate['gate']}-gate, {cut(failed['problems'][0] if failed['problems'] else words(gate['cause']))}"


def _stage_entered(fact: Fact) -> Parts:
    agents = list(dict.fromkeys(fact["agents"]))
    many = f"{count(len(fact['agents']), 'branch', 'branches')} for " if len(fact["agents"]) > 1 else ""
    who = f" with {many}{', '.join(agents)}" if agents else ""
    numbers = join_words(f"replan {fact['epoch']}" if fact["epoch"] else "", _score(fact["gate"]))
    return Parts(words(fact["stage"]).capitalize(), f"began{who}", numbers, _problem(fact["gate"]))


_LEFT = {"passed": "passed", "replan": "was given up for a new plan", "ended": "ended with the run"}


def _stage_left(fact: Fact) -> Parts:
    gate = fact["gate"]
    return Parts(words(fact["stage"]).capitalize(), _LEFT[fact["outcome"]], _score(gate), _problem(gate))


def _show_replan(fact: Fact) -> Parts:
    under = f" under {fact['planner']}" if fact["planner"] else ""
    failed = f"{words(fact['stage'])} failed, {words(fact['reason'])}"
    why = "a person asked for it" if fact["reason"] == "a_person_asked" else failed
    return Parts("The run", f"began replan {fact['epoch']}{under}", why=why)


def end_words(state: str) -> str:
    """Return the past tense of an end: ``completed``, ``failed``, ``was aborted``."""
    return state if state in ("completed", "failed") else f"was {words(state)}"


def _run_ended(fact: Fact) -> Parts:
    recovered = " after recovery" if fact["recovered"] and fact["state"] == "completed" else ""
    partial = "the partial result is kept" if fact["partial"] and fact["state"] not in ANSWERED else ""
    return Parts("The run", f"{end_words(fact['state'])}{recovered}", partial, cut(fact["reason"]))


def _not_completed(fact: Fact) -> bool:
    return bool(fact.get("state") != "completed")


ROWS: Mapping[str, EventDisplay] = {
    "run_started": EventDisplay(
        "Run started", "info", "play", 2,
        lambda fact: Parts(fact["requested_by"] or "A program", f"started {fact['fabric']}", words(fact["tier"])),
        content={"text": "Request", "documents": "Documents"},
    ),
    "usual_rates_pinned": EventDisplay("Usual rates", "info", "message", 1, _usual_rates),
    "policy_taken_up": EventDisplay(
        "Workspace policy", "info", "lock", 1, _policy_taken_up, "The version holds for the run from here on."
    ),
    "ownership_taken": EventDisplay(
        "Worker changed", "warn", "exchange", 1,
        lambda fact: Parts("Another worker", "took the run over from its journal", f"takeover {fact['fence']}"),
        "Calls that were out with the worker before count as lost and are made again. Writes of an older fence are refused.",
    ),
    "run_quarantined": EventDisplay(
        "Quarantined", "danger", "lock", 3,
        lambda fact: Parts("The engine", "put the run into quarantine", why=cut(fact["reason"])),
        "No worker claims it until a person has answered the review beside it: try again, or abort.",
        follows=True,
    ),
    "run_released_from_quarantine": EventDisplay(
        "Quarantine ended", "info", "play", 3, lambda fact: Parts(fact["actor"], "ended the quarantine of the run")
    ),
    "stage_entered": EventDisplay("Stage began", "info", "stage", 2, _stage_entered, fails=gate_refused),
    "stage_left": EventDisplay(
        "Stage ended", "ok", "gate", 2, _stage_left, content="Output",
        fails=lambda fact: gate_refused(fact) or fact.get("outcome") != "passed",
    ),
    "replanned": EventDisplay(
        "New plan", "warn", "replan", 3, _show_replan, content="Message to the planner", fails=always, follows=True
    ),
    "run_ending": EventDisplay(
        "Run is ending", "warn", "stop", 2,
        lambda fact: Parts("The run", f"began to end as {words(fact['state'])}", why=cut(fact["reason"])),
        "No new call starts, and it ends when the calls in flight have settled.",
        fails=_not_completed, follows=True,
    ),
    "run_ended": EventDisplay(
        "Run ended", "ok", "flag", 3, _run_ended, content="Outcome", fails=_not_completed, follows=True
    ),
}  # fmt: skip
