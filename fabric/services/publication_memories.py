"""Memories at publication: what their values are held to, and which are never used."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from fabric.adapters.evaluators import SchemaProblem, compile_schema
from fabric.core.fingerprint import encode
from fabric.core.spec import FabricSpec
from fabric.core.spec_memories import OFFERED, tool_name
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation


def memory_values(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """A value's schema stands inside that of a tool's arguments, so it must compile there and refer to nothing."""
    for n, memory in enumerate(spec.memories):
        if memory.value_schema is None:
            continue
        path = f"memories.{n}.value_schema"
        if '"$ref"' in encode(memory.value_schema).decode():
            yield Problem(path, f"memory {memory.name!r} refers ($ref) to another schema; write it out in its place")
            continue
        try:
            compile_schema(memory.value_schema)
        except SchemaProblem as error:
            yield Problem(path, f"memory {memory.name!r}: {error}")


def unused(spec: FabricSpec, used_tools: Collection[str]) -> Iterator[Problem]:
    """Memories of which no tool is used."""
    for n, memory in enumerate(spec.memories):
        if not any(tool_name(verb, memory.name) in used_tools for verb in OFFERED):
            yield Problem(f"memories.{n}", f"memory {memory.name!r} is used nowhere")
