"""The composition root: one engine a data directory, a worker that waits for it, and everything given back."""

import asyncio
import queue
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from fabric import tasks
from fabric.composition import engine as wiring
from fabric.composition import worker as worker_process
from fabric.core.audit.lines import Act
from fabric.core.events.inputs import ModelReplied
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.management.base import providers
from fabric.models import AuditLine, Checkpoint, Revision
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.services.actors import system_actor, workspace_default
from fabric.services.acts import audit_record
from fabric.services.fabrics.revisions import fabric_publish
from fabric.stores.sqlite.journal import SqliteStore
from fabric.worker.process.clock import elapsed_s
from fabric.worker.process.engine_lock import EngineLock, EngineRunning
from simulator.endpoint import ScriptedEndpoint
from simulator.installation.database import clean_environment
from tests.fabric.composition.installation import installation
from tests.fabric.providers.asking import request
from tests.fabric.providers.wires import ANTHROPIC, AZURE, BEDROCK, GOOGLE, VERTEX
from tests.fabric.services.world import SMALL
from tests.fabric.tools.asking import request as tool_request
from tests.fabric.worker.host.scenes import OWN_THREADS, WAIT_S

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh():
    """No port of another test's."""
    for cached in (wiring.store, wiring.nudge, wiring.compile_published, wiring._revision):
        cached.cache_clear()
    yield
    assert not left_threads()


def left_threads():
    return [thread.name for thread in threading.enumerate() if thread.name in OWN_THREADS | {"nudge-listener"}]


def elsewhere():
    """The lock as another process would hold it."""
    return EngineLock(Path(settings.FABRIC_DATA))


@contextmanager
def engine():
    made = wiring.Engine()
    made.start()
    try:
        yield made
    finally:
        made.stop(0.0)


def test_a_run_that_the_service_starts_comes_to_its_end():
    with installation() as site:
        name = fabric_publish(actor=site.actor, source=SMALL).name
        run_id = site.start(name, "What do the notes say?")
        assert site.rest(run_id).state == "completed"
        assert site.host.counters.faults == 0


def test_one_engine_a_data_directory_and_the_lock_is_given_back():
    assert not wiring.engine_running()
    with engine():
        assert wiring.engine_running()
        with pytest.raises(EngineRunning, match="an engine is running on .* already: use it, or stop it first"):
            wiring.Engine().start()
        with pytest.raises(EngineRunning), wiring.local_engine():
            pass
    assert not wiring.engine_running()
    with wiring.local_engine() as host:
        assert host.lease.name
        assert wiring.engine_running()
    assert not wiring.engine_running()


def test_the_earlier_owner_of_runs_here_is_known_to_be_gone():
    store = wiring.store()
    assert isinstance(store, SqliteStore)
    store.register("killed", lease_s=3_600)
    with engine() as made:
        assert not store.beat("killed", lease_s=3_600)
        assert store.beat(made.host.lease.name, lease_s=10)


@pytest.mark.parametrize("failing", ["register", "retire_others"])
def test_an_engine_that_cannot_start_leaves_nothing_behind(monkeypatch, failing):
    def away(*given, **named):
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(SqliteStore, failing, away)
    with pytest.raises(StoreUnavailable):
        wiring.Engine().start()
    assert not wiring.engine_running()
    assert not left_threads()


def test_an_engine_that_hears_no_wake_ups_works_all_the_same(monkeypatch, caplog):
    def deaf(self):
        raise OSError("the path is too long")

    monkeypatch.setattr("fabric.worker.nudges.local_socket.SocketListener.start", deaf)
    with engine() as made:
        assert made.host.lease.name
    assert "runs are found by looking every few seconds: the path is too long" in caplog.text


def starting():
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "fabric-start"]
    return thread


def test_a_worker_without_an_engine_waits_for_the_lock():
    lock, worker = elsewhere(), worker_process.EngineWorker()
    lock.take()
    worker.start()
    thread = starting()
    assert worker.engine is None
    lock.give_back()
    thread.join(WAIT_S)
    assert worker.engine is not None
    worker.stop()
    assert not wiring.engine_running()


def test_a_worker_that_waits_for_the_lock_can_be_told_to_end():
    lock, worker = elsewhere(), worker_process.EngineWorker()
    lock.take()
    worker.start()
    thread = starting()
    worker.stop()
    assert not thread.is_alive()
    assert worker.engine is None
    lock.give_back()
    assert not wiring.engine_running()


def test_a_worker_that_is_told_to_end_while_its_engine_starts_gives_it_back(monkeypatch):
    register, begun, on = SqliteStore.register, threading.Event(), threading.Event()

    def slowly(self, name, *, lease_s, token):
        begun.set()
        assert on.wait(WAIT_S)
        register(self, name, lease_s=lease_s, token=token)

    monkeypatch.setattr(SqliteStore, "register", slowly)
    worker = worker_process.EngineWorker()
    worker.start()
    thread = starting()
    assert begun.wait(WAIT_S)
    ending = threading.Thread(target=worker.stop)
    ending.start()
    on.set()
    ending.join(WAIT_S)
    assert not ending.is_alive()
    assert not thread.is_alive()
    assert not wiring.engine_running()


def test_a_worker_whose_engine_cannot_start_ends_at_once(settings, monkeypatch):
    monkeypatch.setattr(worker_process, "AGAIN_S", WAIT_S)
    settings.FABRIC_PROVIDERS = {"mine": "no.such.Provider"}
    worker = worker_process.EngineWorker()
    worker.start()
    thread = starting()
    worker.stop()
    assert not thread.is_alive()
    assert worker.engine is None


def test_a_worker_tries_again_when_the_database_is_away(monkeypatch, caplog):
    register, tried = SqliteStore.register, []

    def away_twice(self, name, *, lease_s, token):
        tried.append(name)
        if len(tried) < 3:
            raise StoreUnavailable("the database is away")
        register(self, name, lease_s=lease_s, token=token)

    monkeypatch.setattr(SqliteStore, "register", away_twice)
    monkeypatch.setattr(worker_process, "AGAIN_S", 0.001)
    worker = worker_process.EngineWorker()
    worker.start()
    starting().join(WAIT_S)
    assert worker.engine is not None
    assert len(set(tried)) == 3  # A new name each time.
    assert caplog.text.count("the engine could not be started, trying again") == 2
    worker.stop()


def test_a_worker_does_the_duties_and_gives_them_up():
    audit_record(actor=system_actor(workspace_default()), act=Act.RETENTION_SET, subject="x")
    worker = worker_process.EngineWorker()
    worker.start()
    starting().join(WAIT_S)
    give_up = time.monotonic() + WAIT_S
    while not (AuditLine.objects.filter(seq=2).exists() and Checkpoint.objects.exists()):
        assert time.monotonic() < give_up
    worker.stop()
    assert not left_threads()


def test_a_message_offers_a_run_to_the_host_of_its_process(monkeypatch):
    assert worker_process.WORKER.engine is None
    tasks.drive_run("run-1")  # Without a host it is dropped; the row is the truth.
    worker = worker_process.EngineWorker()
    monkeypatch.setattr(worker_process, "WORKER", worker)
    worker.start()
    starting().join(WAIT_S)
    offered = queue.SimpleQueue()
    monkeypatch.setattr(worker.engine.host, "offer", offered.put)
    tasks.drive_run("run-1")
    assert offered.get(timeout=WAIT_S) == "run-1"
    # What its ear has heard is offered for the nudge, and not again for the message that was sent with it.
    wiring._local_nudge().wake("run-2")
    assert offered.get(timeout=WAIT_S) == "run-2"
    tasks.drive_run("run-2")
    assert offered.empty()
    tasks.drive_run("run-2")
    assert offered.get(timeout=WAIT_S) == "run-2"
    tasks.stop_engine()
    assert not wiring.engine_running()


def test_a_broker_that_does_not_take_a_message_costs_nothing_but_time(monkeypatch, caplog):
    def refuses(*given, **named):
        raise ConnectionError("the broker is away")

    monkeypatch.setattr(wiring.current_app, "send_task", refuses)
    wiring.nudge().wake("run-1")
    assert (
        "the broker does not take wake-ups, runs are found by looking every few seconds: the broker is away"
        in caplog.text
    )


def test_the_claimer_s_thread_keeps_no_connection_of_django_s():
    with installation() as site:
        fabric_publish(actor=site.actor, source=SMALL)
    published = Revision.objects.get().id
    found, open_after = [], []

    def on_a_thread_of_its_own():
        found.append(wiring._revision(published))
        open_after.append(connection.connection is not None)

    thread = threading.Thread(target=on_a_thread_of_its_own)
    thread.start()
    thread.join()
    assert found[0].compiled.spec.digest() == Revision.objects.get().digest
    assert open_after == [False]


def test_a_port_that_is_named_by_dotted_path_is_the_provider(settings):
    settings.FABRIC_PROVIDERS = {"mine": "simulator.agents.provider.ScriptedProvider"}
    asked = request(30.0, model=ModelSpec(name="main", provider="mine"))
    assert isinstance(asyncio.run(wiring.model_port().ask(asked)), ModelReplied)


def test_the_drills_provider_is_always_there_known_to_no_publication_and_of_drills_alone(settings):
    asked = request(30.0, model=ModelSpec(name="main", provider="drill"))
    assert isinstance(asyncio.run(wiring.model_port().ask(asked)), ModelReplied)
    assert not providers() & set(wiring.RESERVED)
    settings.FABRIC_PROVIDERS = {"drill": "simulator.agents.provider.ScriptedProvider"}
    with pytest.raises(ImproperlyConfigured, match="names 'drill', which answers failure drills: give it another name"):
        wiring.refuse_unusable_providers()


@pytest.mark.parametrize("spoken", [ANTHROPIC, GOOGLE, AZURE, BEDROCK, VERTEX], ids=lambda one: one.name)
def test_a_model_of_a_vendor_s_is_asked_at_the_operator_s_address_with_its_key(settings, spoken):
    with ScriptedEndpoint([spoken.answer("Hello.")]) as endpoint:
        url, key = spoken.settings
        setattr(settings, url, spoken.url(endpoint))
        setattr(settings, key, "sk-of-the-operator")
        said = asyncio.run(wiring.model_port().ask(request(60.0, model=spoken.spec())))
        assert (said.text, [spoken.key_of(one) for one in endpoint.received]) == ("Hello.", ["sk-of-the-operator"])


def test_every_provider_that_is_built_in_is_there_and_publication_knows_it():
    assert providers() >= wiring.BUILT_IN
    unknown = request(30.0, model=ModelSpec(name="main", provider="nobody"))
    said = asyncio.run(wiring.model_port().ask(unknown)).message
    assert all(name in said for name in wiring.BUILT_IN)


@pytest.mark.parametrize("ahead_s", [3_600, -3_600])
def test_a_calls_deadline_is_judged_by_the_stores_clock_however_far_off_the_machines_is(settings, ahead_s):
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:9"  # No process is there.
    ports = wiring.new_host().ports
    store_us, here_s = time.time_ns() // 1_000 - ahead_s * 1_000_000, elapsed_s()
    ports.clock.record_measurement(store_us, here_s, here_s)

    def caused(left_s):
        """Return what became of a model's call and of a tool's, with so many seconds left by the store's clock."""
        until = store_us + left_s * 1_000_000
        read = tool_request(ToolSpec(name="read_document"), {"name": "plan.md"}, deadline_at=until)
        model, tool = asyncio.run(ports.models.ask(request(deadline_at=until))), asyncio.run(ports.tools.run(read))
        return model.cause, getattr(tool, "cause", None)

    assert caused(30) == (Cause.NETWORK, None)
    assert caused(-30) == (Cause.TIMEOUT, Cause.TIMEOUT)
    ports.tools.close()


def test_a_provider_that_cannot_be_imported_is_a_sentence_and_the_worker_stays(settings, monkeypatch, caplog):
    settings.FABRIC_PROVIDERS = {"mine": "no.such.Provider"}
    with pytest.raises(ImproperlyConfigured) as refused:
        wiring.model_port()
    sentence = "provider 'mine' is 'no.such.Provider', which cannot be imported (No module named 'no'): correct FABRIC_PROVIDERS"
    assert str(refused.value) == sentence
    monkeypatch.setattr(worker_process, "AGAIN_S", 0.001)
    worker = worker_process.EngineWorker()
    worker.start()
    thread = starting()
    while sentence not in caplog.text:
        assert thread.is_alive()
    settings.FABRIC_PROVIDERS = {}
    thread.join(WAIT_S)
    assert worker.engine is not None
    worker.stop()


LOADED = """
import sys
import django
django.setup()
from fabric.composition import engine as wiring
from fabric.policies.expressions.invariants import compile_program
wiring.model_port()
compile_program("1 < 2")
print(*sorted({"anthropic", "botocore", "google.auth", "google.genai", "mcp", "openai", "prompt_toolkit", "pydantic_ai", "typer"} & set(sys.modules)))
"""


def test_unneeded_modules_are_not_loaded(tmp_path):
    """Client libraries of providers, which are peers of the tests alone, and the command line that the CEL library brings along."""
    environ = clean_environment() | {"DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(tmp_path)}

    def loaded(**more):
        command = [sys.executable, "-c", LOADED]
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=environ | more, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert loaded() == []
    assert loaded(FABRIC_MODEL_URL="http://127.0.0.1:9/v1") == []
