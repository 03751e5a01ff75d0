"""A program of an installation that asks its API, one line of JSON a request: ``{"path", "body", "key"}`` gives ``{"status", "body", "retry_after"}``.

`python -m tests.console.api.asking` in the environment of the installation; the first line that it says is ``{"fabric"}``, what can be started.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import django

from console.launch.processes.data_directory import ROOT


class Asking:
    """The other end of the program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.fabric: str = self._read()["fabric"]

    def ask(self, path: str, body: Any, key: str = "") -> Any:
        """Return what the API answers to a POST."""
        assert self._process.stdin is not None
        print(json.dumps({"path": path, "body": body, "key": key}), file=self._process.stdin, flush=True)
        return self._read()

    def start(self, key: str) -> Any:
        """A start under a key."""
        return self.ask("runs", {"fabric": self.fabric, "text": "Why?"}, key)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def asking(environment: Mapping[str, str]) -> Iterator[Asking]:
    """The program, running."""
    command = [sys.executable, "-m", "tests.console.api.asking"]
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Asking(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def main() -> None:
    """Answers until standard input closes."""
    from django.db import close_old_connections
    from django.test import Client

    from fabric.core.people.scopes import Scope
    from fabric.services.actors import owner_actor
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.people.tokens import token_create
    from tests.fabric.services.world import SMALL

    actor = owner_actor()
    secret = token_create(actor=actor, name="asking", scopes=tuple(Scope)).secret
    client = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False)
    print(json.dumps({"fabric": fabric_publish(actor=actor, source=SMALL).name}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        close_old_connections()  # As a server does with each request, and the test client does not.
        headers = {"Authorization": f"Bearer {secret}"} | ({"Idempotency-Key": asked["key"]} if asked["key"] else {})
        answer = client.post(f"/api/v1/{asked['path']}", json.dumps(asked["body"]), "application/json", headers=headers)
        told = {"status": answer.status_code, "body": answer.json(), "retry_after": answer.headers.get("Retry-After")}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    django.setup()
    main()
