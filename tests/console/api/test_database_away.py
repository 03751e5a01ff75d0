"""While the database is away the API says so in one sentence, and it goes on by itself when it is back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.servers.local import ServerMissing, tmpfs
from tests.console.api.asking import asking
from tests.fabric.stores.journal_worlds import installed, migrate
from tests.fabric.stores.writer.test_disk_full import full
from tests.servers.own_server import left_out, own_server

pytestmark = pytest.mark.slow
DISK_MB = 32


def refused(answer):
    """503, one sentence, and when to ask again."""
    assert answer["status"] == 503
    assert answer["retry_after"]
    sentence = answer["body"]["detail"]
    assert sentence
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


@pytest.mark.postgresql
def test_a_server_that_is_down(tmp_path):
    with own_server() as server, asking(installed(tmp_path, DATABASE_URL=server.url())) as program:
        assert program.start("before")["status"] == 201
        server.stop()
        assert "does not answer" in refused(program.start("before"))
        for _ in range(4):  # However long it was away: attempts that are ever further apart would miss its return.
            assert "does not answer" in refused(program.start("while"))
        server.start()
        assert program.start("before")["status"] == 200
        assert program.start("while")["status"] == 201


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_a_disk_that_is_full(kind, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("a disk can be filled up only as root")
    disk = (
        Path("/tmp") / f"disk-{os.getpid()}"
    )  # Nowhere below pytest's folders: those are closed to the database's user.
    try:
        with tmpfs(disk, DISK_MB):
            on_a_small_disk(kind, disk, tmp_path)
    except ServerMissing as error:
        left_out(str(error))
    finally:
        disk.rmdir()


def on_a_small_disk(kind, disk, data):
    if kind == "sqlite":
        migrate(disk)
        starts_when_there_is_room(installed(disk), disk)
        return
    with own_server(disk=disk) as server:
        starts_when_there_is_room(installed(data, DATABASE_URL=server.url()), disk)


def starts_when_there_is_room(environment, disk):
    with asking(environment) as program:
        assert program.start("before")["status"] == 201
        with full(disk):
            # Small rows may still find a place in a page that is there.
            told = next(filter(lambda one: one["status"] != 201, (program.start(f"while-{n}") for n in range(500))))
            assert "full" in refused(told) or "out of resources" in refused(told)
            assert program.start("before")["status"] == 200, "what is only read is answered"
        assert program.start("after")["status"] == 201
