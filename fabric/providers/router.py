"""The model port of a host: it passes each request to the provider of the fabric's model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ModelPort, ModelRequest
from fabric.secrets.known_secrets import KNOWN


class ModelRouter:
    """A ``ModelPort`` over providers by name (``ModelSpec.provider``). Known secrets are masked in the answer."""

    def __init__(self, providers: Mapping[str, ModelPort]) -> None:
        self._providers = dict(providers)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Call the named provider; an unknown name is a ``CallFailed`` that lists the known ones."""
        provider = self._providers.get(request.model.provider)
        if provider is not None:
            return KNOWN.mask_value(await provider.ask(_streaming_hidden(request)))
        known = ", ".join(sorted(self._providers)) or "none"
        message = f"model {request.model.name!r} names provider {request.model.provider!r}; there are: {known}"
        return _build_failure(request, Cause.BAD_CONFIGURATION, message)


class LateProvider:
    """A ``ModelPort`` that is made in a thread at its first call, such as the drills', which few processes need.

    ``make`` imports and makes the adapter; ``now`` is microseconds since the epoch.
    """

    def __init__(self, make: Callable[[], ModelPort], now: Callable[[], int]) -> None:
        self._make, self._now = make, now
        self._port: ModelPort | None = None
        self._making: asyncio.Task[ModelPort] | None = None

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Call the adapter; return a ``CallFailed`` when it cannot be made, or not within the deadline."""
        port = self._port
        if port is None:
            try:
                async with asyncio.timeout((request.deadline_at - self._now()) / 1e6):
                    port = self._port = await self._make_adapter()
            except TimeoutError:
                message = f"provider {request.model.provider!r} was still being loaded when the deadline came"
                return _build_failure(request, Cause.TIMEOUT, message)
            except Exception as error:  # noqa: BLE001 - The port's contract: every failure is data.
                said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                message = f"provider {request.model.provider!r} cannot be loaded here ({said})"
                return _build_failure(request, Cause.BAD_CONFIGURATION, message)
        return await port.ask(request)

    async def _make_adapter(self) -> ModelPort:
        """Return the adapter, made once for all simultaneous callers; the cancellation of one does not stop it."""
        making = self._making
        if making is None or making.done() or making.get_loop() is not asyncio.get_running_loop():
            making = self._making = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(making)


def _streaming_hidden(request: ModelRequest) -> ModelRequest:
    """Return the request with known secrets masked in its streamed calls."""
    told = request.streamed
    return request if told is None else replace(request, streamed=lambda calls: told(KNOWN.mask_value(calls)))


def _build_failure(request: ModelRequest, cause: Cause, message: str) -> CallFailed:
    return CallFailed(
        command_id=request.command_id, attempt=request.attempt, cause=cause, message=message, never_sent=True
    )
