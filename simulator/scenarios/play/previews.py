"""Shows which calls of the undisturbed run a scenario would strike in a fabric, without striking any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.mechanisms.hop_limit import DRY_RUN_VISITS
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.core.values.words import step_words
from fabric.runtime.ports.calls import ModelRequest, ToolRequest
from simulator.cast.agents import Reply
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.work import Ask, Serve, first_run, observe_chain
from simulator.scenarios.play.player import prepare_scenario
from simulator.scenarios.spec.recorded import RECORDED, count_recorded
from simulator.scenarios.spec.scenario import Scalar, Scenario
from simulator.scenarios.spec.words import disturbance_words
from simulator.scenarios.strikes.injection import Injection
from simulator.scenarios.strikes.needs import call_disturbed_tools
from simulator.world.world import World

SHOWN_MAX = 50
"""Largest number of listed calls of each disturbance; all are counted."""


@dataclass(frozen=True, slots=True)
class MetCall:
    """A call of the undisturbed run that would be struck."""

    who: str
    """The agent, or the tool of a tool call."""
    step: str
    at_s: float
    """Virtual seconds since the start."""


@dataclass(frozen=True, slots=True)
class StruckDisturbance:
    """A disturbance, and the calls that it would strike."""

    fault: str
    words: str
    watched: bool
    """True if its chances appear in an undisturbed run; those around a run do not."""
    count: int
    calls: tuple[MetCall, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """Strikes of a scenario in one tier."""

    tier: Tier
    seed: int
    equipped: str
    """Parts that would be added to the fabric; empty for none."""
    state: str
    """End of the undisturbed run."""
    model_calls: int
    tool_calls: int
    took_s: float
    """Virtual seconds."""
    struck: tuple[StruckDisturbance, ...]

    @property
    def strikes(self) -> bool:
        """Return True if it would strike anything, as far as the preview shows."""
        return any(one.count or not one.watched for one in self.struck)


def preview(
    spec: FabricSpec,
    scenario: Scenario,
    tier: Tier,
    *,
    seed: int | None = None,
    overrides: Mapping[str, Scalar] | None = None,
) -> Preview:
    """Drive the undisturbed run, and return the calls that would be struck. Raises ``catalogue.FaultRefused``.

    A struck call is repeated or followed by others, which would be struck too: the preview shows only the beginning.
    Nodes are visited at most ten times if the fabric sets no limit, so that an endless graph ends.
    """
    ready = prepare_scenario(bound_visits(spec), scenario, overrides)
    watching = _Watching(ready.injection)
    picked = scenario.seed if seed is None else seed
    world = baseline.drive(ready.spec, tier, seed=picked, disturbed=watching.disturb, work=ready.work)
    run = first_run(world)
    return Preview(
        tier=tier,
        seed=picked,
        equipped=ready.lacked,
        state=str(observe_chain(world).state),
        model_calls=watching.model_calls,
        tool_calls=watching.tool_calls,
        took_s=((run.ended_at or world.clock.now()) - run.started_at) / US,
        struck=watching.list_struck(),
    )


def bound_visits(spec: FabricSpec) -> FabricSpec:
    """Return the fabric for a dry run: nodes without a limit are visited ten times (S1 "Node visit limits")."""
    limits = spec.policy.limits
    if limits.max_node_visits is not None:
        return spec
    most = DRY_RUN_VISITS + (limits.visits_preset == "fabro")  # That preset refuses the N-th.
    more = limits.model_copy(update={"max_node_visits": most})
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"limits": more})})


class _Watching:
    """Watches each call of a world without changing it."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection
        self._met: list[list[MetCall]] = [[] for _ in injection.disturbances]
        self._counts = [0 for _ in injection.disturbances]
        self.model_calls = self.tool_calls = 0

    def disturb(self, world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        begin, called = world.clock.now(), call_disturbed_tools(ask, self._injection.spec, self._injection.disturbances)

        def ask_model(request: ModelRequest) -> Reply:
            self.model_calls += 1
            at_s = (world.clock.now() - begin) / US
            self._note(self._injection.would_ask(request, at_s), request.agent, request.command_id, at_s)
            return called(request)

        def serve_tool(request: ToolRequest) -> Reply:
            self.tool_calls += 1
            at_s = (world.clock.now() - begin) / US
            self._note(self._injection.would_serve(request), request.tool.name, request.command_id, at_s)
            return serve(request)

        return ask_model, serve_tool

    def _note(self, met: list[int], who: str, command: str, at_s: float) -> None:
        for number in met[:1]:
            self._counts[number] += 1
            if len(self._met[number]) < SHOWN_MAX:
                self._met[number].append(MetCall(who, step_words(command), at_s))

    def list_struck(self) -> tuple[StruckDisturbance, ...]:
        """Return the calls that each disturbance would strike."""
        watched = self._injection.list_watchable()
        recorded = self._injection.recorded
        replayed = StruckDisturbance(
            RECORDED, f"The recorded run is replayed: {count_recorded(recorded)}", False, 0, ()
        )
        return (
            *((replayed,) if recorded else ()),
            *(
                StruckDisturbance(
                    one.fault.name, disturbance_words(one), n in watched, self._counts[n], tuple(self._met[n])
                )
                for n, one in enumerate(self._injection.disturbances)
            ),
        )
