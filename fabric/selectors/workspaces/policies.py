"""Workspaces' policies: the one in force, and one version of it. They need no right: every fabric's author meets
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import NOTHING, WorkspacePolicy
from fabric.core.workspace_policy.under import tighten_fabric
from fabric.models import WorkspacePolicyVersion
from fabric.selectors.fabrics.lookup import revision_spec


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A workspace's policy in force. ``number`` 0: none was set."""

    policy: WorkspacePolicy = NOTHING
    number: int = 0
    set_at: int = 0
    """Microseconds since the epoch, UTC."""
    set_by: str = ""


def standing_policy(workspace_id: str) -> PolicyView:
    """Return the policy in force in a workspace. One statement."""
    row = WorkspacePolicyVersion.objects.filter(workspace_id=workspace_id).order_by("-number").first()
    return PolicyView() if row is None else _view(row)


def policy_version(workspace_id: str, number: int) -> WorkspacePolicy:
    """Return one version of a workspace's policy; 0: the empty one. Raises WorkspacePolicyVersion.DoesNotExist."""
    return (
        _view(WorkspacePolicyVersion.objects.get(workspace_id=workspace_id, number=number)).policy
        if number
        else NOTHING
    )


@lru_cache(maxsize=256)
def spec_under(revision_id: str, workspace_id: str, number: int, tier: Tier) -> FabricSpec:
    """Return a revision for the runs of a tier under a version of their workspace's policy. 0: as it was published.
    Neither ever changes.
    """
    spec = revision_spec(revision_id)
    return tighten_fabric(spec, policy_version(workspace_id, number), tier)[0] if number else spec


def list_policies(workspace_id: str, limit: int = 20) -> list[PolicyView]:
    """Return the versions of a workspace's policy, the newest first."""
    rows = WorkspacePolicyVersion.objects.filter(workspace_id=workspace_id).order_by("-number")[:limit]
    return [_view(row) for row in rows]


def _view(row: WorkspacePolicyVersion) -> PolicyView:
    return PolicyView(WorkspacePolicy.model_validate_json(row.policy), row.number, row.set_at, row.set_by)
