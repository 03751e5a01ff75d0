"""While a process loads, nothing is looked through for garbage, and what it has loaded is not later either."""

import gc
import subprocess
import sys

import pytest

from console.launch.processes.loading import disable_collector
from simulator.installation.database import ROOT, clean_environment

SERVER = """
import gc
import console.asgi
print(gc.isenabled(), gc.get_freeze_count() > 100_000, max(each["collections"] for each in gc.get_stats()[1:]))
"""


def test_the_web_server_loads_without_looking_for_garbage(tmp_path):
    environment = {**clean_environment(), "FABRIC_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    said = subprocess.run([sys.executable, "-c", SERVER], env=environment, cwd=ROOT, check=True, capture_output=True)
    enabled, frozen, collections = said.stdout.split()
    assert (enabled, frozen) == (b"True", b"True")
    assert int(collections) < 15


def _fails():
    with disable_collector():
        assert not gc.isenabled()
        raise ImportError


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_it_was_before_also_after_a_failure(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ImportError):
            _fails()
        assert gc.isenabled() is on
    finally:
        gc.unfreeze()
        (gc.enable if was else gc.disable)()
