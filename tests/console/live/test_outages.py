"""What goes away while a page follows: the database, Redis, the server, the laptop's lid, a right. Real processes, on both databases.

The page is a client that keeps a cursor as the page's script does, and is told whatever frames say; at the end it has each event once, in order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from simulator.bench import database
from tests.console.launch.processes import PATIENCE_S, free_port, started

KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
SCENE = "tests.console.live.outage_scenes"

pytestmark = pytest.mark.slow


def played(kind, scene, **more):
    """Plays a scene in a process of its own over a new database of that kind; its last word must be that all is well."""
    with database.fresh(kind) as found:
        environment = {name: value for name, value in found.items() if name not in ("CHANNEL_URL", "CELERY_BROKER_URL")}
        environment |= {"DJANGO_SETTINGS_MODULE": "console.settings", **more}
        done = subprocess.run(
            [sys.executable, "-m", SCENE, scene],
            env=environment,
            cwd=database.ROOT,
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "each once, in order"


@contextmanager
def redis_server(tmp_path):
    """A Redis of the test's own; its address."""
    program = shutil.which("redis-server")
    if program is None:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail("left out every test that restarts Redis: no redis-server is installed", pytrace=False)
        pytest.skip("no redis-server is installed")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    with started(command, stdout=subprocess.DEVNULL):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "scene",
    ["restarted_server", "killed_server", "sleeping_laptop", "burst", "thousand_reconnects", "thousand_pages"],
)
def test_nothing_is_lost_twice_or_out_of_order(kind, scene):
    played(kind, scene)


@pytest.mark.postgresql
@pytest.mark.parametrize("scene", ["database_away", "database_silent"])
def test_a_database_that_was_away_is_read_again(scene):
    played("postgresql", scene)


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        *(("sqlite", right) for right in ("signed_out", "disabled", "deleted", "new_password", "moved")),
        pytest.param("postgresql", "signed_out", marks=pytest.mark.postgresql),
    ],
)
def test_a_right_that_is_lost_closes_the_pages_on_every_server(kind, right):
    """Without a channel layer: each server looks for itself."""
    played(kind, right)


@pytest.mark.postgresql
@pytest.mark.redis
@pytest.mark.parametrize("scene", ["flushed_redis", "redis_away"])
def test_redis_may_come_and_go(tmp_path, scene):
    with ExitStack() as stack:
        address = stack.enter_context(redis_server(tmp_path))
        played("postgresql", scene, CHANNEL_URL=address)
