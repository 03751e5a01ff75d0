"""By which indexes the stores reach their rows."""

import re
import sqlite3

import pytest

from fabric.stores.postgresql.statements import Statement, arriving, flush, ownership
from fabric.stores.postgresql.statements.flush import FlushShape
from fabric.stores.sqlite import statements as sqlite_statements

REACHED_BY = {
    "CLAIM": {
        *("run_due", "run_owned", "inbox_waiting"),
        *("fabric_run_pkey", "fabric_snapshot_pkey", "fabric_budget_pkey"),
    },
    "LOAD_ON": {"fabric_event_pkey", "fabric_inbox_pkey", "fabric_snapshot_pkey"},
    "INBOX": {"inbox_waiting", "fabric_run_pkey"},
    "OWNED_BY": {"run_owned"},
    "NEXT_DUE": {"run_due", "inbox_waiting", "fabric_run_pkey"},
    "flush": {"fabric_run_pkey", "fabric_inbox_pkey", "fabric_family_pkey", "fabric_revision_pkey"},
    "flush of one that ends": {"fabric_run_pkey", "fabric_inbox_pkey", "fabric_family_pkey"},
}
"""The indexes of the statements that are asked most; the incarnations are few, and read whole."""


@pytest.mark.postgresql
def test_a_plan_made_on_empty_tables_reads_no_table_from_end_to_end(postgresql_world):
    """Plans are made once, maybe on an empty database, and must do for a full one: every large table is reached by an index."""
    modules = (arriving, ownership)
    every = {name: one for module in modules for name, one in vars(module).items() if isinstance(one, Statement)}
    assert len(every) == 29
    every["flush"] = flush.write(FlushShape(*[True] * 11))
    ends = dict.fromkeys(("rows", "consumed", "taking", "ended", "told"), True)
    every["flush of one that ends"] = flush.write(FlushShape(**ends, reviewed=False))
    reached = {}
    with postgresql_world.store._calls.use() as connection:
        for number, (name, statement) in enumerate(every.items()):
            connection.execute(b"PREPARE plan_%d AS %b" % (number, statement.sql))
            given = ", ".join(["NULL"] * len(statement._names))
            explained = connection.execute(f"EXPLAIN EXECUTE plan_{number}{f'({given})' if given else ''}".encode())
            plan = "\n".join(line for (line,) in explained.fetchall())
            assert re.findall(r"Seq Scan on fabric_(?!incarnation)\w+|Bitmap|Merge Join", plan) == [], plan
            assert not re.search(r"Index (Only )?Scan using \w+_pkey on (?!.*\n\s+Index Cond)", plan), plan
            if name == "LOAD_ON":  # What a snapshot still needs is a few events of a journal of any length.
                events = re.findall(r"using fabric_event_pkey on .*\n\s+Index Cond: (.*)", plan)
                assert len(events) == 2, plan
                assert all("seq" in condition for condition in events), plan
            reached[name] = set(re.findall(r"Index \w*\s?Scan using (\w+)", plan)) - {"fabric_incarnation_pkey"}
    assert {name: reached[name] for name in REACHED_BY} == REACHED_BY


def test_sqlite_reads_no_table_from_end_to_end(sqlite_world):
    every = {
        name: one
        for name, one in vars(sqlite_statements).items()
        if isinstance(one, str)
        and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH) ", one)
        and not name.startswith("_")
    }
    every |= {"claimable": sqlite_statements.claimable(2)}
    assert len(every) > 30
    reached = {}
    for name, statement in every.items():
        places = [len(re.findall(r"\?(?!\d)", statement)), *map(int, re.findall(r"\?(\d+)", statement))]
        given = dict.fromkeys(re.findall(r":([a-z_0-9]+)", statement)) or (None,) * max(places)
        connection = sqlite3.connect(sqlite_world.path)
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
        connection.close()
        assert not [
            step for step in plan if re.match(r"SCAN (fabric_|[eirs]$|[eirs] )(?!incarnation)(?!.*USING)", step)
        ], plan
        if name in ("LOAD_ROWS", "LOAD_KEPT"):  # As on PostgreSQL: a few events of a journal of any length.
            events = [step for step in plan if step.startswith("SEARCH e ")]
            assert len(events) == 1, plan
            assert all("seq" in step for step in events), plan
        reached[name] = {index for step in plan for index in re.findall(r"INDEX (\w+)", step)}
    assert {name: reached[name] & set(LITE) for name in ("claimable", "OWNED_BY", "INBOX")} == {
        "claimable": {"run_due", "run_owned", "inbox_waiting"},
        "OWNED_BY": {"run_owned"},
        "INBOX": {"run_owned"},
    }


LITE = ("run_due", "run_owned", "inbox_waiting")
