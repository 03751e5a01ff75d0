"""Builds the provider adapters of this installation from its settings, for hosts and for test calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.anthropic import Anthropic
from fabric.providers.clouds.azure import Azure
from fabric.providers.clouds.bedrock import AwsSignIn, Bedrock
from fabric.providers.clouds.vertex import GoogleSignIn, Vertex
from fabric.providers.exchange.http_model import Endpoint, HttpModel
from fabric.providers.exchange.keys import KeyRing
from fabric.providers.google import Google
from fabric.providers.openai_compatible import OpenAICompatible
from fabric.providers.router import LateProvider, ModelRouter
from fabric.providers.stored_keys import note_used, stored_keys
from fabric.providers.trial import CallTestResult, run_probes
from fabric.runtime.ports.calls import ModelPort, ModelRequest
from fabric.services.installation import facts as here
from fabric.services.installation.facts import DRILL_PROVIDER
from fabric.worker.process.clock import SYSTEM_CLOCK

PROVIDERS: Mapping[str, str] = {
    "scripted": "simulator.agents.provider.ScriptedProvider",
    "fixed": "fabric.providers.fixed.Fixed",
}
"""Provider adapters by the name a fabric uses; each takes no arguments."""
RESERVED: Mapping[str, str] = {DRILL_PROVIDER: "simulator.drills.live.provider.DrillProvider"}
"""Provider adapters of failure drills, which no fabric can name and no setting replaces."""
BUILT_IN = frozenset({"openai", "anthropic", "google", "azure", "bedrock", "vertex"})
"""Provider adapters that this module builds from the operator's endpoints."""


Now = Callable[[], int]


def key_ring() -> KeyRing:
    """Return the keys that workspaces stored."""
    box = here.secret_box()
    return KeyRing(lambda: stored_keys(box), note_used)


def http_port(provider: str, now: Now = SYSTEM_CLOCK.now) -> HttpModel:
    """Return the adapter of one of ``BUILT_IN``, with the operator's endpoint and the stored keys."""
    return _BUILT[provider](gate=Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS), keys=key_ring(), now=now)


def provider_names() -> frozenset[str]:
    """Return the names of the model providers that a fabric may use; no adapter is made for it."""
    return frozenset({*BUILT_IN, *PROVIDERS, *getattr(settings, "FABRIC_PROVIDERS", {})})


def model_port(now: Now = SYSTEM_CLOCK.now) -> ModelPort:
    """Return all providers as one port. ``now``: clock of the deadlines, microseconds since the epoch."""
    found: dict[str, ModelPort] = {name: http_port(name, now) for name in sorted(BUILT_IN)}
    named = getattr(settings, "FABRIC_PROVIDERS", {})
    late = {name: path for name, path in PROVIDERS.items() if name not in named} | dict(RESERVED)
    made = {name: _provider(name, path) for name, path in named.items()}
    return ModelRouter(
        found | made | {name: LateProvider(partial(_provider, name, path), now) for name, path in late.items()}
    )


def try_out(model: ModelSpec, workspace: str) -> CallTestResult:
    """Make the test call of a model over HTTP, in this thread and on a loop of its own. It never raises."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_make_test_call(model, workspace))
    except Exception as error:  # noqa: BLE001 - Whatever the adapter or its library does is what came of the test.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        sentence = f"provider {model.provider!r} could not be asked here ({said})"
        return CallTestResult(ok=False, said=sentence, cause=Cause.UNKNOWN.value, probes=())
    finally:
        loop.close()  # It waits for no thread: a name look-up of minutes delays no caller.


async def _make_test_call(model: ModelSpec, workspace: str) -> CallTestResult:
    port = http_port(model.provider)
    try:
        return await run_probes(ModelRouter({model.provider: port}), model, workspace=workspace, now=SYSTEM_CLOCK.now)
    finally:
        await port.aclose()


def ask_once(request: ModelRequest) -> ModelReplied | CallFailed:
    """Make one call outside any run, in this thread and on a loop of its own. It never raises."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_make_call(request))
    except Exception as error:  # noqa: BLE001 - Whatever the adapter or its library does is what came of the call.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        message = f"provider {request.model.provider!r} could not be asked here ({said})"
        return CallFailed(
            command_id=request.command_id, attempt=request.attempt, cause=Cause.UNKNOWN, message=message, billed=True
        )
    finally:
        loop.close()  # As in ``try_out``.


async def _make_call(request: ModelRequest) -> ModelReplied | CallFailed:
    provider = request.model.provider
    if provider not in BUILT_IN:
        return await model_port().ask(request)
    port = http_port(provider)
    try:
        return await ModelRouter({provider: port}).ask(request)
    finally:
        await port.aclose()


def _extra() -> frozenset[str]:
    return frozenset(settings.FABRIC_EXTRA_BODY)


def _openai(**more: Any) -> HttpModel:
    endpoint = Endpoint(settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, _extra())
    return OpenAICompatible(endpoint, **more)


def _anthropic(**more: Any) -> HttpModel:
    return Anthropic(Endpoint(settings.FABRIC_ANTHROPIC_URL, "", settings.FABRIC_ANTHROPIC_KEY, _extra()), **more)


def _google(**more: Any) -> HttpModel:
    return Google(Endpoint(settings.FABRIC_GOOGLE_URL, "", settings.FABRIC_GOOGLE_KEY, _extra()), **more)


def _azure(**more: Any) -> HttpModel:
    return Azure(Endpoint(settings.FABRIC_AZURE_URL, "", settings.FABRIC_AZURE_KEY, _extra()), **more)


def _bedrock(**more: Any) -> HttpModel:
    endpoint = Endpoint(settings.FABRIC_BEDROCK_URL, "", settings.FABRIC_BEDROCK_KEY, _extra())
    return Bedrock(endpoint, sign_in=AwsSignIn(), **more)


def _vertex(**more: Any) -> HttpModel:
    endpoint = Endpoint(settings.FABRIC_VERTEX_URL, "", settings.FABRIC_VERTEX_KEY, _extra())
    return Vertex(endpoint, sign_in=GoogleSignIn(), **more)


_BUILT: Mapping[str, Callable[..., HttpModel]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "azure": _azure,
    "bedrock": _bedrock,
    "vertex": _vertex,
}
"""Adapter classes; total over ``BUILT_IN``."""


def _provider(name: str, path: str) -> ModelPort:
    problem = f"provider {name!r} is {path!r}, which"
    try:
        made: ModelPort = import_string(path)()
    except ImportError as error:
        raise ImproperlyConfigured(f"{problem} cannot be imported ({error}): correct FABRIC_PROVIDERS") from error
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ImproperlyConfigured(f"{problem} cannot be made ({said}): correct it, or FABRIC_PROVIDERS") from error
    if not iscoroutinefunction(getattr(made, "ask", None)):
        raise ImproperlyConfigured(f"{problem} has no coroutine `ask`: correct FABRIC_PROVIDERS")
    return made


def refuse_unusable_providers() -> None:
    """Raise ImproperlyConfigured, with one sentence, for the first unusable entry of FABRIC_PROVIDERS."""
    for name, path in settings.FABRIC_PROVIDERS.items():
        if name in RESERVED:
            raise ImproperlyConfigured(
                f"FABRIC_PROVIDERS names {name!r}, which answers failure drills: give it another name"
            )
        _provider(name, path)
