"""Disturbances strike calls of real runs, in real time, at the drills' provider.

Its models' options have them. The process that drives a run counts its calls. Another process that takes the run over
counts anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents import script as scripted
from simulator.cast.agents import Reply
from simulator.faults.catalogue import build_parameters, fault_named
from simulator.faults.fault import Calls
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import EFFECTS, Struck
from simulator.scenarios.strikes.places import Places, build_places
from simulator.scenarios.strikes.selection import Selects, find_agent, select_named_calls

RUNS_MAX = 256
"""Runs whose calls are counted at once."""
Told = Callable[[ModelRequest, str], Awaitable[None]]
"""Reports that a fault has struck a call."""


def map_options(spec: FabricSpec, disturbances: Sequence[Disturbance]) -> dict[str, JSON]:
    """Return the options of a model that is disturbed.

    A role becomes the agent that has it. Raises FaultRefused for a fault that cannot be live.
    """
    where = build_places(spec)
    return {"places": asdict(where), "disturbances": [_describe_disturbance(one, spec, where) for one in disturbances]}


def _describe_disturbance(one: Disturbance, spec: FabricSpec, where: Places) -> dict[str, JSON]:
    fault_named(one.fault.name, live=True)
    given = one.parameters
    if isinstance(given, Calls) and given.role is not None:
        given = given.model_copy(update={"role": None, "agent": find_agent(given.role, spec, where)})
    return {"fault": one.fault.name, "parameters": given.model_dump(mode="json", exclude_none=True)}


@dataclass(slots=True)
class _Counting:
    """The disturbances of one run. ``began`` is in seconds on the monotonic clock."""

    where: Places
    seam: list[tuple[Disturbance, Selects]]
    began: float


class Striking:
    """The provider disturbs runs whose models' options say so.

    ``now`` is in microseconds since the epoch, as deadlines are.
    """

    def __init__(self, told: Told, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._told, self._now = told, now
        self._runs: OrderedDict[str, _Counting] = OrderedDict()

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the answer, or what the first disturbance that strikes makes of it, after its time.

        Raises KeyError, ValueError or FaultRefused for options that cannot be read.
        """
        counting = self._find_count(request)
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
        return await self._delay_reply(request, EFFECTS[met[0].fault.name](struck))

    def _find_count(self, request: ModelRequest) -> _Counting:
        found = self._runs.get(request.run_id)
        if found is None:
            options: Mapping[str, JSON] = request.model.options
            where = Places(**options["places"])
            seam = [(one, select_named_calls(one)) for one in map(_read, options["disturbances"])]
            found = self._runs[request.run_id] = _Counting(where, seam, time.monotonic())
            while len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)
        self._runs.move_to_end(request.run_id)
        return found

    def _left_s(self, request: ModelRequest) -> float:
        return max(0.0, (request.deadline_at - self._now()) / 1e6)

    async def _delay_reply(self, request: ModelRequest, reply: Reply) -> ModelReplied | CallFailed:
        """Return the reply after its time. It is a timeout where it comes later than the call's deadline, or never."""
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
    return Disturbance(fault, build_parameters(fault, told["parameters"]))
