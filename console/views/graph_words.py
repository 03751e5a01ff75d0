"""Rules of a graph in words: a condition, a target, and why it was somebody's turn. Read from JSON, so that what is no rule yet is told as far as it can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core.events.conversation import SpeakerChosen
from fabric.core.graph.retry_targets import Level
from fabric.core.graph.spec import Transition
from fabric.core.graph.state import Why

JSON = Any


def condition_said(condition: JSON) -> str:
    """A condition in words, as far as it can be read."""
    if not isinstance(condition, dict):
        return "…"
    kind = condition.get("kind")
    if kind == "always":
        return "a turn is over"
    match kind:
        case "from_speaker":
            return f"{condition.get('agent')} spoke"
        case "tool_called":
            return f"{condition.get('tool')} was called"
        case "context_equals":
            return f"{condition.get('key')} is {_value(condition.get('value'))}"
        case "context_text":
            return _compared(condition)
        case "outcome_is":
            return f"the turn ended in {str(condition.get('outcome')).replace('_', ' ')}"
        case "error_class_is":
            return f"the turn failed, {str(condition.get('failure_class')).replace('_', ' ')}"
        case "all_of" | "any_of":
            return _joined(condition)
        case "not":
            return f"not ({condition_said(condition.get('condition'))})"
        case "registered":
            return f"{condition.get('name')} holds"
    return "…"


COMPARES = {
    "equals": "reads",
    "greater": "is greater than",
    "less": "is less than",
    "at_least": "is at least",
    "at_most": "is at most",
    "contains": "contains",
    "matches": "matches",
    "is_set": "is set",
}
"""How a variable compares, in words. Total, by test."""


def _joined(condition: dict[str, JSON]) -> str:
    within = condition.get("conditions")
    several = [condition_said(one) for one in within] if isinstance(within, list) else []
    if condition["kind"] == "all_of":
        return " and ".join(several) or "…"
    return f"({' or '.join(several)})" if several else "…"


def _compared(condition: dict[str, JSON]) -> str:
    how = COMPARES.get(str(condition.get("compares")), "…")
    return f"{condition.get('key')} {how} {condition.get('value') or ''}".strip()


def _value(value: JSON) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def target_said(target: JSON) -> str:
    """A target in words, as far as it can be read."""
    if not isinstance(target, dict):
        return "…"
    match target.get("kind"):
        case "agent":
            return f"{target.get('agent')} speaks next"
        case "round_robin":
            return "the next in their order speaks"
        case "stay":
            return "the same speaks again"
        case "revert_to_initiator":
            return "the initiator speaks next"
        case "terminate":
            return f"it ends: {target.get('reason') or 'terminated'}"
        case "registered":
            return f"{target.get('name')} says who speaks next"
    return "…"


def anew_said(rule: JSON) -> str:
    """What a restart edge does beside leading to somebody; empty: it is none."""
    return ", and the conversation begins anew" if isinstance(rule, dict) and rule.get("restart") is True else ""


# -- why it was somebody's turn ----------------------------------------------------------------------------------------


def why_said(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    """Why somebody spoke next, or nobody."""
    return WHY[fact.why](fact, rules)


def _rule(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    place = fact.transition
    if place is None or place >= len(rules):
        return "a rule held"
    rule = rules[place].model_dump(mode="json")
    return f"rule {place + 1}: {condition_said(rule['when'])}, so {target_said(rule['then'])}{anew_said(rule)}"


def _bounded(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    would = f"; else {_rule(fact, rules)}" if fact.transition is not None else ""
    return f"it has had as many turns as it may{would}"


def _no_rule(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    if fact.speaker:
        return f"no rule held; where none does, {fact.speaker} speaks"
    return "no rule held; where none does, it ends" if rules else f"{fact.from_agent} handed over to nobody"


LEVELS: Mapping[Level, str] = {
    Level.NODE: "its own retry target",
    Level.NODE_FALLBACK: "its own fallback",
    Level.GRAPH: "the graph's retry target",
    Level.GRAPH_FALLBACK: "the graph's fallback",
}
"""Whose target it is. Total, by test."""


def level_said(fact: SpeakerChosen) -> str:
    """Whose retry target it was that led to somebody."""
    return LEVELS[Level(fact.level)] if fact.level else "a retry target"


def _goal(fact: SpeakerChosen) -> str:
    return f": {level_said(fact)}" if fact.level else ""


WHY: Mapping[Why, Callable[[SpeakerChosen, Sequence[Transition]], str]] = {
    Why.HANDOFF: lambda fact, rules: f"{fact.from_agent} handed over by {fact.tool or 'a tool'}",
    Why.FINISH: lambda fact, rules: f"{fact.from_agent} ended it by {fact.tool or 'a tool'}",
    Why.TRANSITION: _rule,
    Why.RESTART: _rule,
    Why.RETRY_TARGET: lambda fact, rules: f"{fact.from_agent} failed and no rule was for that: {level_said(fact)}",
    Why.DEFAULT: _no_rule,
    Why.NO_DEFAULT: lambda fact, rules: "nothing leads on",
    Why.MAX_TURNS: _bounded,
    Why.GOAL: lambda fact, rules: f"it would have ended, and a goal is not met yet{_goal(fact)}",
    Why.EXPECTATION: lambda fact, rules: "a turn took longer than it may",
    Why.TTL: lambda fact, rules: "it has lived as long as it may",
}
"""What each reason says. Total, by test."""
