"""Describes rules of a graph in words: conditions, targets, and reasons of a turn.

It reads JSON, so that an incomplete rule is described as far as it can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabric.core.events.conversation import SpeakerChosen
from fabric.core.graph.retry_targets import TargetLevel
from fabric.core.graph.spec import Transition
from fabric.core.graph.state import SpeakerReason
from fabric.core.values.units import JSON


def condition_words(condition: JSON) -> str:
    """Return a condition in words, as far as it can be read."""
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
            return _comparison_words(condition)
        case "outcome_is":
            return f"the turn ended in {str(condition.get('outcome')).replace('_', ' ')}"
        case "error_class_is":
            return f"the turn failed, {str(condition.get('failure_class')).replace('_', ' ')}"
        case "all_of" | "any_of":
            return _joined_words(condition)
        case "not":
            return f"not ({condition_words(condition.get('condition'))})"
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
"""Comparison of a variable in words. Total, by test."""


def _joined_words(condition: dict[str, JSON]) -> str:
    within = condition.get("conditions")
    several = [condition_words(one) for one in within] if isinstance(within, list) else []
    if condition["kind"] == "all_of":
        return " and ".join(several) or "…"
    return f"({' or '.join(several)})" if several else "…"


def _comparison_words(condition: dict[str, JSON]) -> str:
    how = COMPARES.get(str(condition.get("compares")), "…")
    return f"{condition.get('key')} {how} {condition.get('value') or ''}".strip()


def _value(value: JSON) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def target_words(target: JSON) -> str:
    """Return a target in words, as far as it can be read."""
    if not isinstance(target, dict):
        return "…"
    match target.get("kind"):
        case "agent":
            return f"{target.get('agent')} speaks next"
        case "round_robin":
            return "the next in their order speaks"
        case "stay":
            return "the same agent speaks again"
        case "revert_to_initiator":
            return "the initiator speaks next"
        case "terminate":
            return f"it ends: {target.get('reason') or 'terminated'}"
        case "registered":
            return f"{target.get('name')} says who speaks next"
    return "…"


def restart_words(rule: JSON) -> str:
    """Return the further effect of a restart edge; empty for other rules."""
    return ", and the conversation starts over" if isinstance(rule, dict) and rule.get("restart") is True else ""


# -- why a speaker had the turn ----------------------------------------------------------------------------------------


def reason_words(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    """Return why an agent spoke next, or none did."""
    return WHY[fact.why](fact, rules)


def _rule(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    place = fact.transition
    if place is None or place >= len(rules):
        return "a rule matched"
    rule = rules[place].model_dump(mode="json")
    return f"rule {place + 1}: {condition_words(rule['when'])}, so {target_words(rule['then'])}{restart_words(rule)}"


def _bounded_words(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    would = f"; else {_rule(fact, rules)}" if fact.transition is not None else ""
    return f"it has had as many turns as it may{would}"


def _no_rule(fact: SpeakerChosen, rules: Sequence[Transition]) -> str:
    if fact.speaker:
        return f"no rule matched; then {fact.speaker} speaks"
    return "no rule matched; then it ends" if rules else f"{fact.from_agent} handed over to no agent"


LEVELS: Mapping[TargetLevel, str] = {
    TargetLevel.NODE: "its own retry target",
    TargetLevel.NODE_FALLBACK: "its own fallback",
    TargetLevel.GRAPH: "the graph's retry target",
    TargetLevel.GRAPH_FALLBACK: "the graph's fallback",
}
"""Owner of a retry target. Total, by test."""


def level_words(fact: SpeakerChosen) -> str:
    """Return the owner of the retry target that was followed."""
    return LEVELS[TargetLevel(fact.level)] if fact.level else "a retry target"


def _goal(fact: SpeakerChosen) -> str:
    return f": {level_words(fact)}" if fact.level else ""


WHY: Mapping[SpeakerReason, Callable[[SpeakerChosen, Sequence[Transition]], str]] = {
    SpeakerReason.HANDOFF: lambda fact, rules: f"{fact.from_agent} handed over by {fact.tool or 'a tool'}",
    SpeakerReason.FINISH: lambda fact, rules: f"{fact.from_agent} ended it by {fact.tool or 'a tool'}",
    SpeakerReason.TRANSITION: _rule,
    SpeakerReason.RESTART: _rule,
    SpeakerReason.RETRY_TARGET: lambda fact, rules: (
        f"{fact.from_agent} failed and no rule was for that: {level_words(fact)}"
    ),
    SpeakerReason.DEFAULT: _no_rule,
    SpeakerReason.NO_DEFAULT: lambda fact, rules: "nothing leads on",
    SpeakerReason.MAX_TURNS: _bounded_words,
    SpeakerReason.GOAL: lambda fact, rules: f"it would have ended, and a goal is not met yet{_goal(fact)}",
    SpeakerReason.EXPECTATION: lambda fact, rules: "a turn took longer than it may",
    SpeakerReason.TTL: lambda fact, rules: "it has lived as long as it may",
}
"""Words of each reason. Total, by test."""
