"""Finds problems that keep a graph from being published, and warnings for its author (docs/specification/topologies.md;
S4). Each has a path and one sentence.

The proofs about rules are those of ``reach.py``, with their limits. A rule that ends the conversation and can never
decide is a problem. A rule that leads elsewhere and can never decide, and a participant that no rule leads to, are
warnings: tools may hand over to participants that no rule names.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.graph import conditions as c
from fabric.core.graph import retry_targets
from fabric.core.graph.reach import Crew, RuleReach
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.graph.retry_targets import on_failure
from fabric.core.graph.spec import TransitionGraph
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import ErrorClass


@value()
class Problem:
    """A problem of a graph, or a warning about it."""

    path: str
    sentence: str
    warning: bool = False
    """True: the graph may be published in spite of it."""


KNOWN = Crew()
"""Facts about participants of which only the names are known."""


def problems(graph: TransitionGraph, crew: Crew = KNOWN, registry: Registry = BUILT_IN) -> list[Problem]:
    """Return all problems of a graph, then the warnings. Proofs of its rules are tried only where all names are
    right.
    """
    named = [*_people(graph), *_names(graph), *_back(graph), *_tools(graph, crew), *_find_unregistered(graph, registry)]
    return named or sorted(_find_unproved_end(RuleReach(graph, crew)), key=lambda one: one.warning)


# -- names -------------------------------------------------------------------------------------------------------------


def _people(graph: TransitionGraph) -> Iterator[Problem]:
    seen: set[str] = set()
    for n, name in enumerate(graph.participants):
        if name in seen:
            yield Problem(f"participants.{n}", f"{name!r} is there twice; name each participant once")
        seen.add(name)
    if len(seen) < 2:
        yield Problem("participants", "has fewer than two; a graph needs another worker to hand over to")
    for field, named in (("initial_speaker", graph.initial_speaker), ("initiator", graph.initiator)):
        if named is not None and named not in seen:
            yield Problem(field, _describe_unknown(graph, named))


def _describe_unknown(graph: TransitionGraph, name: str) -> str:
    return f"no participant is named {name!r}; there are: {', '.join(graph.participants)}"


def _conditions(graph: TransitionGraph) -> Iterator[tuple[str, c.Condition]]:
    for n, rule in enumerate(graph.transitions):
        yield from c.walk(rule.when, f"transitions.{n}.when")


def _targets(graph: TransitionGraph) -> Iterator[tuple[str, c.Target]]:
    yield from ((f"transitions.{n}.then", rule.then) for n, rule in enumerate(graph.transitions))
    if graph.default_target is not None:
        yield "default_target", graph.default_target


def _names(graph: TransitionGraph) -> Iterator[Problem]:
    for path, one in (*_conditions(graph), *_targets(graph)):
        if isinstance(one, c.FromSpeaker | c.ToAgent) and one.agent not in graph.participants:
            yield Problem(f"{path}.agent", _describe_unknown(graph, one.agent))


def _back(graph: TransitionGraph) -> Iterator[Problem]:
    """Yield the problems of retry targets and restart edges. A participant is unknown, turns have no limit, or the
    outcome is not looked at.
    """
    for name in graph.retry_targets:
        if name not in graph.participants:
            yield Problem(f"retry_targets.{name}", _describe_unknown(graph, name))
    for path, to in retry_targets.named_targets(graph):
        if to not in graph.participants:
            yield Problem(path, _describe_unknown(graph, to))
        elif graph.max_turns is None:
            yield Problem(path, "a failure that stays would be gone back from for ever; give max_turns")
    for n, rule in enumerate(graph.transitions):
        if rule.restart and not isinstance(rule.then, c.ToAgent):
            sentence = f"a restart needs a speaker, and {rule.then.kind} names none; give `then` the kind agent"
            yield Problem(f"transitions.{n}.restart", sentence)
        if rule.restart and not on_failure(rule):
            sentence = "a restart edge is for how a turn ended; put outcome_is or error_class_is into its condition"
            yield Problem(f"transitions.{n}.restart", sentence)


def _tools(graph: TransitionGraph, crew: Crew) -> Iterator[Problem]:
    if crew.tools is None:
        return
    had = frozenset().union(*(crew.tools.get(name, frozenset()) for name in graph.participants))
    for path, one in _conditions(graph):
        if isinstance(one, c.ToolCalled) and one.tool not in had:
            there = ", ".join(sorted(had)) or "none"
            yield Problem(f"{path}.tool", f"no participant has a tool {one.tool!r}; their tools are: {there}")


def _find_unregistered(graph: TransitionGraph, registry: Registry) -> Iterator[Problem]:
    for path, one in (*_conditions(graph), *_targets(graph)):
        if not isinstance(one, c.RegisteredCondition | c.RegisteredTarget):
            continue
        register = registry.conditions if isinstance(one, c.RegisteredCondition) else registry.targets
        try:
            register.make(one.name, one.args)
        except (ValueError, KeyError, TypeError) as error:  # An installation's function may raise any of these.
            yield Problem(path, str(error.args[0]) if error.args else type(error).__name__)


# -- what is proved ----------------------------------------------------------------------------------------------------


def _find_unproved_end(reach: RuleReach) -> Iterator[Problem]:
    graph = reach.graph
    for place, rule in enumerate(graph.transitions):
        if not any(reach.decides(place, one) for one in reach.speakers):
            ends = isinstance(rule.then, c.Terminate)
            what = "can never end the conversation" if ends else "can never decide"
            yield Problem(f"transitions.{place}", f"{what}: {_why_never(reach, place)}", warning=not ends)
        elif rule.restart and not any(reach.decides(place, one, CROSSES) for one in reach.speakers):
            sentence = (
                "can never be crossed: of failures only transient_infra crosses a restart edge, and it decides about others alone; "
                "lead there without restart, or take it out"
            )
            yield Problem(f"transitions.{place}.restart", sentence)
    for n, name in enumerate(graph.participants):
        if name not in reach.speakers:
            sentence = f"nothing ever leads to {name!r}; lead to it by a rule, or take it out"
            yield Problem(f"participants.{n}", sentence, warning=True)
    if not reach.ends and graph.max_turns is None and graph.ttl_s is None:
        sentence = "is not given, and no rule can end the conversation: only the run's own limits would"
        yield Problem("max_turns", sentence, warning=True)


_STAYS = [c.ErrorClassIs(failure_class=one) for one in ErrorClass if one is not ErrorClass.TRANSIENT_INFRA]
CROSSES = (c.AnyOf(conditions=tuple(_STAYS)), False)
"""Condition on a turn after which a restart edge may be crossed."""


def _why_never(reach: RuleReach, place: int) -> str:
    graph = reach.graph
    when = graph.transitions[place].when
    could = [one for one in graph.participants if reach.possible(one, [(when, True)])]
    if not could:
        return "its condition never holds"
    spoken = [one for one in could if one in reach.speakers]
    if not spoken:
        return f"it is for turns of {' and '.join(could)}, to whom nothing leads"
    for other in reach.list_earlier_rules(place, spoken):
        earlier = graph.transitions[other].when
        if not any(reach.possible(one, [(when, True), (earlier, False)]) for one in spoken):
            return f"rule {other + 1} ({earlier.kind}) is tried before it and holds whenever it would; move this one up"
    return "one of the rules that are tried before it always holds when it would; move this one up"
