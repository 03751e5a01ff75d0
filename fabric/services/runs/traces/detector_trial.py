"""Measures on recorded runs which failures the loop detectors and the failure signature would have stopped
(docs/reference/detectors.md).

It uses the engine's rules, ``core/rules/loops.py`` and ``core/rules/signatures.py``, with the default policy's limits
(``tests/fabric/services/runs/traces/test_agreement.py`` puts the traces through both). A trace has no steps of ours,
so each agent of it has one until a person speaks (``reader.py``); each call of a tool is a turn. A tool's error
is a deterministic failure of that tool, whichever agent calls it: the agents of a trace hear one another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from fabric.core.mechanisms.loop_detector import ANSWERS_KEPT, KEPT
from fabric.core.rules.deadlocks import Move, Rules, list_items
from fabric.core.rules.deadlocks import judge as judge_moves
from fabric.core.rules.loops import ANSWER_CHARS_MIN, RULES, ProposedCall, SeenCall, judge, repeated_answer
from fabric.core.rules.near_identical import Words, likeness, near_identical, read_words
from fabric.core.rules.signatures import (
    LIMIT,
    Failures,
    add_failure,
    forget_answered,
    reaches_limit,
    signature,
    tool_signature,
)
from fabric.core.spec.policies.limits import DeadlockMonitor
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.taxonomy import ErrorClass
from fabric.core.values.units import JSON
from fabric.services.runs.traces.reader import (
    Trace,
    TraceStep,
    is_answer,
    is_person,
    new_texts,
    persons_words,
    traces_in,
)

DEFAULT = LoopDetector()
CALL_RULES: Mapping[str, LoopDetector] = {
    name: DEFAULT.model_copy(update={"detectors": {name}} if name in DEFAULT.detectors else {"preset": name})
    for name in RULES
}
"""Each rule alone, with the default's numbers."""
OURS = (*sorted(DEFAULT.detectors), "failure_signature")
DEADLOCK = "deadlock_monitor"
ALL_OURS = (*OURS, DEADLOCK)
DOCUMENTS = ("flow", "fabro", "signature_of_document")
"""S0's and S1's rules to the letter: no exception applies, and no window ends where a person speaks."""
NAMES = (*ALL_OURS, "ours", "flow", "fabro", "ag2", "signature_of_document", "documents")

_POLICY = DeadlockMonitor()
MONITOR = Rules(_POLICY.similarity, _POLICY.brief_chars, _POLICY.window_moves, _POLICY.cycle_max)
CONVERSATION = "trace"
"""The agents of a trace hear one another: it is one conversation, as a branch of a run is."""


@dataclass
class _Window:
    """Acts of one agent since a person last spoke."""

    calls: tuple[SeenCall, ...] = ()
    words: dict[str, Words] = field(default_factory=dict)
    args: dict[str, JSON] = field(default_factory=dict)
    """A call's arguments under its tool's name, by call."""
    answers: list[str] = field(default_factory=list)
    said: list[tuple[str, Words]] = field(default_factory=list)
    """Words right before a call, with the id of the call before them."""


def stopped_by(trace: Trace) -> frozenset[str]:
    """Return the names of the rules that would have stopped a run, combined ones of ``NAMES`` too."""
    fired = {name for _, name in trips(trace)}
    fired |= {"ours"} if fired & set(ALL_OURS) else set()
    return frozenset(fired | ({"documents"} if fired & set(DOCUMENTS) else set()))


def trips(trace: Trace) -> Iterator[tuple[int, str]]:
    """Yield the first stop of each rule, in the order of the steps: ``(number of the step, from 0, rule)``."""
    fired: set[str] = set()
    for number, found in _judge_steps(trace, fired):
        yield from ((number, name) for name in NAMES if name in found - fired)
        fired |= found


def _judge_steps(trace: Trace, fired: Set[str]) -> Iterator[tuple[int, set[str]]]:
    """Yield the rules that each step trips. ``fired``: rules that no longer judge calls."""
    ours: dict[str, _Window] = {}
    whole: dict[str, _Window] = {}
    failures, literal = Failures(), Failures()
    moves: list[Move] = []
    words, briefs = persons_words(trace.steps), new_texts(trace.steps)
    for number, step in enumerate(trace.steps):
        if number in words:
            ours, failures, moves = {}, forget_answered(failures), []
        if number in briefs:
            for agent, window in ours.items():
                window.answers = window.answers if agent == step.agent else []
        if step.kind == "tool":
            window = ours.setdefault(step.agent, _Window())
            _add_announcement(window, trace.steps, number)
            found = _call(window, step, number, DEFAULT.detectors - fired)
            found |= _call(whole.setdefault(step.agent, _Window()), step, number, {"flow", "fabro", "ag2"} - fired)
            if step.error:
                turn, key = str(number), tool_signature(CONVERSATION, step.tool, step.error, args=_args(step.args))
                found |= {"failure_signature"} if reaches_limit(failures, key, LIMIT, turn) else set()
                failures = add_failure(failures, key, turn)
                key = signature(step.tool, ErrorClass.DETERMINISTIC, step.error)
                found |= {"signature_of_document"} if reaches_limit(literal, key, LIMIT) else set()
                literal = add_failure(literal, key)
            yield number, found
        elif step.kind == "handoff" and step.target:
            yield number, _add_handoff(moves, step)
        elif is_answer(trace.steps, number):
            window = ours.setdefault(step.agent, _Window())
            answer = step.masked if step.chars >= ANSWER_CHARS_MIN else ""
            window.answers = [*window.answers, answer][-ANSWERS_KEPT:]
            yield number, {"same_answer"} if repeated_answer(DEFAULT, window.answers) else set()


_NOTICE = re.compile(r"\s*(?:transferr?ed|handed|handing|handoff)\b[^.]*\bto\b", re.IGNORECASE)


def _add_handoff(moves: list[Move], step: TraceStep) -> set[str]:
    """Add a handoff to the moves; return True if the deadlock monitor would stop it. A framework's notice
    ("Transferred to ...") is no brief.
    """
    text = "" if _NOTICE.match(step.said) else step.said
    move = Move(
        step.agent, step.target, read_words({"text": text}), len(text.strip()), len(moves), True, items=list_items(text)
    )
    found = judge_moves(MONITOR, moves, [move]) if text else None
    moves.append(move)
    return {DEADLOCK} if found is not None else set()


def _add_announcement(window: _Window, steps: Sequence[TraceStep], number: int) -> None:
    """Add an agent's announcement right before a call of its own."""
    before = steps[number - 1] if number else None
    if before is None or before.kind not in ("model", "message") or before.agent != steps[number].agent:
        return
    if before.chars >= ANSWER_CHARS_MIN and not is_person(before):
        last = window.calls[-1].call_id if window.calls else ""
        window.said = [*window.said, (last, read_words({"text": before.said}))][-ANSWERS_KEPT:]


def _call(window: _Window, step: TraceStep, number: int, rules: Iterable[str]) -> set[str]:
    """Add a call with its result to the window; return the rules that would have blocked it."""
    args = _args(step.args)
    key = str(number)
    call = (step.tool, fingerprint(args))
    own = window.words[key] = read_words(args)
    asked = ProposedCall(
        call,
        number,
        (call,),
        window.calls,
        lambda seen: near_identical(own, window.words[seen.call_id]),
        said=lambda: window.said,
        likeness=lambda calls: likeness([*(window.args[seen.call_id] for seen in calls), {step.tool: args}]),
    )
    window.args[key] = {step.tool: args}
    fired = {name for name in rules if name in CALL_RULES and judge(CALL_RULES[name], asked)}
    window.calls = (*window.calls, SeenCall(*call, number, key, step.masked, bool(step.error)))[-KEPT:]
    if len(window.words) > 2 * KEPT:
        kept = [seen.call_id for seen in window.calls]
        window.words = {key: window.words[key] for key in kept}
        window.args = {key: window.args[key] for key in kept}
    return fired


def _args(text: str) -> JSON:
    """Return the arguments as JSON where they are an object, else the raw text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


HUNG_CALLS = 3
"""Number of last calls of a hung run that failed or brought nothing new."""


def hung(trace: Trace) -> bool:
    """Return True for a run that hung. Each of its last three calls failed, or repeated an earlier result of
    its tool.
    """
    known: set[tuple[str, str]] = set()
    row = 0
    for step in trace.steps:
        if step.kind == "tool":
            new = not step.error and (step.tool, step.masked) not in known
            row = 0 if new else row + 1
            known.add((step.tool, step.masked))
    return row >= HUNG_CALLS


def catch(trace: Trace) -> JSON:
    """Return the rest of a run at our first trip. It has the step, its rules, the calls, tokens and dollars left, and
    the step of the next trip.

    None: there is no trip. The next trip is that of the recorded run, in which the first one changed nothing.
    """
    found = [(number, names & set(ALL_OURS)) for number, names in _judge_steps(trace, set()) if names & set(ALL_OURS)]
    if not found:
        return None
    first, rest = found[0][0], trace.steps[found[0][0] :]
    return {
        "step": first,
        "steps": len(trace.steps),
        "rules": sorted(found[0][1]),
        "calls_left": sum(step.kind == "tool" for step in rest),
        "tokens_left": sum(step.tokens for step in rest),
        "usd_left": round(sum(step.cost for step in rest), 6),
        "second": found[1][0] if len(found) > 1 else None,
    }


def evaluate(folder: Path) -> JSON:
    """Return the figures of all traces in a folder: ``{"total", "files", "by_detector"}``, each ``{"good", "failed",
    "halted"}`` of ``{"runs", "stopped"}``.

    ``hung`` has these figures for hanging runs; ``catches`` has the rest after each first trip (``catch``). Halted
    runs count as failed too; a run without a judgement (``success`` null) counts as neither, and as halted where it
    was. Raises Refused for a folder or a line that cannot be read.
    """
    files: dict[str, dict[str, JSON]] = {}
    every = {name: _empty() for name in NAMES}
    hanging, catches = _empty(), []
    for file, traces in traces_in(folder):
        of_file = {name: _empty() for name in NAMES}
        for trace in traces:
            fired = stopped_by(trace)
            if hung(trace):
                _add(hanging, trace, "ours" in fired)
            if "ours" in fired:
                catches.append({"file": file, "trace": trace.trace_id, "success": trace.success, **catch(trace)})
            for name in NAMES:
                for figures in (of_file[name], every[name]):
                    _add(figures, trace, name in fired)
        files[file] = {**of_file["ours"], "by_detector": {name: of_file[name] for name in NAMES}}
    return {"total": every["ours"], "hung": hanging, "catches": catches, "files": files, "by_detector": every}


def _empty() -> dict[str, dict[str, int]]:
    return {kind: {"runs": 0, "stopped": 0} for kind in ("good", "failed", "halted")}


def _add(figures: dict[str, dict[str, int]], trace: Trace, stopped: bool) -> None:
    for kind, counts in (("good", trace.success is True), ("failed", trace.success is False), ("halted", trace.halted)):
        figures[kind]["runs"] += counts
        figures[kind]["stopped"] += counts and stopped
