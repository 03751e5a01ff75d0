"""Start, stages and end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.budget_caps import RUN, amount_words
from fabric.core.flow import ANSWERED
from fabric.core.words import count, cut, joined, words
from fabric.selectors.display.row import Display, Fact

JSON = Any


def _run_started(fact: Fact) -> str:
    by = f" for {fact['requested_by']}" if fact["requested_by"] else ""
    return f"{fact['fabric']} started{by}, {words(fact['tier'])}"


def _usual_rates(fact: Fact) -> str:
    found = next((one for one in fact["rates"] if one["scope"] == RUN), None)
    if found is None:
        return f"what is usual of {count(len(fact['rates']), 'part', 'parts')} of a run is known"
    amount = amount_words(found["usd_micros"], "usd_micros")
    return f"the busiest minute of a run usually costs {amount}, over the last {count(found['runs'], 'run', 'runs')} that completed"


def _policy_taken_up(fact: Fact) -> str:
    most = fact["run_usd_micros"]
    cap = "" if most is None else f"; a run may spend {amount_words(most, 'usd_micros')}"
    return f"version {fact['number']} of the workspace's policy holds from here on{cap}"


def _ownership_taken(fact: Fact) -> str:
    return f"another worker goes on from the journal (takeover {fact['fence']})"


def _run_quarantined(fact: Fact) -> str:
    return f"nobody goes on with it until a person says so: {cut(fact['reason'])}"


def _run_released(fact: Fact) -> str:
    return f"{fact['actor']} ended the quarantine"


def _gate(gate: JSON) -> str:
    """What a gate found, where it is worth saying."""
    if not gate:
        return ""
    score = f"score {gate['score']:.2f} of {gate['tau']:.2f} needed" if gate.get("score") is not None else ""
    if not gate.get("cause"):
        return score
    failed = next(check for check in gate["checks"] if check["result"] == "failed")
    problem = failed["problems"][0] if failed["problems"] else words(gate["cause"])
    return joined(score, f"{gate['gate']}-gate refused it: {cut(problem)}")


def _stage_entered(fact: Fact) -> str:
    agents = list(dict.fromkeys(fact["agents"]))
    who = (
        f"{count(len(fact['agents']), 'branch', 'branches')} for {', '.join(agents)}" if len(fact["agents"]) > 1 else ""
    )
    who = who or (agents[0] if agents else "")
    again = f"replan {fact['epoch']}" if fact["epoch"] else ""
    details = joined(who, again, _gate(fact["gate"]))
    return f"{words(fact['stage'])} began: {details}" if details else f"{words(fact['stage'])} began"


_LEFT = {"passed": "passed", "replan": "given up for a new plan", "ended": "ended with the run"}


def _stage_left(fact: Fact) -> str:
    verdict = _gate(fact["gate"])
    return f"{words(fact['stage'])} {_LEFT[fact['outcome']]}" + (f": {verdict}" if verdict else "")


def _replanned(fact: Fact) -> str:
    if fact["reason"] == "a_person_asked":
        return f"replan {fact['epoch']} after {words(fact['stage'])}, because a person asked for it"
    return f"replan {fact['epoch']}, because {words(fact['stage'])} failed: {words(fact['reason'])}"


def _run_ending(fact: Fact) -> str:
    return f"ending as {fact['state']}: {cut(fact['reason'])}"


def _run_ended(fact: Fact) -> str:
    how = " after recovery" if fact["recovered"] and fact["state"] == "completed" else ""
    partial = " The partial result is kept." if fact["partial"] and fact["state"] not in ANSWERED else ""
    return f"{fact['state']}{how}: {cut(fact['reason'])}{'.' if partial else ''}{partial}"


ROWS: Mapping[str, Display] = {
    "run_started": Display("Run started", "info", "play", 2, _run_started),
    "usual_rates_pinned": Display("Usual rates", "info", "message", 1, _usual_rates),
    "policy_taken_up": Display("Workspace policy", "info", "lock", 1, _policy_taken_up),
    "ownership_taken": Display("Worker changed", "warn", "swap", 1, _ownership_taken),
    "run_quarantined": Display("Quarantined", "danger", "lock", 3, _run_quarantined),
    "run_released_from_quarantine": Display("Quarantine ended", "info", "play", 3, _run_released),
    "stage_entered": Display("Stage began", "info", "stage", 2, _stage_entered),
    "stage_left": Display("Stage ended", "ok", "gate", 2, _stage_left),
    "replanned": Display("New plan", "warn", "replan", 3, _replanned),
    "run_ending": Display("Run is ending", "warn", "stop", 2, _run_ending),
    "run_ended": Display("Run ended", "neutral", "flag", 3, _run_ended),
}
