"""A child that hangs is replaced: one that was stopped, one that keeps the interpreter's lock, one whose main thread has ended; one that is only busy is not."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.launch.processes import heartbeat as beating
from console.launch.processes.data_directory import ROOT
from console.launch.processes.heartbeat import LOADING, LOOK_S, Silence
from console.launch.processes.keeper import descendants
from simulator.installation.database import clean_environment, copy_sqlite
from tests.console.launch.started_processes import PATIENCE_S, Lines, started, wait_for_end
from tests.servers.ports import free_port

SUPERVISE = """
import sys
from console.launch.supervisor import ChildSpec, Supervisor
out = int(sys.argv[1])
specs = [ChildSpec(name, [sys.executable, "-c", sys.argv[2], str(out), name], kept_fds=(out,), beats=True) for name in sys.argv[3:]]
say = lambda text: print(text, file=sys.stderr, flush=True)
sys.exit(Supervisor(specs, say=say, backoff_s=0.001, silence_s=3.0).run())
"""
# Beats, says its name and process id, and does what it is told to the first time that a child of this name is started.
CHILD = """
import ctypes, os, signal, sys, threading, time
from console.launch.processes.heartbeat import beat_on
out, name = int(sys.argv[1]), sys.argv[2]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
beat_on(every_s=0.2)
os.write(out, f"{name} {os.getpid()}\\n".encode())
if name == "keeps_lock":
    ctypes.PyDLL(None).sleep(3600)
if name == "is_busy":
    until = time.monotonic() + 12
    while time.monotonic() < until:
        sum(range(10_000))
    os.write(out, b"is_busy done\\n")
if name == "has_ended":
    threading.Thread(target=time.sleep, args=[3600]).start()
    sys.exit(1)
signal.sigwait([signal.SIGTERM])
"""


@contextmanager
def supervised(*names):
    read, write = os.pipe()
    command = [sys.executable, "-c", SUPERVISE, str(write), CHILD, *names]
    with started(command, cwd=ROOT, pass_fds=[write], stderr=subprocess.PIPE) as process:
        os.close(write)
        yield process, Lines(read)
    os.close(read)


def test_a_stopped_child_is_replaced_and_the_other_is_left_alone():
    with supervised("web", "worker") as (supervisor, said):
        pids = dict(said.next().split() for _ in range(2))
        os.kill(int(pids["worker"]), signal.SIGSTOP)
        name, pid = said.next().split()
        assert (name, pid != pids["worker"]) == ("worker", True)
        wait_for_end(int(pids["worker"]))
        os.kill(int(pids["web"]), 0)
        told = Lines(supervisor.stderr.fileno()).next()
        assert told.startswith("The worker has given no sign of life for ")
        assert told.endswith(" s: it is killed.")


@pytest.mark.parametrize("name", ["keeps_lock", "has_ended"])
def test_a_child_that_cannot_go_on_by_itself_is_replaced(name):
    with supervised(name) as (_, said):
        first, second = said.next(), said.next()
        assert first != second
        wait_for_end(int(first.split()[1]))


def test_a_child_that_is_only_busy_is_left_alone():
    with supervised("is_busy") as (_, said):
        assert said.next().startswith("is_busy ")
        assert said.next() == "is_busy done"


def silent(*looks: float, heard: bool = False) -> Silence:
    silence = Silence(60.0, _looked_at=0.0)
    if heard:
        os.write(silence.write, b".")
    for now in looks:
        silence.look(now)
    os.close(silence.write)
    silence.close()
    return silence


def test_a_supervisor_that_slept_blames_no_process():
    assert not silent(1.0, 10_000.0, heard=True).over
    assert silent(1.0, 10_000.0, heard=True).silent_s == 2 * LOOK_S
    assert silent(*[2.0 * n for n in range(33)], heard=True).over


def test_a_child_that_was_not_heard_yet_may_load_for_longer():
    assert not silent(*[2.0 * n for n in range(33)]).over
    assert silent(*[2.0 * n for n in range(30 * LOADING + 1)]).over


def test_systemd_is_told_in_its_own_way(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(PATIENCE_S)
        listening.bind(f"\0fabric-test-{os.getpid()}")
        monkeypatch.setenv(beating.SYSTEMD, f"@fabric-test-{os.getpid()}")
        lives = threading.Event()
        lives.set()
        beating.beat_on(lives.is_set, every_s=0.01)
        assert listening.recv(100) == b"READY=1\nWATCHDOG=1"
        lives.clear()


def until_there(path):
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < until
        threading.Event().wait(0.05)


def test_a_container_s_probe_is_told_by_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv(beating.FILE, str(tmp_path / "beat"))
    asked, lives = threading.Event(), threading.Event()

    def alive():
        if lives.is_set():
            return True
        asked.set()
        return False

    beating.beat_on(alive, every_s=0.01)
    assert asked.wait(PATIENCE_S)
    assert not (tmp_path / "beat").exists()
    lives.set()
    until_there(tmp_path / "beat")


def test_no_heartbeat_without_a_listener(monkeypatch):
    monkeypatch.delenv(beating.SYSTEMD, raising=False)
    monkeypatch.delenv(beating.PIPE, raising=False)
    monkeypatch.delenv(beating.FILE, raising=False)
    assert beating.beat_on() is None


UP = """
import sys
from console.launch import up
sys.exit(up.run(up.parse(sys.argv[1:]), silence_s=20.0))
"""
# In every Python below `up`: once a file of its process id is there it keeps the interpreter's lock, or as the file says its event loop alone.
HOLDING = """
import asyncio, ctypes, gc, os, pathlib, threading, time
file = pathlib.Path(os.environ["HOLDING"]) / str(os.getpid())
os.environ["BEAT_FILE"] = f"{file}.beat"
def hold():
    while not file.exists():
        threading.Event().wait(0.2)
    if not file.read_text():
        ctypes.PyDLL(None).sleep(3600)
    for one in gc.get_objects():
        if isinstance(one, asyncio.AbstractEventLoop) and one.is_running():
            one.call_soon_threadsafe(time.sleep, 3600)
threading.Thread(target=hold, daemon=True).start()
"""


def child_of(process, module):
    (pid,) = [pid for pid in descendants(process.pid) if module in arguments(pid)[:3]]
    return pid


def arguments(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def healthy(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/healthz")
    return connection.getresponse().status == 200


@pytest.mark.slow
def test_up_replaces_a_web_server_and_a_worker_that_hang(tmp_path):
    """The real ones: a stopped web server beside a worker that keeps the lock, and a web server that answers no request while its other threads go on."""
    copy_sqlite(
        clean_environment(), tmp_path / "data"
    )  # That `up` makes the tables itself: tests/console/management/commands/test_prepare.py.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HOLDING)
    port = free_port()
    environ = clean_environment() | {"HOLDING": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", UP, "--no-browser", "--data", str(tmp_path / "data"), "--port", str(port)]
    with started(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        Lines(process.stdout.fileno()).next()
        told = Lines(process.stderr.fileno())
        stopped, holding = child_of(process, "console.web_server"), child_of(process, "console.worker")
        for pid in (stopped, holding):
            until_there(tmp_path / f"{pid}.beat")  # One that was not heard yet may take longer.
        os.kill(stopped, signal.SIGSTOP)
        (tmp_path / str(holding)).touch()
        hanging = {"The web server", "The worker"}
        while hanging:
            hanging.discard(told.until("no sign of life").partition(" has given")[0])
        for pid in (stopped, holding):
            wait_for_end(pid)
        assert healthy(port)
        silent = child_of(process, "console.web_server")
        until_there(tmp_path / f"{silent}.beat")
        (tmp_path / f"{silent}.new").write_text("loop")
        (tmp_path / f"{silent}.new").rename(tmp_path / str(silent))
        assert told.until("no sign of life").startswith("The web server has given")
        wait_for_end(silent)
        assert healthy(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
