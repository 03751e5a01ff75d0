"""Sustained failures as a model provider of real workers, named by dotted path in FABRIC_PROVIDERS.

``ModelSpec.options`` say which failure and where: ``{"failure": "infinite_tool_loop", "places": {...}}`` (``sustained.Places``). Without them the
scripted agents do their work.
"""

from __future__ import annotations

from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.taxonomy import FailureType
from fabric.runtime.call_ports import ModelRequest
from simulator.drills.sustained import SUSTAINED, Places
from simulator.kernel import scripted


class FailingProvider:
    """A ``ModelPort`` whose answers are a sustained failure's; it answers at once."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The failure where it strikes, the scripted agent's work elsewhere. KeyError or ValueError for options that name none."""
        options = request.model.options
        if "failure" not in options:
            return scripted.answer(request).result
        return SUSTAINED[FailureType(options["failure"])].answer(Places(**options["places"]), request)
