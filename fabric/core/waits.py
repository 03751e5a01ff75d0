"""How long a call waits for its next attempt, and when that is too long. A call waits for its back-off, as long as its endpoint says, or for a circuit breaker.

Also says whether a run does nothing else.
"""

from __future__ import annotations

from fabric.core import call_time, calls, retry_presets
from fabric.core.draw import unit
from fabric.core.failure import Failure, classification
from fabric.core.family import at_work
from fabric.core.flow import RunState
from fabric.core.policy import FlowPolicy
from fabric.core.run import Pending, Run, clocks_stopped
from fabric.core.verdict import Trip
from fabric.core.work import Work


def delay_s(work: Work, failure: Failure, spent: int) -> float:
    """Seconds until the next attempt: full jitter ``U(0, base * factor^n)`` under the cap, n = 0 first, or Retry-After where that is longer."""
    assert failure.issued is not None
    drawn = unit(work.ctx.seed, "backoff", f"{failure.issued.command_id}#{failure.issued.attempt}")
    return max(backoff_s(work.policy_in(failure.stage), spent, drawn), failure.retry_after_s or 0.0)


def out_of_time(work: Work, failure: Failure) -> str:
    """The sentence that a call's attempts have used up its time; empty: they have not."""
    issued = failure.issued
    assert issued is not None
    timeout = calls.timeout_s(work, failure.stage, issued.target if issued.call == "tool" else "")
    return call_time.spent(work.run.pending.get(issued.command_id), timeout)


def backoff_s(policy: FlowPolicy, spent: int, drawn: float) -> float:
    """Seconds of the wait before a call's next attempt. ``spent``: retries before it; ``drawn``: in [0, 1)."""
    if policy.retry_layers.layered:
        return retry_presets.delay_s(retry_presets.MODEL_CALLS, spent + 1, drawn) or 0.0
    return min(policy.retry.cap_s, drawn * policy.retry.base_s * policy.retry.factor**spent)


def too_long(work: Work, failure: Failure) -> str:
    """The sentence that a Retry-After is longer than a retry may wait; empty: it is not."""
    policy = work.policy_in(failure.stage)
    cap = retry_presets.CAP_S if policy.retry_layers.layered else policy.retry.cap_s
    if failure.retry_after_s is None or failure.retry_after_s <= cap:
        return ""
    return f"Retry-After of {failure.retry_after_s:g} s is over the cap of {cap:g} s"


GROWTHS_MAX = 64
"""So many growths pass the cap from any base; more would only overflow."""
HERD = 0.1
"""Share of a wait that is drawn on top, so that calls that wait for one breaker come back spread out."""


def wait_s(work: Work, failure: Failure, spent: int) -> float:
    """Seconds until a call is tried again that a breaker or its endpoint keeps waiting: what is left of the cooldown, and up to a tenth more. Without a breaker it is
    the endpoint's Retry-After, or the back-off where that is longer. ``spent``: waits before it.
    """
    assert failure.issued is not None
    drawn = unit(work.ctx.seed, "breaker", f"{failure.issued.command_id}#{failure.issued.attempt}")
    asked_s = failure.retry_after_s or 0.0
    if failure.breaker_wait_s is None:
        return named_s(work.policy_in(failure.stage), asked_s, spent, drawn)
    return max(asked_s, failure.breaker_wait_s * (1 + HERD * drawn))


def named_s(policy: FlowPolicy, asked_s: float, spent: int, drawn: float) -> float:
    """Seconds of a wait that an endpoint named and no breaker guards: ``asked_s``, or a back-off that grows and is never nothing, since only the clock ends it."""
    retry = policy.retry
    ceiling = min(retry.cap_s, retry.base_s * retry.factor ** min(spent, GROWTHS_MAX))
    return max(asked_s, ceiling * (1 + drawn) / 2)


def named(work: Work, failure: Failure, trip: Trip) -> bool:
    """Returns True where an endpoint that is away named the wait. The clock bounds such waits, not a count. S1's layers and a tool's handler do not wait so."""
    layered = work.compiled.spec.policy.retry_layers.layered
    return failure.retry_after_s is not None and classification(trip).failover and not layered


def waits_for_provider(run: Run) -> Pending | None:
    """Returns the call that goes on first, where every call of a running run waits for an endpoint that is away. None: something else goes on."""
    calls = run.pending
    if run.state is not RunState.RUNNING or run.ending is not None or clocks_stopped(run) is not None:
        return None
    if not calls or at_work(run.family) or not all(one.failed and one.away for one in calls.values()):
        return None
    scheduled = [one for key, one in calls.items() if key in run.timers]
    return min(scheduled, key=lambda one: run.timers[one.issued.command_id], default=None)
