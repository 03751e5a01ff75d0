"""Runs of an installation, asked for at its command line."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.installation import Installation

WAITS = 3
"""What `manage.py run` ends with when the run waits for a person."""


def asked(installation: Installation, fabric: str, text: str) -> str:
    """The id of a run that has ended or waits for a person."""
    try:
        said = installation.manage("run", "start", fabric, "--input", text, "--json")
    except subprocess.CalledProcessError as error:
        if error.returncode != WAITS:
            raise
        said = error.stdout
    last = json.loads(said.splitlines()[-1])
    return str(last.get("run_id") or last["id"])
