"""A small real model, served by llama.cpp's own server in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.processes import HERE, python, served
from tests.servers.ports import free_port


@contextmanager
def small_model(folder: Path) -> Iterator[str]:
    """Its base URL. It takes about two seconds to load."""
    port = free_port()
    command = [python(), str(HERE / "llama_server.py"), str(port)]
    with served(command, f"http://127.0.0.1:{port}/health", folder, os.environ):
        yield f"http://127.0.0.1:{port}/v1"
