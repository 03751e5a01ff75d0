"""Labels over the API: given at the start, changed later, and found by a query; runs as a file."""

from __future__ import annotations

import csv
import io
import json

import pytest

from fabric.models import AuditLine, Run, RunLabel
from tests.console.api.client import Program
from tests.console.pages.runs.list.streams import read_stream
from tests.fabric.services.world import ran
from tests.people import member, token_of

RUNS = "/api/v1/runs"
ASKED = {"fabric": "small", "text": "What do the notes say?"}


@pytest.fixture
def run_id(program, small):
    return program.post(RUNS, {**ASKED, "labels": {"team": "ops", "site": "Rome"}}).json()["id"]


def test_a_run_has_its_labels_in_every_answer(program, run_id):
    held = {"site": "Rome", "team": "ops"}
    assert program.get(f"{RUNS}/{run_id}").json()["labels"] == held
    for asked in ({}, {"q": "label.team=ops"}, {"q": "label.team=ops", "sort": "started"}):
        (row,) = program.get(RUNS, **asked).json()["runs"]
        assert row["labels"] == held
    assert program.get(RUNS, q="label.team=it").json()["runs"] == []


def test_labels_are_set_and_removed(program, run_id):
    answer = program.post(f"{RUNS}/{run_id}/labels", {"set": {"team": "it"}, "delete": ["site"]})
    assert (answer.status_code, answer.json()) == (200, {"run_id": run_id, "labels": {"team": "it"}})
    assert AuditLine.objects.filter(kind="run_labelled", subject=run_id).count() == 1


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"Team": "ops"}, "he label key 'Team' is not taken; use lower-case letters, digits, -, _ and ."),
        ({"team": "x" * 129}, "he value of label team has 129 characters; at most 128 are taken; use a shorter value"),
        ({f"k{n}": "v" for n in range(17)}, "he run would have 17 labels; at most 16 are taken; leave some out"),
        ({"team": 1}, "string"),
    ],
)
def test_a_label_that_is_not_taken_is_one_sentence(program, small, labels, said):
    answer = program.post(RUNS, {**ASKED, "labels": labels})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert answer.json()["errors"][0]["path"].startswith("labels")
    assert not Run.objects.exists()


def test_a_token_that_reads_alone_changes_no_label(program, run_id):
    reads = Program(token_of(member("vera", "viewer"), "reads"))
    assert reads.post(f"{RUNS}/{run_id}/labels", {"set": {"team": "it"}}).status_code == 403
    assert reads.get(f"{RUNS}/{run_id}").json()["labels"] == {"site": "Rome", "team": "ops"}
    assert RunLabel.objects.filter(run_id=run_id, value="it").count() == 0


def test_runs_are_exported_in_both_forms(program, actor, small):
    ids = [ran(actor, small).id for _ in range(2)][::-1]
    answer = program.get(f"{RUNS}/export", q="state:completed")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="runs.ndjson"'
    assert [json.loads(line)["id"] for line in read_stream(answer).splitlines()] == ids
    table = read_stream(program.get(f"{RUNS}/export", format="csv", sort="started"))
    assert [row["id"] for row in csv.DictReader(io.StringIO(table, newline=""))] == ids[::-1]


@pytest.mark.parametrize(
    ("asked", "path", "said"),
    [
        ({"q": "label.Team=x"}, "q", "the label key 'Team' is not taken"),
        ({"q": "stat:failed"}, "q", "there is no field 'stat': did you mean state?"),
        ({"sort": "title"}, "sort", "'title' is no order of runs"),
        ({"zone": "Mars"}, "zone", "here is no time zone 'Mars'; write a name such as Europe/Berlin, or UTC"),
        ({"format": "xml"}, "format", "csv"),
        ({"limit": "5"}, "limit", "there is no such parameter"),
    ],
)
def test_an_export_that_cannot_be_made_says_why(program, small, asked, path, said):
    answer = program.get(f"{RUNS}/export", **asked)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["path"] == path
    assert said in str(answer.json())


def test_days_of_a_query_are_those_of_the_zone(program, run_id):
    Run.objects.update(created_at=1_783_290_600_000_000)  # 2026-07-05T22:30Z, half past midnight in Berlin.
    found = {
        zone: len(program.get(RUNS, q="started:2026-07-06", **zone_of(zone)).json()["runs"])
        for zone in ("", "UTC", "Europe/Berlin")
    }
    assert found == {"": 0, "UTC": 0, "Europe/Berlin": 1}


def zone_of(zone):
    return {"zone": zone} if zone else {}
