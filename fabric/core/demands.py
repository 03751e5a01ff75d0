"""What a stage's pre-gate demands of its input: the type, and what no type says. The post-gate before it asks the same, so that no stage passes on what the next could not begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fabric.core.flow import TRANSITIONS, Stage, StageOutcome
from fabric.core.payloads import Aggregate, Part, Plan, Request
from fabric.core.spec import FabricSpec
from fabric.core.spec_conversation import is_conversation

JSON = Any
INPUT: Mapping[Stage, TypeAdapter[Any]] = {
    Stage.PLAN: TypeAdapter(Request),
    Stage.FAN_OUT: TypeAdapter(Plan),
    Stage.FAN_IN: TypeAdapter(list[Part]),
    Stage.VALIDATE: TypeAdapter(Aggregate),
    Stage.FINALIZE: TypeAdapter(Aggregate),
}
"""What each stage takes."""
REQUIRED: Mapping[Stage, tuple[Stage, ...]] = {
    Stage.PLAN: (),
    Stage.FAN_OUT: (Stage.PLAN,),
    Stage.FAN_IN: (Stage.PLAN, Stage.FAN_OUT),
    Stage.VALIDATE: (Stage.FAN_IN,),
    Stage.FINALIZE: (Stage.FAN_OUT, Stage.VALIDATE),
}
"""The stages whose output each one needs, its input last: the fan-in names its parts by the plan, and an outcome says which of them are missing."""


def problems_of(error: ValidationError) -> tuple[str, ...]:
    """Pydantic's errors as ``path: sentence``, without the offending values."""
    return tuple(
        f"{'.'.join(str(part) for part in item['loc']) or 'answer'}: {item['msg']}" for item in error.errors()[:20]
    )


def unmet(stage: Stage, payload: JSON, spec: FabricSpec) -> list[str]:
    """What speaks against entering a stage with this payload; empty when nothing does."""
    try:
        INPUT[stage].validate_python(payload)
    except ValidationError as error:
        return list(problems_of(error))
    contract = _CONTRACTS.get(stage)
    return contract(payload, spec) if contract else []


def unmet_next(stage: Stage, payload: JSON, spec: FabricSpec) -> list[str]:
    """The same of the stage that follows; the last one owes nobody anything."""
    following = TRANSITIONS[stage, StageOutcome.PASSED]
    return unmet(following, payload, spec) if isinstance(following, Stage) else []


def _plan(payload: JSON, spec: FabricSpec) -> list[str]:
    """A fan-out is given to its own workers, and to no more than it may have."""
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
    """A fan-in reads each branch once, in order, and each has a summary or says why not."""
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
"""What a stage demands beyond the type of its input."""
