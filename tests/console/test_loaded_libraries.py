"""Web servers and workers load no library that they do not use: it would take memory and time of each process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import temporary_database
from tests.console.launch.started_processes import PATIENCE_S

OF_REQUESTS = {
    "authlib": "asks the identity provider",
    "cedarpy": "judges a policy of a gate",
    "cel": "judges a condition of a graph",
    "docx": "reads an attached document",
    "fido2": "knows a passkey",
    "joserfc": "asks the identity provider",
    "genai_prices": "looks a price up",
    "jsonpath": "reads a field of an answer",
    "jsonschema_rs": "judges a value by a schema",
    "lxml": "reads an attached document",
    "mcp": "speaks with an MCP server",
    "openpyxl": "reads an attached document",
    "pypdf": "reads an attached document",
    "segno": "draws a code for a second factor",
}
"""Libraries and what first needs each: a process that has not done it yet has not loaded it."""
OF_PAGES = {
    "markdown_it": "draws a document",
    "nh3": "draws a document",
    "ninja": "serves the API",
}
OF_COMMANDS = {
    "click_repl": "Celery's shell",
    "prompt_toolkit": "Celery's shell",
    "pygments": "Celery's commands",
    "pyotp": "judges a second factor",
    "ruamel": "reads a fabric's file",
    "uvicorn": "serves pages",
}
OF_POSTGRESQL = {"psycopg": "speaks with PostgreSQL", "psycopg_pool": "speaks with PostgreSQL"}

WORKER = """
import os, signal, sys, threading
from celery import signals
from console.worker import main

looked = threading.Event()

def follow_looks(**_):
    from fabric.worker.process.duties import DutyThread

    look = DutyThread.look

    def look_and_tell(self, duty):
        found = look(self, duty)
        if duty.name == "drills-live":
            looked.set()
        return found

    DutyThread.look = look_and_tell

def tell(**_):
    looked.wait()
    print("loaded", *sorted({name.partition(".")[0] for name in list(sys.modules)}), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

signals.celeryd_after_setup.connect(follow_looks)
signals.worker_ready.connect(tell)
sys.exit(main([]))
"""
WEB = """
import sys
import console.web_server
import console.asgi
import console.urls
names = list(sys.modules)
rooms = {".".join(name.split(".")[:2]) for name in names if name.startswith("simulator.")}
print("loaded", *sorted(rooms | {name.partition(".")[0] for name in names}))
"""
OF_THE_WORLD = {"simulator.cast", "simulator.endpoint", "simulator.stores", "simulator.swarm", "simulator.world"}
"""Rooms of simulated time: a page that plays a scenario loads them."""


def load(program: str, db: str) -> set[str]:
    """The top packages that a fresh process has at its start."""
    with temporary_database(db) as environ:
        environ.pop("CELERY_SKIP_CHECKS", None)  # This process is no worker, and has read the worker's module.
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("loaded")] or [done.stderr]
    return set(told.split()[1:])


@pytest.mark.parametrize("db", ["sqlite", "postgresql"])
def test_a_worker_loads_no_library_that_it_does_not_use(db):
    loaded = load(WORKER, db)
    assert "celery" in loaded
    unused = OF_REQUESTS | OF_PAGES | OF_COMMANDS | (OF_POSTGRESQL if db == "sqlite" else {})
    assert sorted(loaded & unused.keys()) == []


def test_a_web_server_loads_no_library_before_a_request_needs_it():
    loaded = load(WEB, "sqlite")
    assert {"channels", "ninja", "simulator.drills"} <= loaded
    assert sorted(loaded & (OF_REQUESTS.keys() | OF_POSTGRESQL.keys() | OF_THE_WORLD)) == []
