"""Handlers of inputs: one for each kind, in one table (``HANDLERS``). A handler journals what happened and may
return a failure to react to; ``engine.advance`` moves the run on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.events.inputs import (
    CallFailed,
    CallStreamed,
    CancelRequested,
    ContextGiven,
    DecisionMade,
    ForkRequested,
    InputUnreadable,
    ModelReplied,
    OwnerChanged,
    PauseRequested,
    PersonSpoke,
    ResumeRequested,
    RunRequested,
    TerminateRequested,
    TimeReached,
    ToolFinished,
    WorkerStopping,
)
from fabric.core.handlers import children, clocks, control, ownership, people, results, start

HANDLERS: Mapping[type[Any], Callable[[Work, Any], None]] = {
    RunRequested: start.start_run,
    ForkRequested: start.start_fork,
    DecisionMade: people.take_decision,
    CancelRequested: control.cancel_run,
    TerminateRequested: control.terminate_run,
    PauseRequested: control.pause_run,
    ResumeRequested: control.resume_run,
    PersonSpoke: control.take_message,
    ContextGiven: control.take_context,
    ChildRequested: children.start_child,
    ChildWaits: children.child_waits,
    ChildStuck: children.open_child_review,
    ChildEnded: children.end_child,
    CallStreamed: results.call_streamed,
    ModelReplied: results.take_reply,
    ToolFinished: results.take_result,
    CallFailed: results.take_failure,
    OwnerChanged: ownership.change_owner,
    WorkerStopping: ownership.interrupt_calls,
    InputUnreadable: control.unreadable,
    TimeReached: clocks.reach_time,
}
"""One handler a kind of input; total by test."""
