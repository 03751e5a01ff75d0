"""A large fan-out on two workers: kill -9 of a child's worker, then of its parent's; what comes of it is what comes of it undisturbed."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Any

from simulator.installation.workers import Site, wait_until
from tests.chaos.rows import ENDED, ChaosRows, start_runs
from tests.chaos.site import watched_site

PROVIDER = "tests.chaos.processes.providers.WatchingProvider"
DELAY_S, KILLED_DELAY_S = 1.0, 8.0
"""Seconds that a call takes, undisturbed and where workers are killed: a busy machine finds the owner within it."""
DONE_S = 240.0


@dataclass(frozen=True, slots=True)
class Found:
    """A fan-out that was left alone and one that was not."""

    states: dict[str, int]
    children: int
    killed: int
    outcomes: list[str]
    """Content addresses of what the roots came to: equal addresses are equal outcomes."""
    answered_twice: list[str]
    """Calls and children of which a journal has two answers."""
    replayed: dict[str, Any]

    def faults(self) -> list[str]:
        """Return what must not be, a sentence each."""
        found = [f"it has two answers: {name}" for name in self.answered_twice]
        if set(self.states) != {"completed"}:
            found.append(f"not all completed: {self.states}")
        if len(set(self.outcomes)) != 1 or not self.outcomes[0]:
            found.append("the fan-out came to something else when its workers died")
        if self.replayed["differences"]:
            found.append(f"{self.replayed['differences']} runs refold to something else")
        return found


def fabric(briefs: int, delay_s: float) -> str:
    """A fabric with a fixed plan of so many briefs, as YAML (which JSON is)."""
    plan = {
        "briefs": [{"agent": "reader", "title": f"Part {n}", "instructions": f"Read part {n}."} for n in range(briefs)],
        "exit_criteria": ["All parts are there."],
    }
    model = {"name": "scripted", "provider": "scripted", "options": {"delay_s": delay_s}}
    model |= {"price": {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}}
    agents = [{"name": name, "instructions": "Work.", "model": "scripted"} for name in ("reader", "lead")]
    limits = {"plan_branches": briefs, "sub_agents_alive": briefs, "sub_agents_spawned": 4 * briefs}
    tree = {
        "name": "fanout",
        "title": "Fan-out",
        "tiers": {"default": "batch", "allowed": ["batch"]},
        "models": [model],
        "agents": agents,
        "topology": {"plan": plan, "workers": ["reader"], "aggregator": "lead"},
        "policy": {"budget": {"run_usd_micros": 2_000_000_000}, "limits": limits},
        "reviewers": ["owner"],
    }
    return json.dumps(tree)


def run(db: str, briefs: int) -> Found:
    """One fan-out undisturbed, then one with both kills. TimeoutError when one does not end."""
    with watched_site(db, provider=PROVIDER, workers=2) as made:
        rows = ChaosRows.from_environment(made.environment)
        start_runs(made, 1, source=fabric(briefs, DELAY_S))
        wait_until(lambda: _over(rows), made, DONE_S)
        [root] = start_runs(made, 1, source=fabric(briefs, KILLED_DELAY_S))
        _kill_owner(made, rows, f"r.parent_run_id = '{root}' AND r.state = 'running'")
        _kill_owner(made, rows, f"r.id = '{root}' AND r.stage = 'fan_in'")
        wait_until(lambda: _over(rows), made, DONE_S)
        journals, roots, states = rows.read_facts(), _roots(rows), rows.read_states()
        return Found(
            dict(Counter(states.values())),
            len(set(states) - roots),
            made.count_deaths(),
            [str(journals[run_id][-1].get("outcome_ref", "")) for run_id in sorted(roots)],
            [name for run_id, facts in journals.items() for name in _twice(run_id, facts)],
            made.manage("admin", "replay", "--all", "--json"),
        )


def _twice(run_id: str, facts: list[dict[str, Any]]) -> list[str]:
    answers = Counter(
        fact["command_id"] for fact in facts if fact["kind"] in ("model_answered", "tool_answered", "child_answered")
    )
    return [f"{run_id} {command_id}" for command_id, many in answers.items() if many > 1]


def _over(rows: ChaosRows) -> bool:
    return rows.live() == 0


def _roots(rows: ChaosRows) -> set[str]:
    return {str(row[0]) for row in rows.read_patiently("SELECT id FROM fabric_run WHERE parent_run_id IS NULL")}


def _kill_owner(made: Site, rows: ChaosRows, which: str) -> None:
    """SIGKILL to the worker that owns a run of that description, as soon as one does."""
    asked = (
        "SELECT i.pid FROM fabric_run r JOIN fabric_incarnation i ON i.name = r.incarnation"
        f" WHERE {which} AND r.state NOT IN {ENDED}"
    )
    found: list[int] = []

    def owned() -> bool:
        found.extend(int(pid) for (pid,) in rows.read_patiently(asked))
        return bool(found)

    wait_until(owned, made, DONE_S)
    os.kill(found[0], signal.SIGKILL)
    wait_until(
        lambda: any(worker.poll() is not None for worker in made.workers) or made.replace_dead_workers() > 0, made, 30.0
    )
