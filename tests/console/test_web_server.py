"""The web server asks itself whether it answers: any answer is one, and so is a connection that is closed because there are too many."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from console import web_server
from tests.servers.ports import free_port

RESET = struct.pack("ii", 1, 0)


@contextmanager
def server(says: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    """One that answers one connection so; None: it resets it; nothing: it is silent. Its port, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                if says is None:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    return
                asked.append(line.recv(1_000))
                line.sendall(says)
                ended.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], asked
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("says", "alive"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", True),
        (None, True),
        (b"", False),
        (b"no http\r\n\r\n", False),
    ],
    ids=["an answer", "too many", "reset", "silence", "rubbish"],
)
def test_it_knows_whether_it_answers(monkeypatch, says, alive):
    monkeypatch.setattr(web_server, "ANSWER_S", 0.5)
    with server(says) as (port, asked):
        assert web_server.answers("127.0.0.1", port) is alive
    assert all(one.startswith(b"GET /livez ") for one in asked), "the database's end is none of its own"


def test_without_a_listener_there_is_no_answer():
    assert web_server.answers("127.0.0.1", free_port()) is False
