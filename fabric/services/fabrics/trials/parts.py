"""Parts of a fabric under construction: each is read alone, so that errors elsewhere do not prevent its trial."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.schema.topology import SupervisorTopology
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import MemorySpec
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.gates import Gates
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import AgentSpec
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.trials.shapes import Draft
from fabric.services.fabrics.yaml.document import FabricProblem, list_problems

M = TypeVar("M", bound=BaseModel)
RUN_ID = "run-1"


class PartBroken(ValueError):
    """A part that cannot be read or does not compile, so that it cannot be tried. ``problems`` have the reasons,
    each with its path in the fabric.
    """

    def __init__(self, *problems: FabricProblem) -> None:
        super().__init__(problems[0].sentence)
        self.problems = problems


def list_steps(path: str) -> tuple[int | str, ...]:
    """Return a dotted path as keys and indexes."""
    return tuple(int(part) if part.isascii() and part.isdigit() else part for part in path.split("."))


def found_at(draft: Draft, path: str) -> JSON:
    """Return the value at a path as it was written; None where there is none."""
    found: JSON = draft
    for step in list_steps(path):
        if isinstance(step, int):
            found = found[step] if isinstance(found, list | tuple) and step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def part(draft: Draft, path: str, kind: Any) -> Any:
    """Return the part at a path, read alone. Raises Refused not_found for an empty path; PartBroken where it cannot
    be read.
    """
    written = found_at(draft, path)
    if written is None:
        raise nothing_at(path)
    return _read_as(draft, path, written, _adapter(kind))


def nothing_at(path: str) -> Refused:
    """Return the refusal of an empty path."""
    message = f"nothing stands at {path} in this fabric; write it there, then try it"
    return Refused(message, code="not_found", field="path")


def field_part(draft: Draft, path: str, model: type[BaseModel]) -> Any:
    """Return the field at a path under its model's bounds, or the model's default. Raises PartBroken where it cannot
    be read.
    """
    name = path.rpartition(".")[2]
    written = found_at(draft, path)
    if written is None:
        return model.model_fields[name].get_default(call_default_factory=True)
    return _read_as(draft, path, written, _field_adapter(model, name))


def _read_as(draft: Draft, path: str, written: JSON, adapter: TypeAdapter[Any]) -> Any:
    try:
        return adapter.validate_python(written)
    except ValidationError as error:
        raise PartBroken(*list_problems(error, dict(draft), list_steps(path))) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def _field_adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Return the adapter for a field under its model's bounds."""
    field = model.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def names_at(draft: Draft, path: str) -> tuple[str, ...]:
    """Return the readable names of the items at a path."""
    listed = found_at(draft, path)
    items = listed if isinstance(listed, list | tuple) else ()
    names = (one.get("name") if isinstance(one, dict) else one for one in items)
    return tuple(name for name in names if isinstance(name, str) and name)


def workers(draft: Draft) -> tuple[str, ...]:
    """Return the names of the workers; of all agents, where no worker is named yet."""
    return names_at(draft, "topology.workers") or names_at(draft, "agents") or ("worker",)


def tier(draft: Draft) -> Tier:
    """Return the tier of a run whose caller picks none."""
    written = found_at(draft, "tiers.default")
    return Tier(written) if written in tuple(Tier) else Tier.INTERACTIVE


def sketch(draft: Draft, gates: Gates) -> FabricSpec:
    """Return the readable parts of the fabric under these gates. Checks that need an unreadable part read it first
    and report it.
    """
    name = draft.get("name")
    return FabricSpec.model_construct(
        name=name if isinstance(name, str) and name else "draft",
        title="A draft",
        models=(),
        tools=tuple(_readable(draft, "tools", ToolSpec)),
        memories=tuple(_readable(draft, "memories", MemorySpec)),
        agents=tuple(_readable(draft, "agents", AgentSpec)),
        topology=SupervisorTopology.model_construct(
            **{"workers": workers(draft), **_fields(draft, "topology", SupervisorTopology)}
        ),
        policy=FlowPolicy.model_construct(**_fields(draft, "policy", FlowPolicy)),
        gates=gates,
    )


def build_view(spec: FabricSpec, run: Run | None = None) -> View:
    """Return the view that a check has besides its proposal."""
    return View(0, run or Run(RUN_ID), spec)


def output(stage: Stage, payload: JSON, **fields: JSON) -> Proposal:
    """Return the proposal of a stage to pass a payload on."""
    return Proposal(kind="output", stage=stage, payload=payload, **fields)


def _readable(draft: Draft, path: str, kind: type[M]) -> Iterator[M]:
    listed = draft.get(path)
    for one in listed if isinstance(listed, list | tuple) else ():
        try:
            yield kind.model_validate(one)
        except ValidationError:
            continue


def _fields(draft: Draft, path: str, model: type[BaseModel]) -> dict[str, JSON]:
    found = {}
    for name in model.model_fields:
        if found_at(draft, f"{path}.{name}") is not None:
            try:
                found[name] = field_part(draft, f"{path}.{name}", model)
            except PartBroken:
                continue
    return found
