"""What publication asks in the name of the workspace's policy: each of its rules, each with who may change it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.spec import FabricSpec
from fabric.core.workspace_policy.rules import broken
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation


def within_policy(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Everything that the workspace's policy refuses."""
    for path, sentence in () if where.policy.says_nothing else broken(spec, where.policy):
        yield Problem(path, sentence)
