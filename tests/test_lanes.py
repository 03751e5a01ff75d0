import re
import subprocess
import sys

from console.launch.processes.data_directory import ROOT
from tests import lanes, sets

CONFTEST = """
import pytest
from tests.lanes import BothEnds

def pytest_xdist_make_scheduler(config, log):
    return BothEnds(config, log)
"""


def test_every_second_process_takes_files_from_the_back(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text("def test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    command += ["-p", "no:django", "-p", "no:cacheprovider", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    done = subprocess.run(
        [*command, "-o", f"pythonpath={ROOT}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    by = {file: process for process, file in re.findall(r"\[(gw\d)\] .* PASSED .*test_(\w)\.py", done.stdout)}
    assert sorted(by) == list("abcdef")
    # As many as each is given at once; the others go to the first that is ready.
    assert [by[file] for file in "abef"] == ["gw0", "gw0", "gw1", "gw1"]


def test_files_that_share_an_installation_go_to_one_process(monkeypatch):
    monkeypatch.setenv(sets.SET, "full")
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / lanes.SHARING).rglob("test_*.py")]
    own = {
        file for file in files if re.search(r"^(def )?installation\b", (ROOT / file).read_text(), flags=re.MULTILINE)
    }
    assert own == lanes.OWN
    found = {file: scope(f"{file}::test_it[a::b]") for file in [*files, "tests/test_lanes.py"]}
    assert found == {file: lanes.SHARING if file in {*files} - own else file for file in found}
    monkeypatch.setenv(sets.SET, "nightly")
    assert {scope(f"{file}::test_it") for file in files} == {*files}


def scope(nodeid: str) -> str:
    scheduler = lanes.BothEnds.__new__(lanes.BothEnds)
    return scheduler._split_scope(nodeid)
