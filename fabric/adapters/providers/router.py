"""The model port that a host is given: it hands each request to the provider that the fabric's model names."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelPort, ModelRequest


class ModelRouter:
    """A ``ModelPort`` over providers by name (``ModelSpec.provider``)."""

    def __init__(self, providers: Mapping[str, ModelPort]) -> None:
        self._providers = dict(providers)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Asks the named provider; an unknown name is a ``CallFailed`` that lists the known ones."""
        provider = self._providers.get(request.model.provider)
        if provider is not None:
            return await provider.ask(request)
        known = ", ".join(sorted(self._providers)) or "none"
        return CallFailed(
            command_id=request.command_id,
            attempt=request.attempt,
            cause=Cause.BAD_CONFIGURATION,
            message=f"model {request.model.name!r} names provider {request.model.provider!r}; there are: {known}",
        )
