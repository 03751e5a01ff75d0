import os
import subprocess
import sys
from importlib import metadata

import pytest

from console.launch import dependencies
from console.launch.processes.data_directory import ROOT, RUN_LOCK, TEST_LOCK
from tests.benchmarks.peers.measuring import PEERS


def write(folder, text):
    path = folder / "some.lock"
    path.write_text(text)
    return path


def test_a_lock_is_satisfied_by_exactly_its_versions(tmp_path):
    version = metadata.version("pytest")
    assert dependencies.satisfies_lock(
        write(tmp_path, f"pytest=={version} \\\n    --hash=sha256:0\n    # via something\n")
    )
    assert not dependencies.satisfies_lock(write(tmp_path, f"pytest=={version}.1\n"))


def test_a_missing_package_counts_unless_it_has_a_marker(tmp_path):
    assert not dependencies.satisfies_lock(write(tmp_path, "there-is-no-such-package==1\n"))
    assert dependencies.satisfies_lock(write(tmp_path, "there-is-no-such-package==1 ; sys_platform == 'win32' \\\n"))


@pytest.mark.parametrize("lock", [RUN_LOCK, TEST_LOCK])
def test_every_line_of_the_real_locks_is_read(lock):
    named = [line for line in lock.read_text().splitlines() if "==" in line and not line.startswith((" ", "#"))]
    assert len(list(dependencies.pins(lock))) == len(named) > 50
    assert all(marker.count("'") % 2 == 0 for _, _, marker in dependencies.pins(lock))


# Imports what it is told to, with nothing installed but what the lock names.
ONLY_WHAT_IS_NAMED = """
import importlib, pkgutil, sys
from importlib import metadata
import tests
named, modules, elsewhere = (set(words.split()) for words in sys.argv[1:4])
for module, sources in metadata.packages_distributions().items():
    if not named & {source.lower().replace("_", "-").replace(".", "-") for source in sources}:
        sys.modules[module] = None
import django
django.setup()
for package in ("fabric", "simulator", "console", "tests.benchmarks", "tests.chaos"):
    found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    modules |= {module.name for module in found if not module.name.endswith("__main__")}
# The tests themselves have an environment with more in it; the programs of `bench` and `chaos` do not.
modules = {name for name in modules if not {"web", "mishaps", "conftest"} & set(name.split(".")[2:]) and ".test_" not in name}
assert elsewhere <= modules
for module in sorted(modules - elsewhere):
    importlib.import_module(module)
"""
# What settings name, and no module of ours imports.
BY_ADDRESS = "kombu.transport.redis kombu.transport.pyamqp kombu.transport.filesystem channels_redis.core psycopg_pool"
# What runs in environments of its own, which have locks of their own, and is imported nowhere here.
ELSEWHERE = " ".join(f"tests.benchmarks.peers.{script}" for script in (*PEERS.values(), "langgraph_turn"))


def test_the_run_lock_names_everything_that_running_needs(tmp_path):
    """The tests' environment has more in it, which hides what is missing."""
    named = " ".join(name.lower().replace("_", "-").replace(".", "-") for name, _, _ in dependencies.pins(RUN_LOCK))
    done = subprocess.run(
        [sys.executable, "-c", ONLY_WHAT_IS_NAMED, named, BY_ADDRESS, ELSEWHERE],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings_running", "FABRIC_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
