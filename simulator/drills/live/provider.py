"""Failures as model providers of real workers.

``ModelSpec.options`` name the failure and its place; without one the scripted agents work.
"""

from __future__ import annotations

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause, FailureType
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents import script as scripted
from simulator.scenarios.strikes.failures import SUSTAINED
from simulator.scenarios.strikes.places import Places


class FailingProvider:
    """A ``ModelPort`` that answers with a sustained failure, at once.

    Options: ``{"failure": "infinite_tool_loop", "places": {...}}`` (``places.Places``).
    """

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the failure where it strikes, else the scripted agent's answer. Raises KeyError or ValueError for
        bad options.
        """
        options = request.model.options
        if "failure" not in options:
            return scripted.answer(request).result
        return SUSTAINED[FailureType(options["failure"])].answer(Places(**options["places"]), request)


class DrillProvider:
    """Provider of live drills in every installation, under a name that no fabric may publish (``seam.PROVIDER``).

    The options decide: a cell's failure (``FailingProvider``), or a scenario's disturbances (``scenarios.seam``).
    """

    def __init__(self) -> None:
        from simulator.drills.live.strikes import strike_tell  # Of no use to who only knows sustained failures.
        from simulator.scenarios.strikes.live import Striking

        self._failing, self._striking = FailingProvider(), Striking(strike_tell)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return an answer. Never raises: unreadable options give a failed call with the reason."""
        port = self._striking if "disturbances" in request.model.options else self._failing
        try:
            return await port.ask(request)
        except (KeyError, TypeError, ValueError) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            message = f"the options of model {request.model.name!r} are no drill's ({said})"
            return CallFailed(
                command_id=request.command_id, attempt=request.attempt, cause=Cause.BAD_CONFIGURATION, message=message
            )
