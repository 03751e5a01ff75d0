"""The servers that chaos puts up for itself."""

import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.chaos.servers.local import PostgresqlServer, ServerMissing, wait_until
from tests.servers.own_server import left_out

pytestmark = [pytest.mark.slow, pytest.mark.postgresql]


def test_a_server_whose_port_another_process_has_for_a_moment_comes_back():
    """While it is down its port is free: an outgoing connection may be given it."""
    with tempfile.TemporaryDirectory(
        prefix="cluster-"
    ) as made:  # Not one of pytest's: those are closed to other users.
        folder = Path(made)
        try:
            server = PostgresqlServer(folder)
        except ServerMissing as error:
            left_out(str(error))
        server.create()
        try:
            server.stop()
            with ThreadPoolExecutor() as beside:
                with socket.create_server(("127.0.0.1", server.port)):
                    coming = beside.submit(server.start)
                    wait_until(lambda: (folder / "log").read_text().index("could not bind"), "its complaint")
                coming.result()
            with psycopg.connect(server.url()) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        finally:
            server.stop()
