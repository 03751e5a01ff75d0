"""Exporting decisions: members their own, owners and auditors all; the audit stream tells of it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import AuditLine
from fabric.selectors.reviews.decisions.history import DecisionLines, HistoryFilter, decided_page, decision_json
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import decisions_export, may_export_all
from tests.fabric.services.reviews.decided import AT, decided, many
from tests.fabric.services.world import ran

EXPORTED = Act.DECISIONS_EXPORTED.value


@pytest.fixture
def run_id(actor, small):
    return ran(actor, small).id


def whole(lines):
    return b"".join(iter(lines.next_page, b"")).decode()


def test_every_column_is_said_of_each(actor, run_id):
    many(decided(run_id))
    (row,) = decided_page(actor, HistoryFilter()).rows
    assert set(decision_json(row)) == set(DecisionLines.columns)


def test_more_than_a_page_comes_once_each_in_both_forms(actor, run_id):
    many(*(decided(run_id, decided_at=AT + n // 3 * US) for n in range(401)))
    rows = [
        json.loads(line)
        for line in whole(decisions_export(actor=actor, wanted=HistoryFilter(), form="ndjson")).splitlines()
    ]
    assert len({row["id"] for row in rows}) == 401
    lines = decisions_export(actor=actor, wanted=HistoryFilter(), form="csv")
    table = list(csv.DictReader(io.StringIO(whole(lines), newline="")))
    assert [row["id"] for row in table] == [row["id"] for row in rows]
    assert lines.count == 401


def test_nothing_that_a_spreadsheet_would_run(actor, run_id):
    many(decided(run_id, reason="=HYPERLINK(1)", by="@ana"))
    (row,) = csv.DictReader(
        io.StringIO(whole(decisions_export(actor=actor, wanted=HistoryFilter(), form="csv")), newline="")
    )
    assert (row["reason"], row["decided_by"], row["late"]) == ("'=HYPERLINK(1)", "'@ana", "no")


def test_of_nothing_there_are_the_columns(actor):
    assert whole(decisions_export(actor=actor, wanted=HistoryFilter(), form="csv")).rstrip() == ",".join(
        DecisionLines.columns
    )
    assert whole(decisions_export(actor=actor, wanted=HistoryFilter(), form="ndjson")) == ""


@pytest.mark.parametrize("role", ["reviewer", "viewer", "operator", "editor", "finance", "safety"])
def test_others_decisions_are_for_owners_and_auditors(actor, role):
    ben = replace(actor, name="ben", roles=frozenset({role}))
    with pytest.raises(Refused, match="ben may export their own decisions and not those of others") as refusal:
        decisions_export(actor=ben, wanted=HistoryFilter(), form="csv")
    assert refusal.value.code == "forbidden"
    assert not AuditLine.objects.filter(kind=EXPORTED).exists()
    decisions_export(actor=ben, wanted=HistoryFilter(by="ben"), form="csv")
    assert not may_export_all(ben)
    assert AuditLine.objects.get(kind=EXPORTED).subject == "ben"


def test_the_audit_stream_says_who_exported_what(actor):
    auditor = replace(actor, name="eva", roles=frozenset({"auditor"}))
    decisions_export(actor=auditor, wanted=HistoryFilter(since=5), form="ndjson")
    line = AuditLine.objects.get(kind=EXPORTED)
    assert (line.actor, line.subject, json.loads(bytes(line.body))) == ("eva", "*", {"form": "ndjson", "since": 5})


def test_a_form_that_there_is_none_of(actor):
    with pytest.raises(Refused, match="there are: csv, ndjson"):
        decisions_export(actor=actor, wanted=HistoryFilter(), form="xlsx")
    assert not AuditLine.objects.filter(kind=EXPORTED).exists()
