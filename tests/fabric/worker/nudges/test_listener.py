"""Nudges over local sockets: they arrive, they get lost without harm, and they end."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from fabric.stores.rows import write_nudge
from fabric.worker.nudges.listener import NullNudge, ReceivedNudge, read_told
from fabric.worker.nudges.local_socket import PATH_MAX, SocketListener, SocketNudge, socket_directory
from fabric.worker.nudges.postgresql import PostgresqlNudge

ROOT = Path(__file__).resolve().parents[4]
WAIT_S = 10


@pytest.fixture
def data():
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
def nudge(data):
    made = SocketNudge(data)
    yield made
    made.close()


@pytest.fixture
def listening(data):
    listeners = []

    def listen(*kinds, directory=data):
        heard: SimpleQueue[ReceivedNudge] = SimpleQueue()
        listener = SocketListener(directory, heard.put, **({"kinds": kinds} if kinds else {}))
        listener.start()
        listeners.append(listener)
        return heard, listener

    yield listen
    for listener in listeners:
        listener.stop()


def test_each_listener_hears_what_it_asked_for(nudge, listening):
    hosts, _ = listening("wake")
    pages, _ = listening("told")
    every, _ = listening()
    nudge.wake("run-1")
    nudge.announce({"run-1": 7, "run-2": 9})
    woken, told = ReceivedNudge("wake", {"run-1": 0}), ReceivedNudge("told", {"run-1": 7, "run-2": 9})
    assert hosts.get(timeout=WAIT_S) == woken
    assert pages.get(timeout=WAIT_S) == told
    assert [every.get(timeout=WAIT_S), every.get(timeout=WAIT_S)] == [woken, told]
    assert hosts.empty()
    assert pages.empty()


def test_a_process_hears_another(nudge, listening, data):
    heard, _ = listening("told")
    told = "import sys; from pathlib import Path; from fabric.worker.nudges.local_socket import SocketNudge\n"
    told += "SocketNudge(Path(sys.argv[1])).announce({'run-1': 3})"
    subprocess.run([sys.executable, "-c", told, str(data)], check=True, cwd=ROOT)
    assert heard.get(timeout=WAIT_S) == ReceivedNudge("told", {"run-1": 3})


def test_no_listener_is_no_error_and_leaves_nothing_behind(nudge, data):
    nudge.wake("run-1")
    stale = socket_directory(data) / "wake.1.1"
    gone = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    gone.bind(str(stale))
    gone.close()
    assert stale.exists()
    nudge.wake("run-1")
    assert not stale.exists()


def test_a_listener_that_does_not_read_loses_nudges_and_delays_no_one(nudge, data):
    heard: SimpleQueue[ReceivedNudge] = SimpleQueue()
    stuck = threading.Event()

    def hear(message):
        assert stuck.wait(WAIT_S)
        heard.put(message)

    listener = SocketListener(data, hear, kinds=("told",))
    listener.start()
    for n in range(5000):
        nudge.announce({"run-1": n + 1})
    stuck.set()
    first = heard.get(timeout=WAIT_S)
    nudge.announce({"run-2": 1})
    listener.stop()
    assert first == ReceivedNudge("told", {"run-1": 1})
    assert heard.qsize() < 5000


def test_a_stopped_listener_hears_no_more_and_its_socket_is_gone(nudge, listening, data):
    heard, listener = listening()
    listener.stop()
    listener.stop()
    nudge.wake("run-1")
    with pytest.raises(Empty):
        heard.get_nowait()
    assert list(socket_directory(data).iterdir()) == []
    listener.start()
    nudge.wake("run-2")
    assert heard.get(timeout=WAIT_S) == ReceivedNudge("wake", {"run-2": 0})


def test_a_large_flush_arrives_whole(nudge, listening):
    heard, _ = listening("told")
    runs = {f"0190163d-8694-739b-aea5-966c26f8{n:04x}": n + 1 for n in range(2500)}
    nudge.announce(runs)
    arrived = {}
    while len(arrived) < len(runs):
        arrived.update(heard.get(timeout=WAIT_S).run_seqs)
    assert arrived == runs


def test_a_directory_too_deep_for_a_socket_gets_one_elsewhere(data, listening):
    deep = data / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    elsewhere = socket_directory(deep)
    assert not elsewhere.is_relative_to(data)
    assert socket_directory(deep) == elsewhere
    assert socket_directory(deep.parent) != elsewhere
    assert len(os.fsencode(elsewhere)) < PATH_MAX
    assert elsewhere.parent.stat().st_mode & 0o077 == 0
    heard, _ = listening("wake", directory=deep)
    sender = SocketNudge(deep)
    sender.wake("run-1")
    sender.close()
    assert heard.get(timeout=WAIT_S) == ReceivedNudge("wake", {"run-1": 0})
    elsewhere.rmdir() if not any(elsewhere.iterdir()) else None


def test_a_directory_that_cannot_be_used_costs_the_nudge_alone(tmp_path):
    (tmp_path / "nudge").write_text("not a directory")
    SocketNudge(tmp_path).wake("run-1")
    SocketNudge(tmp_path).announce({"run-1": 1})


@pytest.mark.parametrize("nudge", [NullNudge(), PostgresqlNudge()])
def test_a_nudge_with_nothing_to_say_says_nothing(nudge):
    nudge.wake("run-1")
    nudge.announce({"run-1": 1})


def test_what_was_cut_off_is_left_out():
    assert read_told(write_nudge([("run-1", 7), ("run:2", 8)])) == {"run-1": 7, "run:2": 8}
    assert read_told("run-1:7,run-2:") == {"run-1": 7}
    assert read_told("run-1:7,ru") == {"run-1": 7}
    assert read_told("") == {}
