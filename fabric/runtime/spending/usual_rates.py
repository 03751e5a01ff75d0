"""Learns the usual spending of a fabric: the median of the busiest minutes of its last completed runs
(docs/specification/budgets.md).

The busiest minutes of a fabric's runs are in a guard row that all workers share. A worker reads it with each claim of
a run of that fabric, and adds to it when one of its runs completes. A run takes the known rates at its start and
journals them. Belongs to the loop thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from statistics import median_high

from fabric.core.mechanisms import cost_velocity, find_state
from fabric.core.spec.policies.budgets import AGENT, RUN, STAGE, CostVelocity
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState
from fabric.core.values.spending import UsualRate

KIND = "usual_rate"
"""Kind of the guard rows; the scope of one is its fabric's id."""
RUNS_KEPT = 20
"""Completed runs that are looked back at: enough for a median, few enough to follow a fabric that changes."""
RUNS_NEEDED = 5
"""Fewer completed runs say nothing. A median of five is wrong only where three of them were odd."""
FABRICS_MAX = 1_000
"""Fabrics whose rates this process remembers: the ones that it used last."""
SELDOM_US = 60_000_000
"""Microseconds between two runs that a worker adds for one fabric, once it has added ``RUNS_KEPT``. So a busy fabric
costs no write a run.
"""

Minutes = dict[str, tuple[int, int]]
"""Micro-dollars and tokens of one run's busiest minute, by scope."""
Tell = Callable[[str, Callable[[str], str]], None]
"""Changes a row's state, by its scope, with a function from the state before; it may take its time."""


def busiest(run: Run) -> Minutes:
    """Return the busiest minutes of a run, of its stages and of its agents. A scope that spent nothing is left out."""
    state = find_state(run.guards, cost_velocity)
    spent = {RUN: state.run}
    spent |= {f"{STAGE}:{name}": one for name, one in state.by_stage.items()}
    spent |= {f"{AGENT}:{name}": one for name, one in state.by_agent.items() if name}
    return {
        scope: (one.peak_usd_micros, one.peak_tokens)
        for scope, one in spent.items()
        if one.peak_usd_micros or one.peak_tokens
    }


def list_rates(state: str) -> tuple[UsualRate, ...]:
    """Return the usual rates that a row's state holds; a scope that too few runs had is left out."""
    by_scope: dict[str, list[tuple[int, int]]] = {}
    for run in _read(state):
        for scope, amounts in run.items():
            by_scope.setdefault(scope, []).append(amounts)
    return tuple(
        UsualRate(
            scope=scope,
            usd_micros=median_high(usd for usd, _ in found),
            tokens=median_high(tokens for _, tokens in found),
            runs=len(found),
        )
        for scope, found in sorted(by_scope.items())
        if len(found) >= RUNS_NEEDED
    )


def learned_runs(state: str) -> int:
    """Return the number of completed runs in a row's state."""
    return len(_read(state))


def add_run(state: str, minutes: Minutes) -> str:
    """Return the row's state with one more completed run, without the oldest where there are too many."""
    return json.dumps([*_read(state), minutes][-RUNS_KEPT:], separators=(",", ":"))


def _read(state: str) -> list[Minutes]:
    runs: list[Mapping[str, list[int]]] = json.loads(state or "[]")
    return [{scope: (usd, tokens) for scope, (usd, tokens) in run.items()} for run in runs]


def compares(rule: CostVelocity) -> bool:
    """Return True if a fabric compares its rates with the usual one; only then is that learned."""
    return bool(rule.factor and rule.times_usual)


class UsualRates:
    """The rates that this process knows. ``tell`` None: it shares them with no other process."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell
        self._rates: dict[str, tuple[UsualRate, ...]] = {}
        self._added: dict[str, tuple[int, int]] = {}
        """By fabric: the number of runs that this process added, and the instant of the last one."""

    def find_rates(self, fabric: str) -> tuple[UsualRate, ...]:
        """Return the usual rates of a fabric; empty if too few of its runs have completed."""
        return self._rates.get(fabric, ())

    def learn(self, fabric: str, state: str) -> None:
        """Take in the state of a fabric's row."""
        self._rates.pop(fabric, None)
        self._rates[fabric] = list_rates(state)
        if len(self._rates) > FABRICS_MAX:
            del self._rates[next(iter(self._rates))]

    def note(self, fabric: str, rule: CostVelocity, before: Run, run: Run, now: int) -> None:
        """Add a run that ended between two of its states, where it completed and no protection cut it short.
        ``now``: microseconds since the epoch.
        """
        if self._tell is None or not run.terminal or before.terminal or not compares(rule):
            return
        if run.state is not RunState.COMPLETED or run.truncated or run.family.lineage is not None:
            return
        count, at = self._added.get(fabric, (0, 0))
        if count >= RUNS_KEPT and now - at < SELDOM_US:
            return
        minutes = busiest(run)
        if not minutes:
            return
        self._added.pop(fabric, None)
        self._added[fabric] = (count + 1, now)
        if len(self._added) > FABRICS_MAX:
            del self._added[next(iter(self._added))]
        self._tell(fabric, lambda state: add_run(state, minutes))
