"""Tries rules for agents' actions and words: Cedar policies and guardrails.

Guardrails scan a text at a place as a run does. Findings are shown masked, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.mechanisms.permissions import CONTEXT, ENGINE, NAMED
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.gates import PLACES, CedarPolicy, Gates, GuardrailGroup
from fabric.core.state.evaluators import Hit, PolicyRequest, Ruling
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.policies import cedar as cedar_policies
from fabric.policies.guardrails import compiled
from fabric.services.errors import Refused
from fabric.services.fabrics.trials import parts, samples
from fabric.services.fabrics.trials.shapes import (
    CheckTrial,
    Draft,
    Given,
    Mark,
    SampleField,
    TrialResult,
    TriedLine,
    make_result,
)
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.tools.runner import offers

_ALL = "gates.policies"
ON = {"tool": "Tool", "handoff": "Agent", "spawn": "Agent", "enter": "Stage", "output": "Stage"}
"""Kind of target of each action; a test shows that it is total."""
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
"""Fields of a context with their types; a test shows that it is total."""


def _fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    agents, tools = parts.names_at(draft, "agents"), _tools(draft)
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
        SampleField("context", "json", "Context", samples.box_text(_context(draft, action))),
    )


def _tools(draft: Draft) -> tuple[str, ...]:
    """Return the names of the readable tools that a run may call."""
    return tuple(one.name for one in parts.sketch(draft, Gates()).all_tools)


def _context(draft: Draft, action: str) -> dict[str, JSON]:
    """Return a full context of a run."""
    stage = {"tool": Stage.FAN_OUT, "spawn": Stage.FAN_OUT}.get(action, Stage.FINALIZE)
    facts = {"tier": str(parts.tier(draft)), "stage": str(stage), "epoch": 0, "depth": 1}
    spec = parts.sketch(draft, Gates())
    facts |= {"workspace": "workspace-1", "fabric": spec.name}
    more = {"args": _arguments(spec), "branches": 1, "payload": samples.payload(draft, Stage.FINALIZE)}
    return facts | {name: more[name] for name in NAMED[action]}


def _arguments(spec: FabricSpec) -> JSON:
    """Return sample arguments for the first tool."""
    try:
        return samples.build_sample(offers(spec.all_tools[0]).parameters)
    except (IndexError, KeyError):
        return {}


def _try_policies(draft: Draft, path: str, given: Given) -> TrialResult:
    if path != _ALL:
        parts.part(draft, path, CedarPolicy)
    policies: tuple[CedarPolicy, ...] | None = parts.field_part(draft, _ALL, Gates)
    if policies is None:
        raise parts.nothing_at(path)
    spec = parts.sketch(draft, Gates(policies=policies))
    problems = [FabricProblem(at, sentence) for at, sentence in cedar_policies.problems(spec)]
    asked, notes = _make_action(draft, given)
    try:
        rules = cedar_policies.find_rules(spec)
    except ValueError:
        raise parts.PartBroken(*problems) from None
    assert rules is not None  # there is one policy at least
    ruling = rules(asked)
    lines = [_describe_ruling(asked, ruling), *_each(spec, ruling), *notes]
    lines += [TriedLine("note", f"Publication refuses it: {one.sentence}.", one.path) for one in problems]
    return TrialResult(_mark(ruling), tuple(lines))


def _mark(ruling: Ruling) -> Any:
    if not ruling.evaluated:
        return "error"
    return "fails" if ruling.why else "passes"


def _describe_ruling(asked: PolicyRequest, ruling: Ruling) -> TriedLine:
    what = f"{_uid(*asked.principal)} {asked.action} {_uid(*asked.resource)}"
    said = f"Denied: {ruling.why}." if ruling.why else f"Permitted by {' and '.join(ruling.policies)}."
    return TriedLine(_mark(ruling), said, what)


def _each(spec: FabricSpec, ruling: Ruling) -> Iterator[TriedLine]:
    """Yield a line for each policy with its part in the ruling."""
    decided: Mark = _mark(ruling)
    words = {"passes": "It permits this.", "fails": "It forbids this.", "error": "It could not be evaluated."}
    for one in spec.gates.policies or ():
        had = one.name in ruling.policies
        said = words[decided] if had else "It had no part in this."
        yield TriedLine(decided if had else "note", said, one.name)


def _make_action(draft: Draft, given: Given) -> tuple[PolicyRequest, list[TriedLine]]:
    """Return the action as a run evaluates it, with notes on added and missing parts of the context."""
    action = given["action"]
    kind, name = _entity_name(given["resource"])
    if kind != ON[action]:
        raise samples.refuse_box("resource", f"{action} needs a {ON[action]}, and {given['resource']} is none")
    holds = (*CONTEXT, *NAMED[action])
    known = {one: _TYPES[one] for one in (*CONTEXT, *(more for held in NAMED.values() for more in held))}
    written = samples.build_object("context", given["context"], known, f"{', '.join(holds)}")
    for field, kinds in (("tier", Tier), ("stage", Stage)):
        if field in written and written[field] not in tuple(kinds):
            raise samples.refuse_box(
                f"context.{field}", f"there is no {written[field][:40]!r}; write {', '.join(kinds)}"
            )
    context = {one: written[one] if one in written else _context(draft, action)[one] for one in holds}
    notes = [
        TriedLine("note", f"Left out: a run says nothing of it when it asks about {action}.", f"context.{one}")
        for one in written
        if one not in holds
    ]
    notes += [
        TriedLine("note", f"Not given: {samples.box_text(context[one])} is taken.", f"context.{one}")
        for one in holds
        if one not in written
    ]
    return PolicyRequest(action, _entity_name(given["principal"]), (kind, name), context), notes


def _uid(kind: str, name: str) -> str:
    return f'{kind}::"{name}"'


def _entity_name(uid: str) -> tuple[str, str]:
    kind, _, name = uid.partition("::")
    return kind, name.strip('"')


POLICIES = CheckTrial("Do the policies permit this?", (_ALL, f"{_ALL}.N"), _fields, _try_policies)


_GROUPS = "gates.guardrails"
_GUARDRAIL_HINT = "Plain text is looked at as the text of an answer; a JSON object or list as it is."


def _groups(draft: Draft, path: str) -> tuple[GuardrailGroup, ...]:
    """Return the group at a path, or all groups. Raises PartBroken for one that does not compile, with its path in
    the fabric.
    """
    if path == _GROUPS:
        groups = parts.part(draft, path, tuple[GuardrailGroup, ...])
        first = 0
    else:
        groups, first = (parts.part(draft, path, GuardrailGroup),), int(path.rpartition(".")[2])
    problems = [FabricProblem(_path_in_fabric(at, first), sentence) for at, sentence in compiled.problems(groups)]
    if problems:
        raise parts.PartBroken(*problems)
    return groups


def _path_in_fabric(at: str, first: int) -> str:
    """Return the fabric's path for a path in the compiled groups."""
    place, _, rest = at.removeprefix(f"{_GROUPS}.").partition(".")
    return ".".join(one for one in (_GROUPS, str(int(place) + first), rest) if one)


def _places(draft: Draft, path: str) -> tuple[str, ...]:
    try:
        groups = _groups(draft, path)
    except (parts.PartBroken, Refused):
        return PLACES
    return tuple(place for place in PLACES if any(place in group.places for group in groups)) or PLACES


def _guardrail_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    places = _places(draft, path)
    place = "finalize" if "finalize" in places else places[0]
    text = "Write to anna.berg@nordwind.se about the balance."
    return (
        SampleField("place", "choice", "Where", place, places),
        SampleField("text", "text", "Text at that place", text, hint=_GUARDRAIL_HINT),
    )


def _try_guardrails(draft: Draft, path: str, given: Given) -> TrialResult:
    scan = compiled.scans(_groups(draft, path)).get(given["place"])
    hits = scan(_value(given["text"])) if scan is not None else []
    passed = TriedLine("passes", f"Nothing is found at {given['place']}.", given["place"])
    return make_result([_line(hit) for hit in hits], passed=passed)


def _value(text: str) -> JSON:
    """Return a text as an answer has it; JSON as it is."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return samples.read_json("text", text)
        except Refused:
            pass  # It only begins as JSON does.
    return {"text": text}


def _line(hit: Hit) -> TriedLine:
    shipped = compiled.SHIPPED.get(hit.rule.partition(".")[0])
    finds = shipped.finds if shipped is not None and "." in hit.rule else "a pattern of the fabric's own"
    return TriedLine("fails", hit.describe_finding(), hit.path or "text", finds)


GUARDRAILS = CheckTrial(
    "Do the guardrails find something in this?", (_GROUPS, f"{_GROUPS}.N"), _guardrail_fields, _try_guardrails
)
