import os
import subprocess
import sys

import pytest

from console.launch import suite
from console.launch.paths import ROOT
from console.launch.suite import Beside, Counts, Report, Result
from console.variables import SETTINGS
from tests.console.launch.processes import free_port

SOME_TESTS = """
import pytest
def test_good(): pass
def test_better(): pass
def test_bad(): assert False
@pytest.fixture
def broken(): raise RuntimeError
def test_error(broken): pass
@pytest.mark.skip(reason="nobody is here")
def test_left_out(): pass
@pytest.fixture
def sticky():
    yield
    raise RuntimeError
def test_bad_to_the_end(sticky): assert False
"""


def test_the_numbers_are_pytests(tmp_path):
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    browser = tmp_path / "tests" / "e2e" / "test_page.py"
    browser.parent.mkdir(parents=True)
    browser.write_text("def test_seen(): pass\ndef test_unseen(): assert False\n")
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
    read = suite.read_report(report)
    assert read.tests == Counts(passed=2, failed=3, skipped=1)
    assert read.in_a_browser == Counts(passed=1, failed=1)
    assert read.skipped == {"nobody is here": 1}
    assert read.seconds
    assert all(f"{name.removeprefix('tests.')} " in read.slowest for name in read.seconds)


def test_without_a_report_nothing_is_claimed(tmp_path):
    assert suite.read_report(tmp_path / "none.xml") == Report()
    (tmp_path / "broken.xml").write_text("<testsuites>")
    assert suite.read_report(tmp_path / "broken.xml") == Report()


ONCE = """
import pathlib
def test_good(): pass
@__import__("pytest").mark.parametrize("n", range({failing}))
def test_at_first(n):
    seen = pathlib.Path(__file__).with_name(f"seen-{{n}}")
    assert {ever_passes} and seen.exists(), seen.touch()
"""


def here(folder):
    """The arguments of a pytest that knows of nothing but this folder."""
    known = ["-c", str(folder / "pytest.ini"), f"--rootdir={folder}", str(folder)]
    return ["-q", "-p", "no:django", "-n", "0", *known]


@pytest.mark.parametrize(
    ("failing", "ever_passes", "passed", "counts", "unsteady"),
    [
        (2, True, True, Counts(3), 2),
        (2, False, False, Counts(1, 2), 0),  # They fail alone as well.
        (4, True, False, Counts(1, 4), 0),  # Too many for an accident.
    ],
)
def test_a_few_that_failed_are_run_alone_and_are_named(tmp_path, failing, ever_passes, passed, counts, unsteady):
    (tmp_path / "test_some.py").write_text(ONCE.format(failing=failing, ever_passes=ever_passes))
    (tmp_path / "pytest.ini").touch()
    ran, report = suite._pytest(tmp_path, here(tmp_path), os.environ)
    assert (ran.passed, report.total, len(report.unsteady)) == (passed, counts, unsteady)
    assert all("test_at_first" in name for name in [*report.unsteady, *report.failures])


@pytest.mark.parametrize(
    ("interrupting", "more"), [("True", []), ("False", ["-x"])], ids=["interrupted", "told to end"]
)
def test_what_did_not_come_to_its_end_is_not_tried_again(tmp_path, interrupting, more):
    text = (
        ONCE.format(failing=1, ever_passes=True) + f"def test_last():\n    if {interrupting}: raise KeyboardInterrupt\n"
    )
    (tmp_path / "test_some.py").write_text(text)
    (tmp_path / "pytest.ini").touch()
    ran, report = suite._pytest(tmp_path, [*here(tmp_path), *more], os.environ)
    assert (ran.passed, report.unsteady) == (False, [])


PYTEST = Result("pytest", passed=False, seconds=1.0)


@pytest.mark.parametrize(
    ("report", "passed"),
    [
        (Report(Counts(1, 1), Counts(1)), {"pytest": False, "browser tests": True}),
        (Report(Counts(1), Counts(1, 1)), {"pytest": True, "browser tests": False}),
        (Report(Counts(1)), {"pytest": False}),  # It failed without a failed test.
        (Report(), {"pytest": False}),
    ],
)
def test_each_part_is_judged_by_its_own_tests(report, passed):
    assert {result.name: result.passed for result in suite._tests(PYTEST, report)} == passed


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], []),
        (["--", "-k", "guard"], ["-k", "guard"]),
        (["tests/fabric", "-x"], ["tests/fabric", "-x"]),
        (["-x", "--", "tests/fabric"], ["-x", "tests/fabric"]),
        (["--"], []),
    ],
)
def test_what_follows_is_for_pytest(given, meant):
    assert suite.parse(given) == meant


def test_help_is_short_and_runs_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        suite.parse(["--help"])
    assert not ended.value.code
    assert "manage.py test [-- PYTEST ARGUMENTS]" in capsys.readouterr().out


@pytest.mark.parametrize(("ci", "passed"), [("", True), ("true", False)])
def test_a_missing_server_is_said_and_is_a_failure_in_ci(ci, passed, monkeypatch, capsys):
    monkeypatch.setenv("CI", ci)
    environ = dict(os.environ) | {"TEST_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    result, missing = suite._servers(environ)
    assert result.passed is passed
    assert any("needs Redis" in sentence for sentence in missing)
    assert "LEFT OUT: every test that needs Redis: none answers at redis://127.0.0.1:" in capsys.readouterr().out


def test_a_missing_browser_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("TEST_CHROMIUM", raising=False)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    result, missing = suite._servers(dict(os.environ))
    assert not result.passed
    assert "LEFT OUT: every test in a browser: no chromium is installed" in capsys.readouterr().out
    program = tmp_path / "chromium"
    program.touch(mode=0o755)
    environ = dict(os.environ)
    suite._servers(environ)
    assert environ["TEST_CHROMIUM"] == str(program)


def test_a_named_browser_that_cannot_be_run_is_said(capsys, tmp_path):
    (tmp_path / "chromium").touch(mode=0o644)
    result, missing = suite._servers(dict(os.environ) | {"TEST_CHROMIUM": str(tmp_path / "chromium")})
    sentence = f"every test in a browser: TEST_CHROMIUM is {tmp_path}/chromium, which cannot be run"
    assert sentence in missing
    assert f"LEFT OUT: {sentence}" in capsys.readouterr().out


def test_an_operators_settings_are_out_of_reach(monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.setenv(name, "production")
    environ = suite._environ(tmp_path)
    assert "production" not in environ.values()
    assert environ["FABRIC_DATA"].startswith(str(tmp_path))


def test_what_is_compiled_is_kept_and_for_whoever_reads_only(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environ = suite._environ(tmp_path)
    # What the search for servers imports is not yet what pytest makes of a test.
    subprocess.run([sys.executable, "-c", "import tests.golden"], cwd=ROOT, env=environ, check=True)
    assert list(tmp_path.rglob("golden.*.pyc"))
    assert not suite._compiled()
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = --import-mode=importlib\n")
    plain = ["-c", str(tmp_path / "pytest.ini"), f"--rootdir={ROOT}", "--noconftest", "tests/test_lanes.py"]
    command = [*suite._collection(tmp_path), *plain]
    bare = environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=ROOT, env=bare, check=True, capture_output=True)
    assert suite._compiled()


def test_collection_says_which_file_cannot_be_read(tmp_path, capfd):
    (tmp_path / "test_some.py").write_text("def test_good(): pass\n")
    (tmp_path / "pytest.ini").touch()
    here = [*suite._collection(tmp_path), "-p", "no:django", f"--rootdir={tmp_path}", str(tmp_path)]
    here += ["-c", str(tmp_path / "pytest.ini")]
    assert suite._check("collection", here, os.environ, quiet=True).passed
    assert capfd.readouterr().out == "\n== collection\n"
    (tmp_path / "test_bad.py").write_text("import no_such_module\n")
    assert not suite._check("collection", here, os.environ, quiet=True).passed
    assert "No module named 'no_such_module'" in capfd.readouterr().out


@pytest.mark.parametrize("code", [0, 3])
def test_a_check_beside_others_runs_while_they_do_and_is_said_at_its_end(code, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    beside = Beside("waits", [sys.executable, "-c", f"print(open({str(pipe)!r}).read()); exit({code})"], os.environ)
    beside.start()
    pipe.write_text("heard")  # Opens once somebody reads, so it runs by now; and it ends only after this.
    result = beside.result()
    assert (result.name, result.passed, result.code) == ("waits", code == 0, code)
    assert capsys.readouterr().out == "\n== waits\nheard\n"


def test_a_check_beside_others_that_cannot_be_run_has_failed(tmp_path, capsys):
    beside = Beside("missing", [str(tmp_path / "missing")], os.environ)
    beside.start()
    assert not beside.result().passed


def test_files_lie_in_memory_only_where_there_is_room(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "_MEMORY", tmp_path)
    monkeypatch.setattr(suite, "_ROOM", 1)
    assert suite._fast() == tmp_path
    monkeypatch.setattr(suite, "_ROOM", 2**62)
    assert suite._fast() is None
    monkeypatch.setattr(suite, "_ROOM", 1)
    monkeypatch.setattr(suite, "_MEMORY", tmp_path / "none")
    assert suite._fast() is None
