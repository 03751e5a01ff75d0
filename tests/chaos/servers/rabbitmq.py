"""A RabbitMQ node of chaos's own: its own name, ports, files and cookie, and its own epmd, so that it shares nothing with another node."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path

from kombu.connection import Connection

from tests.chaos.servers.local import Process, program, wait_until
from tests.servers.ports import free_port

QUEUE = "default"


class RabbitServer:
    """One node. Its queues are durable: a restart keeps messages that were meant to be kept."""

    def __init__(self, folder: Path) -> None:
        self.port, self._epmd_port = free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        # Debian's wrapper changes the user; the script it wraps does not, and needs nothing but a folder of its own.
        script = _script()
        (folder / ".erlang.cookie").write_text(secrets.token_hex(16))
        (folder / ".erlang.cookie").chmod(0o400)
        self._environment = {
            "PATH": os.pathsep.join(os.get_exec_path()),
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"chaos{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        (folder / "plugins").write_text("[].\n")
        self._process = Process([script], folder, self._environment)

    def start(self) -> None:
        """See ``servers.Broker``."""
        wait_until(self._ping, "RabbitMQ", self._process.start())

    def stop(self) -> None:
        """See ``servers.Broker``."""
        self._process.kill()

    def close(self) -> None:
        """Ends the node and its epmd."""
        self.stop()
        with contextlib.suppress(OSError):
            subprocess.run(
                [program("epmd"), "-port", str(self._epmd_port), "-kill"],
                env=self._environment,
                check=False,
                capture_output=True,
            )

    def flush(self) -> None:
        """See ``servers.Broker``: purges the workers' queue."""
        with Connection(self.url) as connection, contextlib.suppress(connection.channel_errors):
            connection.default_channel.queue_purge(QUEUE)

    def _ping(self) -> None:
        with Connection(self.url, connect_timeout=2) as connection:
            connection.connect()


def _script() -> str:
    for folder in (Path("/usr/lib/rabbitmq/bin"), Path("/opt/rabbitmq/sbin")):
        if (folder / "rabbitmq-server").exists():
            return str(folder / "rabbitmq-server")
    return program("rabbitmq-server")
