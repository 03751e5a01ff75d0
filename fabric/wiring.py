"""The composition root: builds the ports from settings, once a process. Providers are named by dotted path.

Everything above the adapters that needs a port asks here; nothing else reads settings.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from celery import current_app
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils.module_loading import import_string

from fabric.adapters.clock import AskingClock, SteadyClock
from fabric.adapters.engine_lock import EngineLock, EngineRunning
from fabric.adapters.grants_postgresql import PostgresqlGrants
from fabric.adapters.grants_sqlite import SqliteGrants
from fabric.adapters.graph_rules import RulesUnusable
from fabric.adapters.guards_postgresql import PostgresqlGuards
from fabric.adapters.guards_sqlite import SqliteGuards
from fabric.adapters.host import HostConfig, Ports, RunHost
from fabric.adapters.journal_postgresql import PostgresqlStore
from fabric.adapters.journal_sqlite import SqliteStore
from fabric.adapters.memories_postgresql import PostgresqlMemories
from fabric.adapters.memories_sqlite import SqliteMemories
from fabric.adapters.nudge import Listener, Nudged, OnMessage
from fabric.adapters.nudge_broker import BrokerNudge, Lately
from fabric.adapters.nudge_postgresql import PostgresqlListener, PostgresqlNudge
from fabric.adapters.nudge_socket import SocketListener, SocketNudge
from fabric.adapters.owned import Revision
from fabric.adapters.presence_postgresql import Presence
from fabric.adapters.signing import Signer, signer_of
from fabric.adapters.tools.named import ToolsUnusable
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.registry import ToolRunner, offers
from fabric.adapters.tuning import tune_process
from fabric.adapters.writer import JournalWriter
from fabric.compiling import compile_revision, compile_under, compiled, compiled_under, draft_compiler
from fabric.core.taxonomy import Tier
from fabric.model_ports import BUILT_IN, PROVIDERS, RESERVED, model_port, refuse_unusable_providers
from fabric.models import Incarnation
from fabric.runtime.grant_ports import GrantStore
from fabric.runtime.ports import Claimed, Clock, JournalStore, Nudge
from fabric.services import here
from fabric.services.key_caps import operators_caps_set

log = logging.getLogger(__name__)
DRIVE_RUN = "fabric.drive_run"
__all__ = [
    "BUILT_IN",
    "PROVIDERS",
    "RESERVED",
    "EngineRunning",
    "clock",
    "compile_revision",
    "compile_under",
    "compiled",
    "compiled_under",
    "draft_compiler",
    "dsn",
    "engine_running",
    "listener",
    "local_engine",
    "model_port",
    "nudge",
    "refuse_unusable_providers",
    "refuse_unusable_rules",
    "refuse_unusable_tools",
    "store",
]


def _is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def dsn() -> str:
    """How to reach this installation's PostgreSQL: a libpq connection string."""
    from psycopg.conninfo import make_conninfo

    params: dict[str, Any] = connection.get_connection_params()
    allowed = ("host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "options")
    return make_conninfo(**{key: value for key, value in params.items() if key in allowed and value is not None})


P = TypeVar("P")


def _tried(name: str, port: P) -> P:
    """The port as it is; or, where a drill has put a function's dotted path into FABRIC_FAULTS, what that makes of it."""
    path = getattr(settings, "FABRIC_FAULTS", "")
    if not path:
        return port
    wrapped: P = import_string(path)(name, port)
    return wrapped


@lru_cache(maxsize=1)
def store() -> JournalStore:
    """The journal store of this installation."""
    if _is_postgresql():
        return _tried("store", PostgresqlStore(dsn()))
    return _tried("store", SqliteStore(Path(connection.settings_dict["NAME"])))


@lru_cache(maxsize=1)
def grants() -> GrantStore:
    """The budgets that runs share."""
    file = connection.settings_dict["NAME"]
    return _tried("grants", PostgresqlGrants(dsn()) if _is_postgresql() else SqliteGrants(Path(file)))


@lru_cache(maxsize=1)
def guards() -> PostgresqlGuards | SqliteGuards:
    """The retry tokens and the guards' rows that runs share."""
    return PostgresqlGuards(dsn()) if _is_postgresql() else SqliteGuards(Path(connection.settings_dict["NAME"]))


@lru_cache(maxsize=1)
def memories() -> PostgresqlMemories | SqliteMemories:
    """What fabrics remember beyond their runs."""
    return PostgresqlMemories(dsn()) if _is_postgresql() else SqliteMemories(Path(connection.settings_dict["NAME"]))


@lru_cache(maxsize=1)
def clock() -> Clock:
    """The time for services, by the store's clock."""
    return AskingClock(lambda: store().now())


# -- waking ------------------------------------------------------------------------------------------------------------


def send_wake(run_id: str) -> None:
    """One message to the broker. Raises what the broker's client does when nobody takes it."""
    current_app.send_task(DRIVE_RUN, args=[run_id], ignore_result=True, retry=False)


@lru_cache(maxsize=1)
def _local_nudge() -> Nudge:
    return PostgresqlNudge() if _is_postgresql() else SocketNudge(settings.FABRIC_DATA)


@lru_cache(maxsize=1)
def nudge() -> Nudge:
    """What services wake hosts with."""
    return _tried("nudge", BrokerNudge(_local_nudge(), send_wake))


def listener(on_message: OnMessage, *kinds: Any) -> Listener:
    """A listener for nudges, not yet started; ``kinds``: ``wake``, ``told``, or both when none is given."""
    wanted = {"kinds": kinds} if kinds else {}
    if _is_postgresql():
        return PostgresqlListener(dsn(), on_message, **wanted)
    return SocketListener(settings.FABRIC_DATA, on_message, **wanted)


@lru_cache(maxsize=256)
def _revision(revision_id: str) -> Revision:
    """What a host needs of a revision. For its claimer's thread: Django's connection is not kept, since one that was cut would stay so."""
    try:
        found = compiled(revision_id)
    finally:
        connection.close()
    return Revision(found, {tool.name: offers(tool) for tool in found.spec.all_tools})


@lru_cache(maxsize=256)
def _compiled_under(revision_id: str, workspace_id: str, number: int, tier: Tier) -> Revision:
    found = compiled_under(revision_id, workspace_id, number, tier)
    return Revision(found, {tool.name: offers(tool) for tool in found.spec.all_tools})


def _under_policy(claimed: Claimed) -> Revision:
    """The same of a run whose workspace has a policy: compiled once for each version of it and each tier."""
    try:
        return _compiled_under(claimed.revision_id, claimed.workspace_id, claimed.policy_number, claimed.tier)
    finally:
        connection.close()


# -- the engine --------------------------------------------------------------------------------------------------------


def new_host(config: HostConfig | None = None) -> RunHost:
    """A host over this installation's ports, not yet started."""
    incarnation = f"{platform.node()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
    steady = (
        SteadyClock()
    )  # One for whoever fixes a deadline and whoever judges it: the machine's may be set meanwhile.
    ports = Ports(
        store=store(),
        writer=JournalWriter(store(), _local_nudge()),
        models=_tried("models", model_port(steady.now)),
        tools=_tried(
            "tools",
            ToolRunner(
                gate=Gate.of(settings.FABRIC_ALLOWED_HOSTS),
                permits=here.permits(),
                memories=memories(),
                now=steady.now,
            ),
        ),
        clock=steady,
        revision=_revision,
        grants=grants(),
        buckets=guards(),
        guards=guards(),
        under_policy=_under_policy,
    )
    return RunHost(ports, incarnation, config)


@runtime_checkable
class Succeeding(Protocol):
    """A store that one process has to itself, so that whoever had it before is gone."""

    def retire_others(self, incarnation: str) -> None:
        """Ends every other incarnation's lease."""
        ...


@runtime_checkable
class Closing(Protocol):
    """What holds threads."""

    def close(self) -> None:
        """Lets go of them."""
        ...


class Engine:
    """One process's engine: the host, the ear for wake-ups and, on SQLite, the data directory's lock."""

    def __init__(self, config: HostConfig | None = None) -> None:
        tune_process()
        self.host = new_host(config)
        self._lock = None if _is_postgresql() else EngineLock(Path(settings.FABRIC_DATA))
        self._lately = Lately()
        self._ear = listener(self._heard, "wake")
        self._presence: Presence | None = None

    def offer(self, run_id: str) -> None:
        """A message of the broker about a run. One that only repeats what the ear has heard costs nothing more."""
        if not self._lately.knew(run_id):
            self.host.offer(run_id)

    def _heard(self, nudged: Nudged) -> None:
        self._lately.heard(nudged.run_seqs)
        for run_id in nudged.run_seqs or ("",):
            self.host.offer(run_id)

    def start(self, *, until: threading.Event | None = None) -> None:
        """Takes the lock and starts. EngineRunning when another process has it, and still has it when ``until`` is set."""
        if self._lock is not None:
            self._lock.take(until=until)
        try:
            held = store()
            if self._lock is not None and isinstance(held, Succeeding):
                # The lock says that whoever owned runs here is gone: no need to wait for its lease to lapse.
                held.retire_others(self.host.lease.name)
            operators_caps_set(grants())
            self.host.start()
            if _is_postgresql():
                untell = PostgresqlStore(dsn()).untell_presence
                self._presence = Presence(dsn(), self.host.lease, self.host.offer, untell=untell)
                self._presence.start()
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
        if self._presence is not None:
            self._presence.stop()
        self._give_back()

    def worn_out(self) -> bool:
        """Whether a quarter of the tool threads, or more, run calls that nobody waits for any more."""
        tools = self.host.ports.tools
        return isinstance(tools, ToolRunner) and 4 * tools.pool.leaked >= tools.pool.size

    def _give_back(self) -> None:
        tools = self.host.ports.tools
        if isinstance(tools, Closing):
            tools.close()
        if self._lock is not None:
            self._lock.give_back()


def signer() -> Signer:
    """What this installation's checkpoints are signed with. Raises KeyUnusable."""
    return signer_of(Path(settings.FABRIC_DATA), settings.FABRIC_AUDIT_KEY)


def refuse_unusable_rules() -> None:
    """Raises ImproperlyConfigured, with one sentence, for the first of FABRIC_GRAPH_RULES that no graph could be led by."""
    try:
        here.graph_rules()
    except RulesUnusable as error:
        raise ImproperlyConfigured(str(error)) from error


def refuse_unusable_tools() -> None:
    """Raises ImproperlyConfigured, with one sentence, for the first of FABRIC_TOOLS that no run could call."""
    try:
        here.permits()
    except ToolsUnusable as error:
        raise ImproperlyConfigured(str(error)) from error


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
