"""Disturbances of a scenario at the drills' provider: what its models' options say of them, and what strikes a call of a real run, in real time.

Calls are counted in the process that drives the run. A run that another process takes over is counted anew there.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelRequest
from simulator.drills.sustained import Places, places
from simulator.kernel import scripted
from simulator.kernel.agents import Reply
from simulator.scenarios.catalogue import fault_named, parameters_of
from simulator.scenarios.parameters import Calls
from simulator.scenarios.scenario import Disturbance
from simulator.scenarios.selecting import Selects, agent_of, selecting_of
from simulator.scenarios.strikes import EFFECTS, Struck

JSON = Any
RUNS_MAX = 256
"""Runs whose calls are counted at once."""
Told = Callable[[ModelRequest, str], Awaitable[None]]
"""Who is told that a fault has struck a call."""


def options_of(spec: FabricSpec, disturbances: Sequence[Disturbance]) -> dict[str, JSON]:
    """What a model's options say of them: each with the agent that has the role which it names. Raises Refused for one that cannot be live."""
    where = places(spec)
    return {"places": asdict(where), "disturbances": [_told(one, spec, where) for one in disturbances]}


def _told(one: Disturbance, spec: FabricSpec, where: Places) -> dict[str, JSON]:
    fault_named(one.fault.name, live=True)
    given = one.parameters
    if isinstance(given, Calls) and given.role is not None:
        given = given.model_copy(update={"role": None, "agent": agent_of(given.role, spec, where)})
    return {"fault": one.fault.name, "parameters": given.model_dump(mode="json", exclude_none=True)}


@dataclass(slots=True)
class _Counting:
    """What strikes one run. Instants are seconds on the monotonic clock."""

    where: Places
    seam: list[tuple[Disturbance, Selects]]
    began: float


class Striking:
    """The calls of runs whose models' options have ``disturbances``. ``now``: microseconds since the epoch, what deadlines are judged by."""

    def __init__(self, told: Told, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._told, self._now = told, now
        self._runs: OrderedDict[str, _Counting] = OrderedDict()

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The answer, or what the first disturbance that strikes makes of it, after its time. KeyError, ValueError or Refused for options that cannot be read."""
        counting = self._counting(request)
        asked = replace(
            request, model=request.model.model_copy(update={"provider": request.model.options["instead_of"]})
        )
        at_s = time.monotonic() - counting.began
        # Each counts what it sees, also where another strikes; the first in the scenario's order does.
        met = [one for one, strikes in counting.seam if strikes(asked, at_s)]
        if not met:
            return scripted.answer(request).result
        await self._told(request, met[0].fault.name)
        struck = Struck(
            where=counting.where,
            request=request,
            parameters=met[0].parameters,
            undisturbed=lambda: Reply(0.0, scripted.answer(request).result),
            left_s=self._left_s(request),
        )
        return await self._after(request, EFFECTS[met[0].fault.name](struck))

    def _counting(self, request: ModelRequest) -> _Counting:
        found = self._runs.get(request.run_id)
        if found is None:
            options: Mapping[str, JSON] = request.model.options
            where = Places(**options["places"])
            seam = [(one, selecting_of(one)) for one in map(_read, options["disturbances"])]
            found = self._runs[request.run_id] = _Counting(where, seam, time.monotonic())
            while len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)
        self._runs.move_to_end(request.run_id)
        return found

    def _left_s(self, request: ModelRequest) -> float:
        return max(0.0, (request.deadline_at - self._now()) / 1e6)

    async def _after(self, request: ModelRequest, reply: Reply) -> ModelReplied | CallFailed:
        """The reply after its time; a timeout at the call's deadline where it comes later, or not at all."""
        left_s = self._left_s(request)
        if reply.silent or reply.delay_s > left_s:
            await asyncio.sleep(left_s)
            message = f"the endpoint did not answer within {left_s:.1f} seconds"
            return CallFailed(
                command_id=request.command_id,
                attempt=request.attempt,
                cause=Cause.TIMEOUT,
                message=message,
                billed=reply.billed or not reply.silent,
            )
        await asyncio.sleep(reply.delay_s)
        assert isinstance(reply.result, ModelReplied | CallFailed)
        return reply.result


def _read(told: Mapping[str, JSON]) -> Disturbance:
    fault = fault_named(told["fault"], live=True)
    return Disturbance(fault, parameters_of(fault, told["parameters"]))
