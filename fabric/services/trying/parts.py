"""Parts of a fabric that is still being written: each read by itself, so that what is wrong elsewhere keeps nobody from trying it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fabric.core.flow import Stage
from fabric.core.gates import Gates
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run
from fabric.core.spec import AgentSpec, FabricSpec
from fabric.core.spec_memories import MemorySpec
from fabric.core.spec_tools import ToolSpec
from fabric.core.spec_topology import SupervisorTopology
from fabric.core.taxonomy import Tier
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import Problem, problems_of
from fabric.services.trying.shapes import Draft

JSON = Any
M = TypeVar("M", bound=BaseModel)
RUN_ID = "run-1"


class PartBroken(ValueError):
    """A part that cannot be read or does not compile, so that it cannot be asked. ``problems`` say why, each with its path in the fabric."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].sentence)
        self.problems = problems


def steps_of(path: str) -> tuple[int | str, ...]:
    """A dotted path as keys and places."""
    return tuple(int(part) if part.isascii() and part.isdigit() else part for part in path.split("."))


def found_at(draft: Draft, path: str) -> JSON:
    """What stands at a path as it was written; None where nothing does."""
    found: JSON = draft
    for step in steps_of(path):
        if isinstance(step, int):
            found = found[step] if isinstance(found, list | tuple) and step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def part(draft: Draft, path: str, kind: Any) -> Any:
    """The part at a path, read by itself. Refused not_found where nothing stands there; PartBroken where it cannot be read."""
    written = found_at(draft, path)
    if written is None:
        raise nothing_at(path)
    return _read_as(draft, path, written, _adapter(kind))


def nothing_at(path: str) -> Refused:
    """The refusal of a path where nothing is written."""
    message = f"nothing stands at {path} in this fabric; write it there, then try it"
    return Refused(message, code="not_found", field="path")


def field_part(draft: Draft, path: str, model: type[BaseModel]) -> Any:
    """The field at a path under its model's bounds; the model's default where it is not written. PartBroken as above."""
    name = path.rpartition(".")[2]
    written = found_at(draft, path)
    if written is None:
        return model.model_fields[name].get_default(call_default_factory=True)
    return _read_as(draft, path, written, _field_adapter(model, name))


def _read_as(draft: Draft, path: str, written: JSON, adapter: TypeAdapter[Any]) -> Any:
    try:
        return adapter.validate_python(written)
    except ValidationError as error:
        raise PartBroken(*problems_of(error, dict(draft), steps_of(path))) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def _field_adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Of a field under its model's bounds."""
    field = model.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def named(draft: Draft, path: str) -> tuple[str, ...]:
    """Names of what is listed at a path, as far as they can be read."""
    listed = found_at(draft, path)
    items = listed if isinstance(listed, list | tuple) else ()
    names = (one.get("name") if isinstance(one, dict) else one for one in items)
    return tuple(name for name in names if isinstance(name, str) and name)


def workers(draft: Draft) -> tuple[str, ...]:
    """Names of the workers; of all agents, where no worker is named yet."""
    return named(draft, "topology.workers") or named(draft, "agents") or ("worker",)


def tier(draft: Draft) -> Tier:
    """The tier that a run has when nobody picks one."""
    written = found_at(draft, "tiers.default")
    return Tier(written) if written in tuple(Tier) else Tier.INTERACTIVE


def sketch(draft: Draft, gates: Gates) -> FabricSpec:
    """As much of the fabric as can be read, under these gates. What cannot be read is left out: the checks that need it read it themselves first."""
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


def view_of(spec: FabricSpec, run: Run | None = None) -> View:
    """What a check may look at beside its proposal."""
    return View(0, run or Run(RUN_ID), spec)


def output(stage: Stage, payload: JSON, **fields: JSON) -> Proposal:
    """What a stage wants to pass on."""
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
