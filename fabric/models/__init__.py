"""Tables only. What writes them: ``services`` and the stores in ``adapters``; what reads them: ``selectors``."""

from fabric.models.escalations import Escalation
from fabric.models.fabrics import Fabric, Revision
from fabric.models.incarnations import Incarnation
from fabric.models.journal import Event, Inbox
from fabric.models.keys import KeyField, new_id
from fabric.models.logins import LoginLink
from fabric.models.runs import Attachment, Priority, Run
from fabric.models.tokens import ApiToken
from fabric.models.workspaces import Workspace

__all__ = [
    "ApiToken",
    "Attachment",
    "Escalation",
    "Event",
    "Fabric",
    "Inbox",
    "Incarnation",
    "KeyField",
    "LoginLink",
    "Priority",
    "Revision",
    "Run",
    "Workspace",
    "new_id",
]
