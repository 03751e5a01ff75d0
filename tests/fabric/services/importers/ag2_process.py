"""AG2 in a process of its own, where there is a Python that has it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "1.2.1"
"""Whose behaviour is kept."""
PYTHON = os.environ.get("FABRIC_AG2_PYTHON") or (sys.executable if importlib.util.find_spec("ag2") else None)
PEER = Path(__file__).with_name("ag2_peer.py")


class AG2:
    """The peer: asked by lines, until it is left."""

    def __enter__(self) -> AG2:
        assert PYTHON is not None
        self._process = subprocess.Popen([PYTHON, str(PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == {"version": VERSION}
        return self

    def ask(self, case: dict[str, Any]) -> Any:
        """Return what AG2 does with a case."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __exit__(self, *raised: object) -> None:
        self._process.communicate()
