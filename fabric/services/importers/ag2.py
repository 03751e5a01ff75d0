"""Reads and writes AG2's graphs: ``TransitionGraph.to_dict()``, alone or in a workflow channel's metadata (AG2 1.2;
S4).

An imported graph decides as in AG2: equal turns give equal speakers and reasons (tests compare with the package
itself). Two cases are refused: a handoff without a target, after which AG2 waits for ever, and context variables with
names that the engine itself writes. A channel's clocks are read too: expectations of its pace, and its expiry (S4
"Default expectations").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fabric.core.graph import conditions as c
from fabric.core.graph.retry_targets import named_targets
from fabric.core.graph.spec import TransitionGraph, Unreadable, from_dict
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.spec.policies.limits import Limits
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.importers.tool_declarations import ImportedNames

WORKFLOW = ("workflow", 1)
"""Manifest of a readable channel: type and version."""
_FIELDS = frozenset({"initial_speaker", "transitions", "default_target", "max_turns"})
_CLOSED = "workflow_terminated"
"""AG2's reason for an end that gives none."""
_AFTER_WORK = "after_work"
"""AG2's reason where none is given."""


@dataclass(frozen=True, slots=True)
class FromAG2:
    """A graph that was read, with its differences from the original."""

    graph: TransitionGraph
    renamed: Mapping[str, str]
    """Names here by AG2's ids, of participants and tools whose id is no name."""
    context: Mapping[str, JSON]
    """Context variables at the beginning of the conversation."""
    notes: tuple[str, ...] = ()
    """A sentence for each part that had to be assumed, or differs here."""
    lost: tuple[str, ...] = ()
    """A sentence for each lost part of a partially read channel, whose loss makes it another conversation."""


def ag2_read(
    tree: JSON, *, names: Mapping[str, str] | None = None, participants: Sequence[str] = (), partial: bool = False
) -> FromAG2:
    """Return the graph in AG2's dict form. Raises Refused with one sentence for an unknown form or version, or a
    part without a counterpart.

    ``names``: names here by AG2's ids; else a channel's participants may have theirs. ``participants``: AG2's ids in
    their order, where the dict lacks them. ``partial``: leave out parts whose loss makes it another conversation.
    """
    form = _form(tree)
    reading = _Reading(ImportedNames({**form.names, **(names or {})}))
    order = list(form.participants or participants) or _order_participants(form.graph)
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
        raise _refuse_at(path, sentence) from None
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
    """Yield a sentence for each participant with a hub's id: tools hand over to a Passport's name, which is unknown."""
    for one in order:
        if (_HEX.fullmatch(one) and renamed.get(one, "").startswith("n-")) or (
            _HEX.fullmatch(one) and one not in renamed
        ):
            yield f"participant {one}: is a hub's id, and a tool hands over to the name of a Passport; say it with --name {one}=NAME"


def _form(tree: JSON) -> _Form:
    if not isinstance(tree, dict):
        raise _refuse_at("", "is not AG2's dict form; give what TransitionGraph.to_dict() gives")
    if "manifest" not in tree:
        return _Form(_graph(tree), {})
    manifest = tree["manifest"]
    said = (manifest.get("type"), manifest.get("version")) if isinstance(manifest, dict) else (None, None)
    if said != WORKFLOW:
        raise _refuse_at(
            "manifest", f"is of type {said[0]!r}, version {said[1]!r}; channels of type 'workflow', version 1, are read"
        )
    knobs = tree.get("knobs")
    if not isinstance(knobs, dict):
        raise _refuse_at("knobs", "is missing; a workflow channel keeps its graph there")
    people = tree.get("participants")
    if not isinstance(people, list) or not all(
        isinstance(one, dict) and isinstance(one.get("order"), int) for one in people
    ):
        raise _refuse_at("participants", "is not a list of participants with their order")
    ids = tuple(one.get("agent_id") for one in sorted(people, key=lambda one: one["order"]))
    context = knobs.get("context_vars") or {}
    if not isinstance(context, dict) or ENGINE_KEYS & set(context):
        raise _refuse_at("knobs.context_vars", _ENGINES)
    names = {one["agent_id"]: one["name"] for one in people if isinstance(one.get("name"), str) and one["name"]}
    creator = tree.get("creator_id") or ""
    return _Form(_graph(knobs.get("graph")), context, ids, creator, names, read_clocks(tree))


def _graph(tree: JSON) -> dict[str, JSON]:
    if not isinstance(tree, dict) or "initial_speaker" not in tree:
        raise _refuse_at(
            "", "is not AG2's dict form: it has no initial_speaker; give what TransitionGraph.to_dict() gives"
        )
    if strange := sorted(set(map(str, tree)) - _FIELDS):
        raise _refuse_at(strange[0], "is no field of AG2 1.2's graphs; export it with a version whose form is known")
    rules = tree.get("transitions") or []
    known = {"when", "then", "priority"}
    if not isinstance(rules, list) or not all(isinstance(one, dict) and set(one) <= known for one in rules):
        raise _refuse_at("transitions", "is not AG2 1.2's list of rules with when, then and priority")
    return tree


def _order_participants(graph: dict[str, JSON]) -> list[str]:
    """Return the participants of a graph, in its order."""
    found = [graph["initial_speaker"]]
    for rule in graph.get("transitions") or []:
        found += [_args(rule.get(part)).get("agent_id") for part in ("when", "then")]
    found.append(_args(graph.get("default_target")).get("agent_id"))
    return list(dict.fromkeys(one for one in found if one))


def _args(named: JSON) -> dict[str, JSON]:
    args = named.get("args") if isinstance(named, dict) else None
    return args if isinstance(args, dict) else {}


def _turns(turns: JSON) -> int | None:
    """Return the bound of turns. AG2 closes after the first turn where the bound is lower."""
    return None if turns is None else max(_whole(turns, "max_turns"), 1)


def _whole(number: JSON, path: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise _refuse_at(path, f"is {number!r}; give a whole number")
    return number


# -- AG2's conditions and targets --------------------------------------------------------------------------------------

_ENGINES = f"names {' or '.join(sorted(ENGINE_KEYS))}, which the engine writes itself after each turn; rename it in AG2"


@dataclass(frozen=True, slots=True)
class _Reading:
    names: ImportedNames

    def agent(self, given: JSON, path: str) -> str:
        return self.find_name("agent", given, path)

    def find_name(self, what: str, given: JSON, path: str) -> str:
        try:
            return self.names.choose_name(what, given)
        except ValueError as error:
            raise _refuse_at(path, str(error)) from None

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

    def _kind(self, tree: JSON, path: str, kinds: Mapping[str, _KindReader]) -> dict[str, JSON]:
        if not isinstance(tree, dict) or not isinstance(tree.get("name"), str) or not set(tree) <= {"name", "args"}:
            raise _refuse_at(path, "is not AG2's form of a condition or target: a name, and args")
        name, args = tree["name"], tree.get("args") or {}
        if name not in kinds:
            return {"kind": "registered", "name": name, "args": args}
        row = kinds[name]
        if not isinstance(args, dict) or not row.needs <= set(args) <= row.needs | row.may:
            raise _refuse_at(
                f"{path}.args",
                f"has not the fields that AG2 1.2 gives {name!r}: {', '.join(sorted(row.needs | row.may)) or 'none'}",
            )
        if args.get("key") in ENGINE_KEYS:
            raise _refuse_at(f"{path}.args.key", _ENGINES)
        return row.read(self, args, f"{path}.args")


def _plain(kind: str) -> _KindReader:
    return _KindReader(lambda reading, args, path: {"kind": kind})


def _read_agent_kind(kind: str) -> _KindReader:
    return _KindReader(
        lambda reading, args, path: {"kind": kind, "agent": reading.agent(args["agent_id"], f"{path}.agent_id")},
        frozenset({"agent_id"}),
    )


def _read_tool_called(reading: _Reading, args: dict[str, JSON], path: str) -> dict[str, JSON]:
    return {"kind": "tool_called", "tool": reading.find_name("tool", args["tool_name"], f"{path}.tool_name")}


def _end(reading: _Reading, args: dict[str, JSON], path: str) -> dict[str, JSON]:
    return {"kind": "terminate", "reason": args.get("reason", _AFTER_WORK) or _CLOSED}


# -- for AG2 -----------------------------------------------------------------------------------------------------------

_TO_CONDITION: Mapping[type, Callable[[Any], dict[str, JSON]]] = {
    c.Always: lambda one: {},
    c.FromSpeaker: lambda one: {"agent_id": one.agent},
    c.ToolCalled: lambda one: {"tool_name": one.tool},
    c.ContextEquals: lambda one: {"key": one.key, "value": one.value},
}
_TO_TARGET: Mapping[type, Callable[[Any], dict[str, JSON]]] = {
    c.ToAgent: lambda one: {"agent_id": one.agent},
    c.RoundRobin: lambda one: {},
    c.Stay: lambda one: {},
    c.RevertToInitiator: lambda one: {},
    c.Terminate: lambda one: {"reason": one.reason},
}


def ag2_written(graph: TransitionGraph) -> dict[str, JSON]:
    """Return a graph in AG2's dict form, as AG2's ``TransitionGraph.loads`` reads it.

    Raises Refused with the path of each part that has no counterpart. AG2 keeps participants, initiator, expectations
    and the time to live elsewhere: they are not in its graphs.
    """
    if problems := tuple(_list_without_counterpart(graph)):
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


def _list_without_counterpart(graph: TransitionGraph) -> Iterator[str]:
    for n, rule in enumerate(graph.transitions):
        if type(rule.when) not in _TO_CONDITION:
            yield f"transitions.{n}.when: AG2 has no condition {rule.when.kind!r}; write it as several rules in order, or leave it out"
        if isinstance(rule.when, c.ContextEquals) and rule.when.key in ENGINE_KEYS:
            yield f"transitions.{n}.when.key: AG2 does not write {rule.when.key!r} after each turn; leave the rule out"
        if type(rule.then) not in _TO_TARGET:
            yield f"transitions.{n}.then: AG2 has no target {rule.then.kind!r}; name an agent, or leave it out"
        if rule.restart:
            yield f"transitions.{n}.restart: AG2 has no restart edges; lead there without, or leave the rule out"
    for path, _ in named_targets(graph):
        yield f"{path}: AG2 has no retry targets; write a rule that leads there, or leave it out"
    if graph.default_target is not None and type(graph.default_target) not in _TO_TARGET:
        yield f"default_target: AG2 has no target {graph.default_target.kind!r}; name an agent, or end there"


def _refuse_at(path: str, sentence: str) -> Refused:
    where = f"{path}: " if path else "the graph "
    return Refused(f"{where}{sentence}", code="invalid", field=path or "graph")


HERE = ("warn", "auto_close")
TURN = "turn_within"
DEFAULT_S = 120
"""AG2's bound where an expectation gives no seconds."""


@dataclass(frozen=True, slots=True)
class ChannelClocks:
    """Counterparts of an AG2 channel's clocks."""

    fields: dict[str, JSON] = field(default_factory=dict)
    """Fields of a graph."""
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


NO_CLOCKS = ChannelClocks()


# -- AG2's form --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    graph: dict[str, JSON]
    context: Mapping[str, JSON]
    participants: tuple[str, ...] = ()
    creator: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names by id, where the participants have them."""
    clocks: ChannelClocks = NO_CLOCKS


def read_clocks(tree: dict[str, JSON]) -> ChannelClocks:
    """Return the clocks of a channel's metadata. AG2's defaults, which are ours too, apply where its manifest has
    none.
    """
    fields: dict[str, JSON] = {}
    notes: list[str] = []
    lost: list[str] = []
    given = tree["manifest"].get("expectations")
    if isinstance(given, list):
        fields["expectations"] = []
        for n, one in enumerate(given):
            path = f"manifest.expectations.{n}"
            read = _expectation(one)
            if isinstance(read, dict):
                fields["expectations"].append(read)
            else:
                (notes if read.startswith("audit") else lost).append(f"{path}: {read}")
    lived = _lives(tree)
    if isinstance(lived, float):
        fields["ttl_s"] = lived
    elif lived:
        lost.append(lived)
    return ChannelClocks(fields, tuple(notes), tuple(lost))


def _expectation(one: JSON) -> dict[str, JSON] | str:
    """Return the counterpart of an expectation; a sentence: there is none."""
    given = one if isinstance(one, dict) else {}
    name, what = given.get("name"), given.get("on_violation", "warn")
    params: JSON = given.get("params")
    seconds: JSON = params.get("seconds", DEFAULT_S) if isinstance(params, dict) else DEFAULT_S
    if what == "audit":
        return "audit is a line in a record, and every event is one here"
    if name != TURN:
        return f"nothing of the kind {name!r} is expected here; there is: {TURN}"
    if what not in HERE:
        return f"a late turn is met by {' or '.join(HERE)} here, and not by {what!r}"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        return f"{seconds!r} is no number of seconds"
    return {"kind": TURN, "seconds": seconds, "on_violation": what}


def _lives(tree: dict[str, JSON]) -> float | str:
    """Return the channel's lifetime in seconds, or a sentence why it cannot be read; empty where it has no end."""
    ends = tree.get("expires_at")
    if ends is None:
        return ""
    instants = list(_instants(tree.get("created_at"), ends))
    if len(instants) < 2 or instants[1] <= instants[0]:
        return f"expires_at: {ends!r} is no instant after created_at ({tree.get('created_at')!r}), so its lifetime is unknown"
    return float(instants[1] - instants[0])


def _instants(*given: JSON) -> Iterator[float]:
    for one in given:
        if isinstance(one, int | float) and not isinstance(one, bool):
            yield float(one)
        elif isinstance(one, str):
            try:
                yield datetime.fromisoformat(one).timestamp()
            except ValueError:
                return


@dataclass(frozen=True, slots=True)
class _KindReader:
    """Reader of one kind."""

    read: Callable[[_Reading, dict[str, JSON], str], dict[str, JSON]]
    needs: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()


CONDITIONS: Mapping[str, _KindReader] = {
    "always": _plain("always"),
    "from_speaker": _read_agent_kind("from_speaker"),
    "tool_called": _KindReader(_read_tool_called, frozenset({"tool_name"})),
    "context_equals": _KindReader(
        lambda reading, args, path: {"kind": "context_equals", **args}, frozenset({"key", "value"})
    ),
}
TARGETS: Mapping[str, _KindReader] = {
    "agent": _read_agent_kind("agent"),
    "round_robin": _plain("round_robin"),
    "stay": _plain("stay"),
    "revert_to_initiator": _plain("revert_to_initiator"),
    "terminate": _KindReader(_end, may=frozenset({"reason"})),
}
"""AG2's own targets, by AG2's names; any other name was registered by a user."""
