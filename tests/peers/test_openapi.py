"""The API's schema before tools of other vendors: a validator of OpenAPI documents, and a generator of clients."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from console.api.openapi import schema
from tests.console.api.conftest import _fresh_wiring, actor, owner, program, small, token
from tests.fabric.services.world import ran
from tests.peers.processes import python, script

__all__ = ["_fresh_wiring", "actor", "owner", "program", "small", "token"]
pytestmark = pytest.mark.peers

FILES = {"application/yaml", "application/x-ndjson", "application/zip"}
"""Media types of answers that are files. This generator writes no type for them."""
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fabric_flow_client.models import EventsOut
page = EventsOut.from_dict(json.load(sys.stdin))
print(json.dumps([type(event.payload).__name__ for event in page.events]))
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(json.dumps(schema()))
    return path


def called(*command: str, given: str = "") -> str:
    """Return the output of a program of the peers. It finds the programs that are installed beside it."""
    path = f"{Path(python()).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, input=given, env={**os.environ, "PATH": path}, text=True, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_validator_accepts_it(document):
    assert called(script("openapi-spec-validator"), str(document)).strip().endswith("OK")


def test_a_generated_client_reads_each_event_as_a_type_of_its_own(document, small, actor, program):
    page = program.get(f"/api/v1/runs/{ran(actor, small).id}/events").json()
    made = document.with_name("client")
    said = called(script("openapi-python-client"), "generate", "--path", str(document), "--output-path", str(made))
    refused = [line for line in said.splitlines() if line.startswith(("Unable", "Cannot", "Failure", "Could not"))]
    assert [line for line in refused if not any(media in line for media in FILES)] == []
    types = json.loads(called(python(), "-c", READ, str(made), given=json.dumps(page)))
    assert types == [find_type(event["kind"]) for event in page["events"]]
    assert len(set(types)) > 5


def find_type(kind: str) -> str:
    """The name of a kind's type in the document."""
    mapping = schema()["components"]["schemas"]["EventOut"]["properties"]["payload"]["discriminator"]["mapping"]
    found: str = mapping[kind].rpartition("/")[2]
    return found
