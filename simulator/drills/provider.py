"""Failures as model providers of real workers. ``ModelSpec.options`` say which failure and where; without one the scripted agents do their work."""

from __future__ import annotations

from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.taxonomy import Cause, FailureType
from fabric.runtime.call_ports import ModelRequest
from simulator.drills.sustained import SUSTAINED, Places
from simulator.kernel import scripted


class FailingProvider:
    """A ``ModelPort`` whose answers are a sustained failure's, ``{"failure": "infinite_tool_loop", "places": {...}}`` (``sustained.Places``); it answers at once."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The failure where it strikes, the scripted agent's work elsewhere. KeyError or ValueError for options that name none."""
        options = request.model.options
        if "failure" not in options:
            return scripted.answer(request).result
        return SUSTAINED[FailureType(options["failure"])].answer(Places(**options["places"]), request)


class DrillProvider:
    """What every installation has under the name that no fabric may publish (``seam.PROVIDER``): live drills ask it, in place of any model.

    A failure or an answer is as the options say: a cell's failure (``FailingProvider``), or a scenario's disturbances (``scenarios.seam``).
    """

    def __init__(self) -> None:
        from simulator.drills.strikes_told import strike_tell  # Of no use to who only knows sustained failures.
        from simulator.scenarios.seam import Striking

        self._failing, self._striking = FailingProvider(), Striking(strike_tell)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """One answer. Never raises: options that nobody can read are a failed call that says so."""
        port = self._striking if "disturbances" in request.model.options else self._failing
        try:
            return await port.ask(request)
        except (KeyError, TypeError, ValueError) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            message = f"the options of model {request.model.name!r} are no drill's ({said})"
            return CallFailed(
                command_id=request.command_id, attempt=request.attempt, cause=Cause.BAD_CONFIGURATION, message=message
            )
