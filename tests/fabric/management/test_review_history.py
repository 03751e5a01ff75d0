"""`manage.py review history`: the file, the period, and what it refuses."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command

from fabric.core.values.units import US
from tests.fabric.services.reviews.decided import AT, decided, many
from tests.fabric.services.world import actor, nudge, ran, small

__all__ = ["actor", "nudge", "small"]


def said(*args):
    out, err = StringIO(), StringIO()
    try:
        call_command("review", "history", *args, stdout=out, stderr=err)
    except SystemExit as end:
        return end.code, err.getvalue()
    return 0, err.getvalue()


@pytest.fixture
def run_id(actor, small):
    made = ran(actor, small).id
    many(decided(made), decided(made, "edit", "ben", decided_at=AT + 86_400 * US))
    return made


def test_a_period_into_a_file(run_id, tmp_path):
    to = tmp_path / "d.ndjson"
    day = "2026-09-22"  # The one after ``AT``.
    assert said("--since", day, "--format", "ndjson", "--out", str(to)) == (0, f"1 decisions are in {to}.\n")
    assert [json.loads(line)["decided_by"] for line in to.read_text().splitlines()] == ["ben"]


def test_a_file_that_is_there_is_left_alone(run_id, tmp_path):
    to = tmp_path / "d.csv"
    to.write_text("mine")
    code, err = said("--out", str(to))
    assert (code, "is there already; name a new file" in err, to.read_text()) == (2, True, "mine")


@pytest.mark.parametrize("since", ["soon", "2026-13-01", "7"])
def test_what_is_no_time_is_said(actor, since):
    code, err = said("--since", since)
    assert code == 2
    assert f"--since '{since}' is no time" in err


def test_a_folder_that_is_not_there(actor, tmp_path):
    code, err = said("--out", str(tmp_path / "no" / "d.csv"))
    assert code == 2
    assert "No such file" in err
