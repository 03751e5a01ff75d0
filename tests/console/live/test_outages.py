"""The database, Redis, the server, the laptop's lid or a right goes away while a page follows. Real processes, on both databases.

The page is a client that keeps a cursor as the page's script does, and is told whatever frames say; at the end it has each event once, in order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from simulator.installation import database
from tests.console.launch.started_processes import PATIENCE_S, started
from tests.console.live.outage_scenes import SAID, WELL
from tests.servers.ports import free_port

ON_POSTGRESQL = [pytest.param("postgresql", marks=pytest.mark.postgresql)]
KINDS = ["sqlite", *ON_POSTGRESQL]
REDIS = ["flushed_redis", "redis_away"]
"""With a Redis of their own, which is gone in the end."""
SCENE = "tests.console.live.outage_scenes"

pytestmark = pytest.mark.slow


def played(kind, scenes, **more):
    """Plays scenes in a process of their own over a new database of that kind; what was said of each, and what else was."""
    with database.temporary_database(kind) as found:
        environment = found | more
        done = subprocess.run(
            [sys.executable, "-m", SCENE, *scenes],
            env=environment,
            cwd=database.ROOT,
            capture_output=True,
            text=True,
            timeout=5 * PATIENCE_S * len(scenes),
            check=False,
        )
    said = dict(part.split(" ", 1) for part in f"\n{done.stdout}".split(f"\n{SAID} ")[1:])
    return {scene: said.get(scene, f"{done.stdout}{done.stderr}") + done.stderr for scene in scenes}


@pytest.fixture(scope="module")
def verdict(request, tmp_path_factory):
    """The results of scenes: those that are wanted here are played together, once for each database."""
    here = [item.callspec.params for item in request.session.items if item.path == request.path]
    found = {}

    def play(kind, scene):
        if (kind, scene) not in found:
            together = [
                one["scene"] for one in here if one["kind"] == kind and (one["scene"] in REDIS) == (scene in REDIS)
            ]
            with ExitStack() as stack:
                more = {}
                if scene in REDIS:
                    more["CHANNEL_URL"] = stack.enter_context(redis_server(tmp_path_factory.mktemp("redis")))
                found.update({(kind, one): said for one, said in played(kind, together, **more).items()})
        return found[kind, scene]

    return play


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
@pytest.mark.parametrize("scene", ["restarted_server", "killed_server", "sleeping_laptop", "burst"])
def test_nothing_is_lost_twice_or_out_of_order(verdict, kind, scene):
    assert verdict(kind, scene).startswith(WELL)


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
@pytest.mark.parametrize("scene", ["thousand_reconnects", "thousand_pages"])
def test_nor_when_it_happens_a_thousand_times(verdict, kind, scene):
    """Where many look at once: an installation on SQLite is one person's."""
    assert verdict(kind, scene).startswith(WELL)


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
@pytest.mark.parametrize("scene", ["database_away", "database_silent"])
def test_a_database_that_was_away_is_read_again(verdict, kind, scene):
    assert verdict(kind, scene).startswith(WELL)


@pytest.mark.parametrize(
    ("kind", "scene"),
    [
        *(("sqlite", right) for right in ("signed_out", "disabled", "deleted", "new_password", "moved")),
        pytest.param("postgresql", "signed_out", marks=pytest.mark.postgresql),
    ],
)
def test_a_right_that_is_lost_closes_the_pages_on_every_server(verdict, kind, scene):
    """Without a channel layer: each server looks for itself."""
    assert verdict(kind, scene).startswith(WELL)


@pytest.mark.redis
@pytest.mark.parametrize("kind", ON_POSTGRESQL)
@pytest.mark.parametrize("scene", REDIS)
def test_redis_may_come_and_go(verdict, kind, scene):
    assert verdict(kind, scene).startswith(WELL)
