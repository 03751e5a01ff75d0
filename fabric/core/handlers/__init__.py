"""What each kind of input does: one handler a kind, in one table (``HANDLERS``). A handler journals what happened and may leave a failure to be
reacted to; moving the run on is ``engine.advance``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.handlers import children, clocks, control, ownership, people, results, start
from fabric.core.inputs import (
    CallFailed,
    CallStreamed,
    CancelRequested,
    DecisionMade,
    ForkRequested,
    InputUnreadable,
    ModelReplied,
    OwnerChanged,
    PauseRequested,
    ResumeRequested,
    RunRequested,
    TerminateRequested,
    TimeReached,
    ToolFinished,
    WorkerStopping,
)
from fabric.core.person_inputs import ContextGiven, PersonSpoke
from fabric.core.work import Work

HANDLERS: Mapping[type[Any], Callable[[Work, Any], None]] = {
    RunRequested: start.requested,
    ForkRequested: start.forked,
    DecisionMade: people.decided,
    CancelRequested: control.cancelled,
    TerminateRequested: control.terminated,
    PauseRequested: control.paused,
    ResumeRequested: control.resumed,
    PersonSpoke: control.spoke,
    ContextGiven: control.context_given,
    ChildRequested: children.requested,
    ChildWaits: children.waits,
    ChildStuck: children.stuck,
    ChildEnded: children.ended,
    CallStreamed: results.call_streamed,
    ModelReplied: results.replied,
    ToolFinished: results.finished,
    CallFailed: results.failed,
    OwnerChanged: ownership.changed,
    WorkerStopping: ownership.stopping,
    InputUnreadable: control.unreadable,
    TimeReached: clocks.reached,
}
"""One handler a kind of input; total by test."""
