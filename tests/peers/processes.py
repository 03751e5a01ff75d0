"""Starts the programs of the peers' environment, and waits until they answer."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from console.launch import dependencies

HERE = Path(__file__).parent
START_S = 180.0


def python() -> str:
    """The interpreter that has the peers."""
    return os.environ[dependencies.PYTHON]


def script(name: str) -> str:
    """A program that a package of Python installed."""
    return str(Path(python()).with_name(name))


def node() -> str:
    """The program that runs packages of Node."""
    return str(dependencies.find_node(Path(python()))[0])


def package(name: str, *more: str) -> str:
    """A file of a package of Node."""
    return str(Path(os.environ[dependencies.NODE], "node_modules", name, *more))


def wait_for(url: str, process: subprocess.Popen[str], log: Path, within_s: float = START_S) -> None:
    """Waits until an address answers, whatever it says but 503. RuntimeError with the end of the log when the process ends or the time is over."""
    give_up = time.monotonic() + within_s
    while process.poll() is None and time.monotonic() < give_up:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError as answered:
            if answered.code != 503:
                return
        except OSError:
            pass
        time.sleep(0.1)  # Nothing announces that another program listens.
    raise RuntimeError(f"nothing answers at {url}: {log.read_text(errors='replace')[-3_000:]}")


@contextmanager
def served(
    command: Sequence[str], url: str, folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A server as a process, from its first answer at ``url`` to the end of the block. What it says goes to a file in ``folder``."""
    log = folder / "server.log"
    with log.open("a") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True, cwd=folder, env=environ
        )
        try:
            wait_for(url, process, log)
            yield process
        finally:
            process.kill()  # It keeps nothing, and would wait for what still hangs.
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
