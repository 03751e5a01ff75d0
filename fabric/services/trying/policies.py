"""The trial of Cedar policies: an action as a run would put it before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.adapters import cedar_policies
from fabric.adapters.tools.registry import offers
from fabric.core.evaluators import Asked, Ruling
from fabric.core.flow import Stage
from fabric.core.gates import CedarPolicy, Gates
from fabric.core.permissions import CONTEXT, ENGINE, NAMED
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.services.fabric_yaml import Problem
from fabric.services.trying import parts, samples
from fabric.services.trying.shapes import Draft, Given, Mark, SampleField, Trial, Tried, TriedLine

JSON = Any
_ALL = "gates.policies"
ON = {"tool": "Tool", "handoff": "Agent", "spawn": "Agent", "enter": "Stage", "output": "Stage"}
"""What each action is on; total by test."""
_HINT = "An action is on one kind of thing: " + ", ".join(f"{name} on a {kind}" for name, kind in ON.items()) + "."
_TYPES: dict[str, type | tuple[type, ...]] = {
    "tier": str,
    "stage": str,
    "epoch": int,
    "depth": int,
    "workspace": str,
    "fabric": str,
    "args": dict,
    "branches": int,
    "payload": object,
}
"""What a context may hold, and as what; total by test."""


def _fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    agents, tools = parts.named(draft, "agents"), _tools(draft)
    who = (*(_uid("Agent", one) for one in agents), _uid(*ENGINE))
    things = [*(("Tool", one) for one in tools), *(("Agent", one) for one in agents)]
    on = tuple(_uid(*one) for one in [*things, *(("Stage", str(one)) for one in Stage)])
    action = "tool" if tools else "enter"
    first = next(one for one in on if one.startswith(f"{ON[action]}::"))
    worker = _uid("Agent", parts.workers(draft)[0])
    return (
        SampleField("principal", "choice", "Who", worker if worker in who else who[0], who),
        SampleField("action", "choice", "Does what", action, tuple(ON), _HINT),
        SampleField("resource", "choice", "On what", first, on),
        SampleField("context", "json", "Context", samples.shown(_context(draft, action))),
    )


def _tools(draft: Draft) -> tuple[str, ...]:
    """Of the tools that a run may call those that can be read."""
    return tuple(one.name for one in parts.sketch(draft, Gates()).all_tools)


def _context(draft: Draft, action: str) -> dict[str, JSON]:
    """Everything that a run's context holds."""
    stage = {"tool": Stage.FAN_OUT, "spawn": Stage.FAN_OUT}.get(action, Stage.FINALIZE)
    facts = {"tier": str(parts.tier(draft)), "stage": str(stage), "epoch": 0, "depth": 1}
    spec = parts.sketch(draft, Gates())
    facts |= {"workspace": "workspace-1", "fabric": spec.name}
    more = {"args": _arguments(spec), "branches": 1, "payload": samples.payload(draft, Stage.FINALIZE)}
    return facts | {name: more[name] for name in NAMED[action]}


def _arguments(spec: FabricSpec) -> JSON:
    """What the first tool might be called with."""
    try:
        return samples.of_schema(offers(spec.all_tools[0]).parameters)
    except (IndexError, KeyError):
        return {}


def _tried(draft: Draft, path: str, given: Given) -> Tried:
    if path != _ALL:
        parts.part(draft, path, CedarPolicy)
    policies: tuple[CedarPolicy, ...] | None = parts.field_part(draft, _ALL, Gates)
    if policies is None:
        raise parts.nothing_at(path)
    spec = parts.sketch(draft, Gates(policies=policies))
    problems = [Problem(at, sentence) for at, sentence in cedar_policies.problems(spec)]
    asked, notes = _asked(draft, given)
    try:
        rules = cedar_policies.rules_of(spec)
    except ValueError:
        raise parts.PartBroken(*problems) from None
    assert rules is not None  # there is one policy at least
    ruling = rules(asked)
    lines = [_ruled(asked, ruling), *_each(spec, ruling), *notes]
    lines += [TriedLine("note", f"Publication refuses it: {one.sentence}.", one.path) for one in problems]
    return Tried(_mark(ruling), tuple(lines))


def _mark(ruling: Ruling) -> Any:
    if not ruling.evaluated:
        return "error"
    return "fails" if ruling.why else "passes"


def _ruled(asked: Asked, ruling: Ruling) -> TriedLine:
    what = f"{_uid(*asked.principal)} {asked.action} {_uid(*asked.resource)}"
    said = f"Denied: {ruling.why}." if ruling.why else f"Permitted by {' and '.join(ruling.policies)}."
    return TriedLine(_mark(ruling), said, what)


def _each(spec: FabricSpec, ruling: Ruling) -> Iterator[TriedLine]:
    """Of each policy whether it had a part in it."""
    decided: Mark = _mark(ruling)
    words = {"passes": "It permits this.", "fails": "It forbids this.", "error": "It could not be evaluated."}
    for one in spec.gates.policies or ():
        had = one.name in ruling.policies
        said = words[decided] if had else "It had no part in this."
        yield TriedLine(decided if had else "note", said, one.name)


def _asked(draft: Draft, given: Given) -> tuple[Asked, list[TriedLine]]:
    """The action as a run asks it, and what of the context was added or left out for that."""
    action = given["action"]
    kind, name = _named(given["resource"])
    if kind != ON[action]:
        raise samples.refused("resource", f"{action} is asked on a {ON[action]}, and {given['resource']} is none")
    holds = (*CONTEXT, *NAMED[action])
    known = {one: _TYPES[one] for one in (*CONTEXT, *(more for held in NAMED.values() for more in held))}
    written = samples.object_of("context", given["context"], known, f"{', '.join(holds)}")
    for field, kinds in (("tier", Tier), ("stage", Stage)):
        if field in written and written[field] not in tuple(kinds):
            raise samples.refused(f"context.{field}", f"there is no {written[field][:40]!r}; write {', '.join(kinds)}")
    context = {one: written[one] if one in written else _context(draft, action)[one] for one in holds}
    notes = [
        TriedLine("note", f"Left out: a run says nothing of it when it asks about {action}.", f"context.{one}")
        for one in written
        if one not in holds
    ]
    notes += [
        TriedLine("note", f"Not given: {samples.shown(context[one])} is taken.", f"context.{one}")
        for one in holds
        if one not in written
    ]
    return Asked(action, _named(given["principal"]), (kind, name), context), notes


def _uid(kind: str, name: str) -> str:
    return f'{kind}::"{name}"'


def _named(uid: str) -> tuple[str, str]:
    kind, _, name = uid.partition("::")
    return kind, name.strip('"')


POLICIES = Trial("Do the policies permit this?", (_ALL, f"{_ALL}.N"), _fields, _tried)
