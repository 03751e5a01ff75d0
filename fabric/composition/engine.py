"""Builds the ports from settings, once a process: the composition root. Providers are named by dotted path.

Callers outside the adapters get every port here; no other module reads settings. Published revisions and drafts are
compiled here under this installation's settings and a workspace's policy.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from celery import current_app
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils.module_loading import import_string

from fabric.composition.models import BUILT_IN, PROVIDERS, RESERVED, model_port, refuse_unusable_providers
from fabric.core.child_runs import teams
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.core.values.fingerprint import digest
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.under import FREE, PolicyRules, tighten_fabric
from fabric.http.transport import Gate
from fabric.models import Incarnation
from fabric.policies.gates import gate_evaluators
from fabric.policies.graph_rules import RulesUnusable
from fabric.policies.schemas.evaluators import evaluators_digest
from fabric.runtime.hosting.ownership import Revision
from fabric.runtime.ports.journal import ClaimedRun, Clock, JournalStore, Nudge
from fabric.runtime.ports.spending import GrantStore
from fabric.runtime.prompts import overhead_bytes
from fabric.secrets.signing import Signer, read_signer
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.workspaces.policies import policy_version, standing_policy
from fabric.services.budgets.keys import operators_caps_set
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts
from fabric.stores.writer import JournalWriter
from fabric.tools.functions.named_tools import ToolsUnusable
from fabric.tools.runner import ToolRunner, build_validator, offers
from fabric.worker.host import HostConfig, Ports, RunHost
from fabric.worker.nudges.broker import BrokerNudge, RecentNudges
from fabric.worker.nudges.listener import Listener, OnMessage, ReceivedNudge
from fabric.worker.process.clock import AskingClock, SteadyClock
from fabric.worker.process.engine_lock import EngineLock, EngineRunning
from fabric.worker.process.tuning import tune_process

# Only the chosen database's half is loaded, and its client with it.
if TYPE_CHECKING:
    from fabric.stores.postgresql.guards import PostgresqlGuards
    from fabric.stores.postgresql.memories import PostgresqlMemories
    from fabric.stores.sqlite.guards import SqliteGuards
    from fabric.stores.sqlite.memories import SqliteMemories
    from fabric.worker.presence import Presence

__all__ = [
    "BUILT_IN",
    "PROVIDERS",
    "RESERVED",
    "EngineRunning",
    "clock",
    "compile_published",
    "compile_revision",
    "compile_under",
    "compile_under_policy",
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


log = logging.getLogger(__name__)
DRIVE_RUN = "fabric.drive_run"


def _is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def _database_file() -> Path:
    return Path(connection.settings_dict["NAME"])


def dsn() -> str:
    """Return the libpq connection string of this installation's PostgreSQL."""
    from psycopg.conninfo import make_conninfo

    params: dict[str, Any] = connection.get_connection_params()
    allowed = ("host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "options")
    return make_conninfo(**{key: value for key, value in params.items() if key in allowed and value is not None})


P = TypeVar("P")


def _wrap_for_drill(name: str, port: P) -> P:
    """Return the port; where a drill has put a function's dotted path into FABRIC_FAULTS, that function's wrapper of
    it.
    """
    path = getattr(settings, "FABRIC_FAULTS", "")
    if not path:
        return port
    wrapped: P = import_string(path)(name, port)
    return wrapped


@lru_cache(maxsize=1)
def store() -> JournalStore:
    """Return the journal store of this installation."""
    if _is_postgresql():
        from fabric.stores.postgresql.journal import PostgresqlStore

        return _wrap_for_drill("store", PostgresqlStore(dsn()))
    from fabric.stores.sqlite.journal import SqliteStore

    return _wrap_for_drill("store", SqliteStore(_database_file()))


@lru_cache(maxsize=1)
def grants() -> GrantStore:
    """Return the store of the budgets that runs share."""
    if _is_postgresql():
        from fabric.stores.postgresql.grants import PostgresqlGrants

        return _wrap_for_drill("grants", PostgresqlGrants(dsn()))
    from fabric.stores.sqlite.grants import SqliteGrants

    return _wrap_for_drill("grants", SqliteGrants(_database_file()))


@lru_cache(maxsize=1)
def guards() -> PostgresqlGuards | SqliteGuards:
    """Return the store of the retry tokens and the guards' rows that runs share."""
    if _is_postgresql():
        from fabric.stores.postgresql.guards import PostgresqlGuards

        return PostgresqlGuards(dsn())
    from fabric.stores.sqlite.guards import SqliteGuards

    return SqliteGuards(_database_file())


@lru_cache(maxsize=1)
def memories() -> PostgresqlMemories | SqliteMemories:
    """Return the store of fabrics' memories beyond their runs."""
    if _is_postgresql():
        from fabric.stores.postgresql.memories import PostgresqlMemories

        return PostgresqlMemories(dsn())
    from fabric.stores.sqlite.memories import SqliteMemories

    return SqliteMemories(_database_file())


@lru_cache(maxsize=1)
def clock() -> Clock:
    """Return the clock of services, by the store's time."""
    return AskingClock(lambda: store().now())


# -- waking ------------------------------------------------------------------------------------------------------------


def send_wake(run_id: str) -> None:
    """Send one message to the broker. Raises the client's error when the broker does not take it."""
    current_app.send_task(DRIVE_RUN, args=[run_id], ignore_result=True, retry=False)


@lru_cache(maxsize=1)
def _local_nudge() -> Nudge:
    if _is_postgresql():
        from fabric.worker.nudges.postgresql import PostgresqlNudge

        return PostgresqlNudge()
    from fabric.worker.nudges.local_socket import SocketNudge

    return SocketNudge(settings.FABRIC_DATA)


@lru_cache(maxsize=1)
def nudge() -> Nudge:
    """Return the nudge with which services wake hosts."""
    return _wrap_for_drill("nudge", BrokerNudge(_local_nudge(), send_wake))


def listener(on_message: OnMessage, *kinds: Any) -> Listener:
    """Return a listener for nudges, not yet started. ``kinds``: ``wake``, ``told``; none given: both."""
    wanted = {"kinds": kinds} if kinds else {}
    if _is_postgresql():
        from fabric.worker.nudges.postgresql import PostgresqlListener

        return PostgresqlListener(dsn(), on_message, **wanted)
    from fabric.worker.nudges.local_socket import SocketListener

    return SocketListener(settings.FABRIC_DATA, on_message, **wanted)


@lru_cache(maxsize=256)
def _revision(revision_id: str) -> Revision:
    """Return a revision for a host. It runs on the claimer's thread and closes Django's connection, since one that
    was cut would stay so.
    """
    try:
        found = compile_published(revision_id)
    finally:
        connection.close()
    return Revision(found, {tool.name: offers(tool) for tool in found.spec.all_tools})


@lru_cache(maxsize=256)
def _compiled_under(revision_id: str, workspace_id: str, number: int, tier: Tier) -> Revision:
    found = compile_under_policy(revision_id, workspace_id, number, tier)
    return Revision(found, {tool.name: offers(tool) for tool in found.spec.all_tools})


def _under_policy(claimed: ClaimedRun) -> Revision:
    """Return the revision of a run whose workspace has a policy. It is compiled once for each tier and version of the
    policy.
    """
    try:
        return _compiled_under(claimed.revision_id, claimed.workspace_id, claimed.policy_number, claimed.tier)
    finally:
        connection.close()


# -- the engine --------------------------------------------------------------------------------------------------------


def new_host(config: HostConfig | None = None) -> RunHost:
    """Return a host over this installation's ports, not yet started."""
    incarnation = f"{platform.node()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
    steady = SteadyClock()  # One clock fixes and judges deadlines: the machine's may be set meanwhile.
    ports = Ports(
        store=store(),
        writer=JournalWriter(store(), _local_nudge()),
        models=_wrap_for_drill("models", model_port(steady.now)),
        tools=_wrap_for_drill(
            "tools",
            ToolRunner(
                gate=Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS),
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
class SingleOwnerStore(Protocol):
    """A store with one process at a time, so that its earlier owner is gone."""

    def retire_others(self, incarnation: str) -> None:
        """End every other incarnation's lease."""
        ...


@runtime_checkable
class ClosablePort(Protocol):
    """An object that owns threads."""

    def close(self) -> None:
        """End its threads."""
        ...


class Engine:
    """One process's engine: the host, the listener for wake-ups and, on SQLite, the data directory's lock."""

    def __init__(self, config: HostConfig | None = None) -> None:
        tune_process()
        self.host = new_host(config)
        self._lock = None if _is_postgresql() else EngineLock(Path(settings.FABRIC_DATA))
        self._lately = RecentNudges()
        self._ear = listener(self._hear_nudge, "wake")
        self._presence: Presence | None = None

    def offer(self, run_id: str) -> None:
        """Take a broker's message about a run. One that repeats a local nudge costs nothing more."""
        if not self._lately.knew(run_id):
            self.host.offer(run_id)

    def _hear_nudge(self, nudged: ReceivedNudge) -> None:
        self._lately.record_nudges(nudged.run_seqs)
        for run_id in nudged.run_seqs or ("",):
            self.host.offer(run_id)

    def start(self, *, until: threading.Event | None = None) -> None:
        """Take the lock and start. Raises EngineRunning when another process still has it once ``until`` is set."""
        if self._lock is not None:
            self._lock.take(until=until)
        try:
            held = store()
            if self._lock is not None and isinstance(held, SingleOwnerStore):
                # The lock proves that the earlier owner is gone: no need to wait for its lease to lapse.
                held.retire_others(self.host.lease.name)
            operators_caps_set(grants())
            self.host.start()
            if _is_postgresql():
                from fabric.stores.postgresql.journal import PostgresqlStore
                from fabric.worker.presence import Presence

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
        """Stop the worker's threads, and give its runs back."""
        self._ear.stop()
        self.host.stop(grace_s)
        if self._presence is not None:
            self._presence.stop()
        self._give_back()

    def worn_out(self) -> bool:
        """Return True if a quarter of the tool threads, or more, run abandoned calls."""
        tools = self.host.ports.tools
        return isinstance(tools, ToolRunner) and 4 * tools.pool.leaked_threads >= tools.pool.size

    def _give_back(self) -> None:
        tools = self.host.ports.tools
        if isinstance(tools, ClosablePort):
            tools.close()
        if self._lock is not None:
            self._lock.give_back()


def signer() -> Signer:
    """Return the signer of this installation's checkpoints. Raises KeyUnusable."""
    return read_signer(Path(settings.FABRIC_DATA), settings.FABRIC_AUDIT_KEY)


def refuse_unusable_rules() -> None:
    """Raise ImproperlyConfigured, with one sentence, for the first unusable entry of FABRIC_GRAPH_RULES."""
    try:
        here.graph_rules()
    except RulesUnusable as error:
        raise ImproperlyConfigured(str(error)) from error


def refuse_unusable_tools() -> None:
    """Raise ImproperlyConfigured, with one sentence, for the first unusable entry of FABRIC_TOOLS."""
    try:
        here.permits()
    except ToolsUnusable as error:
        raise ImproperlyConfigured(str(error)) from error


def engine_running() -> bool:
    """Return True if any process hosts runs of this installation now."""
    if not _is_postgresql():
        return EngineLock(Path(settings.FABRIC_DATA)).held_elsewhere()
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        now = cursor.fetchone()[0]
    return bool(Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).exists())


@contextmanager
def local_engine(config: HostConfig | None = None) -> Iterator[RunHost]:
    """Host runs in this process inside the block. Raises EngineRunning when another process does it already."""
    if _is_postgresql() and engine_running():
        raise EngineRunning("this database")
    engine = Engine(config)
    engine.start()
    try:
        yield engine.host
    finally:
        engine.stop(grace_s=5.0)


def compile_revision(
    spec: FabricSpec, *, revision: str = "", under: PolicyRules = FREE, where: InstallationFacts | None = None
) -> CompiledFabric:
    """Return a spec with its prices, validators and prompt sizes in this installation, and its teams. ``revision``,
    ``under``: see ``compile_spec``.

    ``where``: facts about the installation and the workspace; None: without any workspace.
    """
    below = {lead: compile_revision(within, under=under, where=where) for lead, within in teams.map_specs(spec).items()}
    installed = where or here.installation()
    prices = {model.name: price for model in spec.models if (price := installed.price(model)) is not None}
    validators = {tool.name: build_validator(tool) for tool in spec.all_tools}
    offered = {tool.name: offers(tool) for tool in spec.asked_tools}
    overhead = {agent.name: overhead_bytes(spec, agent, offered) for agent in spec.agents}
    evaluators = gate_evaluators(spec)
    rules = evaluators_digest(sorted(validators.items()))
    return compile_spec(
        spec,
        prices=prices,
        validators=validators,
        digest=digest(rules, evaluators.digest) if evaluators.digest else rules,
        prompt_overhead=overhead,
        nested=below,
        evaluators=evaluators,
        registry=installed.registry,
        revision=revision,
        under=under,
        key_caps={model.name: caps for model in spec.models if (caps := installed.caps_of(model))},
    )


def compile_under(
    spec: FabricSpec, policy: WorkspacePolicy, tier: Tier, workspace_id: str, number: int = 0
) -> CompiledFabric:
    """Return a spec for the runs of a tier under a workspace's policy. ``number``: that policy's version; 0: no run
    uses it.
    """
    held, under = tighten_fabric(spec, policy, tier, number)
    where = here.installation(workspace_id=workspace_id, policy=policy)
    return compile_revision(held, revision=spec.digest(), under=under, where=where)


def draft_compiler(workspace_id: str) -> Callable[[FabricSpec, Tier], CompiledFabric]:
    """Return a function that compiles drafts for the runs of a tier, under the policy in force in a workspace."""
    policy = standing_policy(workspace_id).policy
    return lambda spec, tier: compile_under(spec, policy, tier, workspace_id)


@lru_cache(maxsize=256)
def compile_published(revision_id: str) -> CompiledFabric:
    """Return a published revision by row id, compiled once a process."""
    return compile_revision(revision_spec(revision_id))


@lru_cache(maxsize=256)
def compile_under_policy(revision_id: str, workspace_id: str, number: int, tier: Tier) -> CompiledFabric:
    """Return a published revision for the runs of a tier under version ``number`` of their workspace's policy. 0: no
    policy. Each is compiled once a process.
    """
    if not number:
        return compile_published(revision_id)
    return compile_under(revision_spec(revision_id), policy_version(workspace_id, number), tier, workspace_id, number)
