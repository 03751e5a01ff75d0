"""A site's runs, read and made from outside its workers: through its own commands and its database."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from simulator.bench.database import ROOT
from simulator.chaos.harness import Site

START = """
import json, sys
import django
django.setup()
from fabric import wiring
from fabric.core.actor import Actor
from fabric.runtime.ports import Document
from fabric.services.fabrics import fabric_publish
from fabric.services.runs import run_start
from fabric.services.workspaces import workspace_default
asked = json.load(sys.stdin)
actor = Actor("chaos", workspace_default(), "system")
name = fabric_publish(actor=actor, source=asked["fabric"], origin="chaos").name
for n in range(asked["runs"]):
    run_start(store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=name, text="What do the notes say?",
              documents=(Document("notes.md", "The bridge is 40 metres long. It was built in 1931."),), tier="batch")
"""

FABRIC = """
name: chaos
title: Chaos
tiers: {default: batch, allowed: [batch]}
models:
  - {name: scripted, provider: scripted, price: {input_usd_per_mtok: "1", output_usd_per_mtok: "2"}, options: OPTIONS}
tools:
  - {name: read_document}
agents:
  - {name: planner, instructions: Plan., model: scripted}
  - {name: reader, instructions: Read., model: scripted, tools: [read_document]}
  - {name: lead, instructions: Merge., model: scripted}
topology: {planner: planner, workers: [reader], aggregator: lead}
policy: {budget: {run_usd_micros: 20000000}}
reviewers: [owner]
"""


def start_runs(made: Site, runs: int, options: dict[str, Any] | None = None) -> None:
    """Starts runs of the chaos fabric as the console does: by the service, from another process."""
    source = FABRIC.replace("OPTIONS", json.dumps(options or {}))
    asked = json.dumps({"fabric": source, "runs": runs})
    command = [sys.executable, "-c", START]
    environment = {**made.environment, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, input=asked, text=True, env=environment, cwd=ROOT, check=True)


def _read(made: Site, statement: str) -> list[tuple[Any, ...]]:
    url = made.environment.get("DATABASE_URL")
    if url:
        with psycopg.connect(url) as connection:
            return connection.execute(statement.encode()).fetchall()
    path = Path(made.environment["FABRIC_DATA"])
    file = next(found for found in sorted(path.glob("*.sqlite3")) if found.is_file())
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30) as connection:
        return connection.execute(statement).fetchall()


def states(made: Site) -> dict[str, str]:
    """The state of every run."""
    return {str(run): str(state) for run, state in _read(made, "SELECT id, state FROM fabric_run")}


def facts_by_run(made: Site) -> dict[str, list[dict[str, Any]]]:
    """Every run's facts in order, with their kinds."""
    rows = _read(made, "SELECT run_id, kind, header FROM fabric_event ORDER BY run_id, seq")
    found: dict[str, list[dict[str, Any]]] = {}
    for run_id, kind, header in rows:
        found.setdefault(str(run_id), []).append({"attempt": 1, **json.loads(bytes(header))["d"], "kind": kind})
    return found
