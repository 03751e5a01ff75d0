"""Clients that hold a server up: slow ones, and ones that send much."""

from __future__ import annotations

import socket
import threading
import time

from tests.console.launch.started_processes import PATIENCE_S
from tests.console.serving import WebServer

SENDERS, LARGE = 24, 25 * 1024 * 1024
SLOW = 600
SLOW_HEAD = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
SLOW_BODY = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n"


class Slow:
    """Sockets that send a byte every so often, each until it is closed."""

    def __init__(self, port: int, count: int) -> None:
        self.begun = time.monotonic()
        self.sockets = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(count)]
        self.said: dict[socket.socket, bytes] = {}
        for n, one in enumerate(self.sockets):
            one.sendall((SLOW_HEAD, SLOW_BODY, b"")[n % 3])
            one.setblocking(False)

    def drip(self, until_s: float) -> None:
        """A byte each until all are closed or the time is over."""
        while len(self.said) < len(self.sockets) and time.monotonic() - self.begun < until_s:
            for n, one in enumerate(self.sockets):
                if one not in self.said:
                    self._drip(one, idle=n % 3 == 2)
            threading.Event().wait(1.0)

    def _drip(self, one: socket.socket, *, idle: bool) -> None:
        try:
            if not idle:
                one.send(b"x")
            self.said[one] = one.recv(1_000)
        except BlockingIOError:
            pass
        except OSError:
            self.said[one] = b""

    def close(self) -> None:
        """Closes those that are left."""
        for one in self.sockets:
            one.close()


LARGE_HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"


def posted(server: WebServer, path: str, length: int, more: str = "", *, sends: bool = True) -> bytes:
    """The status line of one request, whose body is sent to its end where that is let in."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
        line.sendall(LARGE_HEAD.format(path=path, length=length, more=more).encode())
        if sends:
            for _ in range(length // 65_536):
                line.sendall(b" " * 65_536)
            line.sendall(b" " * (length % 65_536))
        return line.recv(12)
