"""The composition root: builds the ports from settings, once a process. Providers are named by dotted path.

Everything above the adapters that needs a port asks here; nothing else reads settings.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils.module_loading import import_string

from fabric.adapters.clock import SYSTEM_CLOCK
from fabric.adapters.engine_lock import EngineLock, EngineRunning
from fabric.adapters.evaluators import evaluators_digest
from fabric.adapters.host import HostConfig, Ports, RunHost
from fabric.adapters.journal_postgresql import PostgresqlStore
from fabric.adapters.journal_sqlite import SqliteStore
from fabric.adapters.nudge import Listener, Nudged, OnMessage
from fabric.adapters.nudge_postgresql import PostgresqlListener, PostgresqlNudge
from fabric.adapters.nudge_socket import SocketListener, SocketNudge
from fabric.adapters.owned import Revision
from fabric.adapters.providers.prices import price_of
from fabric.adapters.providers.router import ModelRouter
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.registry import ToolRunner, offers, validator_of
from fabric.adapters.tuning import tune_process
from fabric.adapters.writer import JournalWriter
from fabric.core.context import Compiled, compile_spec
from fabric.core.spec import FabricSpec
from fabric.models import Incarnation
from fabric.runtime.ports import JournalStore, ModelPort, Nudge
from fabric.runtime.prompts import overhead_bytes
from fabric.selectors.fabrics import revision_spec

log = logging.getLogger(__name__)
DRIVE_RUN = "fabric.drive_run"
AGAIN_S = 2.0
"""Until a worker whose engine could not start tries again."""
AGAIN_MAX_S = 60.0
"""The same, when it is the configuration that stands in the way: twice as long each time, up to this."""
PROVIDERS: Mapping[str, str] = {"scripted": "simulator.provider.ScriptedProvider"}
"""Provider adapters by the name a fabric uses; each takes no arguments. ``openai`` is built below from the operator's endpoint."""

__all__ = ["EngineRunning", "compiled", "dsn", "engine_running", "host", "listener", "local_engine", "nudge", "store"]


def _is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def dsn() -> str:
    """How to reach this installation's PostgreSQL: a libpq connection string."""
    from psycopg.conninfo import make_conninfo

    params: dict[str, Any] = connection.get_connection_params()
    allowed = ("host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "options")
    return make_conninfo(**{key: value for key, value in params.items() if key in allowed and value is not None})


@lru_cache(maxsize=1)
def store() -> JournalStore:
    """The journal store of this installation."""
    if _is_postgresql():
        return PostgresqlStore(dsn())
    return SqliteStore(Path(connection.settings_dict["NAME"]))


# -- waking ------------------------------------------------------------------------------------------------------------


class CeleryNudge:
    """Wakes a host by one Celery message and by the local nudge; losing both costs latency, nothing else."""

    def __init__(self, local: Nudge) -> None:
        self._local = local

    def wake(self, run_id: str) -> None:
        """Offers the run to a worker."""
        self._local.wake(run_id)
        try:
            current_app.send_task(DRIVE_RUN, args=[run_id], ignore_result=True, retry=False)
        except Exception as error:  # noqa: BLE001 - a message is only a wake-up; the sweep finds the run.
            log.warning("the broker did not take the wake-up for %s: %s", run_id, error)

    def told(self, run_seqs: Mapping[str, int]) -> None:
        """Says how far journals reach."""
        self._local.told(run_seqs)


@lru_cache(maxsize=1)
def _local_nudge() -> Nudge:
    return PostgresqlNudge() if _is_postgresql() else SocketNudge(settings.FABRIC_DATA)


@lru_cache(maxsize=1)
def nudge() -> Nudge:
    """What services wake hosts with."""
    return CeleryNudge(_local_nudge())


def listener(on_message: OnMessage, *kinds: Any) -> Listener:
    """A listener for nudges, not yet started; ``kinds``: ``wake``, ``told``, or both when none is given."""
    wanted = {"kinds": kinds} if kinds else {}
    if _is_postgresql():
        return PostgresqlListener(dsn(), on_message, **wanted)
    return SocketListener(settings.FABRIC_DATA, on_message, **wanted)


# -- revisions ---------------------------------------------------------------------------------------------------------


def compile_revision(spec: FabricSpec) -> Compiled:
    """A spec with its prices, validators and prompt sizes, as this installation sees them."""
    endpoint = {"default_model": settings.FABRIC_MODEL, "default_url": settings.FABRIC_MODEL_URL}
    prices = {model.name: price for model in spec.models if (price := price_of(model, **endpoint)) is not None}
    validators = {tool.name: validator_of(tool) for tool in spec.tools}
    offered = {tool.name: offers(tool) for tool in spec.tools}
    overhead = {agent.name: overhead_bytes(spec, agent, offered) for agent in spec.agents}
    digest = evaluators_digest(sorted(validators.items()))
    return compile_spec(spec, prices=prices, validators=validators, digest=digest, prompt_overhead=overhead)


@lru_cache(maxsize=256)
def compiled(revision_id: str) -> Compiled:
    """A published revision by row id, compiled once a process."""
    return compile_revision(revision_spec(revision_id))


@lru_cache(maxsize=256)
def _revision(revision_id: str) -> Revision:
    """What a host needs of a revision. For its claimer's thread, which no request ever ends: Django's connection is not kept, since one that was
    cut would stay so.
    """
    try:
        found = compiled(revision_id)
    finally:
        connection.close()
    return Revision(found, {tool.name: offers(tool) for tool in found.spec.tools})


# -- the engine --------------------------------------------------------------------------------------------------------


def model_port() -> ModelPort:
    """All providers behind one port."""
    # Imported here: it takes a second or two, and a process that only serves pages asks no model.
    from fabric.adapters.providers.openai_compatible import Endpoint, OpenAICompatible

    gate = Gate.of(settings.FABRIC_ALLOWED_HOSTS)
    endpoint = Endpoint(settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY)
    found: dict[str, ModelPort] = {"openai": OpenAICompatible(endpoint, gate=gate)}
    named = {**PROVIDERS, **getattr(settings, "FABRIC_PROVIDERS", {})}
    return ModelRouter(found | {name: _provider(name, path) for name, path in named.items()})


def _provider(name: str, path: str) -> ModelPort:
    problem = f"provider {name!r} is {path!r}, which"
    try:
        made: ModelPort = import_string(path)()
    except ImportError as error:
        raise ImproperlyConfigured(f"{problem} cannot be imported ({error}): correct FABRIC_PROVIDERS") from error
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ImproperlyConfigured(f"{problem} cannot be made ({said}): correct it, or FABRIC_PROVIDERS") from error
    if not iscoroutinefunction(getattr(made, "ask", None)):
        raise ImproperlyConfigured(f"{problem} has no coroutine `ask`: correct FABRIC_PROVIDERS")
    return made


def refuse_unusable_providers() -> None:
    """Raises ImproperlyConfigured, with one sentence, for the first of FABRIC_PROVIDERS that no run could ask."""
    for name, path in settings.FABRIC_PROVIDERS.items():
        _provider(name, path)


def new_host(config: HostConfig | None = None) -> RunHost:
    """A host over this installation's ports, not yet started."""
    incarnation = f"{platform.node()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
    ports = Ports(
        store=store(),
        writer=JournalWriter(store(), _local_nudge()),
        models=model_port(),
        tools=ToolRunner(gate=Gate.of(settings.FABRIC_ALLOWED_HOSTS)),
        clock=SYSTEM_CLOCK,
        revision=_revision,
    )
    return RunHost(ports, incarnation, config)


class Engine:
    """One process's engine: the host, the ear for wake-ups and, on SQLite, the data directory's lock."""

    def __init__(self, config: HostConfig | None = None) -> None:
        tune_process()
        self.host = new_host(config)
        self._lock = None if _is_postgresql() else EngineLock(Path(settings.FABRIC_DATA))
        self._ear = listener(self._heard, "wake")

    def _heard(self, nudged: Nudged) -> None:
        for run_id in nudged.run_seqs or ("",):
            self.host.offer(run_id)

    def start(self, *, wait: bool = False) -> None:
        """Takes the lock and starts. EngineRunning when another process has it and ``wait`` is False."""
        if self._lock is not None:
            self._lock.take(wait=wait)
        try:
            held = store()
            if self._lock is not None and isinstance(held, SqliteStore):
                # The lock says that whoever owned runs here is gone: no need to wait for its lease to lapse.
                held.retire_others(self.host.lease.name)
            self.host.start()
        except BaseException:
            self._give_back()
            raise
        try:
            self._ear.start()
        except OSError as error:
            log.warning("wake-ups are not heard, runs are found by looking every few seconds: %s", error)

    def stop(self, grace_s: float = 30.0) -> None:
        """Gives everything back."""
        self._ear.stop()
        self.host.stop(grace_s)
        self._give_back()

    def _give_back(self) -> None:
        tools = self.host.ports.tools
        if isinstance(tools, ToolRunner):
            tools.close()
        if self._lock is not None:
            self._lock.give_back()


def engine_running() -> bool:
    """Whether some process hosts runs of this installation now."""
    if not _is_postgresql():
        return EngineLock(Path(settings.FABRIC_DATA)).held_elsewhere()
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        now = cursor.fetchone()[0]
    return bool(Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).exists())


@contextmanager
def local_engine(config: HostConfig | None = None) -> Iterator[RunHost]:
    """Hosts runs in this process while the block runs. EngineRunning when another process does it already."""
    if _is_postgresql() and engine_running():
        raise EngineRunning("this database")
    engine = Engine(config)
    engine.start()
    try:
        yield engine.host
    finally:
        engine.stop(grace_s=5.0)


class Worker:
    """The engine of a worker process, once it has one. A worker without an engine waits for it; it never exits for the lack of one."""

    def __init__(self) -> None:
        self.engine: Engine | None = None

    def start(self) -> None:
        """Starts the engine on a thread: it waits for the data directory's lock, and tries again when the database is away."""
        threading.Thread(target=self._start, name="fabric-start", daemon=True).start()

    def _start(self) -> None:
        pause = threading.Event()
        told, again_s = "", AGAIN_S
        while self.engine is None:
            try:
                engine = Engine()
                engine.start(wait=True)
            except ImproperlyConfigured as error:
                # Nothing that comes back by itself: said once.
                if str(error) != told:
                    log.error("the engine cannot be started, runs wait: %s", error)
                told = str(error)
                pause.wait(again_s)
                again_s = min(2 * again_s, AGAIN_MAX_S)
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker stays and says so until it goes away.
                log.error("the engine could not be started, trying again in %g s: %s", AGAIN_S, error)
                pause.wait(AGAIN_S)
                continue
            self.engine = engine
            engine.host.offer()

    def stop(self) -> None:
        """Gives this worker's runs back."""
        if self.engine is not None:
            self.engine.stop()


WORKER = Worker()


def host() -> RunHost | None:
    """The worker process's host; None when this process has none (yet)."""
    return WORKER.engine.host if WORKER.engine is not None else None
