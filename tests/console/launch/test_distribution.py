"""The wheel: built, installed into an environment elsewhere, and worked with from there. No file of the checkout is in reach."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import clean_environment
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.servers.ports import free_port

pytest.importorskip("hatchling", reason="the build backend is part of requirements-test.lock")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, text=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def fabricflow(wheel, tmp_path_factory):
    """The console script of an environment that has the wheel, and borrows the dependencies of this one."""
    home = tmp_path_factory.mktemp("installed") / "env"
    if uv := shutil.which("uv"):
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--offline",
                "--no-deps",
                "--python",
                str(home / "bin/python"),
                str(wheel),
            ],
        ]
    else:
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
        steps = [[sys.executable, "-m", "venv", str(home)], pip]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True, text=True)
    own = Path(sysconfig.get_path("purelib", "venv", {"base": str(home)}))
    borrowed = [path for path in sys.path if Path(path).name == "site-packages"]
    (own / "borrowed.pth").write_text("\n".join(borrowed))
    return home / "bin" / "fabricflow"


def ask(script, data, *words):
    environ = clean_environment() | {"FABRIC_DATA": str(data)}
    return subprocess.run(
        [str(script), *words], env=environ, cwd=data.parent, check=False, capture_output=True, text=True
    )


def test_the_wheel_has_all_that_is_shown_and_nothing_of_the_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    shown = {
        f"console/shipped/{path.relative_to(ROOT)}" for top in ("templates", "static") for path in files(ROOT / top)
    }
    brought = {str(path.relative_to(ROOT)) for top in ("fabric", "simulator", "console") for path in files(ROOT / top)}
    assert len(shown) > 100
    assert shown <= names
    assert brought <= names
    assert {name.split("/")[0] for name in names} == {"fabric", "simulator", "console", "fabric_flow-1.0.0.dist-info"}


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_its_dependencies_are_those_of_the_requirements(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
        told = opened.read(name).decode().splitlines()
    named = {line.partition(": ")[2] for line in told if line.startswith("Requires-Dist: ") and "extra ==" not in line}
    wanted = [line.strip() for line in (ROOT / "requirements.in").read_text().splitlines()]
    assert {plain(one) for one in named} == {plain(one) for one in wanted if one and not one.startswith("#")}


def plain(requirement):
    return requirement.lower().replace(".", "-").replace("_", "-")


def test_an_installed_one_serves_runs_and_drills(fabricflow, tmp_path):
    data, port = tmp_path / "data", free_port()
    command = [str(fabricflow), "up", "--no-browser", "--data", str(data), "--port", str(port)]
    options = {"env": clean_environment(), "cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, **options) as process:
        Lines(process.stdout.fileno()).until(f"Fabric Flow runs at http://127.0.0.1:{port}")
        assert status(port, "/healthz") == 200
        assert status(port, "/login") == 200
        assert status(port, "/static/shell/tokens.css") == 200

        ran = ask(fabricflow, data, "run", "start", "checked-answer", "--input", "How long is the bridge?", "--json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout.splitlines()[-1])["state"] == "completed"

        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    drilled = ask(fabricflow, data, "drill", "checked-answer", "--failure", "cost_overrun", "--tier", "batch", "--json")
    assert drilled.returncode == 0, drilled.stdout + drilled.stderr


def status(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path)
    found = connection.getresponse().status
    connection.close()
    return found


@pytest.mark.parametrize("command", ["test", "dev bench", "dev chaos"])
def test_an_installed_one_says_that_what_needs_the_tests_needs_a_checkout(command, fabricflow, tmp_path):
    said = ask(fabricflow, tmp_path / "data", *command.split())
    assert said.returncode == 1
    assert said.stderr == (
        f"`{command}` needs the tests, which are no part of what was installed: "
        f"run `python3 manage.py {command}` in a checkout.\n"
    )
