"""``manage.py dev bench pages``: the list of runs over many generated runs: how long each view of it takes, and by which plans it is answered."""

from __future__ import annotations

import re
import statistics
import time
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.test import Client
from django.test.utils import override_settings

from fabric.selectors.runs.query import list_pages as runs_list
from fabric.services.actors import login_link_create, owner_actor, owner_ensure
from tests.benchmarks.console import many_runs
from tests.benchmarks.throughput.spec import SPEC

INDEXED = (
    ("all", ""),
    ("running", "state:running"),
    ("waiting", "state:waiting"),
    ("waiting for a provider", "waits:provider"),
    ("failed today", "state:failed,aborted ended:today"),
    ("after recovery", "recovered:yes"),
    ("last 4 h, not cancelled", "started:-4h -state:cancelled"),
    ("failed", "state:failed"),
    ("completed", "state:completed"),
    ("stopped by the budget", "fired:budget"),
    ("one breaker", "breaker:provider:openai"),
    ("one failure", "failure:cost_overrun"),
    ("one cause", "cause:timeout"),
    ("one fabric", "fabric:claims-triage"),
    ("a rare fabric", "fabric:rare-audit"),
    ("one session", "session:close-7"),
    ("ended long ago", "ended:<-20d"),
    ("the beginning of an id", "id:019a3c5e"),
    ("one label, common", "label.team=ops"),
    ("one label, rare", 'label.case="C 7"'),
    ("one label, of none", "label.team=none"),
    ("one label's key", "label.case"),
    ("without a label, failed", "-label.team=ops state:failed"),
    ("one run's children", f"parent:{many_runs.PARENT}"),
)
"""Views that an index answers: name and query."""
SORTED = (
    ("oldest first", "", "started"),
    ("failed, by end", "state:failed,aborted", "-ended"),
    ("completed, by end", "state:completed", "ended"),
    ("by end", "", "-ended"),
    ("the dearest", "", "-cost"),
    ("failed, by cost", "state:failed,aborted", "-cost"),
    ("the longest", "", "-took"),
    ("the most tokens", "", "-tokens"),
)
"""Views in an order that an index has: name, query and order."""
SCANNED = (
    ("a revision", "revision:>7"),
    ("a stage", "stage:validate"),
    ("an agent of none", "agent:nobody"),
    ("a model", "model:careful"),
    ("a review of none", "review:late"),
    ("a reason of none", "why:zebra"),
    ("high stakes", "tier:high_stakes"),
    ("a priority of none", "priority:critical"),
    ("took long", "took:>14m"),
    ("cost", "cost:>0.5"),
    ("tokens", "tokens:>50k"),
    ("replanned", "replans:>0"),
    ("truncated, which none is", "truncated:yes"),
    ("another member's", "by:nobody"),
    ("a word", "chargebacks"),
    ("a word that is nowhere", "zebra"),
    ("the end of an id", "id:0123456789ab"),
)
"""Views that none answers: they go along the list's index till there are enough rows, or to the time limit."""

SCAN = re.compile(r"Seq Scan on fabric_run\b|\bSCAN fabric_run(?! USING)")
"""What a plan says of reading the whole table."""
PART = 50
"""The matches are counted up to one in so many of the runs."""
LINE = "{view:>26}  p50 {p50_ms:>7} ms  p99 {p99_ms:>7} ms  {cpu_ms:>6} ms of them here  {queries:>2} queries  {bytes:>7} bytes"


def measure(runs: int, rounds: int) -> list[dict[str, Any]]:
    """Generates the runs and asks for every view ``rounds`` times: milliseconds, bytes and plans of each."""
    # Counted is a small part of what there is, as of a million: else PostgreSQL is right to read a small table whole.
    runs_list.COUNT_MAX = min(runs_list.COUNT_MAX, max(1, runs // PART))
    actor = owner_actor()
    fabrics = many_runs.fabrics_create(actor.workspace_id, SPEC.model_dump_json(), SPEC.digest())
    many_runs.generate(actor.workspace_id, fabrics, runs, now=time.time_ns() // 1_000)
    return figures(rounds)


@override_settings(ALLOWED_HOSTS=["127.0.0.1"])
def figures(rounds: int) -> list[dict[str, Any]]:
    """The same of the runs that are there."""
    browser = Client(HTTP_HOST="127.0.0.1")
    browser.post("/login/link", {"token": login_link_create(owner_ensure())})
    cases = [(name, {"q": query}, True) for name, query in INDEXED]
    cases += [(name, {"q": query, "sort": order}, True) for name, query, order in SORTED]
    cases += [("a page from the middle", {"before": _middle()}, True)]
    cases += [(name, {"q": query}, False) for name, query in SCANNED]
    return [
        {"view": name, "indexed": known, **_case(browser, f"/runs?{urlencode(asked)}", rounds)}
        for name, asked, known in cases
    ]


def _middle() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(created_at), max(created_at) FROM fabric_run")
        low, high = cursor.fetchone()
    return f"{(low + high) // 2}.0"


def _case(browser: Client, address: str, rounds: int) -> dict[str, Any]:
    asked: list[tuple[str, Any]] = []

    def listening(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    # The first answer warms caches and tells the queries; it is not timed.
    with connection.execute_wrapper(listening):
        answer = browser.get(address)
    took = []
    cpu = time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        answer = browser.get(address)
        took.append(1_000 * (time.perf_counter() - began))
    cpu = time.process_time() - cpu
    took.sort()
    return {
        "status": answer.status_code,
        "bytes": len(answer.content),
        "queries": len(asked),
        "cpu_ms": round(1_000 * cpu / rounds, 1),
        "p50_ms": round(statistics.median(took), 1),
        "p99_ms": round(took[min(len(took) - 1, int(len(took) * 0.99))], 1),
        "plans": [plan(sql, params) for sql, params in asked if 'FROM "fabric_run"' in sql],
    }


def plan(sql: str, params: Any) -> str:
    """How the database answers a query, a line a step."""
    explain = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "
    with connection.cursor() as cursor:
        cursor.execute(explain + sql, params)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())
