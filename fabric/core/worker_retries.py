"""How often a node runs again and how long between, where one worker's turns differ from their stage's (S1: attributes of a node)."""

from __future__ import annotations

from fabric.core import retry_presets
from fabric.core.draw import unit
from fabric.core.failure import Failure
from fabric.core.run import Step
from fabric.core.words import count
from fabric.core.work import Work


def worker_of(step: Step) -> str:
    """The worker whose node a step is; in a graph the one whose turn it is."""
    return step.agent if step.turn is None else step.turn.agent


def spent(work: Work, step: Step, retries: int) -> str:
    """Why a node runs no more after so many retries; empty: it has more."""
    worker = worker_of(step)
    attempts = work.compiled.spec.policy.retry_layers.retries_of(step.stage, worker).attempts
    return "" if retries < attempts - 1 else f"{worker} has {count(attempts, 'attempt')}, and all are made"


def no_partial(work: Work, step: Step) -> str:
    """Why a node that has exhausted its retries is no partial success; empty: it is one."""
    worker = worker_of(step)
    partial = work.compiled.spec.policy.retry_layers.partial_of(step.stage, worker)
    return "" if partial else f"a failed turn of {worker} is no partial success"


def delay_s(work: Work, failure: Failure, retries: int) -> float:
    """Seconds until a node runs again: its preset's wait with jitter, or Retry-After where that is longer."""
    step = work.run.steps.get(failure.step_id)
    worker = "" if step is None else worker_of(step)
    preset = work.compiled.spec.policy.retry_layers.retries_of(failure.stage, worker)
    drawn = unit(work.ctx.seed, "node", failure.step_id)
    return max(retry_presets.delay_s(preset, retries + 1, drawn) or 0.0, failure.retry_after_s or 0.0)
