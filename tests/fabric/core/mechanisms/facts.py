"""Events for mechanisms to observe, as short as a test can say them."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, ErrorClass

STEP = "fan_out.0.e0.r0"


def at(fact: Any, now: int = 0, seq: int = 1) -> Event:
    return Event(seq, now, fact)


def issued(command_id: str = f"{STEP}.t1", *, attempt: int = 1, call: Any = "model", **fields: Any) -> ev.CallIssued:
    given = {"agent": "worker", "target": "small", "turn": 1, "deadline_at": 0, "key": "k", "step_id": STEP, **fields}
    return ev.CallIssued(command_id=command_id, attempt=attempt, call=call, **given)


def answered(command_id: str = f"{STEP}.t1", *, cost: int = 0, tokens: tuple[int, int] = (0, 0)) -> ev.ModelAnswered:
    return ev.ModelAnswered(
        command_id=command_id,
        attempt=1,
        step_id=STEP,
        verdict="output",
        cost_usd_micros=cost,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
    )


def failed(command_id: str = f"{STEP}.t1", *, charged: int = 0, tokens: int = 0) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        command_id=command_id,
        attempt=1,
        step_id=STEP,
        error_class=ErrorClass.TRANSIENT_INFRA,
        cause=Cause.TIMEOUT,
        message="no answer",
        charged_usd_micros=charged,
        charged_tokens=tokens,
    )


def retried(left: int, command_id: str = f"{STEP}.t1") -> ev.RetryScheduled:
    return ev.RetryScheduled(
        command_id=command_id, attempt=2, not_before=0, delay_s=0.0, source="backoff", tokens_left=left
    )


def entered(stage: Stage, *, agents: tuple[str, ...] = (), deadline_at: int = 0) -> ev.StageEntered:
    return ev.StageEntered(stage=stage, epoch=0, deadline_at=deadline_at, agents=agents)
