"""Records what a command of this machine was refused; what a request is refused, the door of the console records."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import Workspace
from fabric.selectors.contents import shown
from fabric.services.audit_folding import audit_fold
from fabric.services.errors import Refused
from fabric.services.workspaces import DEFAULT_WORKSPACE, OWNER

SAID_CHARS = 300


def refusal_record(*, command: str, refused: Refused) -> None:
    """Records that a command was refused, in the owner's name, who acts there. Nothing where there is no workspace yet."""
    workspace_id = Workspace.objects.filter(name=DEFAULT_WORKSPACE).values_list("id", flat=True).first()
    if workspace_id is None:
        return
    audit_fold(
        actor=Actor(name=OWNER, workspace_id=workspace_id),
        act=Act.REQUEST_REFUSED,
        subject=f"manage.py {command}",
        at=refused.code,
        status=refused.code,
        reason=str(shown(refused.message))[:SAID_CHARS],
    )
