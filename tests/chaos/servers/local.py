"""Servers of chaos's own, on ports and in folders of its own: they are stopped, cut and filled up, so none that others use will do.

PostgreSQL refuses to run as root: then it runs as the user ``postgres``. ServerMissing with one sentence where a program is not installed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
import redis

from tests.chaos.processes.handles import now_us
from tests.servers.ports import free_port

START_S = 90.0
STOP_S = 30.0


class ServerMissing(RuntimeError):
    """A server cannot be had here. The message says which program is missing and what to do."""


class Broker(Protocol):
    """A broker that chaos may do anything to."""

    port: int
    url: str

    def start(self) -> None:
        """Starts it and waits until it answers."""
        ...

    def stop(self) -> None:
        """Ends it; messages are lost or not, as they will be."""
        ...

    def close(self) -> None:
        """Ends it for good, with whatever it started."""
        ...

    def flush(self) -> None:
        """Forgets every message."""
        ...


def program(name: str, *folders: str) -> str:
    """The path of a program; ServerMissing when it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([*os.get_exec_path(), "/usr/sbin", *folders]))
    if found is None:
        raise ServerMissing(f"{name} is not installed: install it, or leave out what needs it")
    return found


def wait_until(answers: Callable[[], Any], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Waits until a call no longer raises. TimeoutError after 90 s, or as soon as the process has ended."""
    give_up = time.monotonic() + START_S
    while True:
        try:
            answers()
        except Exception as error:
            if time.monotonic() > give_up or (process is not None and process.poll() is not None):
                raise TimeoutError(f"{what} does not answer: {error}") from error
            time.sleep(0.1)
        else:
            return


class PostgresqlServer:
    """A cluster in ``folder``; ``tablespace``, if given, is a folder in which the database's tables lie."""

    def __init__(self, folder: Path, *, tablespace: Path | None = None) -> None:
        self.port = free_port()
        self._data, self._log, self._tablespace = folder / "data", folder / "log", tablespace
        self._bin = (
            Path(program("pg_ctl", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))))).resolve().parent
        )
        self._as = self._user(folder)
        self.away: list[tuple[int, int]] = []
        """From when to when it did not answer because it was ended, microseconds since the epoch."""

    def url(self, name: str = "fabric", port: int | None = None) -> str:
        """A connection string, perhaps by way of a proxy's port."""
        return f"postgresql://fabric@127.0.0.1:{port or self.port}/{name}"

    def create(self, *, like: Path | None = None) -> None:
        """Makes the cluster, starts it, makes the database. ``like``: a copy of that data directory, with the database that is in it (see clusters.py)."""
        if like is None:
            self._run("initdb", "-D", str(self._data), "-U", "fabric", "-A", "trust", "--no-instructions")
        else:
            subprocess.run(["cp", "-a", str(like), str(self._data)], check=True)  # It keeps whose the files are.
        settings = {
            "port": self.port,
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": "''",
            "max_connections": 200,
            "shared_buffers": "'64MB'",
            "logging_collector": "off",
        }
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.start()
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if like is None:
                connection.execute("CREATE DATABASE fabric")
            if self._tablespace is not None:
                connection.execute(f"CREATE TABLESPACE chaos LOCATION '{self._tablespace}'".encode())
                connection.execute("ALTER DATABASE fabric SET TABLESPACE chaos")

    def start(self) -> None:
        """Starts it and waits until it answers. One that ends at once is started anew: another program's connection may have its port for a moment."""
        wait_until(self._answers, "PostgreSQL")

    def _answers(self) -> None:
        if self.postmaster() is None:
            self._run("pg_ctl", "-D", str(self._data), "-l", str(self._log), "-W", "start")
        psycopg.connect(self.url("postgres"), connect_timeout=2).close()

    def restart(self) -> None:
        """Ends every backend where it stands, recovers from the log, and waits until it answers."""
        ended_at = now_us()
        with contextlib.suppress(subprocess.CalledProcessError):  # One that has died by itself is started.
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-W", "stop")
        give_up = time.monotonic() + STOP_S
        while (self._data / "postmaster.pid").exists() and self.postmaster() is not None and time.monotonic() < give_up:
            time.sleep(0.02)
        self.start()
        self.away.append((ended_at, now_us()))

    def stop(self) -> None:
        """Ends it for good."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def close(self) -> Path:
        """Ends it in order, with nothing left to recover, and returns its data directory."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")
        return self._data

    def postmaster(self) -> int | None:
        """Its process number; None: it does not run."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, 0)
        except (OSError, ValueError, IndexError):
            return None
        return pid

    def children(self, *words: str) -> list[int]:
        """Its processes whose title has one of these words, such as ``checkpointer``."""
        parent = self.postmaster()
        return [pid for pid, title in _children(parent) if any(word in title for word in words)] if parent else []

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._bin / name), *arguments]
        # The server inherits what is given here, and must not hold a pipe of ours open.
        subprocess.run(
            command,
            check=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as,
        )

    def _user(self, folder: Path) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        try:
            found = pwd.getpwnam("postgres")
        except KeyError:
            raise ServerMissing("PostgreSQL does not run as root and there is no user postgres: add one") from None
        for owned in filter(None, (folder, self._tablespace)):
            os.chown(owned, found.pw_uid, found.pw_gid)
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _children(parent: int) -> Iterator[tuple[int, str]]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if status.read_text().rpartition(")")[2].split()[1] == str(parent):
                yield int(status.parent.name), (status.parent / "cmdline").read_bytes().decode(errors="replace")


class Process:
    """A server that runs in the foreground as a child of this process."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command, self._folder, self._environment = command, folder, environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Starts it, once."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process

    def kill(self) -> None:
        """Ends it and everything it started, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_S)
            self._process = None


class RedisServer:
    """Redis without a disk: a restart forgets everything."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = [
            program("redis-server"),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = Process(command, folder)

    def start(self) -> None:
        """See ``Broker``."""
        wait_until(self._ping, "Redis", self._process.start())

    def stop(self) -> None:
        """See ``Broker``."""
        self._process.kill()

    def close(self) -> None:
        """See ``Broker``."""
        self.stop()

    def flush(self) -> None:
        """See ``Broker``: FLUSHALL."""
        with redis.Redis(port=self.port) as client:
            client.flushall()

    def _ping(self) -> None:
        with redis.Redis(port=self.port) as client:
            client.ping()


@contextmanager
def tmpfs(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own at ``folder`` while the block runs, so that it can be filled up. ServerMissing for who may not mount."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        raise ServerMissing("a disk can be filled up only as root, on a file system of its own")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
