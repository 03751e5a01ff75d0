import os
import shutil
import signal
import subprocess
import sys

import pytest

from console.celery import app
from console.launch.processes.data_directory import ROOT
from simulator.installation.database import temporary_database
from simulator.installation.workers import Site, wait_until
from tests.chaos.rows import start_runs, states
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.console.slowly_made import BEING_MADE
from tests.servers.ports import free_port


def test_a_message_is_a_wake_up_and_nothing_more():
    conf = app.conf
    assert conf.task_acks_late is False
    assert conf.task_ignore_result is True
    assert conf.result_backend is None
    assert conf.accept_content == ["json"]
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_connection_retry_on_startup is True


@pytest.mark.parametrize("arguments", [["--pool", "prefork"], []])
def test_a_forking_pool_is_refused_with_a_sentence(arguments, tmp_path):
    assert refusal(arguments, tmp_path) == (
        "A worker cannot use the prefork pool: start it with `celery -A console worker --pool threads`.\n"
    )


def test_a_provider_that_cannot_be_had_is_refused_with_a_sentence(tmp_path):
    assert refusal(["--pool", "threads"], tmp_path, FABRIC_PROVIDERS="mine=no.such.Provider") == (
        "Provider 'mine' is 'no.such.Provider', which cannot be imported (No module named 'no'): "
        "correct FABRIC_PROVIDERS.\n"
    )


def refusal(arguments, data, **more):
    done = subprocess.run(
        worker(*arguments), **process(data, **more), capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    return done.stderr.decode()


def worker(*arguments):
    return [sys.executable, "-m", "celery", "--quiet", "-A", "console", "worker", *arguments]


def process(data, **more):
    settings = {"DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(data)}
    return {"cwd": ROOT, "env": {**os.environ, **settings, **more}}


@pytest.fixture
def redis_server():
    """The program of a Redis of the test's own."""
    program = shutil.which("redis-server")
    if program is None and os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail("left out every test that starts a Redis: no redis-server is installed", pytrace=False)
    return program or pytest.skip("no redis-server is installed")


def test_runs_run_while_the_broker_is_away_and_messages_arrive_once_it_is_there(redis_server, tmp_path):
    port = free_port()
    broker = f"redis://127.0.0.1:{port}/0"
    site = Site(process(tmp_path, CELERY_BROKER_URL=broker, FABRIC_LOG_LEVEL="INFO")["env"])
    assert f"{broker}, which does not answer (" in site.manage("prepare", "--json")["broker"]
    command = worker("--pool", "threads", "--concurrency", "1")
    with started(command, env=site.environment, cwd=ROOT, stderr=subprocess.PIPE) as process_:
        said = Lines(process_.stderr.fileno())
        said.until("Cannot connect to redis://")
        start_runs(site, 2)
        wait_until(lambda: set(states(site).values()) == {"completed"}, site, PATIENCE_S)
        late = [redis_server, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
        with started(late, stdout=subprocess.DEVNULL):
            said.until("Connected to redis://")
            start_runs(site, 1)
            said.until("Task fabric.drive_run[")
            process_.send_signal(signal.SIGTERM)
            assert process_.wait(PATIENCE_S) == 0


def test_a_worker_whose_broker_is_away_ends_when_it_is_told_to(tmp_path):
    settings = process(tmp_path, CELERY_BROKER_URL=f"redis://127.0.0.1:{free_port()}/0")
    Site(settings["env"]).manage("prepare", "--json")
    with started(worker("--pool", "threads"), **settings, stderr=subprocess.PIPE) as process_:
        Lines(process_.stderr.fileno()).until("Cannot connect to redis://")
        process_.send_signal(signal.SIGTERM)
        assert process_.wait(PATIENCE_S) == 0


def test_a_worker_that_is_told_to_end_while_its_engine_is_being_made_does_so_in_order(tmp_path):
    away = {"CELERY_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0"}
    Site(process(tmp_path, **away)["env"]).manage("prepare", "--json")
    away["DJANGO_SETTINGS_MODULE"] = "tests.settings_running"
    settings = process(tmp_path, FABRIC_PROVIDERS="slow=tests.console.slowly_made.SlowlyMade", **away)
    with started(worker("--pool", "threads"), **settings, stderr=subprocess.PIPE) as process_:
        said = Lines(process_.stderr.fileno())
        awaited = {BEING_MADE, "Cannot connect to redis://"}  # By the second it listens to signals.
        while awaited:
            line = said.next()
            awaited = {words for words in awaited if words not in line}
        process_.send_signal(signal.SIGTERM)
        # The interpreter would end the thread in the middle of the library: SIGABRT.
        assert process_.wait(PATIENCE_S) == 0


LOADED = """
import os, signal, sys
from celery import signals
from console.celery import app

def tell(**_):
    print("loaded", *sorted(one for one in list(sys.modules) if one.startswith(("console.pages", "console.urls", "console.api"))), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

signals.worker_ready.connect(tell)
app.worker_main(["--quiet", "worker", "--pool", "threads", "--concurrency", "1"])
"""


def test_a_worker_loads_no_page_of_the_console():
    """Not for itself, and not for Django's checks, whose findings no operator would read."""
    with temporary_database("sqlite") as environ:
        environ.pop("CELERY_SKIP_CHECKS", None)  # This process is no worker, and has read the worker's module.

        def loaded(**more):
            command = [sys.executable, "-c", LOADED]
            done = subprocess.run(
                command, cwd=ROOT, env=environ | more, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            (told,) = [line for line in done.stdout.splitlines() if line.startswith("loaded")]
            return told.split()[1:]

        assert loaded() == []
        assert "console.urls" in loaded(CELERY_SKIP_CHECKS="")
