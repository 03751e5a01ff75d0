"""A disturbance selects the model calls that it strikes: by agent, role, stage, branch, count or instant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from fabric.core.spec.fabric import FabricSpec
from fabric.runtime.ports.calls import ModelRequest
from simulator.faults.fault import Branches, Calls, Handing, Outage, Times
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import NEEDS
from simulator.scenarios.strikes.handovers import explain_no_circle
from simulator.scenarios.strikes.places import Places
from simulator.texts.problems import Path, Problem, nearest

_BRANCH = re.compile(r"fan_out\.(\d+)\.")


@dataclass(slots=True)
class StrikeTally:
    """Takes the chances from one on, every so many, so often. ``key``: what they are counted for, a run, say."""

    first: int = 1
    every: int = 1
    times: int | None = None
    seen: Counter[Hashable] = field(default_factory=Counter)

    def takes(self, key: Hashable = "") -> bool:
        """Return True if this chance is taken. Each call counts one chance."""
        self.seen[key] += 1
        past = self.seen[key] - self.first
        return past >= 0 and past % self.every == 0 and (self.times is None or past // self.every < self.times)


def find_agent(role: str, spec: FabricSpec, where: Places) -> str:
    """Return the agent that has a role in a fabric. Empty: no agent has it."""
    named = {
        "planner": spec.topology.planner,
        "worker": where.worker,
        "armed": where.armed,
        "aggregator": where.aggregator,
        "critic": spec.topology.critic,
        "finalizer": where.finalizer,
    }
    return named[role] or ""


def find_absent(disturbances: tuple[Disturbance, ...], spec: FabricSpec, where: Places) -> list[Problem]:
    """Agents and roles that disturbances name and the fabric has not, so that they would strike nothing."""
    found = []
    for number, one in enumerate(disturbances):
        given, at = one.parameters, ("disturbance", number)
        if isinstance(given, Calls):
            found += _absent(given, spec, where, at)
    return found


def _absent(given: Calls, spec: FabricSpec, where: Places, at: Path) -> list[Problem]:
    if isinstance(given, Handing) and (said := explain_no_circle(spec, given.peers)):
        return [Problem(at, said)]
    names = [agent.name for agent in spec.agents]
    if given.agent is not None and given.agent not in names:
        said = f"fabric {spec.name} has no agent {given.agent!r}; {nearest(given.agent, names)}"
        return [Problem((*at, "agent"), said)]
    if given.role is not None and not find_agent(given.role, spec, where):
        what = "no worker with tools" if given.role == "armed" else f"no {given.role}"
        return [Problem((*at, "role"), f"fabric {spec.name} has {what}, so there is no such call to strike")]
    return []


Selects = Callable[[ModelRequest, float], bool]
"""Returns True for a request that is struck. It is called once a request, with seconds since the first start."""


def select_calls(disturbance: Disturbance, spec: FabricSpec, where: Places) -> Selects:
    """Return the selection of a disturbance. It counts, so each world needs its own."""
    given = disturbance.parameters
    if isinstance(given, Calls) and given.role is not None:
        named = given.model_copy(update={"role": None, "agent": find_agent(given.role, spec, where)})
        return select_named_calls(Disturbance(disturbance.fault, named))
    return select_named_calls(disturbance)


def select_named_calls(disturbance: Disturbance) -> Selects:
    """Return the selection of a disturbance that names no role."""
    given, needs = disturbance.parameters, NEEDS.get(disturbance.fault.name)
    if isinstance(given, Outage):
        return _during(given)
    if isinstance(given, Branches):
        return _in_branches(given)
    matches = _build_matcher(given) if isinstance(given, Calls) else _any
    assert isinstance(given, Times)
    tally = StrikeTally(given.from_call if isinstance(given, Calls) else 1, given.every, given.times)

    def strikes(request: ModelRequest, at_s: float) -> bool:
        return matches(request) and (needs is None or needs(request)) and tally.takes(request.run_id)

    return strikes


def _any(request: ModelRequest) -> bool:
    return True


def _build_matcher(given: Calls) -> Callable[[ModelRequest], bool]:
    agent = given.agent

    def matches(request: ModelRequest) -> bool:
        stage, branch = request.command_id.partition(".")[0], _BRANCH.match(request.command_id)
        ours = (agent is None or request.agent == agent) and (given.stage is None or stage == given.stage)
        return ours and (given.branch is None or (branch is not None and int(branch[1]) + 1 == given.branch))

    return matches


def _during(given: Outage) -> Selects:
    def strikes(request: ModelRequest, at_s: float) -> bool:
        ours = given.provider is None or request.model.provider == given.provider
        return ours and given.from_s <= at_s < given.to_s

    return strikes


def _in_branches(given: Branches) -> Selects:
    def strikes(request: ModelRequest, at_s: float) -> bool:
        branch = _BRANCH.match(request.command_id)
        return branch is not None and int(branch[1]) < given.branches

    return strikes
