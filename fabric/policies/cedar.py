"""Cedar policies, parsed once: they decide if an action is allowed, and name the deciding policies. Every error in
evaluation is a denial.

JSON has values that Cedar lacks. Null is left out. A number with a fraction is a decimal where it fits (4 places). A
value that does not fit becomes text, so that a policy that compares it fails closed. Keys that Cedar's JSON reads as
something else are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from fabric.core.mechanisms.permissions import CONTEXT, ENGINE, NAMED
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.gates import CedarPolicy
from fabric.core.state.evaluators import PolicyRequest, Rules, Ruling
from fabric.core.texts.text import DEPTH_MAX, clean_text
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON

if TYPE_CHECKING:
    import cedarpy

SENTENCE_CHARS = 200
INT_MAX = 2**63
DECIMAL_MAX = Decimal("922337203685477.5807")
PLACES = Decimal("0.0001")
ESCAPES = ("__entity", "__extn", "__expr")
"""Keys that Cedar's JSON reads as an entity or a function call; a model could write them into its arguments."""
_FAILED = re.compile(r"error while evaluating policy `([^`]*)`: (.*)", re.DOTALL)
_TELLABLE = re.compile(
    r"record does not have the attribute `\w{1,64}`|type error: expected [\w() -]{1,80}, got \w{1,40}"
)
"""Parts of an error's wording that name only the policy's own words and types: the rest may quote arguments."""


NESTING_MAX = 32
"""Largest nesting of brackets and of ``if`` in a policy."""
_NESTS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|[()\[\]{}]|\bif\b', re.DOTALL)
_ENDED = "unexpected end of input"


class PolicyProblem(ValueError):
    """An invalid policy. The message is one sentence; correct the policy."""


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for each policy that does not parse or has unknown names. Also for a set that permits
    nothing.
    """
    policies, seen, permits = spec.gates.policies or (), set[str](), False
    for n, one in enumerate(policies):
        if one.name in seen:
            yield f"gates.policies.{n}.name", f"{one.name!r} is there twice; name them apart"
        seen.add(one.name)
        try:
            parsed = _parse_policy(one)
        except PolicyProblem as problem:
            yield f"gates.policies.{n}.text", f"policy {one.name!r} {problem}"
            permits = True  # It may have been meant to be one.
            continue
        permits = permits or parsed["effect"] == "permit"
        for sentence in dict.fromkeys(_unknown(parsed, spec)):
            yield f"gates.policies.{n}.text", f"policy {one.name!r} {sentence}"
    if policies and not permits:
        yield "gates.policies", "permit nothing, so that every action would be denied; add one that permits"


def find_rules(spec: FabricSpec) -> Rules | None:
    """Return the policies of a fabric as one callable; None where it has none. Raises ValueError for errors that
    ``problems`` reports.
    """
    policies = spec.gates.policies
    if not policies:
        return None
    import cedarpy  # 2 MB, for fabrics that have policies.

    static = {one.name: _parse_policy(one) for one in policies}
    whole = {"staticPolicies": static, "templates": {}, "templateLinks": []}
    parsed = cedarpy.PolicySet.from_json_str(json.dumps(whole))
    entities = cedarpy.Entities.from_json_str(json.dumps(_entities(spec)))

    def rules(asked: PolicyRequest) -> Ruling:
        try:
            context = {name: _value(one, 0) for name, one in asked.context.items() if one is not None}
            request = {
                "principal": _uid(asked.principal),
                "action": _uid(("Action", asked.action)),
                "resource": _uid(asked.resource),
                "context": context,
            }
            answer = cedarpy.is_authorized(request, parsed, entities)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, nothing was allowed
            reason = str(error) if isinstance(error, PolicyProblem) else type(error).__name__
            return Ruling(f"the policies could not be asked: {reason}", evaluated=False)
        return _read_ruling(answer)

    return rules


def _read_ruling(answer: cedarpy.AuthzResult) -> Ruling:
    errors = answer.diagnostics.errors
    if errors:
        return _deny_for_errors(errors)
    policies = tuple(sorted(answer.diagnostics.reasons))
    if answer.allowed:
        return Ruling(policies=policies)
    if not policies:
        return Ruling("no policy permits it")
    named = " and ".join(policies)
    return Ruling(f"{named} forbid{'s' if len(policies) == 1 else ''} it", policies)


def _deny_for_errors(errors: Sequence[str]) -> Ruling:
    """Return a denial for an error in a policy, whatever the others decide. Cedar itself would pass over a forbid that
    fails.
    """
    found = [match for error in errors if (match := _FAILED.fullmatch(error))]
    if not found:
        return Ruling("the policies could not be asked about what was given", evaluated=False)
    name, said = found[0][1], found[0][2]
    cause = _TELLABLE.search(said)
    why = f": {cause[0].replace('`', '')}" if cause else ""
    return Ruling(f"{name} could not be evaluated{why}", tuple(sorted(match[1] for match in found)), evaluated=False)


# -- values ------------------------------------------------------------------------------------------------------------


def _uid(named: tuple[str, str]) -> JSON:
    return {"type": named[0], "id": named[1]}


def _value(given: JSON, depth: int) -> JSON:
    """Return JSON as Cedar reads it."""
    if depth > DEPTH_MAX:
        raise PolicyProblem("what was given is nested too deeply")
    if isinstance(given, dict):
        found = next((key for key in given if key in ESCAPES), None)
        if found is not None:
            raise PolicyProblem(f"a key is named {found}, which policies read as something else")
        return {key: _value(one, depth + 1) for key, one in given.items() if one is not None}
    if isinstance(given, list | tuple):
        return [_value(one, depth + 1) for one in given if one is not None]
    if isinstance(given, bool | str):
        return given
    if isinstance(given, int):
        return given if -INT_MAX <= given < INT_MAX else str(given)
    return _fraction(given)


def _fraction(given: float) -> JSON:
    if not math.isfinite(given):
        return str(given)
    exact = Decimal(repr(given))
    if exact == exact.to_integral_value() and abs(exact) < 2**53:
        return int(exact)
    if abs(exact) > DECIMAL_MAX or exact != exact.quantize(PLACES):
        return repr(given)
    return {"__extn": {"fn": "decimal", "arg": f"{exact.quantize(PLACES):f}"}}


def _entities(spec: FabricSpec) -> list[JSON]:
    """Return the agents and tools for policies: an agent's model, a tool's effect and kind."""
    agents = [(("Agent", one.name), {"model": one.model}) for one in spec.agents]
    tools = [(("Tool", one.name), {"effect": one.effect, "kind": one.kind}) for one in spec.asked_tools]
    return [{"uid": _uid(uid), "attrs": attrs, "parents": []} for uid, attrs in [*agents, *tools]]


# -- parsing -----------------------------------------------------------------------------------------------------------


def _parse_policy(policy: CedarPolicy) -> JSON:
    """Return one policy in Cedar's JSON. Raises PolicyProblem with the line for a parse error, and for anything but
    exactly one policy.
    """
    import cedarpy

    if _too_deep(policy.text):
        raise PolicyProblem(f"is nested more than {NESTING_MAX} deep; make it flatter")
    try:
        found = json.loads(cedarpy.policies_to_json_str(policy.text))
        sum(1 for _ in _nodes(found))
    except RecursionError:
        raise PolicyProblem("joins more than can be read with one another; split it") from None
    except ValueError as error:
        said = clean_text(" ".join(str(error).split()))[0][:SENTENCE_CHARS].replace("`", "'")
        raise PolicyProblem(f"does not parse, line {_line(policy.text, str(error))}: {said}") from None
    if found["templates"]:
        raise PolicyProblem("has a slot (?principal or ?resource), which nothing fills; write what it stands for")
    static = list(found["staticPolicies"].values())
    if len(static) != 1:
        raise PolicyProblem(f"holds {len(static)} policies; write one, and give each its own name")
    return static[0]


def _too_deep(text: str) -> bool:
    """Return True if the nesting is too deep for the parser: its stack would end, and the process with it."""
    depth = 0
    for found in _NESTS.finditer(text):
        if found[0] in ("(", "[", "{", "if"):
            depth += 1
        elif found[0] in (")", "]", "}"):
            depth -= 1
        if depth > NESTING_MAX:
            return True
    return False


def _line(text: str, whole: str) -> int:
    """Return the line where parsing fails: the first one with which the text fails other than by ending too early.

    The parser reports no line. An error that shows only in a complete policy (an unknown function) has the line where
    the policy fails whole.
    """
    lines = text.splitlines(keepends=True)
    if whole == _ENDED:
        return len(lines)
    cut_off = {_ENDED, "invalid token"} - {whole}  # A cut may go through a text.
    low, high = 1, len(lines)
    while low < high:
        middle = (low + high) // 2
        if _error("".join(lines[:middle])) in {"", *cut_off}:
            low = middle + 1
        else:
            high = middle
    return low


def _error(text: str) -> str:
    import cedarpy

    try:
        cedarpy.policies_to_json_str(text)
    except ValueError as error:
        return str(error)
    return ""


def _unknown(parsed: JSON, spec: FabricSpec) -> Iterator[str]:
    """Yield a sentence for each name that no action can have: the policy would never apply, or always fail."""
    known = {
        "Agent": {one.name for one in spec.agents},
        "Tool": {one.name for one in spec.asked_tools},
        "Stage": {str(one) for one in Stage},
        "Action": set(NAMED),
        ENGINE[0]: {ENGINE[1]},
    }
    context = {*CONTEXT, *(name for more in NAMED.values() for name in more)}
    for one in _nodes(parsed):
        if set(one) == {"type", "id"} and one["id"] not in known.get(one["type"], ()):
            there = sorted(known.get(one["type"], known))
            yield f'names {one["type"]}::"{one["id"]}", which there is not; there are: {", ".join(there) or "none"}'
        if "entity_type" in one and one["entity_type"] not in known:
            yield f"asks for type {one['entity_type']}, which there is not; there are: {', '.join(sorted(known))}"
        for access in (one.get("."), one.get("has")):
            if isinstance(access, dict) and access.get("left") == {"Var": "context"} and access["attr"] not in context:
                yield f"names context.{access['attr']}, which there is not; there are: {', '.join(sorted(context))}"


def _nodes(given: JSON) -> Iterator[dict[str, JSON]]:
    if isinstance(given, dict):
        yield given
        for one in given.values():
            yield from _nodes(one)
    elif isinstance(given, list):
        for one in given:
            yield from _nodes(one)
