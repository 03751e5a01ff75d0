import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.launch.processes import commands as kept
from console.launch.processes import keeper as child
from console.launch.processes.data_directory import ROOT
from tests.console.launch.started_processes import PATIENCE_S, Lines, started, wait_for_end

# Says its process id on descriptor argv[1], starts a detached descendant that does the same, waits for a signal.
FAMILY = """
import os, signal, subprocess, sys
out = int(sys.argv[1])
def told(number, frame):
    os.write(out, b"term\\n")
    if sys.argv[2] == "obey":
        sys.exit(7)
signal.signal(signal.SIGTERM, told)
leaf = "import os, signal, sys; os.write(int(sys.argv[1]), b'%d\\\\n' % os.getpid()); signal.pause()"
subprocess.Popen([sys.executable, "-c", leaf, str(out)], pass_fds=[out], start_new_session=True)
os.write(out, b"%d\\n" % os.getpid())
while True:
    signal.pause()
"""


@contextmanager
def family(temper):
    """Run the family under a keeper; yield the keeper, the write end of its pipe, what is said, and the two pids."""
    said_read, said_write = os.pipe()
    pipe_read, pipe_write = os.pipe()
    keeper = [sys.executable, "-I", child.__file__, str(pipe_read), str(said_write), "--"]
    command = [*keeper, sys.executable, "-c", FAMILY, str(said_write), temper]
    with started(command, cwd=ROOT, pass_fds=(pipe_read, said_write)) as process:
        os.close(pipe_read)
        os.close(said_write)
        lines = Lines(said_read)
        yield process, pipe_write, lines, [int(lines.next()), int(lines.next())]
    os.close(said_read)


def test_the_end_of_up_ends_the_command_and_a_detached_descendant():
    with family("obey") as (keeper, pipe, said, pids):
        os.close(pipe)
        assert said.rest() == ["term"]  # And end of file: no process of the family is left.
        assert keeper.wait(PATIENCE_S) == 7
        for pid in pids:
            wait_for_end(pid)


def test_a_command_that_does_not_obey_is_killed():
    with family("defy") as (keeper, pipe, said, pids):
        os.close(pipe)
        assert said.rest() == ["term"]
        assert keeper.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_a_byte_on_the_pipe_kills_at_once():
    with family("defy") as (keeper, pipe, said, pids):
        os.write(pipe, child.KILL)
        assert said.rest() == []
        assert keeper.wait(PATIENCE_S) == 128 + signal.SIGKILL
        os.close(pipe)


def test_two_sigterms_are_passed_on_as_one():
    with family("defy") as (keeper, pipe, said, pids):
        keeper.terminate()
        assert said.next() == "term"
        keeper.terminate()
        os.write(pipe, child.KILL)
        assert said.rest() == []
        os.close(pipe)


def test_the_command_dies_with_its_keeper():
    with family("defy") as (keeper, pipe, said, pids):
        keeper.kill()
        keeper.wait(PATIENCE_S)
        by_parent = [pid for pid in pids if is_family_head(pid)]
        for pid in by_parent:
            wait_for_end(pid)
        for pid in set(pids) - set(by_parent):
            os.kill(pid, signal.SIGKILL)  # No process is left to sweep up the detached one but this test.
        os.close(pipe)


def is_family_head(pid):
    try:
        return b"defy" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


@pytest.mark.parametrize(("code", "expected"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("os.abort()", 134)])
def test_the_exit_code_is_the_commands(code, expected):
    read, write = os.pipe()
    command = [
        sys.executable,
        child.__file__,
        str(read),
        "--",
        sys.executable,
        "-c",
        f"import os, sys; {code}",
    ]
    done = subprocess.run(
        command, cwd=ROOT, pass_fds=[read], check=False, timeout=PATIENCE_S, stderr=subprocess.DEVNULL
    )
    os.close(read)
    os.close(write)
    assert done.returncode == expected


def test_ctrl_c_means_to_the_command_what_it_means_to_any_other():
    # The keeper ignores SIGINT; a Python that inherited that would never raise KeyboardInterrupt.
    script = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    assert kept.run([sys.executable, "-c", script]).returncode == 0


def test_what_was_said_comes_back():
    done = kept.run([sys.executable, "-c", "import sys; print('out'); sys.exit('err')"], capture=True)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 1)


RUN_KEPT = "import sys; from console.launch.processes import commands as kept; kept.run([sys.executable, '-c', sys.argv[1], '1', 'obey'])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_run_ends_with_its_parent(number):
    read, write = os.pipe()
    with started(
        [sys.executable, "-c", RUN_KEPT, FAMILY], cwd=ROOT, stdout=write, stderr=subprocess.DEVNULL
    ) as process:
        os.close(write)
        lines = Lines(read)
        pids = [int(lines.next()), int(lines.next())]
        process.send_signal(number)
        assert lines.rest() == ["term"]  # And end of file: no process of the family is left.
        for pid in pids:
            wait_for_end(pid)
    os.close(read)
