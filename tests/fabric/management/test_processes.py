"""The commands as an operator has them: processes on a data directory of their own, Ctrl-C, a file that may not be written."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.installation.database import clean_environment
from tests.fabric.services.world import DOUBTFUL, SMALL

ROOT = Path(__file__).resolve().parents[3]
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
PATIENCE_S = 180


class Installation:
    """A data directory and the commands on it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.environment = {
            **clean_environment(),
            "FABRIC_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """A command in a process of its own."""
        line = [sys.executable, "-m", "django", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(line, cwd=ROOT, env=self.environment, **(pipes | more))

    def command(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command that is waited for."""
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A data directory after its first start, with two small fabrics."""
    folder = tmp_path_factory.mktemp("commands")
    made = Installation(folder / "data")
    assert made.command("prepare").returncode == 0
    for name, source in (("small", SMALL), ("doubtful", DOUBTFUL)):
        (folder / f"{name}.yaml").write_text(source)
        assert made.command("fabric", "publish", str(folder / f"{name}.yaml")).returncode == 0
    return made


def last(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout.strip().splitlines()[-1])


def digest_of(installation: Installation, item: str) -> str:
    """Return what a script reads before it answers."""
    return str(last(installation.command("review", "show", item, "--json"))["digest"])


def test_a_run_on_a_data_directory_where_nothing_runs(installation):
    done = installation.command("run", "start", "small", "--input", "What is there to say?", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert last(done)["state"] == "completed"
    replayed = installation.command("replay_run", "--all", "--json")
    assert (replayed.returncode, last(replayed)["differences"]) == (0, 0)


def test_two_at_once_one_hosts_for_both(installation):
    both = [installation.start("run", "start", "small", "--input", f"Number {n}?", "--json") for n in range(2)]
    ended = [(process.communicate(timeout=PATIENCE_S), process.returncode) for process in both]
    assert [code for _, code in ended] == [0, 0], ended
    assert all(json.loads(out.strip().splitlines()[-1])["state"] == "completed" for (out, _), _ in ended)


def test_ctrl_c_detaches_says_how_to_go_on_and_the_run_can_still_be_decided(installation):
    process = installation.start("run", "start", "doubtful", "--input", "Well?", "--wait", "--json")
    assert process.stderr is not None
    item = process.stderr.readline().split()[1]  # Waits for a person by now.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "continues when an engine runs: python3 manage.py up" in err
    assert json.loads(out)["state"] == "waiting"
    done = installation.command("decide", item, "approve", "--digest", digest_of(installation, item), "--json")
    assert done.returncode == 0, done.stderr
    assert last(done)["state"] == "completed"


def test_wait_stays_until_a_person_decides_in_another_process(installation):
    waiting = installation.start("run", "start", "doubtful", "--input", "Well?", "--wait", "--json")
    assert waiting.stderr is not None
    item = waiting.stderr.readline().split()[1]
    decided = installation.command("decide", item, "reject", "--message", "No.")
    assert decided.returncode == 0, decided.stderr
    # The engine there may have ended the run by the time the command looks at it.
    goes_on = (
        r"reject is recorded for review \w+; (the running engine continues run \S+|run \S+ has ended as aborted)\n"
    )
    assert re.fullmatch(goes_on, decided.stderr), decided.stderr
    out, _ = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 1
    assert json.loads(out)["state"] == "aborted"


def test_a_host_that_is_killed_is_followed_by_who_was_watching(installation):
    """The first process hosts; the second one follows its own run there, and takes over when the first is gone."""
    host = installation.start("run", "start", "doubtful", "--input", "Host", "--wait", "--json")
    assert host.stderr is not None
    host.stderr.readline()
    watcher = installation.start("run", "start", "doubtful", "--input", "Watcher", "--wait", "--json")
    assert watcher.stderr is not None
    item = watcher.stderr.readline().split()[1]
    host.kill()
    host.communicate(timeout=PATIENCE_S)
    # The first process, the one that decides or the one that watches, hosts it now.
    decided = installation.command("decide", item, "approve", "--digest", digest_of(installation, item), "--json")
    assert decided.returncode == 0, decided.stderr
    out, _ = watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode == 0
    assert json.loads(out)["state"] == "completed"


def test_without_tables_every_command_says_what_to_do(tmp_path):
    bare = Installation(tmp_path / "data")
    for words in (
        ("fabric", "list"),
        ("run", "start", "small", "--input", "x"),
    ):
        done = bare.command(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "lacks the tables of this version: run `python3 manage.py up` once" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def obey_permissions() -> None:
    """Takes from root, between fork and exec, what lets it write where the permissions forbid it (capabilities(7))."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def test_a_database_file_that_may_not_be_written_is_one_sentence(installation, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(installation.data, data, ignore=shutil.ignore_patterns("nudge", "*-wal", "*-shm"))
    database = data / "fabric.sqlite3"
    before = database.read_bytes()
    database.chmod(0o444)
    for words in (("run", "start", "small", "--input", "x", "--json"), ("bootstrap",)):
        done = Installation(data).command(*words, preexec_fn=obey_permissions)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "fabric.sqlite3 is read-only: let this user write" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert database.read_bytes() == before


def test_a_list_whose_reader_has_gone_ends_silently(installation):
    read, write = os.pipe()
    os.close(read)
    for words in (("scenario", "list"), ("fabric", "list", "--json")):
        line = [sys.executable, str(ROOT / "manage.py"), *words]
        done = subprocess.run(line, env=installation.environment, stdout=write, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr) == (141, b"")
    os.close(write)
