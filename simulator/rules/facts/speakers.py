"""Chooses the next speaker again from the journal: walks the graph's rules a second time
(docs/specification/topologies.md).

It shares the written graph with ``fabric/core/graph/conversation.py``, and nothing else. It believes the journal about
conditions and targets of an installation's own, and about contents that were erased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.graph.spec import TransitionGraph
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.values.taxonomy import CLASSIFY
from fabric.core.values.units import JSON
from simulator.rules.facts import conditions
from simulator.rules.facts.conditions import RetryTargets, Unknown, read_targets, turn_signature

Read = Callable[[str], JSON]
"""Gives a content by its reference; None: it was erased."""
Pairs = dict[str, tuple[object, object]]
"""By field, the recorded value and the derived one."""


@dataclass(slots=True)
class _Call:
    """A call of the turn in flight."""

    tool: str
    args_ref: str
    made: bool = False
    failed: bool = False
    wrote_ref: str = ""
    to: str = ""
    ends: str = ""


@dataclass(slots=True)
class _Turn:
    branch: int
    speaker: str
    calls: dict[str, _Call] = field(default_factory=dict)
    outcome: str = "success"
    error: str | None = None
    said: str = ""
    """The signature of its failure; empty: it did not fail."""


@dataclass(slots=True)
class Speakers:
    """A conversation up to some event. Changed in place by ``take``."""

    graph: TransitionGraph
    begins_with: Mapping[str, JSON]
    """The context variables with which it begins."""
    read: Read
    back: RetryTargets | None = None
    """The targets that a failure, or an end before a goal is met, leads back to; None: there are none."""
    met: set[str] = field(default_factory=set)
    turns: dict[int, _Turn] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    expected: str = ""
    context: dict[str, JSON] | None = None
    erased: bool = False
    """True: the context is unknown, since a change of it was erased."""
    outside: list[tuple[str, int]] = field(default_factory=list)
    """Changes of the context from outside during the turn in flight. Each has its content, and the number of the turn's
    own changes before it.
    """

    def take(self, event: Event) -> Pairs | None:
        """Take the next event; return a choice as recorded beside the derived one. None: there was no choice, or it is
        unknown.
        """
        act = TAKES.get(event.fact.kind)
        return None if act is None else act(self, event, event.fact)


def find_speakers(spec: FabricSpec, read: Read) -> Speakers | None:
    """Return the conversation of a fabric's run; None: no graph drives one."""
    topology = spec.topology
    if isinstance(topology, GraphTopology):
        return Speakers(topology.graph, topology.context, read, read_targets(spec, topology))
    return Speakers(topology.graph, {}, read) if isinstance(topology, HandoffTopology) else None


# -- one function a kind -----------------------------------------------------------------------------------------------


def _anew(seen: Speakers, event: Event, fact: Any) -> None:
    seen.turns.clear()
    seen.met.clear()
    seen.steps.clear()
    seen.outside.clear()
    seen.erased = False
    seen.accepted, seen.expected, seen.context = 0, "", None
    if seen.back is not None:
        seen.back.failed.clear()


def _turn_opened(seen: Speakers, event: Event, fact: ev.TurnOpened) -> None:
    seen.turns[fact.branch] = _Turn(fact.branch, fact.agent)
    if seen.back is not None and fact.chooses:
        seen.back.taken[fact.agent] += 1
    seen.steps[fact.step_id] = fact.branch


def _step_opened(seen: Speakers, event: Event, fact: ev.StepOpened) -> None:
    if str(fact.stage) == "fan_out" and fact.branch in seen.turns:
        seen.turns[fact.branch] = _Turn(fact.branch, seen.turns[fact.branch].speaker)
        if seen.back is not None:
            seen.back.failed = [one for one in seen.back.failed if one[0] != fact.branch]
        seen.steps[fact.step_id] = fact.branch


def _find_turn(seen: Speakers, fact: Any) -> _Turn | None:
    branch = seen.steps.get(fact.step_id)
    return None if branch is None else seen.turns.get(branch)


def _record_answer(seen: Speakers, event: Event, fact: ev.ModelAnswered) -> None:
    turn = _find_turn(seen, fact)
    if turn is not None:
        for call in fact.calls:
            turn.calls[f"{fact.command_id}/{call.call_id}"] = _Call(call.tool, event.content_ref)


def _call(seen: Speakers, fact: Any) -> _Call | None:
    """Return the latest call of that id: an earlier one was over before."""
    turn = _find_turn(seen, fact)
    named = [] if turn is None else [one for key, one in turn.calls.items() if key.partition("/")[2] == fact.call_id]
    return named[-1] if named else None


def _tool_answered(seen: Speakers, event: Event, fact: ev.ToolAnswered) -> None:
    if (call := _call(seen, fact)) is not None:
        call.made, call.failed, call.to, call.ends = True, fact.error, fact.hands_to, fact.ends
        call.wrote_ref = event.content_ref if fact.writes else ""


def _record_made(seen: Speakers, event: Event, fact: Any) -> None:
    if (call := _call(seen, fact)) is not None:
        call.made = True


def _record_rewording(seen: Speakers, event: Event, fact: Any) -> None:
    if (call := _call(seen, fact)) is not None:
        call.args_ref = event.content_ref


def _record_failure(seen: Speakers, event: Event, fact: ev.StepFailed) -> None:
    turn = _find_turn(seen, fact)
    if turn is not None:
        turn.calls.clear()
        turn.outcome = "partial_success" if fact.partial else "fail"
        turn.error = str(CLASSIFY[fact.cause].error_class)
        turn.said = turn_signature(turn.speaker, CLASSIFY[fact.cause].error_class, fact.message)
        if seen.back is not None:
            seen.back.failed.append((turn.branch, turn.speaker, turn.said))


def _context_written(seen: Speakers, event: Event, fact: ev.ContextWritten) -> Pairs | None:
    told, turn = seen.read(event.content_ref), seen.turns.get(seen.accepted)
    try:
        context = _context(seen)
        after = 0 if turn is None else len(_own(seen, turn))
    except Unknown:
        told = None
    if told is not None and turn is None:
        context = _apply_changes(context, [told])
        seen.context = context
    elif turn is None:
        seen.erased = True
    else:
        seen.outside.append((event.content_ref, fact.after))
    if told is None:
        return None
    return {
        "in_turn": (fact.in_turn, turn is not None),
        "after": (fact.after, after),
        "context": (told["context"], context),
    }


OUTSIDE = ("expectation", "ttl")


def _check_choice(seen: Speakers, event: Event, fact: ev.SpeakerChosen) -> Pairs | None:
    told = seen.read(event.content_ref)
    turn = _find_turn(seen, fact)
    try:
        if turn is None or told is None:
            raise Unknown
        found = _outside(seen, fact) if fact.why in OUTSIDE else _describe_turn(seen, turn)
    except Unknown:
        found = None
    seen.accepted, seen.expected = fact.turn, fact.speaker
    if turn is not None and turn.outcome != "fail" and fact.why not in OUTSIDE:
        seen.met.add(turn.speaker)
    if fact.why == "restart":
        seen.met.clear()
    seen.context = None if told is None else dict(told["context"])
    seen.outside.clear()
    seen.erased = False
    if found is None or told is None:
        return None
    recorded = {name: getattr(fact, name) for name in found if name != "context"}
    said = {name: str(value) if name in ("why", "outcome") else value for name, value in recorded.items()}
    said["failure_class"] = None if fact.failure_class is None else str(fact.failure_class)
    said["context"] = told["context"]
    return {name: (said[name], found[name]) for name in found}


TAKES: Mapping[str, Callable[[Speakers, Event, Any], Pairs | None]] = {
    "replanned": _anew,
    "turn_opened": _turn_opened,
    "step_opened": _step_opened,
    "model_answered": _record_answer,
    "tool_answered": _tool_answered,
    "call_deduplicated": _record_made,
    "call_responded": _record_made,
    "call_edited": _record_rewording,
    "call_resolved": _record_rewording,
    "step_failed": _record_failure,
    "context_written": _context_written,
    "speaker_chosen": _check_choice,
}


def leads_on(graph: TransitionGraph, context: Mapping[str, JSON], speaker: str, error: str) -> bool:
    """Return True where a rule on a turn's end decides after that speaker failed with that class. False where it is
    unknown.
    """
    turn = _Turn(0, speaker, outcome="fail", error=error)
    try:
        place = _walk(graph, turn, {**context, "outcome": "fail", "failure_class": error})[2]
    except Unknown:
        return False
    return place is not None and _on_failure(graph, place)


def restarts_from(graph: TransitionGraph, context: Mapping[str, JSON], speaker: str, error: str) -> bool:
    """Return True where a restart edge decides there. False where it is unknown."""
    turn = _Turn(0, speaker, outcome="fail", error=error)
    try:
        return _walk(graph, turn, {**context, "outcome": "fail", "failure_class": error})[1] == "restart"
    except Unknown:
        return False


def _on_failure(graph: TransitionGraph, place: int) -> bool:
    return conditions.asks_how(graph.to_dict()["transitions"][place]["when"])


# -- what follows ------------------------------------------------------------------------------------------------------


def _outside(seen: Speakers, fact: ev.SpeakerChosen) -> dict[str, object]:
    """Return the choice by an expectation or a time limit: the turn in flight does not count."""
    return {
        "turn": seen.accepted,
        "speaker": "",
        "context": _apply_changes(_context(seen), _changes(seen, None)),
        "failure_class": None,
    }


def _context(seen: Speakers) -> dict[str, JSON]:
    if seen.erased or (seen.context is None and seen.accepted):
        raise Unknown
    return dict(seen.begins_with if seen.context is None else seen.context)


def _describe_turn(seen: Speakers, turn: _Turn) -> dict[str, object]:
    context = _apply_changes(_context(seen), _changes(seen, turn))
    context |= {"outcome": turn.outcome, "failure_class": turn.error}
    if turn.speaker != (seen.expected or seen.graph.initial_speaker):
        return {"from_agent": seen.expected or seen.graph.initial_speaker}
    speaker, why, place, reason, tool = _walk(seen.graph, turn, context)
    last = seen.graph.max_turns is not None and seen.accepted + 1 >= seen.graph.max_turns
    level = ""
    if speaker and last:
        speaker, why, reason = "", "max_turns", "max_turns"
    if seen.back is not None and not last and seen.graph.max_turns is not None:
        by_rule = place is not None and _on_failure(seen.graph, place)
        if turn.outcome == "fail" and not by_rule:
            level, to = seen.back.after_failure(turn.speaker, turn.branch, turn.said)
            if to:
                speaker, why, place, reason = to, "retry_target", None, ""
        if not speaker:
            met = seen.met | ({turn.speaker} if turn.outcome != "fail" else set())
            level, to = seen.back.before_goal(met, turn.speaker, turn.branch, turn.said)
            speaker, why, reason = (to, "goal", "") if to else (speaker, why, reason)
    if why == "restart":
        context = dict(seen.begins_with)
    return {
        "speaker": speaker,
        "why": why,
        "transition": place,
        "close_reason": reason,
        "tool": tool,
        "level": level,
        "crossed": turn.said if why == "restart" else "",
        "turn": seen.accepted + 1,
        "from_agent": turn.speaker,
        "outcome": turn.outcome,
        "failure_class": turn.error,
        "context": context,
    }


def _own(seen: Speakers, turn: _Turn) -> list[JSON]:
    """Return the changes of context variables by a turn's calls."""
    wrote = (call for call in turn.calls.values() if call.wrote_ref or call.tool == "context_write")
    return [_wrote(seen, turn, call) for call in wrote if call.made and not call.failed]


def _changes(seen: Speakers, turn: _Turn | None) -> list[JSON]:
    """Return the changes of context variables during the turn in flight, in their order. ``turn``: None where it does
    not count.
    """
    found = [] if turn is None else _own(seen, turn)
    for ref, after in reversed(seen.outside):
        told = seen.read(ref)
        if told is None:
            raise Unknown
        found.insert(min(after, len(found)), told)
    return found


def _apply_changes(context: Mapping[str, JSON], changes: list[JSON]) -> dict[str, JSON]:
    found = dict(context)
    for one in changes:
        found = {key: held for key, held in found.items() if key not in one.get("delete", ())} | one.get("set", {})
    return found


def _wrote(seen: Speakers, turn: _Turn, call: _Call) -> JSON:
    """Return the changes of context variables by a call. They are in its result, or in the arguments of the engine's
    own tool.
    """
    if not call.wrote_ref:
        return _args(seen, turn, call)
    told = seen.read(call.wrote_ref)
    if told is None:
        raise Unknown
    return told["context"]


def _args(seen: Speakers, turn: _Turn, call: _Call) -> JSON:
    told = seen.read(call.args_ref)
    key = next(key for key, one in turn.calls.items() if one is call).partition("/")[2]
    if told is None:
        raise Unknown
    return next(one["args"] for one in told["calls"] if one["call_id"] == key)


def _walk(graph: TransitionGraph, turn: _Turn, context: Mapping[str, JSON]) -> tuple[str, str, int | None, str, str]:
    tree = graph.to_dict()
    there, rules = tree["participants"], tree["transitions"]
    named = {tool for rule in rules for tool in conditions.list_tools(rule["when"])}
    made = [one for one in turn.calls.values() if one.made]
    tool = ""
    for call in made:
        if call.ends:
            return "", "finish", None, call.ends, call.tool
        if call.to in there:
            return call.to, "handoff", None, "", call.tool
        if call.tool in named:
            tool = call.tool
            break
    for place in sorted(range(len(rules)), key=lambda n: rules[n]["order"]):
        if conditions.holds(rules[place]["when"], turn, context, tool):
            speaker, reason = _leads(rules[place]["then"], turn, there, tree)
            why = "restart" if rules[place].get("restart") and speaker else "transition"
            return speaker, why, place, reason, tool
    if tree["default_target"] is None:
        return "", "no_default", None, "no_transition", tool
    speaker, reason = _leads(tree["default_target"], turn, there, tree)
    return speaker, "default", None, reason, tool


def _leads(target: JSON, turn: _Turn, there: list[str], tree: JSON) -> tuple[str, str]:
    match target["kind"]:
        case "agent":
            return target["agent"], ""
        case "round_robin":
            return there[(there.index(turn.speaker) + 1) % len(there)], ""
        case "stay":
            return turn.speaker, ""
        case "revert_to_initiator":
            return tree["initiator"] or tree["initial_speaker"], ""
        case "terminate":
            return "", target["reason"]
    raise Unknown
