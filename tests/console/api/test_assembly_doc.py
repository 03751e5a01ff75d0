"""docs/reference/api.md, executed: its commands against a running installation, and what they answer against what it shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from console.launch.processes.data_directory import ROOT
from console.site.errors.problems import KINDS
from simulator.installation.database import clean_environment
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.servers.ports import free_port

TEXT = (ROOT / "docs" / "reference" / "api.md").read_text()
BLOCKS = re.findall(r"^```(sh|json)\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
MARK = "=====block====="


def expectations():
    """For each block of commands, the JSON that the page shows after it, or None."""
    found = []
    for kind, text in BLOCKS:
        if kind == "sh":
            found.append([text, None])
        else:
            found[-1][1] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """`manage.py up` with a data directory of its own; the environment of a program that uses it."""
    if shutil.which("curl") is None:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail("left out the commands of docs/reference/api.md: there is no curl", pytrace=False)
        pytest.skip("the commands of docs/reference/api.md: there is no curl")
    data, port, tools = tmp_path_factory.mktemp("data"), free_port(), tmp_path_factory.mktemp("bin")
    # Not a link: an interpreter finds its packages by where it lies.
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python3").chmod(0o755)
    environ = clean_environment() | {"FABRIC_DATA": str(data), "FABRIC_PORT": str(port), "TMPDIR": str(data)}
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]
    with started(command, env=environ, stdout=subprocess.PIPE) as process:
        lines = Lines(process.stdout.fileno())
        while not (line := lines.next()).startswith("Fabric Flow runs at "):
            assert line, "it did not start"
        environ["PATH"] = f"{tools}{os.pathsep}{environ['PATH']}"
        environ["FABRIC_URL"] = f"http://127.0.0.1:{port}"
        yield environ
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0


@pytest.mark.slow
def test_its_commands_do_what_it_says(installation):
    script = "".join(f"{text}\necho; echo {MARK}\n" for text, _ in expectations())
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=installation,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    said = done.stdout.split(MARK)
    assert len(said) == len(expectations()) + 1
    for (text, shown), output in zip(expectations(), said, strict=False):
        if shown is not None:
            answer = json.loads(output)
            assert set(answer) == set(shown), text
            for event in answer.get("events", [])[-1:]:
                (whole,) = shown["events"]
                assert (set(event), event["kind"]) == (set(whole), whole["kind"])
                assert set(event["payload"]) == set(whole["payload"])
            assert {key: answer[key] for key in ("status", "detail", "state", "ended") if key in shown} == {
                key: shown[key] for key in ("status", "detail", "state", "ended") if key in shown
            }


def test_it_names_every_status():
    table = TEXT[TEXT.index("| status | when |") :]
    # What comes in too slowly is answered before the API is reached.
    assert {int(status) for status in re.findall(r"\b([45]\d\d)\b", table)} == {*KINDS, 408}
