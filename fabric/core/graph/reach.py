"""Proves, without running a graph, which rules can decide after a speaker's turn and which participants can ever speak.

After a turn of one speaker everything that conditions look at is free: the tool that routed, the outcome, each
context variable (any value that the graph names, or another), each registered condition (either way). A rule can
decide if some choice makes it true and all rules before it false. That is searched exhaustively, so "never" is a
proof. These are not seen, and so never reported: values that no tool ever writes, conditions that depend on each
other over several turns, and searches that are too long, where a rule counts as able to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from fabric.core.graph import conditions as c
from fabric.core.graph.retry_targets import after_failure, before_goal, on_failure
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import FAILURE_KEY, OUTCOME_KEY, NodeOutcome
from fabric.core.values.taxonomy import ErrorClass
from fabric.core.values.units import JSON

STEPS_MAX = 5_000
"""Most steps of one search."""
LOOKS_MAX = 200_000
"""Most conditions that one analysis looks at: a second of work. Everything after that counts as possible."""
FAILED = (c.OutcomeIs(outcome=NodeOutcome.FAIL), True)
END = ""
"""Speaker after a terminate: none."""
_OTHER = object()
"""A value that the graph does not name."""


class Crew(NamedTuple):
    """Facts about the participants besides their names."""

    tools: Mapping[str, frozenset[str]] | None = None
    """Each one's tools; None: not known, so each may have any."""
    hands_over: frozenset[str] = frozenset()
    """Tools that may return a handoff or an end: any participant may follow an agent with one."""
    goals: tuple[str, ...] = ()
    """Participants that need a result before the conversation ends."""


class Free(NamedTuple):
    """Something that a condition looks at and that may have several values."""

    kind: str
    name: str = ""


Choice = Mapping[Free, Any]
Wanted = Sequence[tuple[c.Condition, bool]]


class RuleReach:
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
        """Return True if some turn of a speaker gives each condition its wanted value. A search that is too long counts
        as True.
        """
        if self._looked > LOOKS_MAX:
            return True
        asked = [one for one in wanted if self._evaluate(one[0], speaker, {}) is not one[1]]  # The rest is certain.
        self._looked += len(wanted)
        left = STEPS_MAX

        def search_ways(choice: Choice) -> bool:
            nonlocal left
            left -= 1
            self._looked += len(asked)
            if left < 0 or self._looked > LOOKS_MAX:
                return True
            open_ = None
            for condition, want in asked:
                found = self._evaluate(condition, speaker, choice)
                if isinstance(found, Free):
                    open_ = open_ or found
                elif found is not want:
                    return False
            if open_ is None:
                return True
            return any(search_ways({**choice, open_: one}) for one in self._ways(open_, speaker, choice))

        return search_ways({})

    def decides(self, place: int, speaker: str, *also: tuple[c.Condition, bool]) -> bool:
        """Return True if the rule at a place in the list can decide after a turn of a speaker. ``also``: further
        conditions that must have their values.
        """
        wanted: list[tuple[c.Condition, bool]] = [*also]
        for n, condition, found in self._order_rules(speaker):
            if n == place:
                return found is not False and self.possible(speaker, [*wanted, (condition, True)])
            if found is True:
                return False
            if found is not False:
                wanted.append((condition, False))
        raise IndexError(place)

    def falls_through(self, speaker: str, *also: tuple[c.Condition, bool]) -> bool:
        """Return True if all rules may be false after a turn of a speaker. ``also``: further conditions that must
        have their values.
        """
        standing = self._order_rules(speaker)
        if any(found is True for _, _, found in standing):
            return False
        return self.possible(speaker, [*also, *((when, False) for _, when, found in standing if found is not False)])

    def goes_back(self, speaker: str) -> bool:
        """Return True if a failed turn of a speaker can reach its retry targets. No rule on the outcome
        decides first.
        """
        plain = (n for n, rule in enumerate(self.graph.transitions) if not on_failure(rule))
        return self.falls_through(speaker, FAILED) or any(self.decides(n, speaker, FAILED) for n in plain)

    def list_earlier_rules(self, place: int, speakers: Sequence[str]) -> Iterator[int]:
        """Yield the rules that are tried before the one at ``place``. Each may be true after turns of all these
        speakers.
        """
        for n, _ in self.graph.ordered_rules:
            if n == place:
                return
            if all(self._may[one][n] for one in speakers):
                yield n

    def _order_rules(self, speaker: str) -> tuple[tuple[int, c.Condition, bool | Free], ...]:
        """Return the rules in the order of trial. Each has its value, if that depends on nothing free."""
        if speaker not in self._stands:
            ordered = self.graph.ordered_rules
            found = tuple((n, rule.when, self._evaluate(rule.when, speaker, {})) for n, rule in ordered)
            self._stands[speaker] = found
            self._may[speaker] = {n: one is not False for n, _, one in found}
        return self._stands[speaker]

    # -- who can speak -------------------------------------------------------------------------------------------------

    @cached_property
    def speakers(self) -> frozenset[str]:
        """All participants who can ever speak."""
        found, left = {self.graph.initial_speaker}, [self.graph.initial_speaker]
        while left:
            new = {one for one in self.find_next_speakers(left.pop()) if one != END} - found
            found |= new
            left.extend(sorted(new))
        return frozenset(found)

    @cached_property
    def ends(self) -> bool:
        """Return True if a rule, the default or a tool can ever end the conversation."""
        return any(END in self.find_next_speakers(one) for one in self.speakers)

    def find_next_speakers(self, speaker: str) -> frozenset[str]:
        """Return the possible speakers after a turn of a speaker; ``END``: the conversation can end there."""
        return self._after_each.get(speaker, frozenset())

    @cached_property
    def _after_each(self) -> Mapping[str, frozenset[str]]:
        return {one: frozenset(self._list_led(one)) for one in self.graph.participants}

    def _list_led(self, speaker: str) -> Iterator[str]:
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

    def _leads(self, target: c.Target, speaker: str) -> tuple[str, ...]:
        match target:
            case c.ToAgent():
                return (target.agent,)
            case c.RoundRobin():
                return (c.find_next_participant(self.graph.participants, speaker),)
            case c.Stay():
                return (speaker,)
            case c.RevertToInitiator():
                return (self.graph.initiator or self.graph.initial_speaker,)
            case c.Terminate():
                return (END,)
            case c.RegisteredTarget():
                return (*self.graph.participants, END)

    # -- conditions, where something is still free ---------------------------------------------------------------------

    def _evaluate(self, condition: c.Condition, speaker: str, choice: Choice) -> bool | Free:
        """Return the value of a condition, or a free thing that it depends on."""
        match condition:
            case c.Always():
                return True
            case c.FromSpeaker():
                return condition.agent == speaker
            case c.Not():
                found = self._evaluate(condition.condition, speaker, choice)
                return found if isinstance(found, Free) else not found
            case c.AllOf() | c.AnyOf():
                settled = isinstance(condition, c.AnyOf)  # The value of one that settles the whole.
                each = [self._evaluate(one, speaker, choice) for one in condition.conditions]
                if settled in each:
                    return settled
                return next((one for one in each if isinstance(one, Free)), not settled)
        free, wanted = _looked_at(condition)
        return bool(choice[free] == wanted) if free in choice else free

    def _ways(self, free: Free, speaker: str, choice: Choice) -> Iterator[JSON]:
        """Yield the possible values of a free thing, given the choices for the rest."""
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
    """Return True if an outcome fits an error class: a turn that succeeded has none."""
    return error is None or outcome is not NodeOutcome.SUCCESS


def _looked_at(condition: c.Condition) -> tuple[Free, JSON]:
    """Return the free thing that a simple condition looks at, and the value that makes it true."""
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
    # Possible texts of a variable are not searched: each such condition is true or false on its own.
    return Free("text" if isinstance(condition, c.ContextText) else "registered", condition.model_dump_json()), True
