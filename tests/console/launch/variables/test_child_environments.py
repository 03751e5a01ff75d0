"""No child process has a secret in its environment that it does not need: each kind is started for real, and says what it was given."""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from console.launch import dependencies
from console.launch.processes.data_directory import command_line
from console.launch.variables.table import SECRETS
from fabric.adapters.documents import attachments as reading
from fabric.adapters.documents.outcome import UnreadableFile
from fabric.policies.expressions.processes import ModuleChildren
from fabric.tools.functions.process_pool import ProcessPool
from fabric.tools.functions.thread_pool import ToolPool
from fabric.tools.runner import ToolRunner
from simulator.drills import conductor
from tests.fabric.tools.asking import samples
from tests.fabric.tools.mcp.worlds import MODULE, one, permits, stdio

CANARY = "canary-{}-0123456789abcdef"
TOOLS = ("SAMPLE_KEY", "CRM_TOKEN")
NEEDED = {"DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL", "FABRIC_SECRET_KEY", "FABRIC_KEY_RING"}
"""What a process of our own that has the settings needs."""


@pytest.fixture
def given(tmp_path, monkeypatch):
    """The environments, by the words of the command, of all that is started by this interpreter's name."""
    for name in (*SECRETS, *TOOLS):
        monkeypatch.setenv(name, CANARY.format(name))
    for name in SECRETS:
        monkeypatch.setenv(f"{name}_FILE", f"/nowhere/{CANARY.format(name)}")
    monkeypatch.setenv("FABRIC_TOOL_VARIABLES", "SAMPLE_KEY,CRM_TOKEN@crm.example.org:443")
    folder = tmp_path / "seen"
    folder.mkdir()
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\ncat /proc/$$/environ > {folder}/$$\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    return folder


def canaries(folder: Path) -> set[str]:
    """The names of the secrets that are in one of them; there is at least one environment."""
    seen = [path.read_bytes().decode() for path in folder.iterdir()]
    assert seen
    assert all("PATH=" in one for one in seen)
    return {name for name in (*SECRETS, *TOOLS) if any(CANARY.format(name) in one for one in seen)}


@pytest.mark.parametrize("variables", [(), ("SAMPLE_KEY",)])
def test_a_function_has_the_variables_of_its_mark_and_no_other(given, variables):
    threads = ToolPool(size=1)
    pool = ProcessPool(threads)
    try:
        path = "tests.fabric.tools.functions.sample_tools.pid"
        asyncio.run(pool.call(path, {}, "key-1", 60.0, samples().environment_of(variables)))
    finally:
        pool.close()
        threads.close()
    assert canaries(given) == set(variables)


@pytest.mark.parametrize("variables", [(), ("CRM_TOKEN",)])
def test_an_mcp_server_has_the_variables_that_its_fabric_names_and_no_other(given, variables):
    server = stdio(command=sys.executable, args=MODULE, variables=variables)
    port = ToolRunner(permits=permits(server, *variables))
    one("environment", server=server, port=port)
    port.close()
    assert canaries(given) == set(variables)


@pytest.mark.parametrize("module", ["fabric.policies.expressions.child", "fabric.services.fabrics.trials.child"])
def test_what_is_evaluated_apart_has_none(given, module):
    children = ModuleChildren(module, size=1)
    with pytest.raises(Exception):  # noqa: B017 - What it answers to nonsense is no matter here.
        children.ask({"no such": "frame"}, 60.0)
    children.close()
    assert canaries(given) == set()


def test_what_reads_attachments_has_none(given):
    with pytest.raises(UnreadableFile):
        reading.read_file("a.zip", b"PK\x03\x04 and no more", time.monotonic() + 60)
    assert canaries(given) == set()


def test_what_does_a_batch_of_drills_has_what_the_settings_need(given, settings):
    settings.FABRIC_TOOL_VARIABLES = ("SAMPLE_KEY", "CRM_TOKEN@crm.example.org:443")
    settings.FABRIC_COMMAND = command_line()  # With the interpreter that looks.
    with tempfile.TemporaryFile() as said:
        process = conductor.start_process("none", "nobody", said)
        process.wait(120)
        process.stdin.close()
    assert canaries(given) == NEEDED


def test_what_installs_packages_has_none(given):
    with tempfile.TemporaryFile() as held:
        assert dependencies._follow([[sys.executable, "-c", "pass"]], held.fileno()) is None
    assert canaries(given) == set()


def test_a_child_that_is_given_all_would_show(given):
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert canaries(given) == {*SECRETS, *TOOLS}
