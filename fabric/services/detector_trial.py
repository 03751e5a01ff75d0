"""What the loop detectors and the failure signature would have stopped of recorded runs (docs/detectors.md).

The rules are those of ``core/loop_rules.py`` and ``core/signatures.py``, with the limits of the default policy: what is measured is what the engine enforces
(``tests/fabric/services/test_detector_agreement.py`` puts the same traces through both). A trace has no steps of ours, so each agent of it has one until a
person speaks (``trace_words.py``); each call of a tool is a turn. A tool's error is a deterministic failure of that tool, whoever calls it: the agents of a
trace hear one another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabric.core.deadlock_rules import Move, Rules, list_items
from fabric.core.deadlock_rules import judge as judge_moves
from fabric.core.fingerprint import fingerprint
from fabric.core.likeness import likeness
from fabric.core.loop_policy import LoopDetector
from fabric.core.loop_rules import ANSWER_CHARS_MIN, RULES, Asked, Seen, judge, repeated_answer
from fabric.core.mechanisms.loop_detector import ANSWERS_KEPT, KEPT
from fabric.core.near_identical import Words, near_identical, words_of
from fabric.core.policy import DeadlockMonitor
from fabric.core.signatures import LIMIT, Failures, failed, of_tool, reached, signature, spoken
from fabric.core.taxonomy import ErrorClass
from fabric.services.trace_words import is_answer, is_person, new_texts, persons_words
from fabric.services.traces import Trace, TraceStep, traces_in

JSON = Any
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
"""S0's and S1's rules to the letter: nothing excuses, and no window ends where a person speaks."""
NAMES = (*ALL_OURS, "ours", "flow", "fabro", "ag2", "signature_of_document", "documents")

_POLICY = DeadlockMonitor()
MONITOR = Rules(_POLICY.similarity, _POLICY.brief_chars, _POLICY.window_moves, _POLICY.cycle_max)
CONVERSATION = "trace"
"""The agents of a trace hear one another: it is one conversation, as a branch of a run is."""


@dataclass
class _Window:
    """What one agent did since a person spoke last."""

    calls: tuple[Seen, ...] = ()
    words: dict[str, Words] = field(default_factory=dict)
    args: dict[str, JSON] = field(default_factory=dict)
    """By call: its arguments under its tool's name."""
    answers: list[str] = field(default_factory=list)
    said: list[tuple[str, Words]] = field(default_factory=list)
    """The words right before a call, with the id of the call before them."""


def stopped_by(trace: Trace) -> frozenset[str]:
    """Names of the rules that would have stopped a run, those of ``NAMES`` that are made of others too."""
    fired = {name for _, name in trips(trace)}
    fired |= {"ours"} if fired & set(ALL_OURS) else set()
    return frozenset(fired | ({"documents"} if fired & set(DOCUMENTS) else set()))


def trips(trace: Trace) -> Iterator[tuple[int, str]]:
    """Where each rule would have stopped a run first, in the order of the steps: ``(number of the step, from 0, rule)``."""
    fired: set[str] = set()
    for number, found in _judged(trace, fired):
        yield from ((number, name) for name in NAMES if name in found - fired)
        fired |= found


def _judged(trace: Trace, fired: Set[str]) -> Iterator[tuple[int, set[str]]]:
    """What each step trips. ``fired``: rules that are not asked about calls any more."""
    ours: dict[str, _Window] = {}
    whole: dict[str, _Window] = {}
    failures, literal = Failures(), Failures()
    moves: list[Move] = []
    words, briefs = persons_words(trace.steps), new_texts(trace.steps)
    for number, step in enumerate(trace.steps):
        if number in words:
            ours, failures, moves = {}, spoken(failures), []
        if number in briefs:
            for agent, window in ours.items():
                window.answers = window.answers if agent == step.agent else []
        if step.kind == "tool":
            window = ours.setdefault(step.agent, _Window())
            _announced(window, trace.steps, number)
            found = _call(window, step, number, DEFAULT.detectors - fired)
            found |= _call(whole.setdefault(step.agent, _Window()), step, number, {"flow", "fabro", "ag2"} - fired)
            if step.error:
                turn, key = str(number), of_tool(CONVERSATION, step.tool, step.error, args=_args(step.args))
                found |= {"failure_signature"} if reached(failures, key, LIMIT, turn) else set()
                failures = failed(failures, key, turn)
                key = signature(step.tool, ErrorClass.DETERMINISTIC, step.error)
                found |= {"signature_of_document"} if reached(literal, key, LIMIT) else set()
                literal = failed(literal, key)
            yield number, found
        elif step.kind == "handoff" and step.target:
            yield number, _handed(moves, step)
        elif is_answer(trace.steps, number):
            window = ours.setdefault(step.agent, _Window())
            answer = step.masked if step.chars >= ANSWER_CHARS_MIN else ""
            window.answers = [*window.answers, answer][-ANSWERS_KEPT:]
            yield number, {"same_answer"} if repeated_answer(DEFAULT, window.answers) else set()


_NOTICE = re.compile(r"\s*(?:transferr?ed|handed|handing|handoff)\b[^.]*\bto\b", re.IGNORECASE)


def _handed(moves: list[Move], step: TraceStep) -> set[str]:
    """Returns True where the deadlock monitor would stop this handoff; adds it to the moves. A framework's notice ("Transferred to ...") is no brief."""
    text = "" if _NOTICE.match(step.said) else step.said
    move = Move(
        step.agent, step.target, words_of({"text": text}), len(text.strip()), len(moves), True, items=list_items(text)
    )
    found = judge_moves(MONITOR, moves, [move]) if text else None
    moves.append(move)
    return {DEADLOCK} if found is not None else set()


def _announced(window: _Window, steps: Sequence[TraceStep], number: int) -> None:
    """Adds what an agent said right before a call of its own."""
    before = steps[number - 1] if number else None
    if before is None or before.kind not in ("model", "message") or before.agent != steps[number].agent:
        return
    if before.chars >= ANSWER_CHARS_MIN and not is_person(before):
        last = window.calls[-1].call_id if window.calls else ""
        window.said = [*window.said, (last, words_of({"text": before.said}))][-ANSWERS_KEPT:]


def _call(window: _Window, step: TraceStep, number: int, rules: Iterable[str]) -> set[str]:
    """The rules that would have blocked a call; adds it to the window with its result."""
    args = _args(step.args)
    key = str(number)
    call = (step.tool, fingerprint(args))
    own = window.words[key] = words_of(args)
    asked = Asked(
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
    window.calls = (*window.calls, Seen(*call, number, key, step.masked, bool(step.error)))[-KEPT:]
    if len(window.words) > 2 * KEPT:
        kept = [seen.call_id for seen in window.calls]
        window.words = {key: window.words[key] for key in kept}
        window.args = {key: window.args[key] for key in kept}
    return fired


def _args(text: str) -> JSON:
    """The arguments as JSON where they are an object, else the raw text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


HUNG_CALLS = 3
"""Calls in a row at a run's end that failed or came to what was known, by which it hung."""


def hung(trace: Trace) -> bool:
    """Returns True for a run that hung: each of its last three calls failed, or gave a result that its tool had given before."""
    known: set[tuple[str, str]] = set()
    row = 0
    for step in trace.steps:
        if step.kind == "tool":
            new = not step.error and (step.tool, step.masked) not in known
            row = 0 if new else row + 1
            known.add((step.tool, step.masked))
    return row >= HUNG_CALLS


def catch(trace: Trace) -> JSON:
    """The rest of a run at our first trip: its step, its rules, the calls, tokens and dollars left, and the step of the next trip.
    None: there is none. The next trip is that of the recorded run, whose first one nobody acted on.
    """
    found = [(number, names & set(ALL_OURS)) for number, names in _judged(trace, set()) if names & set(ALL_OURS)]
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
    """Figures of all traces in a folder: ``{"total", "files", "by_detector"}``, each ``{"good", "failed", "halted"}`` of ``{"runs", "stopped"}``;
    ``hung``, the same of the runs that hung; and ``catches``, what each first trip would have left (``catch``).

    Halted runs count as failed too; a run that nobody judged (``success`` null) counts as neither, and with those halted where it was. Refused for a folder or
    a line that cannot be read.
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
