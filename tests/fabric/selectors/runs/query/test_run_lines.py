"""Runs as a file: all that a query finds, in its order, cut with a sentence, and without contents for some readers."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from fabric.models import Run, RunLabel
from fabric.selectors import database_time
from fabric.selectors.contents import UNREAD_LINE
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query import list_pages, run_lines
from fabric.selectors.runs.query.grammar import Query, parse
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.selectors.runs.query.orders import NEWEST, Order
from fabric.selectors.runs.query.run_lines import RunLines
from tests.benchmarks.console import many_runs
from tests.benchmarks.throughput.spec import SPEC
from tests.people import fresh, member

NOW = 1_795_250_000_000_000
COUNT = 450


@pytest.fixture
def many(actor) -> list[str]:
    """Runs of six fabrics, more than two pages, the newest first."""
    made = many_runs.fabrics_create(actor.workspace_id, SPEC.model_dump_json(), SPEC.digest())
    many_runs.generate(actor.workspace_id, made, COUNT, now=NOW)
    return list(Run.objects.filter(parent_run_id=None).order_by("-created_at", "id").values_list("id", flat=True))


def file_of(actor, text="", form="ndjson", order: Order = NEWEST) -> RunLines:
    fabrics = fabric_ids(actor)
    query = parse(text, now=NOW, fabrics=tuple(fabrics))
    assert isinstance(query, Query)
    return RunLines(actor, query, fabrics, order, form=form)


def rows(lines: RunLines) -> list[dict]:
    return [json.loads(line) for line in b"".join(lines.pages()).decode().splitlines()]


def test_every_run_is_there_once_in_its_order(many, actor):
    assert [row["id"] for row in rows(file_of(actor))] == many
    assert [row["id"] for row in rows(file_of(actor, order=Order("started", falling=False)))] == many[::-1]
    dear = rows(file_of(actor, "state:completed", order=Order("cost")))
    assert [row["cost_usd_micros"] for row in dear] == sorted((row["cost_usd_micros"] for row in dear), reverse=True)
    assert {row["state"] for row in dear} == {"completed"}


def test_both_forms_have_the_same_columns(many, actor):
    lines = file_of(actor, "label.team=ops", form="csv")
    table = list(csv.DictReader(io.StringIO(b"".join(lines.pages()).decode(), newline="")))
    as_json = rows(file_of(actor, "label.team=ops"))
    assert [row["id"] for row in table] == [row["id"] for row in as_json] != []
    assert set(table[0]) == set(as_json[0]) == set(lines.columns)
    assert [json.loads(row["labels"]) for row in table] == [row["labels"] for row in as_json]
    assert lines.count == len(table)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_no_cell_acts_in_a_spreadsheet(many, actor, sign):
    Run.objects.filter(id=many[0]).update(title=f"{sign}1+1", reason=f"{sign}cmd", session_key=f"{sign}A1")
    RunLabel.objects.filter(run_id=many[0]).delete()
    RunLabel.objects.create(run_id=many[0], workspace_id=actor.workspace_id, key="sum", value=f"{sign}1")
    found = csv.DictReader(io.StringIO(b"".join(file_of(actor, f"id:{many[0]}", "csv").pages()).decode(), newline=""))
    (row,) = found
    assert (row["title"], row["reason"], row["session_key"]) == (f"'{sign}1+1", f"'{sign}cmd", f"'{sign}A1")
    assert not any(value.startswith(("=", "+", "-", "@")) for value in row.values())


@pytest.mark.parametrize("most", [1, 200, 250])
def test_a_file_that_lacks_runs_says_so_in_its_last_line(many, actor, monkeypatch, most):
    monkeypatch.setattr(run_lines, "RUNS_MAX", most)
    *found, end = rows(file_of(actor))
    says = f"a file has at most {most} runs, and the query finds more; narrow it down, such as by started:"
    assert ([row["id"] for row in found], end) == (many[:most], {"cut": says})
    *_, last = csv.reader(io.StringIO(b"".join(file_of(actor, form="csv").pages()).decode(), newline=""))
    assert last == [says]


def test_a_file_of_all_that_match_is_not_cut(many, actor, monkeypatch):
    monkeypatch.setattr(run_lines, "RUNS_MAX", len(many))
    lines = file_of(actor)
    assert (len(rows(lines)), lines.cut) == (len(many), "")


def answer_never(monkeypatch) -> None:
    """Have the database stop at once from now on."""
    monkeypatch.setattr(database_time, "STEPS", 1)
    monkeypatch.setattr(list_pages, "PAGE_LIMIT_S", 0.0)


def test_what_takes_too_long_is_refused_at_first_and_cut_later(many, actor, monkeypatch):
    lines = file_of(actor)
    found = lines.next_page().splitlines()
    answer_never(monkeypatch)
    (end,) = [json.loads(line) for line in lines.next_page().splitlines()]
    assert len(found) == 200
    assert re.fullmatch(r"the database did not answer within .*, so only 200 runs are here; narrow .*", end["cut"])
    assert lines.next_page() == b""
    with pytest.raises(TookTooLong):
        file_of(actor).next_page()


def test_no_run_is_a_file_without_rows(actor):
    assert b"".join(file_of(actor).pages()) == b""
    assert b"".join(file_of(actor, form="csv").pages()).decode() == ",".join(RunLines.columns) + "\r\n"


def test_a_reader_without_the_right_to_contents_gets_none(many, actor):
    Run.objects.filter(id=many[0]).update(title="a secret request", reason="a secret reason")
    viewer = fresh(member("vera", "viewer"))
    (row,) = rows(file_of(viewer, f"id:{many[0]}"))
    assert "secret" not in json.dumps(row)
    assert row["reason"] == UNREAD_LINE
    assert row["labels"] == rows(file_of(actor, f"id:{many[0]}"))[0]["labels"]
    assert rows(file_of(viewer, "secret")) == [], "nobody finds a run by words that they may not read"


def test_a_person_of_some_fabrics_gets_runs_of_these(many, actor):
    found = rows(file_of(fresh(member("olga", "operator@claims-triage"))))
    assert {row["fabric"] for row in found} == {"claims-triage"}


def test_another_form_is_refused(actor):
    with pytest.raises(Refused, match="runs are not given as 'xml'; there are: csv, ndjson"):
        file_of(actor, form="xml")
