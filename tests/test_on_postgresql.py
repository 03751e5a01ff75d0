"""Tests that every run has on SQLite, on PostgreSQL as well: what people decided is counted, filtered and exported alike, and what they do to follow-ups; new runs are stopped without a gap."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from console.launch.processes.data_directory import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.postgresql]

FILES = (
    "tests/fabric/selectors/dashboards/test_dashboard.py",
    "tests/fabric/selectors/reviews/decisions/test_history.py",
    "tests/fabric/services/reviews/test_approved_bytes.py",
    "tests/fabric/services/reviews/test_export.py",
    "tests/fabric/services/reviews/test_follow_ups.py",
    "tests/fabric/services/runs/test_stop_work.py",
    "tests/fabric/services/runs/test_stops.py",
    "tests/console/api/reviews/test_history.py",
)


def test_they_hold_on_postgresql():
    named = ["--ds", "tests.settings_postgresql", "-p", "no:cacheprovider", "-n", "0", "-q", "-rA", *FILES]
    asked = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *named],
        env=asked,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.findall(r"^PASSED ([^:]+)::", done.stdout, re.MULTILINE)
    assert sorted({*passed}) == sorted(FILES)
    skipped = re.findall(r"^SKIPPED .*?: (.*)$", done.stdout, re.MULTILINE)
    assert set(skipped) <= {"the plans of SQLite are read"}
