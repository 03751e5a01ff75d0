"""``python -m console.web_server [--host H] [--port N] [--fd N]``: the web server with its bounds, the same for `manage.py up` and for whoever starts it alone.

The bounds are ``SERVED`` and ``console.slow_clients``; docs/operations.md lists them.
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

from console.launch.beating import beat_on
from console.launch.paths import HOST, PORT
from console.slow_clients import CONNECTIONS_MAX, SPARE, ImpatientProtocol
from console.variables import PORT_MAX, port_number, read

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
"""What is handed to uvicorn. Who asks is told by ``console.client_address``; a path may hold a link that signs somebody in, so no log has paths."""
FILES_KEPT = 256
"""Descriptors that are left for the database, for files and for children, and not given to connections."""
FILES_WANTED = CONNECTIONS_MAX + SPARE + FILES_KEPT
ANSWER_S = 10.0
"""Seconds that the server may take to answer itself."""
NOT_STARTED = 3
"""Exit code of a server that could not listen; uvicorn has said why."""


def main(argv: Sequence[str]) -> int:
    """Serves until it is asked to end; the exit code."""
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
        pass  # Ctrl-C, and the server has ended by itself.
    return 0 if server.started else NOT_STARTED


def connections_max() -> int:
    """How many connections are served: ``CONNECTIONS_MAX``, or what this process may have descriptors for. Asks for as many as that needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft - FILES_KEPT - SPARE
    return max(1, min(CONNECTIONS_MAX, most))


def answers(host: str, port: int) -> bool:
    """Whether the server answers ``/livez`` at that address, whatever it says: too many connections are no fault of its own."""
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
    """Where this machine reaches the server."""
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
