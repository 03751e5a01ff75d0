"""Reads a fabric with wrong fields as if they were left out, so that one check finds other errors too."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.document import FabricProblem, find_spec

ROUNDS_MAX = 4
"""So often wrong fields are left out: the next errors show only then."""


@dataclass(frozen=True, slots=True)
class PartialFabric:
    """All errors of a fabric's fields, and the fabric without these fields; None: it cannot do without one of them."""

    problems: tuple[FabricProblem, ...]
    spec: FabricSpec | None

    def is_certain(self, problem: FabricProblem) -> bool:
        """Return False for a problem that may come from a left out field: one of the same group or item."""
        return _group(problem.path) not in {_group(one.path) for one in self.problems}


def read_partial(value: JSON, problems: Sequence[FabricProblem]) -> PartialFabric:
    """Return what a tree says besides the given problems. The tree is not changed."""
    root = deepcopy(value)
    found = PartialFabric(tuple(problems), None)
    new = found.problems
    for _ in range(ROUNDS_MAX):
        left_out = [_leave_out(root, path) for path in {one.path for one in new}]
        if not all(left_out):
            break
        spec, more = find_spec(root)
        if spec is not None:
            return PartialFabric(found.problems, spec)
        new = tuple(more)
        found = PartialFabric((*found.problems, *filter(found.is_certain, new)), None)
    return found


def _leave_out(root: JSON, path: str) -> bool:
    """Delete a field from its group. Return False for anything else: other parts may count on an item of a list."""
    *around, last = path.split(".")
    inside = root
    for part in around:
        if isinstance(inside, list):
            inside = inside[int(part)] if part.isdecimal() and int(part) < len(inside) else None
        else:
            inside = inside.get(part) if isinstance(inside, dict) else None
    return isinstance(inside, dict) and inside.pop(last, inside) is not inside


def _group(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")[:2])
