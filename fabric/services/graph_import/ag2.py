"""Graphs from AG2 and for AG2: ``TransitionGraph.to_dict()``, alone or within the metadata of a workflow channel (AG2 1.2; S4).

What is read decides as it does there: the same turns give the same speakers and the same reasons (checked against the package itself). Two things are another
matter: a handoff to nobody, after which AG2 waits for ever, and context variables that the engine itself writes, whose names are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabric.core.graph import conditions as c
from fabric.core.graph import targets as t
from fabric.core.graph.retry_targets import named
from fabric.core.graph.spec import TransitionGraph, Unreadable, from_dict
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.policy import Limits
from fabric.services.errors import Refused
from fabric.services.graph_import.ag2_clocks import NO_CLOCKS, Clocks, clocks_of
from fabric.services.graph_import.names import Names

JSON = Any
WORKFLOW = ("workflow", 1)
"""Manifest of the channels that are read: type and version."""
_FIELDS = frozenset({"initial_speaker", "transitions", "default_target", "max_turns"})
_CLOSED = "workflow_terminated"
"""What AG2 says where an end gives no reason."""
_AFTER_WORK = "after_work"
"""AG2's reason where none is given."""


@dataclass(frozen=True, slots=True)
class FromAG2:
    """A graph that was read, and what of it is not as it stood there."""

    graph: TransitionGraph
    renamed: Mapping[str, str]
    """Names here by AG2's ids, of participants and tools whose id is no name."""
    context: Mapping[str, JSON]
    """Context variables that the conversation begins with."""
    notes: tuple[str, ...] = ()
    """A sentence for each thing that had to be assumed, or is otherwise here."""
    lost: tuple[str, ...] = ()
    """A sentence for each thing without which it is another conversation: of a channel of which only a part was asked for."""


def ag2_read(
    tree: JSON, *, names: Mapping[str, str] | None = None, participants: Sequence[str] = (), partial: bool = False
) -> FromAG2:
    """The graph in AG2's dict form. Refused with one sentence where its form or version is not known, or something has no counterpart.

    ``names``: names here by AG2's ids; else a channel's participants may say theirs. ``participants``: AG2's ids in their order, where the dict does not say
    them. ``partial``: read without what would make it another conversation.
    """
    form = _form(tree)
    reading = _Reading(Names({**form.names, **(names or {})}))
    order = list(form.participants or participants) or _in_order(form.graph)
    people = [reading.agent(one, "participants") for one in order]
    fields = {
        "participants": people,
        "initial_speaker": reading.agent(form.graph["initial_speaker"], "initial_speaker"),
        "initiator": reading.agent(form.creator, "creator_id") if form.creator else None,
        "transitions": [reading.rule(one, n) for n, one in enumerate(form.graph.get("transitions") or [])],
        "default_target": reading.default(form.graph.get("default_target")),
        "max_turns": _turns(form.graph.get("max_turns")),
        **form.clocks.fields,
    }
    lost = (*form.clocks.lost, *_nameless(reading.names.renamed, order))
    if lost and not partial:
        raise Refused(lost[0], code="invalid", field="graph", problems=(*lost, PARTIAL))
    notes = (
        []
        if form.participants or participants
        else ["AG2's graph does not say who takes part: whom it names does, in that order"]
    )
    if not form.creator and "revert_to_initiator" in str(form.graph):
        notes.append("AG2's graph does not say who opened the conversation: the first speaker did")
    try:
        graph = from_dict(fields)
    except Unreadable as error:
        path, sentence = error.problems[0]
        raise _refused(path, sentence) from None
    if graph.max_turns is None or graph.max_turns > HOPS:
        notes.append(HOPS_SAID)
    return FromAG2(graph, reading.names.renamed, form.context, (*notes, *form.clocks.notes), lost)


PARTIAL = (
    "it would be another conversation without it; mend the file, give --name ID=NAME, or read the rest with --partial"
)
HOPS = Limits().hops
HOPS_SAID = f"AG2 counts no handovers; here the {HOPS + 1}th typed Handoff of a tool trips policy.limits.hops ({HOPS}): raise it where there are more"
_HEX = re.compile(r"[0-9a-f]{16,}")


def _nameless(renamed: Mapping[str, str], order: Sequence[str]) -> Iterator[str]:
    """Participants whose id is a hub's: what a tool hands over to is the name of a Passport, which the channel does not say."""
    for one in order:
        if (_HEX.fullmatch(one) and renamed.get(one, "").startswith("n-")) or (
            _HEX.fullmatch(one) and one not in renamed
        ):
            yield f"participant {one}: is a hub's id, and a tool hands over to the name of a Passport; say it with --name {one}=NAME"


# -- its form ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    graph: dict[str, JSON]
    context: Mapping[str, JSON]
    participants: tuple[str, ...] = ()
    creator: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names by id, where the participants say them."""
    clocks: Clocks = NO_CLOCKS


def _form(tree: JSON) -> _Form:
    if not isinstance(tree, dict):
        raise _refused("", "is not AG2's dict form; give what TransitionGraph.to_dict() gives")
    if "manifest" not in tree:
        return _Form(_graph(tree), {})
    manifest = tree["manifest"]
    said = (manifest.get("type"), manifest.get("version")) if isinstance(manifest, dict) else (None, None)
    if said != WORKFLOW:
        raise _refused(
            "manifest", f"is of type {said[0]!r}, version {said[1]!r}; channels of type 'workflow', version 1, are read"
        )
    knobs = tree.get("knobs")
    if not isinstance(knobs, dict):
        raise _refused("knobs", "is missing; a workflow channel keeps its graph there")
    people = tree.get("participants")
    if not isinstance(people, list) or not all(
        isinstance(one, dict) and isinstance(one.get("order"), int) for one in people
    ):
        raise _refused("participants", "is not a list of participants with their order")
    ids = tuple(one.get("agent_id") for one in sorted(people, key=lambda one: one["order"]))
    context = knobs.get("context_vars") or {}
    if not isinstance(context, dict) or ENGINE_KEYS & set(context):
        raise _refused("knobs.context_vars", _ENGINES)
    names = {one["agent_id"]: one["name"] for one in people if isinstance(one.get("name"), str) and one["name"]}
    creator = tree.get("creator_id") or ""
    return _Form(_graph(knobs.get("graph")), context, ids, creator, names, clocks_of(tree))


def _graph(tree: JSON) -> dict[str, JSON]:
    if not isinstance(tree, dict) or "initial_speaker" not in tree:
        raise _refused(
            "", "is not AG2's dict form: it has no initial_speaker; give what TransitionGraph.to_dict() gives"
        )
    if strange := sorted(set(map(str, tree)) - _FIELDS):
        raise _refused(strange[0], "is no field of AG2 1.2's graphs; export it with a version whose form is known")
    rules = tree.get("transitions") or []
    known = {"when", "then", "priority"}
    if not isinstance(rules, list) or not all(isinstance(one, dict) and set(one) <= known for one in rules):
        raise _refused("transitions", "is not AG2 1.2's list of rules with when, then and priority")
    return tree


def _in_order(graph: dict[str, JSON]) -> list[str]:
    """Whom a graph names, in the order in which it does."""
    found = [graph["initial_speaker"]]
    for rule in graph.get("transitions") or []:
        found += [_args(rule.get(part)).get("agent_id") for part in ("when", "then")]
    found.append(_args(graph.get("default_target")).get("agent_id"))
    return list(dict.fromkeys(one for one in found if one))


def _args(named: JSON) -> dict[str, JSON]:
    args = named.get("args") if isinstance(named, dict) else None
    return args if isinstance(args, dict) else {}


def _turns(turns: JSON) -> int | None:
    """AG2 closes after the first turn where the bound is lower."""
    return None if turns is None else max(_whole(turns, "max_turns"), 1)


def _whole(number: JSON, path: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise _refused(path, f"is {number!r}; give a whole number")
    return number


# -- its conditions and targets ----------------------------------------------------------------------------------------

_ENGINES = f"names {' or '.join(sorted(ENGINE_KEYS))}, which the engine writes itself after each turn; rename it in AG2"


@dataclass(frozen=True, slots=True)
class _Reading:
    names: Names

    def agent(self, given: JSON, path: str) -> str:
        return self.named("agent", given, path)

    def named(self, what: str, given: JSON, path: str) -> str:
        try:
            return self.names.of(what, given)
        except ValueError as error:
            raise _refused(path, str(error)) from None

    def rule(self, tree: JSON, place: int) -> dict[str, JSON]:
        path = f"transitions.{place}"
        return {
            "when": self._kind(tree.get("when"), f"{path}.when", CONDITIONS),
            "then": self._kind(tree.get("then"), f"{path}.then", TARGETS),
            "order": _whole(tree.get("priority", 0), f"{path}.priority"),
        }

    def default(self, tree: JSON) -> dict[str, JSON]:
        if tree is None:
            return {"kind": "terminate", "reason": _AFTER_WORK}
        return self._kind(tree, "default_target", TARGETS)

    def _kind(self, tree: JSON, path: str, kinds: Mapping[str, _Row]) -> dict[str, JSON]:
        if not isinstance(tree, dict) or not isinstance(tree.get("name"), str) or not set(tree) <= {"name", "args"}:
            raise _refused(path, "is not AG2's form of a condition or target: a name, and args")
        name, args = tree["name"], tree.get("args") or {}
        if name not in kinds:
            return {"kind": "registered", "name": name, "args": args}
        row = kinds[name]
        if not isinstance(args, dict) or not row.needs <= set(args) <= row.needs | row.may:
            raise _refused(
                f"{path}.args",
                f"has not the fields that AG2 1.2 gives {name!r}: {', '.join(sorted(row.needs | row.may)) or 'none'}",
            )
        if args.get("key") in ENGINE_KEYS:
            raise _refused(f"{path}.args.key", _ENGINES)
        return row.read(self, args, f"{path}.args")


@dataclass(frozen=True, slots=True)
class _Row:
    """How a kind is read."""

    read: Callable[[_Reading, dict[str, JSON], str], dict[str, JSON]]
    needs: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()


def _plain(kind: str) -> _Row:
    return _Row(lambda reading, args, path: {"kind": kind})


def _of_agent(kind: str) -> _Row:
    return _Row(
        lambda reading, args, path: {"kind": kind, "agent": reading.agent(args["agent_id"], f"{path}.agent_id")},
        frozenset({"agent_id"}),
    )


def _of_tool(reading: _Reading, args: dict[str, JSON], path: str) -> dict[str, JSON]:
    return {"kind": "tool_called", "tool": reading.named("tool", args["tool_name"], f"{path}.tool_name")}


def _end(reading: _Reading, args: dict[str, JSON], path: str) -> dict[str, JSON]:
    return {"kind": "terminate", "reason": args.get("reason", _AFTER_WORK) or _CLOSED}


CONDITIONS: Mapping[str, _Row] = {
    "always": _plain("always"),
    "from_speaker": _of_agent("from_speaker"),
    "tool_called": _Row(_of_tool, frozenset({"tool_name"})),
    "context_equals": _Row(lambda reading, args, path: {"kind": "context_equals", **args}, frozenset({"key", "value"})),
}
TARGETS: Mapping[str, _Row] = {
    "agent": _of_agent("agent"),
    "round_robin": _plain("round_robin"),
    "stay": _plain("stay"),
    "revert_to_initiator": _plain("revert_to_initiator"),
    "terminate": _Row(_end, may=frozenset({"reason"})),
}
"""AG2's own, by their names there. Whatever else is named is one that somebody registered."""


# -- for AG2 -----------------------------------------------------------------------------------------------------------

_TO_CONDITION: Mapping[type, Callable[[Any], dict[str, JSON]]] = {
    c.Always: lambda one: {},
    c.FromSpeaker: lambda one: {"agent_id": one.agent},
    c.ToolCalled: lambda one: {"tool_name": one.tool},
    c.ContextEquals: lambda one: {"key": one.key, "value": one.value},
}
_TO_TARGET: Mapping[type, Callable[[Any], dict[str, JSON]]] = {
    t.ToAgent: lambda one: {"agent_id": one.agent},
    t.RoundRobin: lambda one: {},
    t.Stay: lambda one: {},
    t.RevertToInitiator: lambda one: {},
    t.Terminate: lambda one: {"reason": one.reason},
}


def ag2_written(graph: TransitionGraph) -> dict[str, JSON]:
    """A graph in AG2's dict form, as ``TransitionGraph.loads`` reads it there. Refused where something has no counterpart, each told with its path.

    AG2 keeps participants, initiator, expectations and the time to live elsewhere: they are not in its graphs.
    """
    if problems := tuple(_without_counterpart(graph)):
        raise Refused(problems[0], code="invalid", field="graph", problems=problems)
    ended = {"name": "terminate", "args": {"reason": "no_transition"}}
    default = graph.default_target
    return {
        "initial_speaker": graph.initial_speaker,
        "transitions": [
            {
                "when": {"name": rule.when.kind, "args": _TO_CONDITION[type(rule.when)](rule.when)},
                "then": {"name": rule.then.kind, "args": _TO_TARGET[type(rule.then)](rule.then)},
                "priority": rule.order,
            }
            for rule in graph.transitions
        ],
        "default_target": ended
        if default is None
        else {"name": default.kind, "args": _TO_TARGET[type(default)](default)},
        "max_turns": graph.max_turns,
    }


def _without_counterpart(graph: TransitionGraph) -> Iterator[str]:
    for n, rule in enumerate(graph.transitions):
        if type(rule.when) not in _TO_CONDITION:
            yield f"transitions.{n}.when: AG2 has no condition {rule.when.kind!r}; write it as several rules in order, or leave it out"
        if isinstance(rule.when, c.ContextEquals) and rule.when.key in ENGINE_KEYS:
            yield f"transitions.{n}.when.key: AG2 does not write {rule.when.key!r} after each turn; leave the rule out"
        if type(rule.then) not in _TO_TARGET:
            yield f"transitions.{n}.then: AG2 has no target {rule.then.kind!r}; name an agent, or leave it out"
        if rule.restart:
            yield f"transitions.{n}.restart: AG2 has no restart edges; lead there without, or leave the rule out"
    for path, _ in named(graph):
        yield f"{path}: AG2 has no retry targets; write a rule that leads there, or leave it out"
    if graph.default_target is not None and type(graph.default_target) not in _TO_TARGET:
        yield f"default_target: AG2 has no target {graph.default_target.kind!r}; name an agent, or end there"


def _refused(path: str, sentence: str) -> Refused:
    where = f"{path}: " if path else "the graph "
    return Refused(f"{where}{sentence}", code="invalid", field=path or "graph")
