"""Computes the wait before the next attempt of a call, its limit, and the number of a node's retries.

1. A call waits for its back-off, for the delay that its endpoint requested, or for a circuit breaker. A run may only
   wait so.
2. A node's retries differ from its stage's where the fabric gives one worker's turns their own (S1: attributes of a
   node).
"""

from __future__ import annotations

from fabric.core.calls import call_time
from fabric.core.calls import issue as calls
from fabric.core.decision.work import Work
from fabric.core.spec.policies import retries as retry_presets
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.failure import Failure, classification
from fabric.core.state.family import at_work
from fabric.core.state.run import Pending, Run, Step, clocks_stopped
from fabric.core.values.command_ids import unit
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Trip
from fabric.core.values.words import count


def delay_s(work: Work, failure: Failure, spent: int) -> float:
    """Return the seconds until the next attempt: full jitter ``U(0, base * factor^n)`` under the cap. n = 0 comes
    first. A longer Retry-After counts instead.
    """
    assert failure.issued is not None
    drawn = unit(work.ctx.seed, "backoff", f"{failure.issued.command_id}#{failure.issued.attempt}")
    return max(backoff_s(work.policy_in(failure.stage), spent, drawn), failure.retry_after_s or 0.0)


def out_of_time(work: Work, failure: Failure) -> str:
    """Return the sentence that a call's attempts have used up its time; "" if they have not."""
    issued = failure.issued
    assert issued is not None
    timeout = calls.timeout_s(work, failure.stage, issued.target if issued.call == "tool" else "")
    return call_time.spent_sentence(work.run.pending.get(issued.command_id), timeout)


def backoff_s(policy: FlowPolicy, spent: int, drawn: float) -> float:
    """Return the seconds of the wait before a call's next attempt. ``spent``: retries before it; ``drawn``: in [0,
    1).
    """
    if policy.retry_layers.layered:
        return retry_presets.delay_s(retry_presets.MODEL_CALLS, spent + 1, drawn) or 0.0
    return min(policy.retry.cap_s, drawn * policy.retry.base_s * policy.retry.factor**spent)


def too_long(work: Work, failure: Failure) -> str:
    """Return the sentence that a Retry-After is longer than a retry may wait; "" if it is not."""
    policy = work.policy_in(failure.stage)
    cap = retry_presets.CAP_S if policy.retry_layers.layered else policy.retry.cap_s
    if failure.retry_after_s is None or failure.retry_after_s <= cap:
        return ""
    return f"Retry-After of {failure.retry_after_s:g} s is over the cap of {cap:g} s"


GROWTHS_MAX = 64
"""Most growths of a wait: so many pass the cap from any base, and more would overflow."""
HERD = 0.1
"""Share of a wait that is added at random. It spreads out calls that wait for one breaker."""


def wait_s(work: Work, failure: Failure, spent: int) -> float:
    """Return the seconds until the next attempt of a call that waits for a breaker or an endpoint. A breaker gives the
    rest of its cooldown, and up to a tenth more. Without a breaker it is the endpoint's Retry-After, or the back-off
    where that is longer. ``spent``: waits before it.
    """
    assert failure.issued is not None
    drawn = unit(work.ctx.seed, "breaker", f"{failure.issued.command_id}#{failure.issued.attempt}")
    asked_s = failure.retry_after_s or 0.0
    if failure.breaker_wait_s is None:
        return named_s(work.policy_in(failure.stage), asked_s, spent, drawn)
    return max(asked_s, failure.breaker_wait_s * (1 + HERD * drawn))


def named_s(policy: FlowPolicy, asked_s: float, spent: int, drawn: float) -> float:
    """Return the seconds of a wait that an endpoint named and no breaker guards. It is ``asked_s``, or a longer
    back-off that grows and is never nothing, since only the clock ends it.
    """
    retry = policy.retry
    ceiling = min(retry.cap_s, retry.base_s * retry.factor ** min(spent, GROWTHS_MAX))
    return max(asked_s, ceiling * (1 + drawn) / 2)


def named_wait(work: Work, failure: Failure, trip: Trip) -> bool:
    """Return True if an endpoint that is away named the wait. The clock bounds such waits, not a count. S1's
    layers and a tool's handler do not wait so.
    """
    layered = work.compiled_fabric.spec.policy.retry_layers.layered
    return failure.retry_after_s is not None and classification(trip).failover and not layered


def waits_for_provider(run: Run) -> Pending | None:
    """Return the call that goes on first if all calls of a running run wait for an endpoint. None: something else goes
    on. None: something else goes on.
    """
    calls = run.pending
    if not calls or run.state is not RunState.RUNNING or run.ending is not None:
        return None
    for one in calls.values():
        if not (one.failed and one.away):
            return None
    if clocks_stopped(run) is not None or at_work(run.family):
        return None
    scheduled = [one for key, one in calls.items() if key in run.timers]
    return min(scheduled, key=lambda one: run.timers[one.issued.command_id], default=None)


def find_worker(step: Step) -> str:
    """Return the worker of a step's node; in a graph the one whose turn it is."""
    return step.agent if step.turn is None else step.turn.agent


def spent_sentence(work: Work, step: Step, retries: int) -> str:
    """Return why a node runs no more after so many retries; "" if it has more."""
    worker = find_worker(step)
    attempts = work.compiled_fabric.spec.policy.retry_layers.retries_of(step.stage, worker).attempts
    return "" if retries < attempts - 1 else f"{worker} has {count(attempts, 'attempt')}, and all are made"


def no_partial(work: Work, step: Step) -> str:
    """Return why a node that has exhausted its retries is no partial success; "" if it is one."""
    worker = find_worker(step)
    partial = work.compiled_fabric.spec.policy.retry_layers.partial_of(step.stage, worker)
    return "" if partial else f"a failed turn of {worker} is no partial success"


def node_delay_s(work: Work, failure: Failure, retries: int) -> float:
    """Return the seconds until a node runs again: its preset's wait with jitter, or Retry-After where that is
    longer.
    """
    step = work.run.steps.get(failure.step_id)
    worker = "" if step is None else find_worker(step)
    preset = work.compiled_fabric.spec.policy.retry_layers.retries_of(failure.stage, worker)
    drawn = unit(work.ctx.seed, "node", failure.step_id)
    return max(retry_presets.delay_s(preset, retries + 1, drawn) or 0.0, failure.retry_after_s or 0.0)
