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
from console.launch.child import descendants
from console.launch.errors import Refused
from console.launch.paths import ROOT
from tests.console.launch.processes import PATIENCE_S, Lines, free_port, started, wait_for_end


def command(data, port):
    return [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]


def environ():
    """The environment of somebody's shell, without what the tests have put in."""
    left_out = ("FABRIC_DATA", "FABRIC_PORT", "DJANGO_SETTINGS_MODULE")
    return {name: value for name, value in os.environ.items() if name not in left_out}


@contextmanager
def running(data):
    """Run `up` until it has said that it is ready; yield the process and the port."""
    port = free_port()
    options = {"env": environ(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command(data, port), **options) as process:
        line = Lines(process.stdout.fileno()).next()
        assert line == f"Fabric Flow runs at http://127.0.0.1:{port} (Ctrl-C stops it).", (
            process.stderr.read1().decode()
        )
        yield process, port


def refusal(data, port):
    done = subprocess.run(
        command(data, port), env=environ(), check=False, capture_output=True, text=True, timeout=PATIENCE_S
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
        # The keepers, and nobody they keep, hold the lock: it lasts as long as anything of this `up` does.
        holders = [pid for pid in pids if str(data / "up.lock") in open_files(pid)]
        assert holders == [pid for pid in pids if "console.launch.child" in arguments(pid)]
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
            pid for pid in descendants(process.pid) if "celery" in arguments(pid) and "--" not in arguments(pid)
        )
        os.kill(worker, signal.SIGKILL)
        said = Lines(process.stderr.fileno())
        while "The worker was ended by signal 9" not in (line := said.next()):
            assert line, "nothing was said about the worker"
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
        env=environ() | {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"},
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("The database could not be brought up to date: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_a_port_that_is_none_is_refused(port, capsys):
    with pytest.raises(SystemExit) as ended:
        up.parse([f"--port={port}"])
    assert ended.value.code == 2
    assert "is not a port" in capsys.readouterr().err


def test_a_taken_port_is_a_sentence():
    port = free_port()
    with up.listen(port), pytest.raises(Refused, match=f"Port {port} on 127.0.0.1 cannot be used .* --port"):
        up.listen(port)
