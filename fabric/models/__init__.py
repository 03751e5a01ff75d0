"""Tables only. ``services`` and the stores write them; ``selectors`` read them."""

from fabric.models.acknowledgements import FailureAcknowledgement
from fabric.models.audit import AuditCut, AuditFold, AuditForward, AuditLine, AuditRule, Checkpoint, Duty, Hold
from fabric.models.chat_routes import ChatRoute
from fabric.models.discussions import InboxSeen, ReviewComment, ReviewSnooze
from fabric.models.fabrics.drafts import ChangeRequest, Draft, DraftStep, Fabric, FabricEditor, Revision
from fabric.models.fields.identities import KeyField, new_id
from fabric.models.memories import MemoryEntry
from fabric.models.notifications import Notification, NotificationPreference, NotificationRead, NotificationTarget
from fabric.models.people.members import ApiToken, Invitation, Member
from fabric.models.people.sign_ins import Identity, LoginLink, RecoveryCode, SecondFactor, SignIn, SignInTries, UsedOnce
from fabric.models.provider_keys import ModelTest, ProviderKey
from fabric.models.reviews import FollowUpClosure, Review, ReviewAssignment, ReviewViewer
from fabric.models.runs.jobs import ItemOutcome, JobAction, JobState, RunJob, RunJobItem
from fabric.models.runs.journal import Event, Inbox, Snapshot
from fabric.models.runs.run import Attachment, Family, Incarnation, Priority, Run, RunLabel
from fabric.models.runs.saved_views import ColumnChoice, SavedView
from fabric.models.runs.stops import StartStop, StoppedRun
from fabric.models.spending import (
    BudgetWindow,
    GrantReservation,
    Guard,
    GuardChange,
    GuardCount,
    RetryBucket,
    SharedBudget,
    SharedGrant,
)
from fabric.models.workspaces.workspace import Workspace, WorkspacePolicyVersion

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
    "ChatRoute",
    "Checkpoint",
    "ColumnChoice",
    "Draft",
    "DraftStep",
    "Duty",
    "Event",
    "Fabric",
    "FabricEditor",
    "FailureAcknowledgement",
    "Family",
    "FollowUpClosure",
    "GrantReservation",
    "Guard",
    "GuardChange",
    "GuardCount",
    "Hold",
    "Identity",
    "Inbox",
    "InboxSeen",
    "Incarnation",
    "Invitation",
    "ItemOutcome",
    "JobAction",
    "JobState",
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
    "Review",
    "ReviewAssignment",
    "ReviewComment",
    "ReviewSnooze",
    "ReviewViewer",
    "Revision",
    "Run",
    "RunJob",
    "RunJobItem",
    "RunLabel",
    "SavedView",
    "SecondFactor",
    "SharedBudget",
    "SharedGrant",
    "SignIn",
    "SignInTries",
    "Snapshot",
    "StartStop",
    "StoppedRun",
    "UsedOnce",
    "Workspace",
    "WorkspacePolicyVersion",
    "new_id",
]
