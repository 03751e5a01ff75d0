"""Stall watchdog: nothing has happened in a run for too long (S1 "Stall watchdog";
docs/specification/protections.md).

Stops: a step whose call never comes back, and a run that stays silent. Trips when no event has been journaled for
min(30 min, half the stage deadline). Silence that something else will end is no stall: the run waits for people only,
is paused, has a living child or a scheduled retry, or is undoing something. Does not stop: a run that is busy without
progress (the progress hash does).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.state.living import is_live
from fabric.core.state.run import Run, clocks_stopped
from fabric.core.values.flow import UNMOVED
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Tier, Trip, Verdict
from fabric.core.values.units import US

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "stall_watchdog"
TITLE = "Stall watchdog"
STOPS = "a run in which nothing happens any more"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ("stall_watchdog",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"wait"})
OBSERVES: frozenset[str] = frozenset()
MOST_S = 1_800.0
SHARE = 0.5
"""Share of the stage deadline."""


@value()
class Config:
    """Seconds of silence that are too many, by tier; none: it is off."""

    window_s: Mapping[Tier, float]


@value()
class State:
    """The run itself knows when its last event happened."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config({tier: window for tier in Tier if (window := window_s(policy, tier))})


def window_s(policy: FlowPolicy, tier: Tier) -> float:
    """Return the seconds without an event that make a stall: the policy's own, or min(30 min, half the stage deadline).
    0: never.
    """
    own = policy.stall_watchdog.after_s
    return min(MOST_S, SHARE * policy.deadlines_of(tier).stage_s) if own is None else own


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


def due_at(run: Run, window: float) -> int | None:
    """Return the instant at which the run's silence becomes a stall. None: something else ends the silence, or
    ``window`` is 0.
    """
    if not window or run.ending is not None or run.state in UNMOVED:
        return None
    if run.timers or run.family.alive or clocks_stopped(run) is not None:
        return None
    if run.saga.unwinding is not None or run.saga.checks or not is_live(run):
        return None
    return run.at + int(window * US)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trip at the instant of the stall, not before."""
    window = config.window_s.get(view.run.tier, 0.0)
    due = due_at(view.run, window)
    if due is None or view.now < due:
        return PASS
    silent = (view.now - view.run.at) / US
    what = f"step:{proposal.step_id}" if proposal.step_id else f"stage:{proposal.stage}"
    awaited = f" while {proposal.target} was awaited" if proposal.target else ""
    message = f"nothing happened for {silent:g} s{awaited} (limit {window:g} s)"
    evidence = Evidence(window, silent, "s", what, details={"target": proposal.target, "since": view.run.at})
    return Trip(NAME, Cause.STALLED, evidence, message)
