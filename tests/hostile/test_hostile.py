"""Everything that parses or evaluates, given the worst of the largest size that is taken: each answers with a sentence, and takes little memory."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = ("texts", "documents", "evaluators")
GROWN_KB_MAX = 64 * 1024
LIMIT_S = 500
"""Seconds until a whole table is given up: no measure, only an end."""


@pytest.mark.parametrize("module", MODULES)
def test_hostile_input_is_answered_with_a_sentence_within_its_memory(module):
    named = f"tests.hostile.{module}"
    cases = import_module(named).CASES
    ran = subprocess.run(
        [sys.executable, "-m", "tests.hostile.measured", named],
        capture_output=True, text=True, cwd=ROOT, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["name"] for one in told] == list(cases), ran.stderr[-2000:]
    wrong = [
        one for one in told if one["grown_kb"] > GROWN_KB_MAX or not re.search(cases[one["name"]].tells, one["said"])
    ]
    assert wrong == []


def test_one_module_reads_toml():
    found = {
        str(path.relative_to(ROOT))
        for package in ("fabric", "console", "simulator")
        for path in (ROOT / package).rglob("*.py")
        if "tomllib" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom) and "tomllib" in ast.unparse(node)
    }
    # The other one reads the version out of the checkout's own project file.
    assert found == {"simulator/texts/toml.py", "fabric/program/name.py"}
