"""Tables only. What writes them: ``services`` and the stores in ``adapters``; what reads them: ``selectors``."""

from fabric.models.audit import AuditCut, AuditFold, AuditForward, AuditLine, AuditRule, Checkpoint, Duty, Hold
from fabric.models.claims import ReviewClaim, ReviewViewer, TicketClosure
from fabric.models.drafts import ChangeRequest, Draft, DraftStep, FabricEditor
from fabric.models.escalations import Escalation
from fabric.models.fabrics import Fabric, Revision
from fabric.models.incarnations import Incarnation
from fabric.models.journal import Event, Inbox, Snapshot
from fabric.models.keys import KeyField, new_id
from fabric.models.logins import LoginLink, SignInTries
from fabric.models.members import Invitation, Member
from fabric.models.memories import MemoryEntry
from fabric.models.notifications import Notification, NotificationPreference, NotificationRead, NotificationTarget
from fabric.models.provider_keys import ModelTest, ProviderKey
from fabric.models.runs import Attachment, Family, Priority, Run
from fabric.models.shared import (
    BudgetWindow,
    GrantReservation,
    Guard,
    GuardChange,
    GuardCount,
    RetryBucket,
    SharedBudget,
    SharedGrant,
)
from fabric.models.sign_ins import Identity, RecoveryCode, SecondFactor, SignIn, UsedOnce
from fabric.models.tokens import ApiToken
from fabric.models.workspace_policies import WorkspacePolicyVersion
from fabric.models.workspaces import Workspace

__all__ = [
    "ApiToken",
    "Attachment",
    "AuditCut",
    "AuditFold",
    "AuditForward",
    "AuditLine",
    "AuditRule",
    "BudgetWindow",
    "ChangeRequest",
    "Checkpoint",
    "Draft",
    "DraftStep",
    "Duty",
    "Escalation",
    "Event",
    "Fabric",
    "FabricEditor",
    "Family",
    "GrantReservation",
    "Guard",
    "GuardChange",
    "GuardCount",
    "Hold",
    "Identity",
    "Inbox",
    "Incarnation",
    "Invitation",
    "KeyField",
    "LoginLink",
    "Member",
    "MemoryEntry",
    "ModelTest",
    "Notification",
    "NotificationPreference",
    "NotificationRead",
    "NotificationTarget",
    "Priority",
    "ProviderKey",
    "RecoveryCode",
    "RetryBucket",
    "ReviewClaim",
    "ReviewViewer",
    "Revision",
    "Run",
    "SecondFactor",
    "SharedBudget",
    "SharedGrant",
    "SignIn",
    "SignInTries",
    "Snapshot",
    "TicketClosure",
    "UsedOnce",
    "Workspace",
    "WorkspacePolicyVersion",
    "new_id",
]
