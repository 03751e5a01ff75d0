import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from console.launch.processes.data_directory import ROOT
from console.launch.supervisor import BACKOFF_FIRST_S, BACKOFF_LAST_S, HEALTHY_AFTER_S, HOPELESS_AFTER, Backoff
from tests.console.launch.started_processes import PATIENCE_S, Lines, started, wait_for_end

SUPERVISE = """
import sys
from console.launch.supervisor import ChildSpec, Supervisor
out = int(sys.argv[1])
specs = [
    ChildSpec(name, [sys.executable, "-c", sys.argv[2], str(out), name], kept_fds=(out,)) for name in sys.argv[3:]
]
say = lambda text: print(text, file=sys.stderr, flush=True)
sys.exit(Supervisor(specs, say=say, backoff_s=0.001, repeat_s=0).run())
"""
# Says its name and process id; one SIGTERM ends it.
WORK = """
import os, signal, sys
# Waited for, not handled: between a check and `pause` a handler would come too early, and nothing would end.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(int(sys.argv[1]), f"{sys.argv[2]} {os.getpid()}\\n".encode())
signal.sigwait([signal.SIGTERM])
os.write(int(sys.argv[1]), f"{sys.argv[2]} term\\n".encode())
"""


@contextmanager
def supervised(work, *names):
    """Run a supervisor over children of these names; yield it and the lines that the children say."""
    read, write = os.pipe()
    command = [sys.executable, "-c", SUPERVISE, str(write), work, *names]
    with started(command, cwd=ROOT, pass_fds=[write], stderr=subprocess.PIPE) as process:
        os.close(write)
        yield process, Lines(read)
    os.close(read)


def pids_of(said, count):
    return dict(said.next().split() for _ in range(count))


def test_a_child_that_dies_is_started_again_and_the_other_is_left_alone():
    with supervised(WORK, "web", "worker") as (supervisor, said):
        pids = pids_of(said, 2)
        for _ in range(3):
            os.kill(int(pids["worker"]), signal.SIGKILL)
            name, pid = said.next().split()
            assert name == "worker"
            assert pid != pids["worker"]
            pids["worker"] = pid
        os.kill(int(pids["web"]), 0)
        supervisor.terminate()
        assert sorted(said.rest()) == ["web term", "worker term"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_is_one_sigterm_each(number):
    with supervised(WORK, "web", "worker") as (supervisor, said):
        pids_of(said, 2)
        supervisor.send_signal(number)
        assert sorted(said.rest()) == ["web term", "worker term"]
        assert supervisor.wait(PATIENCE_S) == 0


def test_kill_9_of_the_supervisor_ends_the_children():
    with supervised(WORK, "web", "worker") as (supervisor, said):
        pids = pids_of(said, 2)
        supervisor.kill()
        assert sorted(said.rest()) == ["web term", "worker term"]  # And end of file: no keeper is left either.
        for pid in pids.values():
            wait_for_end(int(pid))


DEFY = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: os.write(int(sys.argv[1]), b"no\\n"))
os.write(int(sys.argv[1]), b"here\\n")
while True:
    signal.pause()
"""


def test_a_second_ctrl_c_does_not_wait_for_a_child_that_takes_its_time():
    with supervised(DEFY, "worker") as (supervisor, said):
        assert said.next() == "here"
        supervisor.send_signal(signal.SIGINT)
        assert said.next() == "no"
        supervisor.send_signal(signal.SIGINT)
        assert said.rest() == []
        assert supervisor.wait(PATIENCE_S) == 0


def test_a_child_that_never_comes_to_life_is_given_up_with_a_sentence():
    with supervised("import sys; sys.exit(3)", "worker") as (supervisor, said):
        assert said.rest() == []
        assert supervisor.wait(PATIENCE_S) == 1
        told = supervisor.stderr.read().decode().splitlines()
    assert told[0].startswith("The worker ended with exit code 3; starting it again in ")
    assert told[-2] == "The worker ended with exit code 3."
    assert told[-1] == f"The worker failed {HOPELESS_AFTER} times at its start: its messages above say why."
    assert len(told) == HOPELESS_AFTER + 1


TWO_SIGNALS_AT_ONCE = """
import os, signal, sys
from console.launch.supervisor import Supervisor
supervisor = Supervisor([], say=print)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGHUP)
print(supervisor._stops)
"""


def test_two_signals_at_once_are_one_stop():
    told = subprocess.check_output([sys.executable, "-c", TWO_SIGNALS_AT_ONCE], cwd=ROOT, text=True)
    assert told == "1\n"


def test_nohup_outlives_its_terminal():
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + TWO_SIGNALS_AT_ONCE
    script = script.replace("SIGTERM)", "SIGHUP)")
    assert subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True) == "0\n"


def test_the_backoff_doubles_is_bounded_and_is_forgotten_after_health():
    backoff = Backoff()
    delays = [backoff.after(0.1, 1) for _ in range(10)]
    assert delays[:3] == [BACKOFF_FIRST_S, 2 * BACKOFF_FIRST_S, 4 * BACKOFF_FIRST_S]
    assert delays[-1] == max(delays) == BACKOFF_LAST_S
    assert backoff.after(HEALTHY_AFTER_S, 1) == BACKOFF_FIRST_S


def test_only_a_childs_own_failures_make_it_hopeless():
    backoff = Backoff()
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        backoff.after(0.1, 128 + number)
        backoff.after(0.1, -number)
    assert backoff.fruitless == 0
    for code in (1, 0, 128 + signal.SIGSEGV):
        backoff.after(0.1, code)
    assert backoff.fruitless == 3
    backoff.after(HEALTHY_AFTER_S, 128 + signal.SIGKILL)
    assert backoff.fruitless == 0
