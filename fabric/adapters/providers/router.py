"""The model port that a host is given: it hands each request to the provider that the fabric's model names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fabric.adapters.known_secrets import KNOWN
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelPort, ModelRequest


class ModelRouter:
    """A ``ModelPort`` over providers by name (``ModelSpec.provider``). What comes back has no secret that is known here."""

    def __init__(self, providers: Mapping[str, ModelPort]) -> None:
        self._providers = dict(providers)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Asks the named provider; an unknown name is a ``CallFailed`` that lists the known ones."""
        provider = self._providers.get(request.model.provider)
        if provider is not None:
            return KNOWN.hidden(await provider.ask(_streaming_hidden(request)))
        known = ", ".join(sorted(self._providers)) or "none"
        message = f"model {request.model.name!r} names provider {request.model.provider!r}; there are: {known}"
        return _failed(request, Cause.BAD_CONFIGURATION, message)


class LateProvider:
    """A ``ModelPort`` that is made in a thread when it is first asked: the drills, say, which few processes need.

    ``make`` imports and makes the adapter; ``now`` is microseconds since the epoch.
    """

    def __init__(self, make: Callable[[], ModelPort], now: Callable[[], int]) -> None:
        self._make, self._now = make, now
        self._port: ModelPort | None = None
        self._making: asyncio.Task[ModelPort] | None = None

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Asks the adapter; a ``CallFailed`` when it cannot be made, or not within the deadline."""
        port = self._port
        if port is None:
            try:
                async with asyncio.timeout((request.deadline_at - self._now()) / 1e6):
                    port = self._port = await self._made()
            except TimeoutError:
                message = f"provider {request.model.provider!r} was still being loaded when the deadline came"
                return _failed(request, Cause.TIMEOUT, message)
            except Exception as error:  # noqa: BLE001 - The port's contract: every failure is data.
                said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                message = f"provider {request.model.provider!r} cannot be loaded here ({said})"
                return _failed(request, Cause.BAD_CONFIGURATION, message)
        return await port.ask(request)

    async def _made(self) -> ModelPort:
        """The adapter, made once for all that ask meanwhile; one of them being cancelled does not stop it."""
        making = self._making
        if making is None or making.done() or making.get_loop() is not asyncio.get_running_loop():
            making = self._making = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(making)


def _streaming_hidden(request: ModelRequest) -> ModelRequest:
    """The request, whose calls are told without known secrets while they come."""
    told = request.streamed
    return request if told is None else replace(request, streamed=lambda calls: told(KNOWN.hidden(calls)))


def _failed(request: ModelRequest, cause: Cause, message: str) -> CallFailed:
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message)
