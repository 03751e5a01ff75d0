"""What a graph can come to: which rules can decide after whose turn, and who can ever speak. Proved over the rules, without running them.

After a turn of one speaker everything that conditions look at is free: which of its tools routed, how it ended, each context variable (any value that the
graph names, or another), each registered condition (either way). A rule can decide where some choice makes it hold and all rules before it not; that is
searched exhaustively, so "never" is a proof. What is not seen, and so never complained of: values that no tool ever writes, conditions that depend on each
other over several turns, and searches that are too long, where a rule counts as one that can decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from fabric.core.graph import conditions as c
from fabric.core.graph import targets as t
from fabric.core.graph.by_edge import on_failure
from fabric.core.graph.retry_targets import after_failure, before_goal
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, NodeOutcome
from fabric.core.taxonomy import ErrorClass

JSON = Any
STEPS_MAX = 5_000
"""Of one search."""
LOOKS_MAX = 200_000
"""Conditions that one analysis looks at: a second of work. What is asked after that counts as possible."""
FAILED = (c.OutcomeIs(outcome=NodeOutcome.FAIL), True)
END = ""
"""Whom a terminate leads to."""
_OTHER = object()
"""A value that the graph does not name."""


class Crew(NamedTuple):
    """What is known of the participants beside their names."""

    tools: Mapping[str, frozenset[str]] | None = None
    """Each one's tools; None: not known, so each may have any."""
    hands_over: frozenset[str] = frozenset()
    """Tools that may return a handoff or an end: whoever has one may be followed by anybody."""
    goals: tuple[str, ...] = ()
    """Who must have come back with a result before it ends."""


class Free(NamedTuple):
    """Something that a condition looks at and that may be one way or another."""

    kind: str
    name: str = ""


Choice = Mapping[Free, Any]
Wanted = Sequence[tuple[c.Condition, bool]]


class Reach:
    """The analysis of one graph."""

    def __init__(self, graph: TransitionGraph, crew: Crew) -> None:
        self.graph = graph
        self.crew = crew
        self._looked = 0
        self._stands: dict[str, tuple[tuple[int, c.Condition, bool | Free], ...]] = {}
        self._may: dict[str, dict[int, bool]] = {}
        self._values: dict[str, list[JSON]] = {}
        for rule in graph.transitions:
            for _, one in c.walk(rule.when):
                if isinstance(one, c.ContextEquals):
                    known = self._values.setdefault(one.key, [])
                    known.extend([one.value] if one.value not in known else [])

    # -- which rules can decide ----------------------------------------------------------------------------------------

    def possible(self, speaker: str, wanted: Wanted) -> bool:
        """Whether some turn of a speaker makes each condition come out as wanted. True as well where the search is too long to tell."""
        if self._looked > LOOKS_MAX:
            return True
        asked = [one for one in wanted if self._found(one[0], speaker, {}) is not one[1]]  # The rest is so in any case.
        self._looked += len(wanted)
        left = STEPS_MAX

        def searched(choice: Choice) -> bool:
            nonlocal left
            left -= 1
            self._looked += len(asked)
            if left < 0 or self._looked > LOOKS_MAX:
                return True
            open_ = None
            for condition, want in asked:
                found = self._found(condition, speaker, choice)
                if isinstance(found, Free):
                    open_ = open_ or found
                elif found is not want:
                    return False
            if open_ is None:
                return True
            return any(searched({**choice, open_: one}) for one in self._ways(open_, speaker, choice))

        return searched({})

    def decides(self, place: int, speaker: str, *also: tuple[c.Condition, bool]) -> bool:
        """Whether the rule at a place in the list can decide after a turn of a speaker. ``also``: what else has to be so."""
        wanted: list[tuple[c.Condition, bool]] = [*also]
        for n, condition, found in self._standing(speaker):
            if n == place:
                return found is not False and self.possible(speaker, [*wanted, (condition, True)])
            if found is True:
                return False
            if found is not False:
                wanted.append((condition, False))
        raise IndexError(place)

    def falls_through(self, speaker: str, *also: tuple[c.Condition, bool]) -> bool:
        """Whether no rule may hold after a turn of a speaker. ``also``: what else has to be so."""
        standing = self._standing(speaker)
        if any(found is True for _, _, found in standing):
            return False
        return self.possible(speaker, [*also, *((when, False) for _, when, found in standing if found is not False)])

    def goes_back(self, speaker: str) -> bool:
        """Whether a turn of a speaker can fail without a rule on how a turn ended deciding, so that its retry targets do."""
        plain = (n for n, rule in enumerate(self.graph.transitions) if not on_failure(rule))
        return self.falls_through(speaker, FAILED) or any(self.decides(n, speaker, FAILED) for n in plain)

    def before(self, place: int, speakers: Sequence[str]) -> Iterator[int]:
        """The rules that are tried before the one at a place in the list and may hold after turns of all these speakers."""
        for n, _ in self.graph.ordered:
            if n == place:
                return
            if all(self._may[one][n] for one in speakers):
                yield n

    def _standing(self, speaker: str) -> tuple[tuple[int, c.Condition, bool | Free], ...]:
        """The rules in the order in which they are tried, and what is so of each whatever is free."""
        if speaker not in self._stands:
            ordered = self.graph.ordered
            found = tuple((n, rule.when, self._found(rule.when, speaker, {})) for n, rule in ordered)
            self._stands[speaker] = found
            self._may[speaker] = {n: one is not False for n, _, one in found}
        return self._stands[speaker]

    # -- who can speak -------------------------------------------------------------------------------------------------

    @cached_property
    def speakers(self) -> frozenset[str]:
        """Everybody who can ever speak."""
        found, left = {self.graph.initial_speaker}, [self.graph.initial_speaker]
        while left:
            new = {one for one in self.after(left.pop()) if one != END} - found
            found |= new
            left.extend(sorted(new))
        return frozenset(found)

    @cached_property
    def ends(self) -> bool:
        """Whether a rule, the default or a tool can ever end it."""
        return any(END in self.after(one) for one in self.speakers)

    def after(self, speaker: str) -> frozenset[str]:
        """Who can speak after a turn of a speaker; ``END``: it can end there."""
        return self._after_each.get(speaker, frozenset())

    @cached_property
    def _after_each(self) -> Mapping[str, frozenset[str]]:
        return {one: frozenset(self._led(one)) for one in self.graph.participants}

    def _led(self, speaker: str) -> Iterator[str]:
        led = frozenset(self._led_by_rules(speaker))
        yield from led
        if (ways := after_failure(self.graph, speaker)) and self.goes_back(speaker):
            yield from (way.to for way in ways)
        if END in led:
            yield from (way.to for goal in self.crew.goals for way in before_goal(self.graph, goal))

    def _led_by_rules(self, speaker: str) -> Iterator[str]:
        if self.crew.tools is not None and self.crew.tools.get(speaker, frozenset()) & self.crew.hands_over:
            yield from (*self.graph.participants, END)
        for place, rule in enumerate(self.graph.transitions):
            if self.decides(place, speaker):
                yield from self._leads(rule.then, speaker)
        if self.falls_through(speaker):
            default = self.graph.default_target
            yield from (END,) if default is None else self._leads(default, speaker)

    def _leads(self, target: t.Target, speaker: str) -> tuple[str, ...]:
        match target:
            case t.ToAgent():
                return (target.agent,)
            case t.RoundRobin():
                return (t.after(self.graph.participants, speaker),)
            case t.Stay():
                return (speaker,)
            case t.RevertToInitiator():
                return (self.graph.initiator or self.graph.initial_speaker,)
            case t.Terminate():
                return (END,)
            case t.RegisteredTarget():
                return (*self.graph.participants, END)

    # -- conditions, where something is still free ---------------------------------------------------------------------

    def _found(self, condition: c.Condition, speaker: str, choice: Choice) -> bool | Free:
        """Whether a condition holds, or something free that it depends on."""
        match condition:
            case c.Always():
                return True
            case c.FromSpeaker():
                return condition.agent == speaker
            case c.Not():
                found = self._found(condition.condition, speaker, choice)
                return found if isinstance(found, Free) else not found
            case c.AllOf() | c.AnyOf():
                settled = isinstance(condition, c.AnyOf)  # What one of them settles for the whole.
                each = [self._found(one, speaker, choice) for one in condition.conditions]
                if settled in each:
                    return settled
                return next((one for one in each if isinstance(one, Free)), not settled)
        free, wanted = _asked(condition)
        return bool(choice[free] == wanted) if free in choice else free

    def _ways(self, free: Free, speaker: str, choice: Choice) -> Iterator[JSON]:
        """What something free may be, with what was chosen for the rest."""
        if free.kind == "tool":
            tools = self.graph.routing_tools
            own = tools if self.crew.tools is None else tools & self.crew.tools.get(speaker, frozenset())
            yield from ("", *sorted(own))
        elif free.kind == "outcome":
            yield from (one for one in NodeOutcome if _fits(one, choice.get(Free("error"))))
        elif free.kind == "error":
            yield from (one for one in (None, *ErrorClass) if _fits(choice.get(Free("outcome")), one))
        elif free.kind == "context":
            yield from (*self._values[free.name], _OTHER)
        else:
            yield from (True, False)


def _fits(outcome: NodeOutcome | None, error: ErrorClass | None) -> bool:
    """A turn that succeeded did not fail in any way."""
    return error is None or outcome is not NodeOutcome.SUCCESS


def _asked(condition: c.Condition) -> tuple[Free, JSON]:
    """What a simple condition looks at, and the value with which it holds."""
    match condition:
        case c.ToolCalled():
            return Free("tool"), condition.tool
        case c.OutcomeIs():
            return Free("outcome"), condition.outcome
        case c.ErrorClassIs():
            return Free("error"), condition.failure_class
        case c.ContextEquals() if condition.key == OUTCOME_KEY:
            return Free("outcome"), condition.value
        case c.ContextEquals() if condition.key == FAILURE_KEY:
            return Free("error"), condition.value
        case c.ContextEquals():
            return Free("context", condition.key), condition.value
    # What a text of a variable may be is not searched: each such condition holds or not by itself.
    return Free("text" if isinstance(condition, c.ContextText) else "registered", condition.model_dump_json()), True
