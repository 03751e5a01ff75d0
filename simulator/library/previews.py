"""A dry run: what a scenario would strike in a fabric. Only the undisturbed run is driven; each call is looked at, and none is struck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.mechanisms.hop_limit import DRY_RUN_VISITS
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.core.words import step_words
from fabric.runtime.call_ports import ModelRequest, ToolRequest
from simulator.drills import baseline
from simulator.drills.baseline import Ask, Serve
from simulator.drills.observed import first, observed
from simulator.kernel.agents import Reply
from simulator.kernel.clock import US
from simulator.kernel.world import World
from simulator.library.words import disturbance_words
from simulator.scenarios.injection import Injection
from simulator.scenarios.meeting import calling
from simulator.scenarios.playing import prepared
from simulator.scenarios.scenario import Scalar, Scenario

SHOWN_MAX = 50
"""Calls that are told of each disturbance; all are counted."""


@dataclass(frozen=True, slots=True)
class Met:
    """A call of the undisturbed run that would be struck."""

    who: str
    """The agent; of a tool call the tool."""
    step: str
    at_s: float
    """Virtual seconds since the start."""


@dataclass(frozen=True, slots=True)
class Struck:
    """A disturbance, and what it would strike."""

    fault: str
    words: str
    watched: bool
    """Whether its chances can be seen in an undisturbed run; those around a run cannot."""
    count: int
    calls: tuple[Met, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a scenario would strike in one tier."""

    tier: Tier
    seed: int
    equipped: str
    """What the fabric would be given; empty: nothing."""
    state: str
    """How the undisturbed run ends."""
    model_calls: int
    tool_calls: int
    took_s: float
    """Virtual seconds."""
    struck: tuple[Struck, ...]

    @property
    def strikes(self) -> bool:
        """Whether anything would be struck, as far as can be told."""
        return any(one.count or not one.watched for one in self.struck)


def preview(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
) -> Preview:
    """Drives the undisturbed run and says which of its calls would be struck. Raises ``catalogue.Refused`` for what does not fit the fabric.

    A call that is struck is made again or is followed by others, which strike as well: what is told is where it begins. No node is visited more than ten times where
    the fabric does not say how often it may be, so that a graph that leads round for ever ends.
    """
    ready = prepared(bounded(spec), scenario, overrides)
    watching = _Watching(ready.injection)
    picked = scenario.seed if seed is None else seed
    world = baseline.drive(ready.spec, tier, seed=picked, disturbed=watching.disturbing, work=ready.work)
    run = first(world)
    return Preview(
        tier=tier,
        seed=picked,
        equipped=ready.lacked,
        state=str(observed(world).state),
        model_calls=watching.model_calls,
        tool_calls=watching.tool_calls,
        took_s=((run.ended_at or world.clock.now()) - run.started_at) / US,
        struck=watching.told(),
    )


def bounded(spec: FabricSpec) -> FabricSpec:
    """The fabric as a dry run goes through it: where nobody says how often a node may be visited, ten times (S1 "Node visit limits")."""
    limits = spec.policy.limits
    if limits.max_node_visits is not None:
        return spec
    most = DRY_RUN_VISITS + (limits.visits_preset == "fabro")  # That preset refuses the N-th.
    more = limits.model_copy(update={"max_node_visits": most})
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"limits": more})})


class _Watching:
    """Looks at each call of a world, and lets it go on."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection
        self._met: list[list[Met]] = [[] for _ in injection.disturbances]
        self._counts = [0 for _ in injection.disturbances]
        self.model_calls = self.tool_calls = 0

    def disturbing(self, world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        begin, called = world.clock.now(), calling(ask, self._injection.spec, self._injection.disturbances)

        def asked(request: ModelRequest) -> Reply:
            self.model_calls += 1
            at_s = (world.clock.now() - begin) / US
            self._note(self._injection.would_ask(request, at_s), request.agent, request.command_id, at_s)
            return called(request)

        def served(request: ToolRequest) -> Reply:
            self.tool_calls += 1
            at_s = (world.clock.now() - begin) / US
            self._note(self._injection.would_serve(request), request.tool.name, request.command_id, at_s)
            return serve(request)

        return asked, served

    def _note(self, met: list[int], who: str, command: str, at_s: float) -> None:
        for number in met[:1]:
            self._counts[number] += 1
            if len(self._met[number]) < SHOWN_MAX:
                self._met[number].append(Met(who, step_words(command), at_s))

    def told(self) -> tuple[Struck, ...]:
        """What each disturbance would strike."""
        watched = self._injection.watched()
        return tuple(
            Struck(one.fault.name, disturbance_words(one), n in watched, self._counts[n], tuple(self._met[n]))
            for n, one in enumerate(self._injection.disturbances)
        )
