import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from console.launch import dependencies
from console.launch.processes.data_directory import ROOT
from tests.console.launch.started_processes import PATIENCE_S, started

ENSURE = """
import sys
from pathlib import Path
from console.launch import dependencies
print(dependencies.ensure(Path(sys.argv[1])))
"""
WITHOUT_VENV = "import sys; sys.modules['ensurepip'] = None\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the wheels, and the cache: to make an environment takes seconds, so that tests leave each other theirs."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def lock(site):
    """A lock of one package, of which there is one wheel, in a folder."""
    wheel = site / "wheels" / "fabric_flow_probe-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    info = "fabric_flow_probe-1.0.dist-info"
    files = {
        "fabric_flow_probe.py": "answer = 42\ndef main():\n    print(answer)\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: fabric-flow-probe\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nprobe = fabric_flow_probe:main\n",
    }
    record = "".join(f"{name},sha256={digest(text)},{len(text)}\n" for name, text in files.items())
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    path = site / "probe.lock"
    path.write_text(f"fabric-flow-probe==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return path


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def environ(site):
    """Only `venv`, only the folder of wheels, a cache of its own."""
    return {
        "PATH": str(site / "empty"),
        "HOME": str(site),
        "XDG_CACHE_HOME": str(site / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{site / 'wheels'} {site / 'not-there'}",  # Which pip remarks on.
        "PIP_CONFIG_FILE": os.devnull,
    }


def ensure(lock, environ, before=""):
    return subprocess.run(
        [sys.executable, "-c", before + ENSURE, str(lock)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE_S,
    )


def test_the_name_holds_the_lock_and_the_interpreter(tmp_path):
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1\n")
    first = dependencies.find_name(lock, "cpython-311")
    assert first.startswith("requirements-cpython-311-")
    assert dependencies.find_name(lock, "cpython-312") != first
    assert dependencies.find_name(lock) == dependencies.find_name(lock)
    lock.write_text("a==2\n")
    assert dependencies.find_name(lock, "cpython-311") != first


def test_it_is_built_once_by_two_at_once_and_found_again(lock, environ, site):
    command = [sys.executable, "-c", ENSURE, str(lock)]
    options = {"cwd": ROOT, "env": environ, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(command, **options) as one, started(command, **options) as other:
        answers = [process.communicate(timeout=4 * PATIENCE_S) for process in (one, other)]
    python = answers[0][0].strip()
    assert answers[1][0].strip() == python, answers
    waited, said = sorted(said for _, said in answers)
    assert waited in ("", "Another process is making the environment; waiting for it.\n"), answers
    (line,) = said.splitlines()  # What the installer remarks is not shown.
    assert line.startswith(f"Making the environment for probe.lock in {site}/cache/fabric-flow/environments (once; ")
    assert "42" in subprocess.check_output([python, "-c", "import fabric_flow_probe as p; print(p.answer)"], text=True)
    # The script names the interpreter where it is, not where it was built.
    assert subprocess.run([Path(python).with_name("probe")], check=False, capture_output=True).returncode == 0

    again = ensure(lock, environ)
    assert (again.stdout.strip(), again.stderr) == (python, "")
    assert [entry.name for entry in (site / "cache/fabric-flow/environments").glob("*.building")] == []


def test_an_environment_whose_python_is_gone_is_made_again(lock, environ, site):
    home = site / "cache/fabric-flow/environments" / dependencies.find_name(lock)
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "bin" / "python").unlink(missing_ok=True)
    (home / "bin" / "python").symlink_to(site / "removed")
    done = ensure(lock, environ)
    assert "Making the environment" in done.stderr
    assert subprocess.run([done.stdout.strip(), "-c", "import fabric_flow_probe"], check=False).returncode == 0


def test_an_environment_that_has_lost_a_package_is_made_again(lock, environ):
    python = Path(ensure(lock, environ).stdout.strip())
    (metadata,) = python.parents[1].glob("lib/python*/site-packages/*probe*.dist-info/METADATA")
    metadata.unlink()
    done = ensure(lock, environ)
    assert "Making the environment" in done.stderr
    assert done.stdout.strip() == str(python)
    assert metadata.exists()


def test_the_running_interpreter_is_used_when_it_has_everything(environ, tmp_path):
    lock = tmp_path / "satisfied.lock"
    lock.write_text(f"pytest=={pytest.__version__}\n")
    assert ensure(lock, environ).stdout.strip() == sys.executable


def refused(done, *parts):
    assert done.returncode == 1
    sentence = done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in sentence


def test_without_uv_and_venv_the_package_to_install_is_named(lock, environ, tmp_path):
    major, minor = sys.version_info[:2]
    done = ensure(lock, environ | {"XDG_CACHE_HOME": str(tmp_path)}, before=WITHOUT_VENV)
    refused(done, f"apt install python{major}.{minor}-venv")


def test_a_package_that_cannot_be_had_is_a_sentence_and_leaves_nothing(lock, environ, tmp_path):
    done = ensure(lock, environ | {"PIP_FIND_LINKS": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path)})
    refused(done, "probe.lock could not be installed", "the messages above say why")
    assert "fabric-flow-probe==1.0" in done.stderr  # pip's own words.
    assert not (tmp_path / "fabric-flow/environments" / dependencies.find_name(lock)).exists()


def test_a_cache_that_cannot_be_written_is_a_sentence(lock, environ, tmp_path):
    (tmp_path / "file").touch()
    done = ensure(lock, environ | {"XDG_CACHE_HOME": str(tmp_path / "file")})
    refused(done, "cannot be written", "XDG_CACHE_HOME")
