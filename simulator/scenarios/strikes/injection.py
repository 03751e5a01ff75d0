"""Disturbances work in a virtual world. They strike one set of calls in every world of a setup, whatever its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import US
from fabric.runtime.ports.calls import ModelRequest, ToolRequest
from simulator.cast.agents import Reply
from simulator.clockwork.clock import EPOCH_US
from simulator.scenarios.baseline.work import Ask, Serve
from simulator.scenarios.spec.recorded import Recorded
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes import world as tool_strikes
from simulator.scenarios.strikes.answers import EFFECTS, Struck
from simulator.scenarios.strikes.needs import call_disturbed_tools
from simulator.scenarios.strikes.places import build_places
from simulator.scenarios.strikes.playback import Playback
from simulator.scenarios.strikes.selection import Selects, find_absent, select_calls
from simulator.scenarios.strikes.world import disturb_world, select_tool_calls
from simulator.texts.problems import Problem
from simulator.world.world import World

Now = Callable[[], int]
"""Microseconds since the epoch."""


class Injection:
    """The disturbances of one world. ``struck``: how often each has struck, by fault."""

    def __init__(
        self, disturbances: Sequence[Disturbance], spec: FabricSpec, recorded: Sequence[Recorded] = ()
    ) -> None:
        self.disturbances = tuple(disturbances)
        self.recorded = tuple(recorded)
        self.spec = spec
        self.where = build_places(spec)
        self.struck: Counter[str] = Counter()
        self._seam: list[tuple[Disturbance, Selects]] = [
            (one, select_calls(one, spec, self.where)) for one in self.disturbances if one.fault.strike == "model"
        ]
        self._tools = [(one, select_tool_calls(one, spec)) for one in self.disturbances if one.fault.strike == "tool"]
        self.calls: Counter[str] = Counter()
        """Calls that went out, retries as well: ``model``, ``tool``."""

    def disturb(self, world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        """Make the disturbances strike in a world that has not run yet. Returns its model and its tools.

        Both answer as ``ask`` and ``serve`` do, where nothing strikes.
        """
        disturb_world(world, self.disturbances, self.struck)
        called = call_disturbed_tools(ask, self.spec, self.disturbances)
        if self.recorded:
            called, serve = Playback(self.recorded, self.struck).begin(world, called, serve)
        return self.strike_model(called, world.clock.now, begin=world.clock.now()), self.strike_tools(serve)

    def absent(self) -> list[Problem]:
        """Agents and roles that are named and that the fabric has not."""
        return find_absent(self.disturbances, self.spec, self.where)

    def list_watchable(self) -> frozenset[int]:
        """Numbers of the disturbances that strike calls of models and tools, which can be seen without striking any."""
        met = {id(one) for one, _ in (*self._seam, *self._tools)}
        return frozenset(number for number, one in enumerate(self.disturbances) if id(one) in met)

    def would_ask(self, request: ModelRequest, at_s: float) -> list[int]:
        """Numbers of the disturbances that would strike a model call; each counts what it sees, and nothing
        is struck.
        """
        return self._numbers([one for one, strikes in self._seam if strikes(request, at_s)])

    def would_serve(self, request: ToolRequest) -> list[int]:
        """Return the numbers of the disturbances that would strike a tool call.

        Each counts it, and nothing is struck.
        """
        return self._numbers([one for one, strikes in self._tools if strikes(request)])

    def _numbers(self, met: list[Disturbance]) -> list[int]:
        return [number for number, one in enumerate(self.disturbances) if any(one is other for other in met)]

    def strike_model(self, ask: Ask, now: Now, *, begin: int = EPOCH_US) -> Ask:
        """Return a model that is struck as the disturbances say.

        It asks ``ask`` otherwise. Seconds count from ``begin``.
        """

        def ask_model(request: ModelRequest) -> Reply:
            # Each counts what it sees, also where another strikes; the first in the scenario's order does.
            self.calls["model"] += 1
            at_s = (now() - begin) / US
            met = [one for one, strikes in self._seam if strikes(request, at_s)]
            return self._strike(met[0], request, ask, now) if met else ask(request)

        return ask_model

    def strike_tools(self, serve: Serve) -> Serve:
        """Tools that are struck as the disturbances say; everything else goes to ``serve``."""

        def serve_tool(request: ToolRequest) -> Reply:
            self.calls["tool"] += 1
            met = [one for one, strikes in self._tools if strikes(request)]
            if not met:
                return serve(request)
            self.struck[met[0].fault.name] += 1
            return tool_strikes.EFFECTS[met[0].fault.name](request, serve, met[0].parameters)

        return serve_tool

    def _strike(self, one: Disturbance, request: ModelRequest, ask: Ask, now: Now) -> Reply:
        self.struck[one.fault.name] += 1
        struck = Struck(
            where=self.where,
            request=request,
            parameters=one.parameters,
            undisturbed=lambda: ask(request),
            left_s=max(0.0, (request.deadline_at - now()) / US),
        )
        return EFFECTS[one.fault.name](struck)
