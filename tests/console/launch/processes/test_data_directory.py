import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console.launch.processes import data_directory as datadir
from console.launch.processes.data_directory import ROOT, data_dir
from console.launch.processes.errors import StartRefused
from tests.console.launch.started_processes import PATIENCE_S, Lines, started

URL = "http://127.0.0.1:8420"


def test_where_the_data_is(tmp_path):
    assert data_dir({"FABRIC_DATA": str(tmp_path), "XDG_DATA_HOME": "/x"}) == tmp_path
    assert str(data_dir({"XDG_DATA_HOME": "/x"})) == "/x/fabric-flow"
    assert data_dir({"XDG_DATA_HOME": "relative"}).parts[-3:] == (".local", "share", "fabric-flow")


def test_the_directory_is_for_its_owner_alone(tmp_path):
    made = datadir.prepare(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", ["", datadir.KEY_NAME, "fabric.sqlite3", "lost+found"])
def test_one_that_was_there_is_closed_to_others_and_so_are_its_files(tmp_path, content):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    if content:
        (data / content).touch(0o644)
    datadir.prepare(data)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, *data.iterdir())] == [
        0o700,
        *[0o600 for _ in data.iterdir()],
    ]


def test_one_that_is_open_and_holds_other_things_is_left_as_it_is(tmp_path):
    """It may be a user's home, or /tmp."""
    (tmp_path / "letters").touch(0o644)
    tmp_path.chmod(0o755)
    with pytest.raises(StartRefused, match="is open to others and holds other things: choose one .* or `chmod 700` it"):
        datadir.prepare(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "letters").stat().st_mode) == 0o644
    tmp_path.chmod(0o700)
    datadir.prepare(tmp_path)


def test_a_file_that_goes_meanwhile_is_no_matter_and_a_link_is_not_followed(tmp_path):
    datadir.close_file(tmp_path / "fabric.sqlite3-wal")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(0o644)
    data = tmp_path / "data"
    data.mkdir(0o700)
    (data / "link").symlink_to(elsewhere)
    datadir.prepare(data)
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o644


def test_commands_on_a_directory_know_the_port_of_its_up(tmp_path):
    assert datadir.find_port(tmp_path) is None
    with datadir.hold(tmp_path, "http://127.0.0.1:9317"):
        assert datadir.find_port(tmp_path) == 9317
        code = "from console import settings; print(settings.FABRIC_PUBLIC_URL)"
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("FABRIC_", "DJANGO_"))}
        said = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environ | {"FABRIC_DATA": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert said == "http://127.0.0.1:9317\n"


@pytest.mark.parametrize("written", ["", "{", '{"pid": 1, "url": "http://127.0.0.1:port"}'])
def test_a_lock_that_says_nothing_names_no_port(tmp_path, written):
    (tmp_path / datadir.LOCK_NAME).write_text(written)
    assert datadir.find_port(tmp_path) is None


@pytest.mark.parametrize("below", [".", "data"])
def test_a_directory_that_is_or_would_be_in_a_file_is_a_sentence(tmp_path, below):
    (tmp_path / "file").touch()
    with pytest.raises(StartRefused, match="is, or would be in, a file: .* --data or FABRIC_DATA"):
        datadir.prepare(tmp_path / "file" / below)


def test_a_directory_that_cannot_be_made_is_a_sentence():
    with pytest.raises(StartRefused, match=r"cannot be made \(.*\): .* --data or FABRIC_DATA"):
        datadir.prepare(Path("/proc/self/data"))  # Where not even root makes one.


def test_a_directory_that_may_not_be_written_is_a_sentence():
    """As a user who is not root, whom nothing is forbidden."""
    script = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n" if not os.getuid() else "import sys\n"
    )
    script += "from pathlib import Path; from console.launch.processes import data_directory as datadir; datadir.prepare(Path(sys.argv[1]))"
    # Imported by root, who alone may be able to read the checkout.
    done = subprocess.run(
        [sys.executable, "-c", f"import console.launch.processes.data_directory\n{script}", "/"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("The data directory / cannot be written by this user: choose one")


def test_the_secret_key_is_made_once_and_private(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: datadir.secret_key(tmp_path), range(64)))
    assert len(keys) == 1
    assert len(keys.pop()) > 64
    assert (tmp_path / datadir.KEY_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [datadir.KEY_NAME]


def test_one_at_a_time_and_the_other_is_told_who(tmp_path):
    with datadir.hold(tmp_path, URL), pytest.raises(StartRefused, match=f"already running on .*{os.getpid()}, {URL}"):
        datadir.hold(tmp_path, "http://127.0.0.1:1")
    datadir.hold(tmp_path, URL).close()


HOLD_AND_LEAVE_AN_ORPHAN = """
import subprocess, sys
from pathlib import Path
from console.launch.processes import data_directory as datadir
held = datadir.hold(Path(sys.argv[1]), "http://x")
subprocess.Popen([sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"], pass_fds=[held.fileno()])
sys.stdin.read()
"""


def test_what_a_killed_holder_left_running_is_waited_for(tmp_path, capsys):
    command = [sys.executable, "-c", HOLD_AND_LEAVE_AN_ORPHAN, str(tmp_path)]
    with started(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert Lines(holder.stdout.fileno()).next() == "here"
        holder.send_signal(signal.SIGKILL)
        holder.wait(PATIENCE_S)
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(datadir.hold, tmp_path, URL)
            assert not taken.done()
            holder.stdin.close()  # Which ends the orphan.
            taken.result(PATIENCE_S).close()


def test_a_damaged_key_is_a_sentence(tmp_path):
    (tmp_path / datadir.KEY_NAME).touch()
    with pytest.raises(StartRefused, match="is damaged: delete the file"):
        datadir.secret_key(tmp_path)


def test_a_lock_that_cannot_be_had_is_a_sentence(tmp_path):
    (tmp_path / datadir.LOCK_NAME).mkdir()
    with pytest.raises(StartRefused, match="up.lock cannot be written .* --data or FABRIC_DATA"):
        datadir.hold(tmp_path, URL)


@pytest.mark.parametrize(("number", "advice"), [(errno.ENOSPC, "make room on that disk"), (errno.EROFS, "choose one")])
def test_a_full_disk_is_told_from_one_that_may_not_be_written(number, advice):
    assert datadir._hint(OSError(number, os.strerror(number))).startswith(advice)


def test_the_up_of_a_data_directory_is_found_while_it_runs(tmp_path):
    data = datadir.prepare(tmp_path / "data")
    assert datadir.find_up(data) is None
    held = datadir.hold(data, URL)
    assert datadir.find_up(data) == os.getpid()
    held.close()
    assert datadir.find_up(data) is None
