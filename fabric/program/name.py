"""Name and version of this program. Every printed command begins with the name: it can be pasted."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

SCRIPT = "fabricflow"
"""The script that an installer makes."""
CHECKOUT = "python3 manage.py"
DISTRIBUTION = "fabric-flow"
_ENTRY = Path(__file__).resolve().parents[2] / "manage.py"


def program() -> str:
    """Return how this program is called: by the installed script, or by ``manage.py`` in a checkout."""
    return CHECKOUT if _ENTRY.is_file() and Path(sys.argv[0]).name != SCRIPT else SCRIPT


def find_version() -> str:
    """Return the version of the product: of the installed distribution, or of the checkout."""
    project = _ENTRY.with_name("pyproject.toml")
    if not project.is_file():
        return version(DISTRIBUTION)
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
