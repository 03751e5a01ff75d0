"""The checks of the source as a whole: each is one command that must find nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from console.launch.processes.data_directory import ROOT
from tests import sets

LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main()"
PRODUCT = ("manage.py", "fabric", "simulator", "console")


def found_by(*command: str) -> str:
    """Returns what a command of this Python prints when it fails; else nothing."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_import_contracts():
    cache = os.environ.get("IMPORT_LINTER_CACHE_DIR", tempfile.gettempdir())
    assert found_by("-c", LINT_IMPORTS, "--no-logo", "--cache-dir", cache) == ""


@pytest.mark.parametrize("command", ["check", "format --check --output-format concise"])
def test_ruff(command):
    assert found_by("-m", "ruff", *command.split(), ".") == ""


@pytest.mark.slow
def test_mypy():
    # The tests are three times the work, and mypy does not check the bodies of their functions: `nightly` has them too.
    files = () if sets.is_nightly() else PRODUCT
    assert found_by("-m", "mypy", *files) == ""
