"""Receivers of notifications: a mail server and a web server on loopback that take what comes, refuse what they are asked to, and keep all of it."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mailbox:
    """A mail server: SMTP without TLS, as far as a client needs it. (RFC 5321)"""

    port: int = 0
    taken: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    rcpt: str = "250 taken"
    """What it answers a recipient."""
    data: str = "250 taken"
    """What it answers a message; one that does not begin with 2 is not kept."""
    hangs_up: bool = False
    """True: the server leaves each client that greets it without an answer."""


class _Smtp(socketserver.StreamRequestHandler):
    box: Mailbox

    def handle(self) -> None:
        self._say("220 here")
        to = ""
        while line := self.rfile.readline().decode().strip():
            word = line[:4].upper()
            if word in ("EHLO", "HELO"):
                if self.box.hangs_up:
                    return
                self._say("250 here")
            elif word == "RCPT":
                to = line.partition("<")[2].partition(">")[0]
                self._say(self.box.rcpt)
            elif word == "DATA":
                self._say("354 go on")
                self._take(to)
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _take(self, to: str) -> None:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if self.box.data.startswith("2"):
            self.box.taken.append(message_from_bytes(b"".join(lines), policy=policy.default))
            self.box.recipients.append(to)
        self._say(self.box.data)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mail server while the block runs."""
    box = Mailbox()
    server = _Threads(("127.0.0.1", 0), type("Smtp", (_Smtp,), {"box": box}))
    box.port = server.server_address[1]
    with _serving(server):
        yield box


@dataclass
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Receiver:
    """A web server that takes webhooks."""

    url: str = ""
    got: list[Received] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    """What it answers, in turn; then 204."""
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    """While it is not set, no client gets an answer."""


class _Http(BaseHTTPRequestHandler):
    hook: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.hook.got.append(Received(self.path, headers, body))
        self.hook.arrived.set()
        self.hook.go_on.wait(60)
        status, more, answer = self.hook.answers.pop(0) if self.hook.answers else (204, {}, b"")
        self.send_response(status)
        for name, text in more.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def webhook_receiver() -> Iterator[Receiver]:
    """A receiver while the block runs."""
    hook = Receiver()
    hook.go_on.set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Http", (_Http,), {"hook": hook}))
    server.daemon_threads = True
    hook.url = f"http://127.0.0.1:{server.server_address[1]}/hooks/of-a-secret-path"
    with _serving(server):
        yield hook


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
