"""Margins of what watches a run as a whole: failures that come back, silence. Measures as ``run_margins.Measure``; now is the instant of the last event."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.mechanisms import failure_signature, stall_watchdog, state_of
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run
from fabric.core.signatures import effective_limit
from fabric.selectors.margin import US, Margin
from fabric.selectors.words import words


def repeated(run: Run, policy: FlowPolicy, now: int) -> Iterator[Margin]:
    """The failure that came most often."""
    counts = state_of(run.guards, failure_signature).counts
    where, most = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    yield Margin(
        name="same failure",
        observed=most,
        limit=effective_limit(policy.failure_signature.limit),
        unit="count",
        at_limit="the run is aborted; in high-stakes a person is asked",
        where=words(where.partition("|")[0].partition(".")[0]),
        trips_at_limit=True,
    )


def silence(run: Run, policy: FlowPolicy, now: int) -> Iterator[Margin]:
    """How long nothing has happened, where that would be a stall."""
    window = stall_watchdog.window_s(policy, run.tier)
    if stall_watchdog.due_at(run, window) is not None:
        yield Margin(
            name="silence",
            observed=max(0, now - run.at) / US,
            limit=window,
            unit="seconds",
            at_limit="what is out is let go of; the ladder decides",
            where=words(run.stage),
            trips_at_limit=True,
        )
