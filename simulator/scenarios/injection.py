"""Disturbances at work in a virtual world. The seed decides nothing here: the same calls are struck in every world of one setup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fabric.core.spec import FabricSpec
from fabric.runtime.call_ports import ModelRequest, ToolRequest
from simulator.drills.baseline import Ask, Serve
from simulator.drills.sustained import places
from simulator.kernel.agents import Reply
from simulator.kernel.clock import EPOCH_US, US
from simulator.kernel.world import World
from simulator.scenarios import tool_strikes
from simulator.scenarios.catalogue import SEAM_PORTS
from simulator.scenarios.meeting import calling
from simulator.scenarios.problems import Problem
from simulator.scenarios.scenario import Disturbance
from simulator.scenarios.selecting import Selects, absent, selecting
from simulator.scenarios.strikes import EFFECTS, Struck
from simulator.scenarios.tool_strikes import selecting_tools
from simulator.scenarios.world_strikes import befall

Now = Callable[[], int]
"""Microseconds since the epoch."""


class Injection:
    """The disturbances of one world. ``struck``: how often each has struck, by fault."""

    def __init__(self, disturbances: Sequence[Disturbance], spec: FabricSpec) -> None:
        self.disturbances = tuple(disturbances)
        self.spec = spec
        self.where = places(spec)
        self.struck: Counter[str] = Counter()
        self._seam: list[tuple[Disturbance, Selects]] = [
            (one, selecting(one, spec, self.where)) for one in self.disturbances if one.fault.port in SEAM_PORTS
        ]
        self._tools = [
            (one, selecting_tools(one, spec)) for one in self.disturbances if one.fault.name in tool_strikes.EFFECTS
        ]
        self.calls: Counter[str] = Counter()
        """Calls that went out, retries as well: ``model``, ``tool``."""

    def disturbing(self, world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        """Sees to it that the disturbances strike in a world that has not been run yet: its model and tools, which answer otherwise as ``ask`` and ``serve`` do."""
        befall(world, self.disturbances, self.struck)
        called = calling(ask, self.spec, self.disturbances)
        return self.asking(called, world.clock.now, begin=world.clock.now()), self.serving(serve)

    def absent(self) -> list[Problem]:
        """Agents and roles that are named and that the fabric has not."""
        return absent(self.disturbances, self.spec, self.where)

    def watched(self) -> frozenset[int]:
        """Numbers of the disturbances that strike calls of models and tools, which can be seen without striking any."""
        met = {id(one) for one, _ in (*self._seam, *self._tools)}
        return frozenset(number for number, one in enumerate(self.disturbances) if id(one) in met)

    def would_ask(self, request: ModelRequest, at_s: float) -> list[int]:
        """Numbers of the disturbances that would strike a model call; each counts what it sees, and nothing is struck."""
        return self._numbers([one for one, strikes in self._seam if strikes(request, at_s)])

    def would_serve(self, request: ToolRequest) -> list[int]:
        """The same for a call of a tool."""
        return self._numbers([one for one, strikes in self._tools if strikes(request)])

    def _numbers(self, met: list[Disturbance]) -> list[int]:
        return [number for number, one in enumerate(self.disturbances) if any(one is other for other in met)]

    def asking(self, ask: Ask, now: Now, *, begin: int = EPOCH_US) -> Ask:
        """A model that is struck as the disturbances say; everything else goes to ``ask``. ``begin``: where seconds are counted from."""

        def asked(request: ModelRequest) -> Reply:
            # Each counts what it sees, also where another strikes; the first in the scenario's order does.
            self.calls["model"] += 1
            at_s = (now() - begin) / US
            met = [one for one, strikes in self._seam if strikes(request, at_s)]
            return self._strike(met[0], request, ask, now) if met else ask(request)

        return asked

    def serving(self, serve: Serve) -> Serve:
        """Tools that are struck as the disturbances say; everything else goes to ``serve``."""

        def served(request: ToolRequest) -> Reply:
            self.calls["tool"] += 1
            met = [one for one, strikes in self._tools if strikes(request)]
            if not met:
                return serve(request)
            self.struck[met[0].fault.name] += 1
            return tool_strikes.EFFECTS[met[0].fault.name](request, serve, met[0].parameters)

        return served

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
