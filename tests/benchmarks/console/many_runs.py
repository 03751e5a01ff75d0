"""Made-up rows of runs, as many as wanted, in bounded memory: pages at scale are tried on them. They have no events and no owner."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.db import connection

from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.models import Fabric, Revision, Run

DAYS = 30
"""The rows are spread over so many days before ``now``."""
BATCH = 5_000
SEED = 20_261_121
FABRICS = ("ledger-reconcile", "claims-triage", "vendor-screening", "contract-review", "support-answers", "rare-audit")
_ENDED = (RunState.COMPLETED, RunState.FAILED, RunState.ABORTED, RunState.CANCELLED)
_WEIGHTS = (93, 3, 2, 2)
_WHAT = ("Reconcile", "Screen", "Triage", "Review", "Summarise", "Compare", "Check", "Answer")
_OF = (
    "card settlements",
    "supplier files",
    "damage claims",
    "lease contracts",
    "support tickets",
    "chargebacks",
    "fees",
)
_WHEN = ("January", "March", "May", "July", "August", "October")
TROUBLES = (
    ("budget_gate", "cost_overrun", "\nbudget\n"),
    ("timeout", "provider_failure", "\nretry\nbreaker\n"),
    ("loop_detected", "infinite_tool_loop", "\nloop\n"),
    ("below_tau", "", "\nscore\n"),
)
"""Cause, row of the decision table and what fired, of runs that did not complete and of some that did."""
AGENTS, MODELS = ("planner", "worker", "critic"), ("fast", "careful")
PARENT = "019a3c5e-4a53-7c1e-9a64-3f7d2b1c0e55"
"""Id of the run that spawned all the child runs; it has no row itself."""
LABELS = (
    """
    INSERT INTO fabric_run_label (run_id, workspace_id, key, value)
    SELECT id, workspace_id, 'team', CASE WHEN seed %% 2 = 0 THEN 'ops' ELSE 'finance' END FROM fabric_run
    WHERE workspace_id = %s AND parent_run_id IS NULL AND seed %% 5 > 0 ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO fabric_run_label (run_id, workspace_id, key, value)
    SELECT id, workspace_id, 'case', 'C ' || (seed / 100) FROM fabric_run
    WHERE workspace_id = %s AND parent_run_id IS NULL AND seed %% 5 = 1 ON CONFLICT DO NOTHING
    """,
)
"""Labels of the made-up runs: two teams with many runs each, and cases with few."""
LIVE_AT = 40
"""So many of the newest runs have not ended."""


def fabrics_create(workspace_id: str, spec: str, digest: str) -> list[tuple[str, str]]:
    """The fabrics of the made-up runs; (fabric id, revision id) of each."""
    made = []
    for name in FABRICS:
        fabric = Fabric.objects.create(workspace_id=workspace_id, name=name, title=name.replace("-", " ").capitalize())
        revision = Revision.objects.create(
            workspace_id=workspace_id, fabric=fabric, number=3, digest=f"{digest}{name}", spec=spec
        )
        Fabric.objects.filter(id=fabric.id).update(published=revision)
        made.append((fabric.id, revision.id))
    return made


def generate(workspace_id: str, fabrics: list[tuple[str, str]], count: int, *, now: int, live: int = LIVE_AT) -> None:
    """Insert ``count`` runs that were asked for before ``now``, microseconds; and let the database count what it has.
    ``live``: how many of the newest have not ended.
    """
    _insert_runs(workspace_id, fabrics, count, now, live)
    with connection.cursor() as cursor:
        for statement in LABELS:
            cursor.execute(statement, [workspace_id])
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE fabric_run")
            cursor.execute("VACUUM ANALYZE fabric_run_label")


def _insert_runs(workspace_id: str, fabrics: list[tuple[str, str]], count: int, now: int, live: int) -> None:
    fields = [field for field in Run._meta.concrete_fields if not field.generated]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    names = [field.attname for field in fields]
    rows = ([row[name] for name in names] for row in _rows(workspace_id, fabrics, count, now, live))
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor, cursor.copy(f"COPY fabric_run ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    marks = ", ".join("?" * len(names))
    raw: sqlite3.Connection = connection.connection
    while some := list(islice(rows, BATCH)):
        raw.execute("BEGIN IMMEDIATE")
        try:
            raw.executemany(f"INSERT INTO fabric_run ({columns}) VALUES ({marks})", some)
        except BaseException:
            raw.execute("ROLLBACK")
            raise
        raw.execute("COMMIT")


def _rows(
    workspace_id: str, fabrics: list[tuple[str, str]], count: int, now: int, newest: int
) -> Iterator[dict[str, Any]]:
    """The oldest first. The same for the same arguments."""
    draw, blank = random.Random(SEED), _blank_row()
    apart = DAYS * 86_400 * US // max(1, count)
    common = [n for n in range(len(fabrics)) if FABRICS[n] != "rare-audit"]
    for number in range(count):
        at = now - (count - number) * apart + draw.randrange(max(1, apart))
        live = count - number <= newest
        state = draw.choice((RunState.RUNNING, RunState.WAITING)) if live else draw.choices(_ENDED, _WEIGHTS)[0]
        done = state is RunState.COMPLETED
        took = draw.randrange(2 * US, 900 * US)
        fabric_id, revision_id = fabrics[-1 if number % 50_000 == 7 else draw.choice(common)]
        troubled = state in (RunState.FAILED, RunState.ABORTED) or number % 500 == 3
        cause, failure, fired = TROUBLES[number % len(TROUBLES)] if troubled else ("", "", "")
        cost = draw.randrange(2_000, 900_000)
        title = f"{draw.choice(_WHAT)} {draw.choice(_WHEN)} {draw.choice(_OF)}, batch {number % 977}"
        yield blank | {
            "id": _id(at, draw),
            "workspace_id": workspace_id,
            "fabric_id": fabric_id,
            "revision_id": revision_id,
            "session_key": f"close-{number // 40}" if draw.random() < 0.2 else "",
            "title": title,
            "trace_id": f"{number:032x}",
            "seed": number,
            "tier": draw.choices(tuple(Tier), (30, 60, 10))[0],
            "created_at": at,
            "created_by": "owner",
            "parent_run_id": PARENT if number % 400 == 11 else None,
            "state": state.value,
            "stage": (Stage.FINALIZE if done else draw.choice(tuple(Stage))).value,
            "epoch": int(draw.random() < 0.04),
            "cost_usd_micros": cost,
            "spent_on": encode({"agent": _share(cost, AGENTS), "model": _share(cost, MODELS)}).decode(),
            "tokens": draw.randrange(500, 60_000),
            "reason": "finished" if done else "",
            "cause": cause,
            "failure": failure,
            "fired": fired,
            "breakers": "\nprovider:openai\n" if "breaker" in fired else "",
            "recovered": done and draw.random() < 0.03,
            "started_at": at + 20_000,
            "ended_at": None if live else at + took,
            "deadline_at": at + 3_600 * US,
            "last_seq": draw.randrange(12, 60),
            "head_hash": b"\0" * 32,
        }


def _share(cost: int, names: tuple[str, ...]) -> dict[str, int]:
    return dict.fromkeys(names, cost // (len(names) + 1))


def _blank_row() -> dict[str, Any]:
    """The columns' defaults."""
    return {
        field.attname: field.db_default if field.has_db_default() else field.get_default()
        for field in Run._meta.concrete_fields
        if not field.generated
    }


def _id(at: int, draw: random.Random) -> str:
    """A UUIDv7 of that instant."""
    digits = f"{at // 1000:012x}7{draw.getrandbits(12):03x}{0x8 | draw.getrandbits(2):x}{draw.getrandbits(60):015x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
