"""What happened: a closed, versioned union of facts, and the envelope every one of them travels in.

An event has a *header* (never erased: kinds, hashes, counts, money, decisions) and at most one *content* (a JSON value such as a request, an
answer, a result; erasable). ``run.evolve`` reads headers alone, so a run refolds to the same bytes after its contents are gone.
The envelope is S3's: id, trace, span, parent span, timestamp, source, destination (semantics.md 7).

An event kind is never edited in place: add a version and an upcaster, replay must read last year's journal.
"""

from fabric.core.events.calls import (
    AttemptFailed,
    AttemptInterrupted,
    CallAborted,
    CallDeduplicated,
    CallIssued,
    CallRefused,
    HandedOff,
    InputIgnored,
    LateResultIgnored,
    ModelAnswered,
    OutputAccepted,
    StepOpened,
    ToolAnswered,
)
from fabric.core.events.decisions import (
    CancelAccepted,
    DeadlinesReissued,
    DeadlinesSuspended,
    EscalationDecided,
    EscalationOpened,
    EscalationReminded,
    EscalationWithdrawn,
    MessageInjected,
    ReactionDecided,
    RetryScheduled,
    RungSkipped,
    StepFailed,
    ToolsStripped,
)
from fabric.core.events.lifecycle import (
    OwnershipTaken,
    Replanned,
    RunEnded,
    RunEnding,
    RunStarted,
    StageEntered,
    StageLeft,
)
from fabric.core.events.parts import (
    Check,
    GateResult,
    ProposedCall,
    TripRecord,
)

Fact = (
    RunStarted
    | OwnershipTaken
    | StageEntered
    | StageLeft
    | Replanned
    | RunEnding
    | RunEnded
    | StepOpened
    | CallIssued
    | ModelAnswered
    | ToolAnswered
    | CallRefused
    | CallDeduplicated
    | OutputAccepted
    | HandedOff
    | AttemptFailed
    | AttemptInterrupted
    | CallAborted
    | LateResultIgnored
    | InputIgnored
    | RungSkipped
    | ReactionDecided
    | RetryScheduled
    | MessageInjected
    | ToolsStripped
    | StepFailed
    | EscalationOpened
    | EscalationReminded
    | EscalationDecided
    | EscalationWithdrawn
    | DeadlinesSuspended
    | DeadlinesReissued
    | CancelAccepted
)
"""The closed union."""

__all__ = [
    "AttemptFailed",
    "AttemptInterrupted",
    "CallAborted",
    "CallDeduplicated",
    "CallIssued",
    "CallRefused",
    "CancelAccepted",
    "Check",
    "DeadlinesReissued",
    "DeadlinesSuspended",
    "EscalationDecided",
    "EscalationOpened",
    "EscalationReminded",
    "EscalationWithdrawn",
    "Fact",
    "GateResult",
    "HandedOff",
    "InputIgnored",
    "LateResultIgnored",
    "MessageInjected",
    "ModelAnswered",
    "OutputAccepted",
    "OwnershipTaken",
    "ProposedCall",
    "ReactionDecided",
    "Replanned",
    "RetryScheduled",
    "RunEnded",
    "RunEnding",
    "RunStarted",
    "RungSkipped",
    "StageEntered",
    "StageLeft",
    "StepFailed",
    "StepOpened",
    "ToolAnswered",
    "ToolsStripped",
    "TripRecord",
]
