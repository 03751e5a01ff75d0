import os
import subprocess
import sys

import pytest

from console.launch import suite
from console.launch.suite import Counts
from tests.console.launch.processes import free_port

SOME_TESTS = """
import pytest
def test_good(): pass
def test_better(): pass
def test_bad(): assert False
@pytest.fixture
def broken(): raise RuntimeError
def test_error(broken): pass
@pytest.mark.skip
def test_left_out(): pass
"""


def test_the_numbers_are_pytests(tmp_path):
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    (tmp_path / "pytest.ini").touch()
    report = tmp_path / "junit.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:django",
        f"--junit-xml={report}",
        "-o",
        "junit_family=xunit2",
    ]
    subprocess.run(command, cwd=tmp_path, check=False, stdout=subprocess.DEVNULL)
    assert suite.read_counts(report) == Counts(passed=2, failed=2, skipped=1)


def test_without_a_report_nothing_is_claimed(tmp_path):
    assert suite.read_counts(tmp_path / "none.xml") == Counts()
    (tmp_path / "broken.xml").write_text("<testsuites>")
    assert suite.read_counts(tmp_path / "broken.xml") == Counts()


@pytest.mark.parametrize(("ci", "passed"), [("", True), ("true", False)])
def test_a_missing_server_is_said_and_is_a_failure_in_ci(ci, passed, monkeypatch, capsys):
    monkeypatch.setenv("CI", ci)
    environ = dict(os.environ) | {"TEST_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    assert suite._servers(environ).passed is passed
    assert "LEFT OUT: every test that needs Redis: none answers at redis://127.0.0.1:" in capsys.readouterr().out


def test_an_operators_stores_are_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "postgresql://production")
    monkeypatch.setenv("FABRIC_DATA", "/var/lib/production")
    environ = suite._environ(tmp_path)
    assert "DATABASE_URL" not in environ
    assert environ["FABRIC_DATA"].startswith(str(tmp_path))
