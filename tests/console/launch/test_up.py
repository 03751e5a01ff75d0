"""The command itself, with the real web server and the real worker."""

import http.client
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.launch import up
from console.launch.processes import keeper as child
from console.launch.processes.data_directory import ROOT
from console.launch.processes.errors import StartRefused
from console.launch.processes.keeper import descendants
from simulator.installation.database import clean_environment
from tests.console.launch.started_processes import PATIENCE_S, Lines, started, wait_for_end
from tests.servers.ports import free_port


def command(data, port):
    return [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]


@contextmanager
def running(data):
    """Run `up` until it has said that it is ready; yield the process and the port."""
    port = free_port()
    options = {"env": clean_environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command(data, port), **options) as process:
        line = Lines(process.stdout.fileno()).next()
        assert line == f"Fabric Flow runs at http://127.0.0.1:{port} (Ctrl-C stops it).", (
            process.stderr.read1().decode()
        )
        yield process, port


def refusal(data, port):
    done = subprocess.run(
        command(data, port), env=clean_environment(), check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_up_serves_refuses_a_second_one_and_stops_on_ctrl_c(tmp_path):
    data = tmp_path / "data"
    with running(data) as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.read() == b'{"status": "ok", "database": "ok"}'

        assert f"already running on {data}: process {process.pid}, http://127.0.0.1:{port}." in refusal(data, 1)
        assert f"Port {port} on 127.0.0.1 cannot be used" in refusal(tmp_path / "other", port)

        pids = descendants(process.pid)
        assert len(pids) >= 4  # Two keepers and what they keep.
        # The keepers, and no process they keep, hold the lock: it lasts as long as anything of this `up` does.
        holders = [pid for pid in pids if str(data / "up.lock") in open_files(pid)]
        assert holders == [pid for pid in pids if child.__file__ in arguments(pid)]
        assert len(holders) == 2
        process.send_signal(signal.SIGINT)  # With a connection still open.
        assert process.wait(PATIENCE_S) == 0
        assert "Traceback" not in process.stderr.read().decode()
        connection.close()
    for pid in pids:
        wait_for_end(pid)
    with up.listen(port):  # The port is free again.
        pass


def test_a_killed_worker_comes_back_and_kill_9_of_up_ends_everything(tmp_path):
    with running(tmp_path) as (process, port):
        worker = next(
            pid
            for pid in descendants(process.pid)
            if "console.worker" in arguments(pid) and child.__file__ not in arguments(pid)
        )
        os.kill(worker, signal.SIGKILL)
        Lines(process.stderr.fileno()).until("The worker was killed (signal 9")
        pids = descendants(process.pid)
        process.kill()
        for pid in pids:
            wait_for_end(pid)
    with running(tmp_path) as (process, port):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def open_files(pid):
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]


def arguments(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_a_database_that_is_not_there_is_a_sentence(tmp_path):
    done = subprocess.run(
        command(tmp_path, free_port()),
        env=clean_environment() | {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"},
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "PostgreSQL at 127.0.0.1:1, database none cannot be used: Connection refused; start the server, or mend DATABASE_URL.\n"
    )


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_a_port_that_is_none_is_refused(port, capsys):
    with pytest.raises(SystemExit) as ended:
        up.parse([f"--port={port}"])
    assert ended.value.code == 2
    assert "is not a port" in capsys.readouterr().err


REPORT = {
    "login": "http://127.0.0.1:8420/login/x",
    "database": "SQLite, /d/fabric.sqlite3",
    "broker": "b",
    "workers": "w",
}


def test_the_welcome_is_at_most_ten_lines_and_the_link_has_its_own(monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    lines = up.welcome(
        "http://127.0.0.1:8420", Path("/d"), REPORT | {"models": "m", "left out": "the sample x: no"}
    ).splitlines()
    assert len(lines) == 10
    assert lines[0] == "Fabric Flow runs at http://127.0.0.1:8420 (Ctrl-C stops it)."
    assert lines[2].split() == [REPORT["login"]]
    assert "  database  SQLite, fabric.sqlite3" in lines
    assert "  left out  the sample x: no" in lines
    assert "ssh -L 8420:127.0.0.1:8420" in lines[-1]


AS_A_USER = """
import os, sys
from console.launch import up  # As root, who alone may be able to read the checkout.
if not os.getuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
up.listen(int(sys.argv[1]))
"""


def test_a_port_below_1024_says_whose_it_is():
    port = 81
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= port:
        pytest.skip("this system lets every user have every port")
    done = subprocess.run(
        [sys.executable, "-c", AS_A_USER, str(port)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Port 81 on 127.0.0.1 cannot be used (Permission denied; below 1024 is for root): choose another with --port.\n"
    )


def test_a_setting_that_cannot_be_used_is_refused_before_anything_is_done(tmp_path):
    done = subprocess.run(
        command(tmp_path / "data", free_port()),
        env=clean_environment() | {"FABRIC_PUBLIC_URL": "banana"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "FABRIC_PUBLIC_URL is no web address: write one like https://fabric.example.org.\n"
    assert not (tmp_path / "data").exists()


def test_the_port_is_also_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("FABRIC_PORT", "9001")
    assert up.parse([]).port == 9001
    assert up.parse(["--port", "9002"]).port == 9002


def test_a_reader_that_went_away_ends_nothing():
    script = (
        "import sys; from console.launch import up; up._put('one', sys.stdout); up._put('two', sys.stdout); sys.exit(7)"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (7, b"")


def test_a_taken_port_is_a_sentence():
    port = free_port()
    with up.listen(port), pytest.raises(StartRefused, match=f"Port {port} on 127.0.0.1 cannot be used .* --port"):
        up.listen(port)
