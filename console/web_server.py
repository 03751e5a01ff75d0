"""``python -m console.web_server [--host H] [--port N] [--fd N]``: runs the web server with its limits.

`manage.py up` and operators start it alike. The limits are ``SERVED`` and ``console.site.requests.slow_clients``;
docs/reference/settings.md lists them.
"""

from __future__ import annotations

import argparse
import http.client
import resource
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvicorn

from console.launch.processes.data_directory import HOST, PORT
from console.launch.processes.heartbeat import beat_on
from console.launch.variables.table import PORT_MAX, port_number, read
from console.site.requests.slow_clients import CONNECTIONS_MAX, SPARE, ImpatientProtocol

SERVED: Mapping[str, Any] = {
    "http": ImpatientProtocol,
    "ws_max_size": 65_536,
    "ws_per_message_deflate": False,
    "proxy_headers": False,
    "server_header": False,
    "access_log": False,
    "log_level": "warning",
    "timeout_graceful_shutdown": 10,
}
"""Options of uvicorn.

``console.site.requests.client_address`` finds the client. A path may contain a link that signs a person in, so no log
has paths.
"""
FILES_KEPT = 256
"""Number of descriptors reserved for the database, files and children."""
FILES_WANTED = CONNECTIONS_MAX + SPARE + FILES_KEPT
ANSWER_S = 10.0
"""Seconds that the server may take to answer itself."""
NOT_STARTED = 3
"""Exit code of a server that could not listen; uvicorn has logged the reason."""


def main(argv: Sequence[str]) -> int:
    """Serve until stopped; return the exit code."""
    options = _options(argv)
    address: dict[str, Any] = (
        {"fd": options.fd} if options.fd is not None else {"host": options.host, "port": options.port}
    )
    config = uvicorn.Config("console.asgi:application", **address, **SERVED, limit_concurrency=connections_max())
    config.load()
    server = uvicorn.Server(config)
    beat_on(lambda: server.started and answers(*own_address(options)))
    try:
        server.run()
    except KeyboardInterrupt:
        pass  # Ctrl-C, and the server has ended.
    return 0 if server.started else NOT_STARTED


def connections_max() -> int:
    """Return the number of connections: ``CONNECTIONS_MAX``, or as many as the process may have descriptors for.

    It raises the process's limit of descriptors if it can.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft - FILES_KEPT - SPARE
    return max(1, min(CONNECTIONS_MAX, most))


def answers(host: str, port: int) -> bool:
    """Return True if the server answers ``/livez``, with any status: too many connections are no fault of its own."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status > 0
    except ConnectionResetError:
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def own_address(options: argparse.Namespace) -> tuple[str, int]:
    """Return the address under which this machine reaches the server."""
    if options.fd is None:
        return {"0.0.0.0": HOST, "": HOST, "::": "::1"}.get(options.host, options.host), options.port  # noqa: S104 - Read, not bound.
    with socket.fromfd(options.fd, socket.AF_INET, socket.SOCK_STREAM) as listener:
        host, port = listener.getsockname()[:2]
    return host, port


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m console.web_server", allow_abbrev=False, description="Serve the console."
    )
    parser.add_argument("--host", default=HOST, help=f"address to listen on (default: {HOST})")
    parser.add_argument(
        "--port", type=_port, default=read("FABRIC_PORT") or PORT, help="port (default: FABRIC_PORT, else %(default)s)"
    )
    parser.add_argument("--fd", type=int, help="a descriptor that listens already, in place of both")
    return parser.parse_args(argv)


def _port(text: str) -> int:
    if number := port_number(text):
        return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 1 to {PORT_MAX}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
