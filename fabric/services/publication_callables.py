"""Callable tools at publication: a fabric uses functions by the names that the operator gave them, and says no less of them than their authors do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.adapters.tools.named import pairs_problems
from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation


def named_functions(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Callable tools that the operator does not name, or that are declared weaker than they are, or undone by something else."""
    tools = {tool.name: tool for tool in spec.tools}
    for n, tool in enumerate(spec.tools):
        if tool.kind != "callable" or not tool.target:
            continue
        permits = where.permits
        for field, sentence in (*permits.callable_problems(tool), *pairs_problems(tool, tools, permits.tools)):
            yield Problem(f"tools.{n}.{field}", f"tool {tool.name!r}: {sentence}")
