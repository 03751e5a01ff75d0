"""``python -m tests.chaos.web.server``: the console's web server, forked anew whenever it was killed, on one socket: who asks meanwhile waits in line.

Says its port, and then a line for each end.
"""

from __future__ import annotations

import gc
import os
import socket
import sys

import uvicorn
from django.urls import get_resolver
from uvicorn.loops.auto import auto_loop_factory

from console.asgi import application


def made_ready() -> uvicorn.Config:
    """All that a server loads with its first request is loaded once, and not by each that is forked."""
    config = uvicorn.Config(application, log_level="warning")
    config.load()
    auto_loop_factory()
    get_resolver().reverse_dict  # noqa: B018 - Every page and every operation is there once it was asked for.
    gc.collect()
    gc.freeze()
    return config


def main() -> None:
    """Serves until it is killed."""
    config = made_ready()
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listening.getsockname()[1], flush=True)
    while True:
        pid = os.fork()
        if not pid:
            try:
                uvicorn.Server(config).run(sockets=[listening])
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        if os.waitstatus_to_exitcode(status) >= 0:
            sys.exit("the server ended by itself")


if __name__ == "__main__":
    main()
