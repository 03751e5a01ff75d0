import os
import time

from django.db import connection

from fabric.selectors.dashboards import dashboard as D
from fabric.selectors.dashboards.asked import read_asked
from fabric.selectors.runs.query.grammar import parse
from fabric.selectors.runs.query.list_pages import fabric_ids
from tests.benchmarks.console import many_runs
from tests.benchmarks.throughput.spec import SPEC

N = int(os.environ.get("MANY", "1000000"))


def test_m(actor):
    now = time.time_ns() // 1000
    made = many_runs.fabrics_create(actor.workspace_id, SPEC.model_dump_json(), SPEC.digest())
    t = time.time()
    many_runs.generate(actor.workspace_id, made, N, now=now)
    print("gen", time.time() - t)
    D.LIMIT_S = 300
    f = fabric_ids(actor)
    for cap in (20_000, 50_000, 100_000):
        D.RUNS_MAX = cap
        for by in ("fabric", "revision", "model", "label.team"):
            for line in ("", "state:failed", "label.team=ops"):
                q = parse(line, now=now, fabrics=tuple(f))
                took = []
                for _ in range(2):
                    t = time.time()
                    d = D.find_dashboard(actor, q, f, read_asked("30d", "", by, now=now))
                    took.append(time.time() - t)
                print(
                    connection.vendor, cap, by, repr(line), d.whole.runs, d.cut, [round(x, 2) for x in took], flush=True
                )
