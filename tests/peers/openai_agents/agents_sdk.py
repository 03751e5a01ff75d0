"""The OpenAI Agents SDK as a client of the scripted endpoint, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers.processes import HERE, python


class Client:
    """One process, which plays a case a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.version = self._read()["version"]

    def play(self, url: str, **case: Any) -> Any:
        """Return what became of one run of its agent against that base URL: text, looked, agent, tokens; or error and words."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case | {"url": url}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client of the Agents SDK has ended"
        return json.loads(line)


@contextmanager
def client() -> Iterator[Client]:
    """It takes some seconds to import what it needs."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "FABRIC_", "DJANGO_"))
    }
    command = [python(), str(HERE / "openai_agents" / "agents_client.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
