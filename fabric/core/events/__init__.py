"""The facts of a run: a closed, versioned union of event kinds, and their common envelope.

An event has a *header* (never erased: kinds, hashes, counts, money, decisions) and at most one *content* (a JSON
value such as a request, an answer, a result; erasable). ``run.evolve`` reads headers alone, so a run refolds to equal
bytes after its contents are gone. The envelope is S3's: id, trace, span, parent span, timestamp, source, destination
(docs/specification/protections.md).

An event kind is never edited in place: add a version and an upcaster, since replay must read last year's journal.
"""

from fabric.core.events.calls import (
    AttemptFailed,
    AttemptInterrupted,
    CallAborted,
    CallDeduplicated,
    CallEdited,
    CallIssued,
    CallRefused,
    CallResolved,
    CallResponded,
    CallSkipped,
    CallStreamed,
    HandedOff,
    InputGiven,
    InputIgnored,
    InputRequested,
    LateResultIgnored,
    ModelAnswered,
    OutputAccepted,
    StepOpened,
    ToolAnswered,
    TurnOpened,
)
from fabric.core.events.children import (
    ChildAnswered,
    ChildFreed,
    ChildLetGo,
    ChildQuarantined,
    ChildSpawned,
    ChildWaiting,
    LineagePinned,
    MutationTakenOver,
)
from fabric.core.events.control import (
    CancelAccepted,
    ContentKept,
    GuidanceGiven,
    KeptBranch,
    KeptCall,
    KeptPart,
    KeptStage,
    KeptTurn,
    KeptWork,
    OutputEdited,
    OutputKept,
    RunForked,
    RunPaused,
    RunResumed,
    TerminateAccepted,
)
from fabric.core.events.conversation import ContextWritten, PersonSaid, SpeakerChosen, TurnOverdue
from fabric.core.events.decisions import (
    AlertRaised,
    BudgetRaised,
    CapRaised,
    DeadlinesReissued,
    DeadlinesSuspended,
    MessageInjected,
    ModelChanged,
    NodeRetryScheduled,
    ReactionDecided,
    RetryScheduled,
    ReviewApproved,
    ReviewDecided,
    ReviewEdited,
    ReviewOpened,
    ReviewReminded,
    ReviewWithdrawn,
    RungSkipped,
    StepFailed,
    ToolsStripped,
)
from fabric.core.events.lifecycle import (
    OwnershipTaken,
    PolicyTakenUp,
    Replanned,
    RunEnded,
    RunEnding,
    RunQuarantined,
    RunReleasedFromQuarantine,
    RunStarted,
    StageEntered,
    StageLeft,
    UsualRatesPinned,
)
from fabric.core.events.parts import (
    Candidate,
    Check,
    CheckResult,
    GateResult,
    PassedModel,
    ProposedCall,
    TripRecord,
    Weighed,
)
from fabric.core.events.saga import (
    CompensationAbandoned,
    CompensationAnswered,
    CompensationByHand,
    CompensationFailed,
    CompensationInterrupted,
    CompensationIssued,
    CompensationResumed,
    CompensationSkipped,
    CompensationStuck,
    MutationIntended,
    MutationSettled,
    ReconciliationEnded,
    ReconciliationFailed,
    ReconciliationIssued,
    UnwindingFinished,
    UnwindingOmitted,
    UnwindingStarted,
)

Fact = (
    RunStarted
    | OwnershipTaken
    | RunQuarantined
    | RunReleasedFromQuarantine
    | StageEntered
    | StageLeft
    | Replanned
    | RunEnding
    | RunEnded
    | StepOpened
    | CallIssued
    | CallStreamed
    | ModelAnswered
    | ToolAnswered
    | CallRefused
    | CallDeduplicated
    | CallEdited
    | CallResolved
    | CallSkipped
    | CallResponded
    | InputRequested
    | InputGiven
    | OutputAccepted
    | TurnOpened
    | SpeakerChosen
    | TurnOverdue
    | PersonSaid
    | ContextWritten
    | HandedOff
    | AttemptFailed
    | AttemptInterrupted
    | CallAborted
    | LateResultIgnored
    | InputIgnored
    | RungSkipped
    | ReactionDecided
    | AlertRaised
    | ModelChanged
    | CapRaised
    | BudgetRaised
    | RetryScheduled
    | NodeRetryScheduled
    | MessageInjected
    | ToolsStripped
    | StepFailed
    | ReviewOpened
    | ReviewReminded
    | ReviewApproved
    | ReviewEdited
    | ReviewDecided
    | ReviewWithdrawn
    | DeadlinesSuspended
    | DeadlinesReissued
    | CancelAccepted
    | TerminateAccepted
    | RunPaused
    | RunResumed
    | RunForked
    | ContentKept
    | OutputKept
    | OutputEdited
    | GuidanceGiven
    | MutationIntended
    | MutationSettled
    | ReconciliationIssued
    | ReconciliationFailed
    | ReconciliationEnded
    | UnwindingStarted
    | CompensationIssued
    | CompensationAnswered
    | CompensationFailed
    | CompensationInterrupted
    | CompensationStuck
    | CompensationResumed
    | CompensationByHand
    | CompensationSkipped
    | CompensationAbandoned
    | UnwindingFinished
    | UnwindingOmitted
    | LineagePinned
    | ChildSpawned
    | ChildWaiting
    | ChildQuarantined
    | ChildFreed
    | ChildAnswered
    | ChildLetGo
    | MutationTakenOver
    | UsualRatesPinned
    | PolicyTakenUp
)
"""The closed union."""

__all__ = [
    "AlertRaised",
    "AttemptFailed",
    "AttemptInterrupted",
    "BudgetRaised",
    "CallAborted",
    "CallDeduplicated",
    "CallEdited",
    "CallIssued",
    "CallRefused",
    "CallResolved",
    "CallResponded",
    "CallSkipped",
    "CallStreamed",
    "CancelAccepted",
    "Candidate",
    "CapRaised",
    "Check",
    "CheckResult",
    "ChildAnswered",
    "ChildFreed",
    "ChildLetGo",
    "ChildQuarantined",
    "ChildSpawned",
    "ChildWaiting",
    "CompensationAbandoned",
    "CompensationAnswered",
    "CompensationByHand",
    "CompensationFailed",
    "CompensationInterrupted",
    "CompensationIssued",
    "CompensationResumed",
    "CompensationSkipped",
    "CompensationStuck",
    "ContentKept",
    "ContextWritten",
    "DeadlinesReissued",
    "DeadlinesSuspended",
    "Fact",
    "GateResult",
    "GuidanceGiven",
    "HandedOff",
    "InputGiven",
    "InputIgnored",
    "InputRequested",
    "KeptBranch",
    "KeptCall",
    "KeptPart",
    "KeptStage",
    "KeptTurn",
    "KeptWork",
    "LateResultIgnored",
    "LineagePinned",
    "MessageInjected",
    "ModelAnswered",
    "ModelChanged",
    "MutationIntended",
    "MutationSettled",
    "MutationTakenOver",
    "NodeRetryScheduled",
    "OutputAccepted",
    "OutputEdited",
    "OutputKept",
    "OwnershipTaken",
    "PassedModel",
    "PersonSaid",
    "PolicyTakenUp",
    "ProposedCall",
    "ReactionDecided",
    "ReconciliationEnded",
    "ReconciliationFailed",
    "ReconciliationIssued",
    "Replanned",
    "RetryScheduled",
    "ReviewApproved",
    "ReviewDecided",
    "ReviewEdited",
    "ReviewOpened",
    "ReviewReminded",
    "ReviewWithdrawn",
    "RunEnded",
    "RunEnding",
    "RunForked",
    "RunPaused",
    "RunQuarantined",
    "RunReleasedFromQuarantine",
    "RunResumed",
    "RunStarted",
    "RungSkipped",
    "SpeakerChosen",
    "StageEntered",
    "StageLeft",
    "StepFailed",
    "StepOpened",
    "TerminateAccepted",
    "ToolAnswered",
    "ToolsStripped",
    "TripRecord",
    "TurnOpened",
    "TurnOverdue",
    "UnwindingFinished",
    "UnwindingOmitted",
    "UnwindingStarted",
    "UsualRatesPinned",
    "Weighed",
]
