"""What the engine's facts say of a walk, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace as with_fields
from typing import Any

from fabric.core import events as ev
from fabric.core import retry_presets, waits, worker_retries
from fabric.core.decision_table import Accompaniment
from fabric.core.envelope import Event
from fabric.core.supposed.models import Asks, Line, Wait
from fabric.core.work import US, Work

ALMOST_1 = math.nextafter(1.0, 0.0)
"""The greatest number that is drawn."""


def told(work: Work, events: Iterable[Event]) -> list[Line]:
    """The lines of one decision. ``work``: as it is after it."""
    lines: list[Line] = []
    for event in events:
        fact = event.fact
        match fact:
            case ev.RungSkipped():
                lines.append(Line("skipped", fact.rung + 1, fact.reaction, fact.failure_type, why=fact.reason))
            case ev.ReactionDecided():
                lines.append(
                    Line(
                        "decided",
                        fact.rung + 1,
                        fact.reaction,
                        fact.failure_type,
                        use=fact.spent + 1,
                        times=fact.bound,
                        why=fact.cause.message,
                    )
                )
            case ev.RetryScheduled():
                lines[-1] = with_fields(lines[-1], waits=_wait(work, fact, lines[-1].use - 1))
            case ev.NodeRetryScheduled():
                lines[-1] = with_fields(lines[-1], waits=_node(work, fact, lines[-1].use - 1))
            case ev.ModelChanged():
                lines[-1] = with_fields(lines[-1], model=fact.model)
            case ev.EscalationOpened(item="ticket"):
                last = lines[-1]
                lines.append(Line("left", last.rung, Accompaniment.TICKET, last.failure, asks=_asks(work, event)))
            case ev.EscalationOpened():
                lines[-1] = with_fields(lines[-1], asks=_asks(work, event))
    return lines


def _wait(work: Work, fact: ev.RetryScheduled, spent: int) -> Wait:
    """Between which two the wait is drawn, by the functions that the engine draws it with."""
    if fact.source in ("backoff", "retry_after"):
        policy, asked_s = work.policy_in(work.run.stage), _failed(work, fact.command_id).retry_after_s or 0.0
        low, high = (max(asked_s, waits.backoff_s(policy, spent, drawn)) for drawn in (0.0, ALMOST_1))
        return Wait(low, round(high, 6), "retry_after" if asked_s == high else "backoff")
    if fact.source == "breaker":
        failed = _failed(work, fact.command_id)
        least, named = failed.breaker_wait_s or 0.0, failed.retry_after_s or 0.0
        return Wait(max(least, named), round(max(named, least * (1 + waits.HERD)), 6), "breaker")
    if fact.source == "named":
        policy, named = work.policy_in(work.run.stage), _failed(work, fact.command_id).retry_after_s or 0.0
        low, high = (waits.named_s(policy, named, spent, drawn) for drawn in (0.0, ALMOST_1))
        return Wait(low, round(high, 6), "named")
    return Wait(fact.delay_s, fact.delay_s, fact.source)


def _failed(work: Work, command_id: str) -> ev.AttemptFailed:
    """The last attempt of a call that failed."""
    facts = (one.event.fact for one in reversed(work.emitted))
    return next(fact for fact in facts if isinstance(fact, ev.AttemptFailed) and fact.command_id == command_id)


def _node(work: Work, fact: ev.NodeRetryScheduled, spent: int) -> Wait:
    step = work.run.steps.get(fact.step_id)
    worker = "" if step is None else worker_retries.worker_of(step)
    preset = work.compiled.spec.policy.retry_layers.retries_of(work.run.stage, worker)
    low, high = (retry_presets.delay_s(preset, spent + 1, drawn) or 0.0 for drawn in (0.0, ALMOST_1))
    return Wait(low, round(high, 6), "node")


def _asks(work: Work, event: Event) -> Asks:
    fact: Any = event.fact
    shown = work.ctx.contents.read(event.content_ref)
    return Asks(
        role=fact.required_role,
        reviewers=fact.reviewers,
        remind_s=(fact.remind_at - event.at) / US,
        onward_s=(fact.onward_at - event.at) / US,
        onward_to=fact.onward_to,
        due_s=(fact.due_at - event.at) / US,
        on_expiry=fact.on_expiry,
        approvals=fact.approvals,
        verbs={verb: str(shown.get(verb, "")) for verb in fact.verbs},
        model=fact.model,
    )
