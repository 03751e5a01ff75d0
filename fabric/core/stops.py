"""Agents that a protection stopped, and what a run says about them at its end.

An agent that is stopped answers once more with what it has. If that passes the gates, the run ends as ``stopped`` and never as ``completed``;
so does a run whose child ended so, and a conversation that ran out of time.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from fabric.core.command_ids import step_of
from fabric.core.flow import Stage
from fabric.core.run import Run, Step
from fabric.core.words import count

ORIGIN = "origin."
"""Begins the keys of sentences that a fork takes over."""


def said_about(run: Run, step_ids: Container[str]) -> list[str]:
    """Returns the sentences about the work of some steps, with those that a fork took over."""
    return [said for key, said in run.stops.items() if key.startswith(ORIGIN) or step_of(key) in step_ids]


def results_kept(step: Step) -> int:
    """Returns how many calls of an agent brought a result."""
    return sum(call.state == "done" and not call.error for turn in step.history for call in turn.calls)


def agent_stopped(agent: str, why: str, kept: int) -> str:
    """Returns the sentence about one stopped agent. ``kept``: calls whose results it had."""
    had = f"the {count(kept, 'result', 'results')} that it had" if kept else "what it had, without any result of a tool"
    return f"{why}; {agent} then answered with {had}"


def child_stopped(agent: str, child_id: str, why: str) -> str:
    """Returns the sentence about a child run that ended as stopped."""
    return f"{agent or 'a part of the work'} (run {child_id}) was stopped early: {why}"


def rewritten(run: Run, stage: Stage, step_id: str) -> Mapping[str, str]:
    """Returns the sentences that still count after a person wrote an output. The work that stood there before is no longer in it."""
    if step_id:
        return {key: said for key, said in run.stops.items() if step_of(key) != step_id}
    order = list(Stage)
    later = {step.id for step in run.steps.values() if order.index(step.stage) > order.index(stage)}
    return {key: said for key, said in run.stops.items() if step_of(key) in later}
