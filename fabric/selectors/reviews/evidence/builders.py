"""Builds the rows of the evidence box, one function for each kind of failure. ``BUILDERS`` maps every mechanism to one.

Each function reads the newest ``ROWS_MAX`` events at most, and their contents in one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from fabric.core.mechanisms import (
    budget,
    circuit_breaker,
    cost_velocity,
    deadline,
    deadlock_monitor,
    escalation,
    failure_signature,
    goal_gate,
    hop_limit,
    loop_detector,
    policy,
    progress,
    retry_budget,
    run_caps,
    saga,
    stall_watchdog,
    validation_gate,
)
from fabric.core.state.context import call_args
from fabric.core.values.units import JSON, US
from fabric.core.values.words import count, dollars, duration, words
from fabric.selectors.reviews.evidence.rows import Asked, EvidenceRow, cut_text, event_row, excerpts
from fabric.selectors.runs.events.leading import LEADING, LeadingEvent, list_leading, read_contents
from fabric.selectors.runs.events.moments import SETTLING, build_contents
from fabric.selectors.runs.margins.breakers import breaker_nearest

ROWS_MAX = 8
CALLS_READ = 40
"""Events of calls that are read to find the equal ones, or the slowest ones."""
Facts = tuple[tuple[str, str], ...]
Found = tuple[list[EvidenceRow], Facts]


class Builder(NamedTuple):
    """A kind of evidence: its title, and the function that reads it."""

    title: str
    build: Callable[[Asked], Found]


def _list(
    asked: Asked,
    kinds: Collection[str],
    *,
    place: str | None = None,
    most: int = ROWS_MAX,
    keep: Callable[[Mapping[str, Any]], bool] | None = None,
) -> list[LeadingEvent]:
    where = asked.place if place is None else place
    return list_leading(asked.run.id, asked.seq, where, reads=asked.reads, kinds=kinds, most=most, keep=keep)


def _rows(asked: Asked, events: list[LeadingEvent], failing: Collection[str] = ()) -> list[EvidenceRow]:
    contents = read_contents(asked.run.id, [one.seq for one in events], reads=asked.reads)
    return [event_row(one, contents.get(one.seq), failed=one.kind in failing) for one in events]


FAILING = ("attempt_failed", "attempt_interrupted", "call_refused", "step_failed")


def _before(asked: Asked) -> Found:
    """Return what came before at the same step or stage."""
    return _rows(asked, _list(asked, LEADING), FAILING), ()


# -- loops -----------------------------------------------------------------------------------------------------------

RESULTS = ("tool_answered", "call_deduplicated", "call_refused")


def _repeated(asked: Asked) -> Found:
    """Return the repeated calls with their arguments and results; of repeated answers, the answers."""
    tool, args_hash = asked.details.get("tool", ""), asked.details.get("args_hash", "")
    events = _list(asked, ("call_issued", *RESULTS), most=CALLS_READ)
    ended = [one for one in events if one.kind in RESULTS]
    same = [one for one in ended if tool and (one.fact["tool"], one.fact["args_hash"]) == (tool, args_hash)]
    # Rules for like calls and for a round of calls name the last of them: its equals alone would tell nothing.
    shown = (same if len(same) > 1 else ended)[-ROWS_MAX:]
    if not shown:
        answers = _list(asked, ("model_answered",), keep=lambda fact: fact["verdict"] == "output")
        return _rows(asked, answers), ()
    args = _arguments(asked, events)
    contents = read_contents(asked.run.id, [one.seq for one in shown], reads=asked.reads)
    rows = [_call_row(one, args.get(one.fact["call_id"]), contents.get(one.seq)) for one in shown]
    equal = len({one.fact.get("masked_hash") for one in same if one.fact.get("masked_hash")}) == 1
    facts: Facts = (("their results", "equal, apart from clocks and ids"),) if len(same) > 1 and equal else ()
    return rows, facts


def _arguments(asked: Asked, events: list[LeadingEvent]) -> dict[str, JSON]:
    """Return the arguments of the calls by id, as far as they are kept."""
    issued = [one.fact for one in events if one.kind == "call_issued" and one.fact["args_ref"]]
    if asked.moment is None or not issued:
        return {}
    contents = build_contents(asked.run.id, asked.moment, {fact["args_ref"] for fact in issued})
    found: dict[str, JSON] = {}
    for fact in issued:
        try:
            found[fact["call_id"]] = call_args(contents, fact["args_ref"], fact["call_id"])
        except (LookupError, StopIteration, TypeError):
            continue  # Retention erased it.
    return found


def _call_row(event: LeadingEvent, args: JSON, content: JSON) -> EvidenceRow:
    given = content.get("call") if isinstance(content, dict) else None
    if args is None and isinstance(given, dict):
        args = given.get("args")
    parts = [] if args is None else [cut_text("arguments", args)]
    failed = event.kind == "call_refused" or bool(event.fact.get("error"))
    return EvidenceRow(says=event.says, seq=event.seq, at=event.at, failed=failed, parts=(*parts, *excerpts(content)))


# -- agents that pass work round -------------------------------------------------------------------------------------


def _passed_on(asked: Asked) -> Found:
    """Return the briefs and the messages that went round, of the whole run."""
    events = _list(asked, ("handed_off", "model_answered", "child_answered"), place="", most=ROWS_MAX)
    cycle = asked.details.get("cycle")
    round_ = " → ".join(str(name) for name in cycle) if isinstance(cycle, list) else ""
    return _rows(asked, events), (("the round", round_),) if round_ else ()


# -- attempts --------------------------------------------------------------------------------------------------------

ATTEMPTS = ("attempt_failed", "attempt_interrupted", "retry_scheduled", "node_retry_scheduled")


def _attempts(asked: Asked) -> Found:
    """Return the attempts with status and wait, and the breaker that stands before the calls."""
    events = _list(asked, ATTEMPTS)
    waits = sum(float(one.fact.get("delay_s") or 0) for one in events)
    failed = sum(one.kind in FAILING for one in events)
    facts = [("shown", f"{count(failed, 'failed attempt')}, {duration(waits)} of waits")] if events else []
    nearest = breaker_nearest(asked.run, asked.spec)
    if nearest is not None:
        state = nearest.standing or "closed"
        facts.append(("breaker", f"{nearest.where}: {state}, {nearest.at_limit}"))
    return _rows(asked, events, FAILING), tuple(facts)


# -- time ------------------------------------------------------------------------------------------------------------


def _slowest(asked: Asked) -> Found:
    """Return the calls of the stage by their time, the longest first."""
    events = _list(asked, ("call_issued", *SETTLING), place=asked.item.stage, most=CALLS_READ)
    out: dict[tuple[str, int], LeadingEvent] = {}
    took: list[tuple[int, EvidenceRow]] = []
    for one in events:
        key = (str(one.fact["command_id"]), int(one.fact["attempt"]))
        if one.kind == "call_issued":
            out[key] = one
        elif (began := out.pop(key, None)) is not None:
            us, ended = one.at - began.at, "" if one.kind in ("model_answered", "tool_answered") else ", and failed"
            says = f"{began.fact['agent'] or 'the engine'} called {began.fact['target']}: {duration(us / US)}{ended}"
            took.append((us, EvidenceRow(says=says, seq=began.seq, at=began.at, failed=bool(ended))))
    for one in out.values():
        us = asked.item.opened_at - one.at
        says = f"{one.fact['agent'] or 'the engine'} called {one.fact['target']}: no answer in {duration(us / US)}"
        took.append((us, EvidenceRow(says=says, seq=one.seq, at=one.at, failed=True)))
    entered = _list(asked, ("stage_entered",), place=asked.item.stage, most=1)
    facts: Facts = ()
    if entered:
        since, given = asked.item.opened_at - entered[0].at, int(entered[0].fact["deadline_at"]) - entered[0].at
        facts = (("the stage took", f"{duration(since / US)} of the {duration(given / US)} that it had"),)
    return [row for _, row in sorted(took, key=lambda pair: -pair[0])[:ROWS_MAX]], facts


# -- outputs ---------------------------------------------------------------------------------------------------------


def _misfit(asked: Asked) -> Found:
    """Return the last answers that did not fit, and what did not fit, path by path."""
    events = _list(asked, ("model_answered",), keep=lambda fact: fact["verdict"] == "rejected", most=2)
    if not events:
        return _before(asked)
    rows = _rows(asked, events, ("model_answered",))
    problems = [str(one) for one in events[-1].fact["problems"]]
    return rows, tuple(_paths(problems))


def _paths(problems: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the place of each problem in the answer, and the problem."""
    for problem in problems[:ROWS_MAX]:
        path, parted, rest = problem.partition(": ")
        yield (path, rest) if parted and " " not in path else ("the answer", problem)


def _judged(asked: Asked) -> Found:
    """Return the problems and the score of the gate, and the last answers. The page has its checks above."""
    gate = asked.item.content.get("gate")
    facts: list[tuple[str, str]] = []
    if isinstance(gate, dict):
        failed = [check for check in gate["checks"] if check["problems"]]
        facts += [(words(one["name"]), "; ".join(map(str, one["problems"][:3]))) for one in failed]
        if gate["score"] is not None:
            facts.append(
                ("score", f"{gate['score']:g}, needed {gate['tau']:g}" if gate["tau"] else f"{gate['score']:g}")
            )
    events = _list(asked, ("model_answered", "step_failed"), most=3)
    return _rows(asked, events, ("step_failed",)), tuple(facts)


# -- money -----------------------------------------------------------------------------------------------------------

PAID = ("model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted")


def _cost(fact: Mapping[str, Any]) -> int:
    return int(fact.get("cost_usd_micros") or fact.get("charged_usd_micros") or 0)


def _costs(asked: Asked) -> Found:
    """Return the calls that cost most lately, and the worst case of the next call."""
    events = _list(asked, PAID, place="", most=CALLS_READ, keep=lambda fact: _cost(fact) > 0)
    dearest = sorted(events, key=lambda one: -_cost(one.fact))[:ROWS_MAX]
    agents = {one.fact["command_id"]: one.fact for one in _list(asked, ("call_issued",), place="", most=CALLS_READ)}
    rows = [
        EvidenceRow(says=f"{_caller(agents, one)}: {dollars(_cost(one.fact))}", seq=one.seq, at=one.at)
        for one in dearest
    ]
    worst = asked.details.get("worst_case")
    tokens = asked.item.content.get("unit") == "tokens"
    facts: Facts = ()
    if isinstance(worst, int):
        facts = (("the next call, at most", f"{worst:,} tokens" if tokens else dollars(worst)),)
    return rows, facts


def _caller(issued: Mapping[str, Mapping[str, Any]], event: LeadingEvent) -> str:
    found = issued.get(event.fact["command_id"])
    return f"{found['agent'] or 'the engine'} called {found['target']}" if found else event.label


BEFORE = Builder("Events before it", _before)
LOOP = Builder("Repeated calls", _repeated)
ROUND = Builder("Briefs and messages of the round", _passed_on)
TRIES = Builder("Attempts", _attempts)
TIME = Builder("Slowest calls of the stage", _slowest)
MISFIT = Builder("Last answers, and what did not fit", _misfit)
GATE = Builder("Problems of the gate, and the judged answers", _judged)
MONEY = Builder("Dearest calls", _costs)

BUILDERS: Mapping[str, Builder] = {
    policy.NAME: BEFORE,
    budget.NAME: MONEY,
    cost_velocity.NAME: MONEY,
    deadline.NAME: TIME,
    hop_limit.NAME: ROUND,
    run_caps.NAME: MONEY,
    retry_budget.NAME: TRIES,
    circuit_breaker.NAME: TRIES,
    loop_detector.NAME: LOOP,
    deadlock_monitor.NAME: ROUND,
    progress.NAME: LOOP,
    saga.NAME: BEFORE,
    validation_gate.NAME: GATE,
    goal_gate.NAME: BEFORE,
    failure_signature.NAME: TRIES,
    stall_watchdog.NAME: TIME,
    escalation.NAME: GATE,
    "agent_loop": MISFIT,
    "provider": TRIES,
    "tool": TRIES,
    "child": BEFORE,
    "fan_in": BEFORE,
    "transition_graph": BEFORE,
    "": BEFORE,
}
"""Evidence by the mechanism of the trip; "": the review is about no trip. Total by test."""
