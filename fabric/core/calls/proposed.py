"""Reads the calls of a model's answer, each with its id, structural error and dependencies (S2;
docs/specification/agent-step.md).

1. A call may refer to an earlier result: ``{"$ref": "calls.<id>.result.<path>"}`` without further keys. A path goes by
   keys and positions; ``.error`` replaces ``.result`` where the call failed. Any other value of ``$ref`` belongs to the
   tool (JSON schema writes ``#/...`` there).
2. A call may have a condition on earlier results.
3. A model without tool calling writes a plan of calls as text: ``{"calls": [{"id", "tool", "args", "when"}], "output":
   null or the stage's shape}``, S2's solution. Any other object is an ordinary answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.inputs import ToolCall
from fabric.core.state.run import CallRecord, Step
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON

_ours = re.compile(r"call-\d+-\d+'*")
ID_CHARS = 64
"""A longer id of an endpoint's is kept for the way back only."""


@value()
class Proposed:
    """A proposed call under an id that is unique in its step, with its structural problem if it has one."""

    call_id: str
    tool: str
    args: JSON
    raw_args: str
    args_hash: str
    problem: str = ""
    cause: Cause = Cause.TOOL_CONSTRAINT
    when: str = ""
    """The condition under which it is made; "": always."""
    after: tuple[str, ...] = ()
    """Calls of its answer that it waits for."""
    bound: bool = False
    """True if all references in its arguments are resolved."""
    given: str = ""
    """The id under which the model knows it, if it differs."""
    own: JSON = None
    """Fields of the call that only its provider understands."""

    def as_json(self) -> JSON:
        """Return the call as JSON for the answer's content."""
        given = {"args": self.args} if self.args is not None else {"raw_args": self.raw_args}
        wrong = {"problem": self.problem, "cause": self.cause} if self.problem else {}
        condition = {"when": self.when} if self.when else {}
        back = {"server_id": self.given} if self.given else {}
        own = {"own": self.own} if self.own is not None else {}
        return {"call_id": self.call_id, "tool": self.tool, **given, **condition, **wrong, **back, **own}

    def fact(self) -> ev.ProposedCall:
        """Return the call for the event's header, with the fingerprint of its arguments."""
        known_by = self.given[:ID_CHARS]
        return ev.ProposedCall(
            call_id=self.call_id, tool=self.tool, args_hash=self.args_hash, after=self.after, given=known_by
        )

    @property
    def name(self) -> str:
        """The id under which the model refers to the call."""
        return self.given or self.call_id


def proposals(step: Step, given: Iterable[tuple[ToolCall, str]]) -> list[Proposed]:
    """Return the calls that a step's model proposes, each with its condition, under ids that are unique within the
    step.

    A call keeps its endpoint's id where that is short and new. Otherwise it gets one of ours: endpoints leave ids
    out, number anew in each turn, or repeat one id. A structural error of a call is in its ``problem``.
    """
    asked = list(given)
    if not asked:
        return []
    records = [record for turn in step.history for record in turn.calls]
    taken = frozenset([record.call_id for record in records])
    found = _number_calls(asked, taken, len(step.history))
    before = taken.union([record.given for record in records if record.given])
    later = {one.name for one in found}
    same: dict[str, str] = {}
    waiting = []
    for one in found:
        waiting.append(_add_dependencies(one, same, later, before))
        later.discard(one.name)
        same[one.name] = one.call_id
    return waiting


def _number_calls(given: Sequence[tuple[ToolCall, str]], taken: frozenset[str], turn: int) -> list[Proposed]:
    """Return calls with unique ids. A repeated id with equal arguments counts once; with other arguments it is an
    error on both.
    """
    found: dict[str, Proposed] = {}
    places: dict[str, str] = {}
    for index, (call, when) in enumerate(given):
        args_hash = fingerprint(call.args) if call.args is not None else fingerprint(call.raw_args)
        name = call.call_id if call.call_id.strip() else ""
        one = Proposed(name, call.tool, call.args, call.raw_args, args_hash, when=when, own=call.own)
        if name and name in places:
            first = found[places[name]]
            if (first.tool, first.args_hash, first.when) == (one.tool, one.args_hash, one.when):
                continue
            problem = f"call id {name[:80]!r} names two different calls"
            found[first.call_id] = replace(first, problem=problem, cause=Cause.DUPLICATE_CALL)
            one = replace(one, problem=problem, cause=Cause.DUPLICATE_CALL)
        if not name or len(name) > ID_CHARS or name in taken or name in found:
            ids = {other.call_id for other, _ in given}.union(taken, found)
            one = replace(one, call_id=_make_id(f"call-{turn + 1}-{index + 1}", ids), given=name)
        found[one.call_id] = one
        places.setdefault(name, one.call_id)
    return list(found.values())


def is_ours(call_id: str) -> bool:
    """Return True if an id is one that the engine gave to a call, as far as its form says."""
    return _ours.fullmatch(call_id) is not None


def _make_id(name: str, taken: set[str]) -> str:
    """Return an id that no other call has."""
    while name in taken:
        name += "'"
    return name


def _add_dependencies(one: Proposed, same: Mapping[str, str], later: set[str], before: frozenset[str]) -> Proposed:
    """Return the call with its dependencies. It has a problem if it refers to itself, to a later call or to none.

    ``same``: call ids, by name, of the calls before it in its answer. ``later``: names of this call and of those
    after it. ``before``: names of the calls of earlier answers.
    """
    if one.problem:
        return one
    try:
        wanted = [reference.call_id for reference in list_references(one.args)]
    except Unresolved as error:
        return replace(one, problem=str(error))
    wanted = list(dict.fromkeys((*wanted, *names_in(one.when))))
    for name in wanted:
        if name == one.name:
            return replace(one, problem=f"it refers to itself ({name!r}); a call can only use what came before it")
        if name in later:
            return replace(
                one, problem=f"it refers to {name!r}, which comes later in the same answer; put that call first"
            )
        if name not in same and name not in before:
            there = ", ".join(sorted(before.union(same))) or "none"
            return replace(one, problem=f"it refers to {name!r}, and there is no such call; before it came: {there}")
    return replace(one, after=tuple(dict.fromkeys(same[name] for name in wanted if name in same)))


def list_last_calls(work: Work, step: Step) -> list[Proposed]:
    """Return the calls of the step's last answer as they were journaled. Arguments that replaced the proposed ones are
    in place.
    """
    turn = step.history[-1]
    journaled = work.ctx.contents.read(turn.answer_ref)["calls"]
    return [read(work, record, call) for record, call in zip(turn.calls, journaled, strict=True)]


def read(work: Work, record: CallRecord, call: JSON) -> Proposed:
    """Return a call as it was journaled."""
    return Proposed(
        record.call_id,
        record.tool,
        work.ctx.contents.read(record.args_ref)["calls"][0]["args"] if record.args_ref else call.get("args"),
        call.get("raw_args", ""),
        record.args_hash,
        call.get("problem", ""),
        Cause(call.get("cause", Cause.TOOL_CONSTRAINT)),
        call.get("when", ""),
        record.after,
        bool(record.args_ref),
        call.get("server_id", ""),
        call.get("own"),
    )


KEY = "$ref"
_OURS = "calls."
_REFERENCE = re.compile(r"calls\.(?P<call>[^.\s]+)\.(?P<part>result|error)(?:\.(?P<path>.+))?", re.DOTALL)
_NAMED = re.compile(r"""(?<![\w.])calls\s*(?:\.\s*(\w+)|\[\s*(?:'([^']*)'|"([^"]*)")\s*\])""")
DEEPEST = 64
"""Deepest level at which arguments are searched; parsed JSON is no deeper (``text.nesting``)."""


@value()
class Reference:
    """A reference in arguments: a call, and a part of its answer."""

    call_id: str
    part: str
    """``result`` or ``error``."""
    path: tuple[str, ...]
    at: str
    """Path in the arguments."""


class Unresolved(ValueError):
    """Raised for a reference that cannot be resolved. The message is one sentence for the model."""


def list_references(args: JSON) -> list[Reference]:
    """Return every reference in a call's arguments, in order. Raises Unresolved for a malformed one."""
    return [_read(text, at) for text, at in _find_references(args)]


def names_in(condition: str) -> tuple[str, ...]:
    """Return the calls that a condition names, each once."""
    found = (next(one for one in match.groups() if one is not None) for match in _NAMED.finditer(condition))
    return tuple(dict.fromkeys(found))


def resolve_references(args: JSON, answer_of: Callable[[str], Mapping[str, JSON]]) -> JSON:
    """Return the arguments with their references resolved. ``answer_of``: a call's answer, ``{"result": ...}`` or
    ``{"error": ...}``, by its id. Raises Unresolved for a path that the answer has not.
    """

    def one(node: JSON, at: str) -> JSON:
        if (text := _text(node)) is not None:
            return _find_value(_read(text, at), answer_of)
        if isinstance(node, dict):
            return {key: one(held, f"{at}.{key}" if at else key) for key, held in node.items()}
        if isinstance(node, list):
            return [one(held, f"{at}.{n}" if at else str(n)) for n, held in enumerate(node)]
        return node

    return one(args, "")


def _text(node: JSON) -> str | None:
    """Return the text of a reference; None if the node is no reference."""
    if not isinstance(node, dict) or len(node) != 1:
        return None
    text = node.get(KEY)
    return text if isinstance(text, str) and text.startswith(_OURS) else None


def _find_references(node: JSON, at: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST:
        return
    if (text := _text(node)) is not None:
        yield text, at
    elif isinstance(node, dict):
        for key, held in node.items():
            yield from _find_references(held, f"{at}.{key}" if at else key, depth + 1)
    elif isinstance(node, list):
        for n, held in enumerate(node):
            yield from _find_references(held, f"{at}.{n}" if at else str(n), depth + 1)


def _read(text: str, at: str) -> Reference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise Unresolved(f"{at}: {text!r} is no reference; write calls.ID.result or calls.ID.result.PATH")
    path = tuple((match["path"] or "").split(".")) if match["path"] else ()
    return Reference(match["call"], match["part"], path, at)


def _find_value(reference: Reference, answer_of: Callable[[str], Mapping[str, JSON]]) -> JSON:
    answer = answer_of(reference.call_id)
    if reference.part not in answer and reference.part == "error":
        return None  # The call came back without an error; a plan's error branch looks for one.
    node: JSON = answer.get(reference.part)
    gone = f"calls.{reference.call_id}.{reference.part}"
    for part in reference.path:
        node, known = _step(node, part)
        if not known:
            raise Unresolved(f"{reference.at}: {gone} has no {part!r}{_known_names(node)}")
        gone = f"{gone}.{part}"
    return node


def _step(node: JSON, part: str) -> tuple[JSON, bool]:
    """Return the child node at ``part`` and True; the node itself and False if there is none."""
    if isinstance(node, dict) and part in node:
        return node[part], True
    if isinstance(node, list) and part.isdecimal() and len(part) < 10 and int(part) < len(node):
        return node[int(part)], True
    return node, False


def _known_names(node: JSON) -> str:
    if isinstance(node, dict):
        names = ", ".join(str(key)[:40] for key in list(node)[:8])
        return f"; it has: {names}" if names else "; it is empty"
    if isinstance(node, list):
        return f"; it is a list of {len(node)}"
    return f"; it is {'nothing' if node is None else 'a text' if isinstance(node, str) else 'a plain value'}"


KEYS = frozenset({"calls", "output"})
OF_A_CALL = frozenset({"id", "tool", "args", "when"})
CALLS_MAX = 1_000
"""Most calls of a plan; a longer one is refused unread."""
WHEN_MAX = 500
"""Characters of a condition."""


@value()
class CallPlan:
    """The contents of a planning answer."""

    calls: tuple[tuple[ToolCall, str], ...] = ()
    """Calls, each with its condition; "" is always true."""
    output: JSON = None
    """Output that ends the plan; None: not there yet."""
    problems: tuple[str, ...] = ()


def find_plan(given: Mapping[str, JSON]) -> CallPlan | None:
    """Return the plan in a parsed answer; None: the object is no plan but the output itself."""
    if not KEYS & given.keys():
        return None
    calls, output = given.get("calls"), given.get("output")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        return CallPlan(problems=("calls: a list of calls is wanted",))
    if len(calls) > CALLS_MAX:
        return CallPlan(problems=(f"calls: there are {len(calls):,}, and at most {CALLS_MAX:,} are read",))
    if not calls and output is None:
        return CallPlan(problems=("output is null and there are no calls: call a tool, or give the output",))
    found: list[tuple[ToolCall, str]] = []
    problems: list[str] = []
    for n, one in enumerate(calls):
        read = _call(one, f"calls.{n}")
        if isinstance(read, str):
            problems.append(read)
        else:
            found.append(read)
    return CallPlan(problems=tuple(problems)) if problems else CallPlan(tuple(found), output)


def _call(one: JSON, at: str) -> tuple[ToolCall, str] | str:
    """Return a call with its condition, or its problem."""
    if not isinstance(one, dict):
        return f"{at}: a call is an object with id, tool and args"
    unknown = sorted(str(key) for key in one.keys() - OF_A_CALL)
    if unknown:
        return f"{at}.{unknown[0][:40]}: a call has id, tool, args and when, and nothing else"
    for key in ("id", "tool"):
        if not isinstance(one.get(key), str) or not one[key].strip():
            return f"{at}.{key}: a text is wanted"
    if any(mark in one["id"] for mark in ". \t\n"):
        return f"{at}.id: without dots and spaces, so that others can refer to it"
    when = one.get("when") or ""
    if not isinstance(when, str) or len(when) > WHEN_MAX:
        return f"{at}.when: a condition in CEL of at most {WHEN_MAX} characters is wanted"
    args = one.get("args", {})
    if not isinstance(args, dict):
        return f"{at}.args: an object is wanted"
    return ToolCall(call_id=one["id"], tool=one["tool"], args=args), when.strip()
