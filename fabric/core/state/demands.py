"""Checks of a stage's pre-gate on its input: the type, and rules that no type expresses. The post-gate before it
makes these checks too, so that no stage passes on an input that the next could not begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fabric.core.schema.payloads import Aggregate, Part, Plan, Request
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.values.flow import TRANSITIONS, Stage, StageOutcome
from fabric.core.values.units import JSON

INPUT: Mapping[Stage, TypeAdapter[Any]] = {
    Stage.PLAN: TypeAdapter(Request),
    Stage.FAN_OUT: TypeAdapter(Plan),
    Stage.FAN_IN: TypeAdapter(list[Part]),
    Stage.VALIDATE: TypeAdapter(Aggregate),
    Stage.FINALIZE: TypeAdapter(Aggregate),
}
"""Type of the input of each stage."""
REQUIRED: Mapping[Stage, tuple[Stage, ...]] = {
    Stage.PLAN: (),
    Stage.FAN_OUT: (Stage.PLAN,),
    Stage.FAN_IN: (Stage.PLAN, Stage.FAN_OUT),
    Stage.VALIDATE: (Stage.FAN_IN,),
    Stage.FINALIZE: (Stage.FAN_OUT, Stage.VALIDATE),
}
"""Stages whose output each stage needs, its input last. The fan-in names its parts by the plan, and an outcome lists
the missing ones.
"""


MISSING = " is missing"
"""End of the sentence about a field that an answer lacks."""


def list_problems(error: ValidationError) -> tuple[str, ...]:
    """Pydantic's errors as ``path: sentence`` or ``path is missing``, without the offending values."""
    return tuple(
        f"{'.'.join(str(part) for part in item['loc']) or 'answer'}"
        f"{MISSING if item['type'] == 'missing' else ': ' + item['msg']}"
        for item in error.errors()[:20]
    )


def unmet(stage: Stage, payload: JSON, spec: FabricSpec) -> list[str]:
    """Return the problems of a payload as a stage's input; empty if there are none."""
    try:
        INPUT[stage].validate_python(payload)
    except ValidationError as error:
        return list(list_problems(error))
    contract = _CONTRACTS.get(stage)
    return contract(payload, spec) if contract else []


def unmet_next(stage: Stage, payload: JSON, spec: FabricSpec) -> list[str]:
    """Return the problems of a payload as the next stage's input; none after the last stage."""
    following = TRANSITIONS[stage, StageOutcome.PASSED]
    return unmet(following, payload, spec) if isinstance(following, Stage) else []


def _plan(payload: JSON, spec: FabricSpec) -> list[str]:
    """Return the problems of a plan: briefs for unknown workers, workers without a brief, too many briefs."""
    briefs, workers = payload["briefs"], spec.topology.speakers()
    found = [
        f"briefs.{n}.agent: {brief['agent']!r} is not one of the workers ({', '.join(workers)})"
        for n, brief in enumerate(briefs)
        if brief["agent"] not in workers
    ]
    if is_conversation(spec.topology):
        briefed = {brief["agent"] for brief in briefs}
        found += [f"briefs: {name!r} takes part and has none" for name in workers if name not in briefed]
    most = spec.policy.limits.plan_branches
    if len(briefs) > most:
        found.append(f"briefs: {len(briefs)} of them, at most {most} are allowed")
    return found


def _parts(payload: JSON, spec: FabricSpec) -> list[str]:
    """Return the problems of a fan-in's input. It needs each branch once, in order, with a summary or a gap."""
    found = [
        f"{n}.branch: {part['branch']} stands where {n} belongs"
        for n, part in enumerate(payload)
        if part["branch"] != n
    ]
    found += [
        f"{n}: branch {n + 1} has {'both a summary and a gap' if part.get('ref') else 'neither a summary nor a gap'}"
        for n, part in enumerate(payload)
        if bool(part.get("ref")) == bool(part.get("gap"))
    ]
    return found or ([] if payload else ["answer: there is no branch"])


_CONTRACTS: Mapping[Stage, Callable[[JSON, FabricSpec], list[str]]] = {Stage.FAN_OUT: _plan, Stage.FAN_IN: _parts}
"""Checks of a stage's input beyond its type."""
