"""The benchmark beside other engines: its loops, its figures, and what it says where an engine cannot be had. The engines themselves are run by hand."""

import ast
import asyncio
import json
import subprocess
import sys

import pytest

from simulator.installation.database import ROOT
from tests.benchmarks.peers.environments import HERE, PeerMissing, ensure
from tests.benchmarks.peers.measuring import PEERS, Measured, _told, stored_at
from tests.benchmarks.peers.serving import on_a_loop, on_threads

ECHO = """
from tests.benchmarks.peers.serving import on_threads, serve
serve("echo 1.0", on_threads(lambda: None))
"""


def test_each_peer_has_a_script_and_exact_versions():
    for name, script in PEERS.items():
        assert (HERE / f"{script}.py").exists()
        lines = (HERE / f"{name}.txt").read_text().split()
        assert name in {line.partition("==")[0] for line in lines}
        assert all(line.count("==") == 1 for line in lines)


@pytest.mark.parametrize("module", ["tests/benchmarks/throughput/answers.py", "tests/benchmarks/peers/serving.py"])
def test_what_runs_in_a_peer_s_process_needs_nothing_but_the_standard_library(module):
    tree = ast.parse((ROOT / module).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_loops_run_as_many_as_they_are_told_and_no_more_at_once():
    out, most, done = 0, 0, 0

    async def one():
        nonlocal out, most, done
        out += 1
        most = max(most, out)
        await asyncio.sleep(0)
        out -= 1
        done += 1

    told = on_a_loop(one)(20, 4)
    assert (done, most, len(told["latencies_ms"])) == (20, 4, 20)
    told = on_threads(lambda: None)(20, 4)
    assert len(told["latencies_ms"]) == 20


def test_a_process_is_told_by_lines_and_answers_by_lines():
    done = subprocess.run(
        [sys.executable, "-c", ECHO], input="3 1\n5 2\n", capture_output=True, text=True, check=True, cwd=ROOT
    )
    ready, first, second = map(json.loads, done.stdout.splitlines())
    assert ready == {"engine": "echo 1.0"}
    assert [len(found["latencies_ms"]) for found in (first, second)] == [3, 5]


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_engines():
    def of(*speeds):
        return Measured(list(speeds), [1.0, 2.0], 10, 100, 1_100)

    told = _told({"ours": of(100, 50, 400), "dbos": of(10, 10, 10), "langgraph": of(50, 50, 50)})
    assert told["ratios"] == {"dbos": 10.0, "langgraph": 2.0}
    assert told["ours"]["bytes_per_run"] == 100


def test_what_is_stored_on_a_file_counts_its_log(tmp_path):
    for name, size in (("a.sqlite3", 10), ("a.sqlite3-wal", 5), ("b.sqlite3", 99)):
        (tmp_path / name).write_bytes(bytes(size))
    assert stored_at(tmp_path / "a.sqlite3") == 15


def test_an_engine_that_cannot_be_installed_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "none.txt").write_text("no-such-engine-at-all==1.0\n")
    with pytest.raises(
        PeerMissing, match=r"what none.txt names could not be installed \(.*\): see that a package index"
    ):
        ensure("none", tmp_path)
    assert list((tmp_path / "fabric-flow" / "environments").iterdir()) == []
