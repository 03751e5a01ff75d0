import os
import subprocess
import sys

import pytest

from console.launch import suite
from console.launch.processes.data_directory import ROOT
from console.launch.variables.table import SETTINGS
from tests.servers import addresses as servers
from tests.servers.ports import free_port


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], []),
        (["--", "-k", "guard"], ["-k", "guard"]),
        (["tests/fabric", "-x"], ["tests/fabric", "-x"]),
        (["--fast", "--", "tests/fabric"], ["--fast", "tests/fabric"]),
        (["--"], []),
    ],
)
def test_what_follows_is_for_pytest(given, meant):
    assert suite.parse(given) == meant


def test_help_is_short_and_runs_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        suite.parse(["--help"])
    assert not ended.value.code
    assert "manage.py test [--fast | --nightly] [-- PYTEST ARGUMENTS]" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "code"), [("def test_it(): pass", 0), ("def test_it(): assert False", 1), ("", 5)])
def test_the_exit_code_is_pytests(tmp_path, text, code):
    (tmp_path / "test_some.py").write_text(text)
    (tmp_path / "pytest.ini").touch()
    here = ["-p", "no:django", "-n", "0", "-c", str(tmp_path / "pytest.ini"), f"--rootdir={tmp_path}", str(tmp_path)]
    assert suite.run(here) == code


def test_a_missing_server_is_named():
    missing = servers.locate({"TEST_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"})[1]
    assert missing["redis"].startswith("every test that needs Redis: none answers at redis://127.0.0.1:")


def test_a_missing_browser_is_named_and_one_on_the_path_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found, missing = servers.locate({})
    assert missing["e2e"] == f"every test in a browser: {servers.NO_BROWSER}"
    program = tmp_path / "chromium"
    program.touch(mode=0o755)
    found, missing = servers.locate({})
    assert (found["TEST_CHROMIUM"], "e2e" in missing) == (str(program), False)


def test_a_named_browser_that_cannot_be_run_is_named(tmp_path):
    (tmp_path / "chromium").touch(mode=0o644)
    missing = servers.locate({"TEST_CHROMIUM": str(tmp_path / "chromium")})[1]
    assert missing["e2e"] == f"every test in a browser: TEST_CHROMIUM is {tmp_path}/chromium, which cannot be run"


@pytest.mark.parametrize(("ci", "counted"), [("", "1 skipped"), ("true", "1 error")])
def test_with_ci_a_test_whose_server_is_missing_fails(ci, counted):
    environ = {**os.environ, "CI": ci, "TEST_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["tests/console/live/test_outages.py", "-m", "redis", "--maxfail=1"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert "LEFT OUT every test that needs Redis" in done.stdout
    assert counted.split()[1] in done.stdout.splitlines()[-1]
    assert bool(done.returncode) is bool(ci)


def test_an_operators_settings_are_out_of_reach(monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.setenv(name, "production")
    environ = suite._environ(tmp_path)
    assert "production" not in environ.values()
    assert environ["FABRIC_DATA"].startswith(str(tmp_path))


def test_what_is_compiled_is_kept_and_for_readers_only(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environ = suite._environ(tmp_path)
    # pytest compiles a test in its own way: an import does not do it.
    subprocess.run([sys.executable, "-c", "import tests.data.golden"], cwd=ROOT, env=environ, check=True)
    assert list(tmp_path.rglob("golden.*.pyc"))
    assert not suite._is_compiled()
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = --import-mode=importlib\n")
    plain = ["-c", str(tmp_path / "pytest.ini"), f"--rootdir={ROOT}", "--noconftest", "tests/test_lanes.py"]
    command = [*suite._collection(tmp_path), *plain]
    bare = environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=ROOT, env=bare, check=True, capture_output=True)
    assert suite._is_compiled()


def test_files_lie_in_memory_only_where_there_is_room(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "_MEMORY", tmp_path)
    monkeypatch.setattr(suite, "_ROOM", 1)
    assert suite._fast() == tmp_path
    monkeypatch.setattr(suite, "_ROOM", 2**62)
    assert suite._fast() is None
    monkeypatch.setattr(suite, "_ROOM", 1)
    monkeypatch.setattr(suite, "_MEMORY", tmp_path / "none")
    assert suite._fast() is None
