"""``python -m tests.chaos.web_server``: the console's web server, forked anew whenever it was killed, on one socket: who asks meanwhile waits in line.

Says its port, and then a line for each end.
"""

from __future__ import annotations

import os
import socket
import sys


def main() -> None:
    """Serves until it is killed."""
    import uvicorn

    from console.asgi import application

    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listening.getsockname()[1], flush=True)
    while True:
        pid = os.fork()
        if not pid:
            try:
                uvicorn.Server(uvicorn.Config(application, log_level="warning")).run(sockets=[listening])
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        if os.waitstatus_to_exitcode(status) >= 0:
            sys.exit("the server ended by itself")


if __name__ == "__main__":
    main()
