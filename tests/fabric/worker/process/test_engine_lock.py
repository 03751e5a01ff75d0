"""The lock against real processes: what the system does with it when its holder is killed is the point of it."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fabric.worker.process.engine_lock import PAUSE_S, TRIES, EngineLock, EngineRunning
from tests.console.launch.started_processes import PATIENCE_S, Lines, started

ROOT = Path(__file__).resolve().parents[4]
HOLDER = """
import sys, threading
from pathlib import Path
from fabric.worker.process.engine_lock import EngineLock
lock = EngineLock(Path(sys.argv[1]))
lock.take(until=threading.Event())
print("taken", flush=True)
sys.stdin.read()
"""


def holder(data):
    """A process that takes the lock and keeps it until its standard input is closed or it is killed."""
    command = [sys.executable, "-c", HOLDER, str(data)]
    return started(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_second_process_is_refused_with_a_sentence_and_kill_9_frees_the_lock(tmp_path):
    lock = EngineLock(tmp_path)
    assert not lock.held_elsewhere()
    with holder(tmp_path) as process:
        assert Lines(process.stdout.fileno()).next() == "taken"
        assert lock.held_elsewhere()
        with pytest.raises(EngineRunning) as refused:
            lock.take()
        assert str(refused.value) == f"an engine is running on {tmp_path.name} already: use it, or stop it first"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not lock.held_elsewhere()
        lock.take()
        assert not lock.held_elsewhere()  # It is this one's now.
        assert EngineLock(tmp_path).held_elsewhere()
        lock.give_back()


def test_who_waits_gets_it_as_soon_as_it_is_free(tmp_path):
    lock = EngineLock(tmp_path)
    lock.take()
    with holder(tmp_path) as process:
        said = Lines(process.stdout.fileno())
        lock.give_back()
        assert said.next() == "taken"
        assert lock.held_elsewhere()


def test_who_waits_can_be_told_to_end(tmp_path):
    lock = EngineLock(tmp_path)
    lock.take()
    end, refused = threading.Event(), []

    def wait():
        try:
            EngineLock(tmp_path).take(until=end)
        except EngineRunning as error:
            refused.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(5 * TRIES * PAUSE_S)
    assert waiting.is_alive()  # Not only as often as who does not want to wait.
    end.set()
    waiting.join(PATIENCE_S)
    assert len(refused) == 1
    lock.give_back()
    assert not lock.held_elsewhere()


def test_the_lock_is_not_inherited_by_a_child_that_outlives_its_holder(tmp_path):
    keeper = f"""
import subprocess, sys
from pathlib import Path
from fabric.worker.process.engine_lock import EngineLock
EngineLock(Path({str(tmp_path)!r})).take()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=sys.stdin)
print("taken", flush=True)
child.wait()
"""
    with started([sys.executable, "-c", keeper], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert Lines(process.stdout.fileno()).next() == "taken"
        lock = EngineLock(tmp_path)
        assert lock.held_elsewhere()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not lock.held_elsewhere()
        process.stdin.close()  # The child reads its end.


def test_looking_keeps_no_one_from_looking_and_from_taking_it_only_for_a_moment(tmp_path):
    looker = EngineLock(tmp_path)._open()
    fcntl.flock(looker, fcntl.LOCK_SH)  # Another process looks at just this moment...
    assert not EngineLock(tmp_path).held_elsewhere()
    timer = threading.Timer(0.001, os.close, [looker])
    timer.start()
    lock = EngineLock(tmp_path)
    lock.take()  # ... and has looked a moment later.
    timer.join()
    lock.give_back()


def test_giving_back_what_is_not_held_is_nothing(tmp_path):
    EngineLock(tmp_path).give_back()


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="engine.lock"):
        EngineLock(tmp_path / "missing").take()
