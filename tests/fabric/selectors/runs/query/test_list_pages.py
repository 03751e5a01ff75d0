"""The list of runs: pages either way, filters against the same question asked in Python, counts, bars, news, plans and the time limit."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict
from itertools import product

import pytest
from django.db import connection

from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import PROVIDER_AWAY, TERMINAL, RunState
from fabric.core.values.labels import read_labels
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.models import Fabric, Revision, Run, RunLabel
from fabric.models.fields.identities import new_id
from fabric.runtime.ports.batch_parts import list_names, names_text
from fabric.selectors import database_time
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.runs.query import list_pages as runs_list
from fabric.selectors.runs.query.grammar import FIELDS, Query, parse
from fabric.selectors.runs.query.list_pages import (
    RunRow,
    fabric_ids,
    runs_bars,
    runs_counts,
    runs_matched,
    runs_news,
    runs_page,
)
from fabric.selectors.runs.query.orders import COLUMNS, Order, keep_order, list_order_words, match_index, read_order
from tests.benchmarks.console import many_runs, pages
from tests.benchmarks.throughput.spec import SPEC

NOW = 1_795_250_000 * US
COUNT = 600
TROUBLES = (
    (slice(20, 30), "budget_gate", "cost_overrun", "budget"),
    (slice(30, 36), "timeout", "provider_failure", "retry", "budget"),
    (slice(36, 40), "timeout", "provider_failure", "retry_budget"),
    (slice(40, 43), "below_tau", "", "score"),
    (slice(43, 44), "", "", "undo"),
)
"""Some of the runs, the oldest first: their cause, their row of the decision table, and what fired."""

BREAKERS = {
    36: ("provider:openai",),
    37: ("provider:openai@host:80/v1", "agent:planner"),
    38: ("agent:openai",),
    39: ("stage:fan_out", "tool:plan_er"),
}
"""Breakers of some of them."""
SPENT = (
    (slice(50, 60), "planner", "fast"),
    (slice(60, 70), "plan", "fast-2"),
    (slice(70, 80), "fast", "plan"),
    (slice(80, 84), "model", "agent"),
)
"""Agent and model of some runs."""


@pytest.fixture
def many(actor) -> dict[str, RunRow]:
    """Six hundred runs of six fabrics over thirty days, by id, without those that another run spawned: a list shows its parent."""
    made = many_runs.fabrics_create(actor.workspace_id, SPEC.model_dump_json(), SPEC.digest())
    many_runs.generate(actor.workspace_id, made, COUNT, now=NOW)
    # Some of one instant, one of another priority, one that was stopped early, one whose title has signs of LIKE in it.
    ids = list(Run.objects.order_by("created_at").values_list("id", flat=True))
    Run.objects.filter(id__in=ids[100:110]).update(created_at=Run.objects.get(id=ids[100]).created_at)
    Run.objects.filter(id=ids[3]).update(priority=0, truncated=True, title="50% of a_b\\c", created_by="ana")
    Run.objects.filter(id__in=ids[:3]).update(reason=f"{PROVIDER_AWAY}12:00 UTC: 503")
    Run.objects.filter(id__in=ids[1:3]).update(state="running", ended_at=None)
    Run.objects.filter(id=ids[4]).update(state="waiting", ended_at=None)
    Run.objects.filter(id__in=ids[5:9]).update(reason="the breaker of the provider is open, 100% of its calls failed")
    later = Revision.objects.get(id=Run.objects.get(id=ids[9]).revision_id)
    later.pk, later.number, later.digest = new_id(), 2, "another"
    later.save(force_insert=True)
    Run.objects.filter(id__in=ids[9:12]).update(revision_id=later.pk)
    for some, cause, failure, *fired in TROUBLES:
        Run.objects.filter(id__in=ids[some]).update(cause=cause, failure=failure, fired=names_text(fired))
    for at, breakers in BREAKERS.items():
        Run.objects.filter(id=ids[at]).update(breakers=names_text(breakers))
    for some, agent, model in SPENT:
        Run.objects.filter(id__in=ids[some]).update(
            spent_on=encode({"agent": {agent: 7, "last": 0}, "model": {model: 7}}).decode()
        )
    whole = runs_list._rows(Run.objects.filter(parent_run_id=None))
    return {row.id: row for row in (RunRow(*(*values, read_labels(held))) for *values, held in whole)}


def spends(row: RunRow, kind: str, *names: str) -> bool:
    text = Run.objects.values_list("spent_on", flat=True).get(id=row.id)
    return bool(text) and not set(names).isdisjoint(json.loads(text)[kind])


def query(text: str, actor) -> Query:
    found = parse(text, now=NOW, fabrics=tuple(fabric_ids(actor)))
    assert isinstance(found, Query), found
    return found


def everything(text: str, actor) -> list[RunRow]:
    """All pages of a query, one after the other."""
    asked, fabrics, before = query(text, actor), fabric_ids(actor), None
    rows: list[RunRow] = []
    while True:
        page = runs_page(actor, asked, fabrics, limit=97, before=before)
        rows += page.rows
        if not page.older:
            return rows
        before = page.last


def newest_first(rows) -> list[RunRow]:
    return sorted(rows, key=lambda row: (-row.created_at, row.id))


DAY = 86_400 * US
TODAY = NOW // DAY * DAY
ASKED = {
    "": lambda row: True,
    "state:failed,aborted": lambda row: row.state in ("failed", "aborted"),
    "state:running": lambda row: row.state == "running",
    "state:waiting,completed": lambda row: row.state in ("waiting", "completed"),
    "-state:completed": lambda row: row.state != "completed",
    "waits:provider": lambda row: row.waits_for == "provider",
    "waits:person": lambda row: row.state == "waiting",
    "waits:provider,person": lambda row: row.waits_for is not None,
    "-waits:provider": lambda row: row.waits_for != "provider",
    "fabric:claims-triage": lambda row: row.fabric_name == "claims-triage",
    "fabric:c*": lambda row: row.fabric_name.startswith("c"),
    "-fabric:c*": lambda row: not row.fabric_name.startswith("c"),
    "fabric:zzz*": lambda row: False,
    "revision:1": lambda row: row.revision_number == 1,
    "revision:>1": lambda row: row.revision_number > 1,
    "-revision:>1": lambda row: row.revision_number <= 1,
    "stage:plan,fan-out": lambda row: row.stage in ("plan", "fan_out"),
    "-stage:finalize": lambda row: row.stage != "finalize",
    "why:BREAKER": lambda row: "breaker" in row.reason.lower(),
    'why:"100%"': lambda row: "100%" in row.reason,
    "-why:breaker": lambda row: "breaker" not in row.reason.lower(),
    "fired:budget": lambda row: "budget" in list_names(row.fired),
    "fired:budget,retry": lambda row: {"budget", "retry"} & {*list_names(row.fired)},
    "fired:budget fired:retry": lambda row: {"budget", "retry"} <= {*list_names(row.fired)},
    "-fired:budget": lambda row: "budget" not in list_names(row.fired),
    "breaker:provider:openai": lambda row: row.breakers == "\nprovider:openai\n",
    "breaker:openai": lambda row: ":openai\n" in row.breakers,
    "breaker:openai@host:80/v1": lambda row: "host" in row.breakers,
    "breaker:provider:*": lambda row: "provider:" in row.breakers,
    "breaker:plan*": lambda row: ":plan" in row.breakers,
    "breaker:plan%": lambda row: False,
    "breaker:*": lambda row: row.breakers != "",
    "-breaker:provider:*": lambda row: "provider:" not in row.breakers,
    "breaker:provider:* breaker:planner": lambda row: "planner" in row.breakers,
    "agent:planner": lambda row: spends(row, "agent", "planner"),
    "agent:plan*": lambda row: spends(row, "agent", "plan", "planner"),
    "agent:plan agent:last": lambda row: spends(row, "agent", "plan"),
    "agent:model": lambda row: spends(row, "agent", "model"),
    "model:plan": lambda row: spends(row, "model", "plan"),
    "model:agent": lambda row: spends(row, "model", "agent"),
    "-model:fast": lambda row: not spends(row, "model", "fast"),
    "failure:cost_overrun": lambda row: row.failure == "cost_overrun",
    "-failure:cost_overrun,provider_failure": lambda row: row.failure not in ("cost_overrun", "provider_failure"),
    "cause:budget_gate": lambda row: row.cause == "budget_gate",
    "tier:high_stakes": lambda row: row.tier == Tier.HIGH_STAKES,
    "review:late,in-time": lambda row: False,
    "-review:overdue": lambda row: True,
    "priority:critical": lambda row: row.created_by == "ana",
    "started:-5d": lambda row: row.created_at >= NOW - 5 * DAY,
    "-started:-5d": lambda row: row.created_at < NOW - 5 * DAY,
    "ended:today": lambda row: row.ended_at is not None and TODAY <= row.ended_at < TODAY + DAY,
    "ended:<-20d": lambda row: row.ended_at is not None and row.ended_at < NOW - 20 * DAY,
    "-ended:<-20d": lambda row: row.ended_at is None or row.ended_at >= NOW - 20 * DAY,
    "took:>10m": lambda row: row.ended_at is not None and row.ended_at - row.created_at > 600 * US,
    "took:1m..2m": lambda row: row.ended_at is not None and 60 * US <= row.ended_at - row.created_at <= 120 * US,
    "cost:>0.50": lambda row: row.cost_usd_micros > 500_000,
    "tokens:<=5k": lambda row: row.tokens <= 5_000,
    "replans:1": lambda row: row.epoch == 1,
    "recovered:yes": lambda row: row.recovered,
    "recovered:no": lambda row: not row.recovered,
    "truncated:yes": lambda row: row.truncated,
    "session:close-7": lambda row: row.session_key == "close-7",
    "session:close-1*": lambda row: row.session_key.startswith("close-1"),
    "by:ana": lambda row: row.created_by == "ana",
    "label.team=ops": lambda row: row.labels.get("team") == "ops",
    "label.team:finance": lambda row: row.labels.get("team") == "finance",
    "label.team": lambda row: "team" in row.labels,
    'label.case="C 3"': lambda row: row.labels.get("case") == "C 3",
    "label.team label.case": lambda row: {"team", "case"} <= set(row.labels),
    "-label.team=ops": lambda row: row.labels.get("team") != "ops",
    "-label.team state:failed": lambda row: "team" not in row.labels and row.state == "failed",
    "label.team=zebra": lambda row: False,
    "CHARGEbacks": lambda row: "chargebacks" in row.title.lower(),
    '"50%"': lambda row: "50%" in row.title,
    "a_b\\c": lambda row: "a_b\\c" in row.title,
    "-fees": lambda row: "fees" not in row.title,
    "state:failed recovered:no tier:batch -fees": lambda row: (
        row.state == "failed" and row.tier == Tier.BATCH and "fees" not in row.title
    ),
}


@pytest.mark.parametrize("text", ASKED)
def test_a_filter_finds_what_it_says(many, actor, text):
    expected = newest_first(row for row in many.values() if ASKED[text](row))
    assert everything(text, actor) == expected
    found = runs_matched(actor, query(text, actor), fabric_ids(actor))
    assert (found.count, found.more) == (len(expected), False)
    assert found.oldest == (expected[-1].created_at if expected else None)


def test_every_field_was_asked_for(actor, many):
    asked = {term.field for text in ASKED for term in query(text, actor).terms}
    assert asked | {"id", "parent"} == set(FIELDS)


def test_child_runs_are_listed_under_their_parent_alone(many, actor):
    parent, *below = sorted(many)[:4]
    Run.objects.filter(id__in=below).update(parent_run_id=parent, root_run_id=parent, parent_command="a command")
    whole = everything("", actor)
    assert {row.id for row in whole} == set(many) - set(below)
    assert {row.id: row.children for row in whole if row.children} == {parent: 3}
    assert {row.id for row in everything(f"parent:{parent}", actor)} == set(below)
    assert {row.id for row in everything(f"parent:{parent[:20]}", actor)} >= set(below)
    assert [row.id for row in everything(f"id:{below[0]}", actor)] == [below[0]]


def test_a_child_run_has_its_roots_labels(many, actor):
    parent, *below = sorted(many)[:4]
    Run.objects.filter(id__in=below).update(parent_run_id=parent, root_run_id=parent, parent_command="a command")
    RunLabel.objects.filter(run_id__in=[parent, *below]).delete()
    for key, value in (("team", "zebra"), ("at", "x=y")):
        RunLabel.objects.create(run_id=parent, workspace_id=actor.workspace_id, key=key, value=value)
    found = everything(f"parent:{parent} label.team=zebra", actor)
    assert {row.id for row in found} == set(below)
    assert [row.labels for row in found] == [{"at": "x=y", "team": "zebra"}] * 3
    assert [row.id for row in everything("label.team=zebra", actor)] == [parent]
    assert {row.id for row in everything(f"parent:{parent} -label.team=zebra", actor)} == set()


def test_a_run_is_found_by_its_id(many, actor):
    run_id = sorted(many)[17]
    for text in (run_id, run_id.upper(), run_id[:20], run_id[-12:]):
        assert run_id in [row.id for row in everything(f"id:{text}", actor)], text
    assert [row.id for row in everything(f"id:{run_id[-12:]}", actor)] == [run_id]
    assert run_id not in [row.id for row in everything(f"-id:{run_id[-12:]}", actor)]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_pages_up_are_the_pages_down(many, actor, size):
    asked, fabrics = query("started:-10d", actor), fabric_ids(actor)
    down = [runs_page(actor, asked, fabrics, limit=size)]
    while down[-1].older and len(down) < 30:
        down.append(runs_page(actor, asked, fabrics, limit=size, before=down[-1].last))
    assert [page.newer for page in down] == [False] + [True] * (len(down) - 1)
    last = down[-1]
    for page in reversed(down[:-1]):
        up = runs_page(actor, asked, fabrics, limit=size, after=last.first)
        assert up.rows == page.rows
        assert up.newer is (page is not down[0])
        assert up.older
        last = up


@pytest.mark.parametrize("cursor", ["x", "1.", ".a", "-1.a", "9" * 19 + ".a", "١.a"])
@pytest.mark.parametrize("way", ["before", "after"])
def test_a_cursor_that_is_none(actor, cursor, way):
    with pytest.raises(Refused) as caught:
        runs_page(actor, Query(), {}, **{way: cursor})
    assert (caught.value.code, caught.value.field) == ("invalid", way)


def test_another_workspaces_runs_are_not_there(many, actor, stranger):
    run_id = next(iter(many))
    assert runs_page(stranger, Query(), {}).rows == ()
    assert runs_matched(stranger, Query(), {}).count == 0
    assert runs_bars(stranger, Query(), {}, since=0, width=DAY, bars=5) == ()
    assert runs_news(stranger, Query(), {}, shown={run_id: 0}, down_to=None, most=9) == runs_list.News(0, ())
    assert fabric_ids(stranger) == {}
    assert everything(f"id:{run_id[-12:]}", stranger) == []


def test_counts_stop_where_they_are_told_to(many, actor, monkeypatch):
    monkeypatch.setattr(runs_list, "COUNT_MAX", 100)
    found = runs_matched(actor, Query(), fabric_ids(actor))
    assert (found.count, found.more) == (100, True)
    assert found.oldest == newest_first(many.values())[100].created_at
    running = sum(row.state == "running" for row in many.values())
    asked = [query("state:running", actor), query("recovered:no", actor)]
    assert runs_counts(actor, asked, fabric_ids(actor), most=30) == (running, 30)


def test_bars_add_up_to_the_runs(many, actor):
    since = min(row.created_at for row in many.values())
    bars = runs_bars(actor, Query(), fabric_ids(actor), since=since, width=DAY, bars=40)
    assert [bar.number for bar in bars] == sorted({(row.created_at - since) // DAY for row in many.values()})
    completed = [row for row in many.values() if row.state == RunState.COMPLETED]
    assert {
        "completed": sum(bar.completed for bar in bars),
        "recovered": sum(bar.recovered for bar in bars),
        "bad": sum(bar.bad for bar in bars),
        "cancelled": sum(bar.cancelled for bar in bars),
        "unended": sum(bar.unended for bar in bars),
    } == {
        "completed": sum(not row.recovered for row in completed),
        "recovered": sum(row.recovered for row in completed),
        "bad": sum(row.state in (RunState.FAILED, RunState.ABORTED, RunState.STOPPED) for row in many.values()),
        "cancelled": sum(row.state == RunState.CANCELLED for row in many.values()),
        "unended": sum(row.state not in TERMINAL for row in many.values()),
    }


def test_a_bar_counts_each_state_once_and_no_live_run_as_completed(many, actor):
    ids = sorted(many)[: 2 * len(RunState)]
    for number, (state, recovered) in enumerate(product(RunState, (True, False))):
        Run.objects.filter(id=ids[number]).update(
            state=state, recovered=recovered, created_at=NOW, priority=1, created_by="each"
        )
    (bar,) = runs_bars(actor, query("by:each", actor), fabric_ids(actor), since=NOW, width=DAY, bars=1)
    # Failed, aborted and stopped; each state is there with a recovery and without.
    parts = {"completed": 1, "recovered": 1, "bad": 6, "cancelled": 2}
    assert asdict(bar) == {"number": 0, **parts, "unended": len(ids) - 10}


def test_news_are_what_the_page_has_not(many, actor):
    asked, fabrics = query("state:running", actor), fabric_ids(actor)
    page = runs_page(actor, asked, fabrics, limit=5)
    shown, down = {row.id: row.last_seq for row in page.rows}, page.last
    assert runs_news(actor, asked, fabrics, shown=shown, down_to=down, most=9) == runs_list.News(0, ())
    # One that was there and now runs, below nothing; one of the page that went on; one further down, which is no news here.
    above = next(row for row in newest_first(many.values()) if row.state == "waiting")
    below = next(row for row in many.values() if row.state == "completed")
    moved = page.rows[0].id
    Run.objects.filter(id__in=[above.id, below.id]).update(state="running")
    Run.objects.filter(id=above.id).update(created_at=NOW + US)
    Run.objects.filter(id=moved).update(state="completed", last_seq=shown[moved] + 1)
    news = runs_news(actor, asked, fabrics, shown=shown, down_to=down, most=9)
    assert news.count == 1
    assert [(row.id, row.state) for row in news.changed] == [(moved, "completed")]
    assert runs_news(actor, Query(), fabrics, shown={}, down_to=None, most=9).count == 9


def test_a_page_is_one_query(many, actor, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert len(runs_page(actor, Query(), {}, limit=50).rows) == 50


@pytest.fixture
def never_answers(monkeypatch) -> None:
    """A database that is asked to stop at once."""
    monkeypatch.setattr(database_time, "STEPS", 1)
    for limit in ("PAGE_LIMIT_S", "COUNT_LIMIT_S"):
        monkeypatch.setattr(runs_list, limit, 0.0)


def test_what_takes_too_long_is_given_up(many, actor, never_answers):
    fabrics = fabric_ids(actor)
    for ask in (
        lambda: runs_page(actor, Query(), fabrics),
        lambda: runs_matched(actor, Query(), fabrics),
        lambda: runs_bars(actor, Query(), fabrics, since=0, width=DAY, bars=5),
        lambda: runs_counts(actor, [Query()], fabrics, most=5),
        lambda: runs_news(actor, Query(), fabrics, shown={}, down_to=None, most=5),
    ):
        with pytest.raises(TookTooLong, match="did not answer within"):
            ask()
    # The limit went with what it was for.
    assert Run.objects.count() == COUNT


def test_a_limit_ends_a_read_that_would_go_on(actor):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    began = time.monotonic()
    with pytest.raises(TookTooLong), database_time.time_limit(0.1), connection.cursor() as cursor:
        cursor.execute(endless)
    assert 0.1 <= time.monotonic() - began < 10


def test_another_error_stays_what_it_is(actor):
    with pytest.raises(Exception, match="no such table"), database_time.time_limit(1), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")


PLANS = {
    "": "run_list",
    "state:running": "run_live",
    "state:waiting,queued": "run_live",
    "waits:provider": "run_live",
    "waits:person": "run_live",
    "state:failed": "run_bad",
    "state:failed,cancelled": "run_bad",
    "recovered:yes": "run_recovered",
    "state:completed recovered:yes": "run_recovered",
    "fired:budget": "run_troubled",
    "fired:budget,loop state:failed,completed": "run_troubled",
    "breaker:provider:openai": "run_troubled",
    "breaker:*": "run_troubled",
    "failure:cost_overrun": "run_troubled",
    "cause:budget_gate -tier:batch": "run_troubled",
    "session:close-7": "run_session",
    "fabric:claims-triage": "run_fabric",
    "started:-4h -state:cancelled": "run_list",
    "label.team=ops": "run_list",
    "label.team": "run_list",
    "label.case=T1 state:failed": "run_bad",
    "-label.team=ops": "run_list",
}


@pytest.mark.parametrize("text", PLANS)
def test_an_index_answers_and_nothing_is_sorted(many, actor, text):
    """SQLite's plan of the query; PostgreSQL's plans are looked at by the benchmark's own test."""
    rows = runs_list._query_runs(actor, query(text, actor), fabric_ids(actor))
    for asked in (
        rows,
        rows.filter(build_cursor_condition(f"{NOW}.x", "-created_at", field="before")),
        rows.filter(build_cursor_condition("1.x", "created_at", ids="lt")).reverse(),
    ):
        plan = asked.values("id")[:50].explain()
        assert f"INDEX {PLANS[text]} " in plan
        assert "TEMP B-TREE" not in plan
        assert ("COVERING INDEX run_label_value " in plan) is text.startswith("label.")
        assert ("CORRELATED" in plan) is text.startswith("-label.")


def test_the_counts_of_the_views_read_their_index_alone(many, actor):
    for text, index in (("state:running", "run_live"), ("state:failed,aborted ended:today", "run_bad"), ("state:completed recovered:yes", "run_recovered")):  # fmt: skip
        plan = runs_list._query_runs(actor, query(text, actor), fabric_ids(actor)).order_by().values("id").explain()
        assert index in plan, plan
        assert not pages.SCAN.search(plan)


ORDERS = {
    ("", "ended"): "run_ended",
    ("state:completed ended:<-20d fees", "ended"): "run_ended",
    ("state:failed", "ended"): "run_bad_ended",
    ("state:failed,cancelled tier:batch -fabric:claims-triage cost:>0.1", "ended"): "run_bad_ended",
    ("", "cost"): "run_cost",
    ("state:failed,completed cost:>0.1", "cost"): "run_cost",
    ("", "tokens"): "run_tokens",
    ("label.team=ops", "tokens"): "run_tokens",
    ("", "took"): "run_took",
    ("tier:batch took:>1m", "took"): "run_took",
}
"""The index of a query in an order."""


@pytest.mark.parametrize("falling", [True, False])
@pytest.mark.parametrize(("text", "word"), ORDERS)
def test_an_order_is_its_indexs_own(many, actor, text, word, falling):
    """SQLite sorts no more than the runs of one value, by their ids."""
    asked, order = query(text, actor), Order(word, falling)
    rows = runs_list._query_runs(actor, asked, fabric_ids(actor)).filter(match_index(order, asked))
    for some in (
        rows,
        rows.filter(order.match_beyond(f"{NOW}.x", "before")),
        rows.filter(order.match_beyond("1.x", "after")),
    ):
        plan = order.sort(some).values("id")[:50].explain()
        assert f"INDEX {ORDERS[text, word]} " in plan
        assert "TEMP B-TREE FOR ORDER BY" not in plan


def test_the_oldest_first_is_the_lists_index_from_its_other_end(many, actor):
    plan = Order("started", falling=False).sort(runs_list._query_runs(actor, Query(), {})).values("id")[:50].explain()
    assert "INDEX run_list " in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("started:-20d", "started"),
        ("started:-20d", "-started"),
        ("state:failed,aborted", "ended"),
        ("state:failed,aborted", "-ended"),
        ("tokens:<20k", "-ended"),
        ("fabric:claims-triage", "ended"),
        ("started:-20d", "cost"),
        ("fabric:claims-triage", "-cost"),
        ("state:completed,failed", "took"),
        ("label.team", "-tokens"),
        ("-state:completed", "-took"),
    ],
)
def test_an_order_goes_both_ways(many, actor, text, name):
    asked, fabrics = query(text, actor), fabric_ids(actor)
    order = read_order(name, asked)
    assert order.name == name
    # More runs of one value than a page has.
    same = [row.id for row in everything(text, actor) if row.ended_at][5:30]
    Run.objects.filter(id__in=same).update(cost_usd_micros=5, created_at=NOW - 3 * DAY, ended_at=NOW - 2 * DAY)
    expected = [row for row in everything(text, actor) if row.ended_at or not order.of_ended]
    expected = sorted(expected, key=lambda row: (-getattr(row, order.column), row.id))
    expected = expected if order.falling else expected[::-1]
    onwards, back = ("before", "after") if order.falling else ("after", "before")
    down = [runs_page(actor, asked, fabrics, order=order, limit=17)]
    while down[-1].older if order.falling else down[-1].newer:
        down.append(runs_page(actor, asked, fabrics, order=order, limit=17, **{onwards: down[-1].last}))
    assert [row for page in down for row in page.rows] == expected
    last = down[-1]
    for page in reversed(down[:-1]):
        last = runs_page(actor, asked, fabrics, order=order, limit=17, **{back: last.first})
        assert last.rows == page.rows
    assert (last.newer, last.older) == (not order.falling, order.falling)


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("", "title", "'title' is no order of runs; write started or -started, ended or -ended, cost or -cost, took"),
        ("", "--started", "is no order of runs"),
        ("state:running", "-cost", "the order by cost lists ended runs alone, and the query has live ones"),
        ("waits:provider", "ended", "the order by ended lists ended runs alone"),
    ],
)
def test_an_order_that_has_no_runs_is_refused(many, actor, text, name, says):
    with pytest.raises(Refused, match=re.escape(says)) as caught:
        read_order(name, query(text, actor))
    assert (caught.value.code, caught.value.field) == ("invalid", "sort")
    assert keep_order(name, query(text, actor)) == Order()
    assert list_order_words(query("state:running,failed", actor)) == tuple(COLUMNS)


def test_what_a_run_came_to_is_known_at_its_end(many, actor):
    for row in everything("", actor):
        assert Run.objects.values_list("took_us", "final_cost_usd_micros", "final_tokens").get(id=row.id) == (
            row.took_us,
            row.final_cost_usd_micros,
            row.final_tokens,
        )
    assert {row.took_us is None for row in many.values()} == {True, False}


def test_fabrics_are_known_by_name(many, actor):
    assert fabric_ids(actor) == {fabric.name: fabric.id for fabric in Fabric.objects.all()}
