"""The auditor's pages: the list, one record, the file, holds and rules; for who has the right alone."""

from __future__ import annotations

import csv
import io
import json

import pytest
from asgiref.sync import async_to_sync

from console.pages.audit import views as pages
from console.pages.audit.views import CAME_BY, OUTCOMES
from fabric.core.audit.acts import Outcome
from fabric.core.audit.lines import Act
from fabric.core.people.roles import RIGHTS, Right, Role
from fabric.models import AuditForward, AuditLine, AuditRule, Hold
from fabric.secrets.signing import read_signer, verify_signature
from fabric.selectors.audit.files import file_verify
from fabric.selectors.database_time import TookTooLong
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal
from fabric.services.people.members import member_roles_set
from tests.people import member, signed_in
from tests.servers.unguarded import unguarded


def text(answer):
    async def pieces():
        return [piece async for piece in answer.streaming_content]

    return b"".join(async_to_sync(pieces)()).decode()


@pytest.fixture
def many(actor):
    for number in range(60):
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=f"thing-{number:02}")
    audit_seal()


def test_every_outcome_has_words():
    assert set(OUTCOMES) == set(Outcome)
    assert {"session", "token", "cli", "system"} <= set(CAME_BY)


@pytest.mark.parametrize("role", Role)
def test_only_who_has_the_right_sees_it(owner, role):
    browser, may = signed_in(member("vera", role)), role in RIGHTS[Right.AUDIT]
    for path in ("/audit", "/audit/news", "/audit/holds"):
        assert (browser.get(path).status_code == 200) is may, path
    assert ('href="/audit"' in browser.get("/protections").content.decode()) is may


def test_the_newest_are_first_and_the_rest_a_page_further(browser, many):
    first = browser.get("/audit?act=retention_set").content.decode()
    assert first.index("thing-59") < first.index("thing-10")
    assert "thing-09" not in first
    more = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    second = browser.get(more).content.decode()
    assert "thing-09" in second
    assert "thing-10" not in second
    assert "data-follows" in first
    assert "data-follows" not in second


@pytest.mark.parametrize(
    ("query", "shown", "hidden"),
    [
        ("actor=vera", "vera", "thing-59"),
        ("subject=thing-07", "thing-07", "thing-08"),
        ("outcome=refused", "drill-stop", "thing-59"),
        ("about=workspace", "thing-59", "drill-stop"),
        ("address=127.0.0.1", "drill-stop", "thing-59"),
        ("within=1d&act=signed_in", "signed in", "thing-59"),
    ],
)
def test_it_is_narrowed(browser, many, query, shown, hidden):
    signed_in(member("vera", "viewer")).post("/drills/stop", {"act": "pull", "reason": "x"})
    page = browser.get(f"/audit?{query}").content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
    assert shown in page
    assert hidden not in page


def test_an_open_list_hears_of_what_it_lacks(browser, actor, many):
    shown = browser.get("/audit").content.decode()
    news = shown.split('data-news="')[1].split('"')[0].replace("&amp;", "&")
    assert 'data-news="0"' in browser.get(news).content.decode()
    audit_record(actor=actor, act=Act.RETENTION_SET, subject="later")
    assert 'data-news="1"' in browser.get(news).content.decode()
    assert browser.get("/audit/news?since=x").status_code == 422


def test_nothing_and_no_database_are_said(browser, monkeypatch, many):
    assert "No record matches." in browser.get("/audit?subject=never").content.decode()

    def slow(*_, **__):
        raise TookTooLong("the database did not answer within 2 s")

    monkeypatch.setattr(pages, "audit_page", slow)
    answer = browser.get("/audit")
    assert answer.status_code == 503
    assert "Too slow" in answer.content.decode()


def test_one_record_says_what_stood_before_and_that_it_verifies(browser, actor):
    member("vera", "viewer")
    member_roles_set(actor=owner_actor(), name="vera", roles=["auditor"])
    line = AuditLine.objects.get(kind="member_roles_set")
    assert "Not sealed yet" in browser.get(f"/audit/{line.id}").content.decode()
    audit_seal()
    page = browser.get(f"/audit/{line.id}").content.decode()
    assert "<del>viewer</del>" in page
    assert "<ins>auditor</ins>" in page
    assert "Verified" in page
    assert bytes(AuditLine.objects.get(id=line.id).hash).hex() in page
    with unguarded():
        AuditLine.objects.filter(id=line.id).update(actor="somebody")
    assert "Does not verify" in browser.get(f"/audit/{line.id}").content.decode()
    assert browser.get("/audit/0123").status_code == 404


def test_the_csv_runs_nothing_and_the_lines_of_json_verify_offline(browser, actor, tmp_path):
    audit_record(actor=actor, act=Act.RETENTION_SET, subject="=1+1")
    rows = list(csv.DictReader(io.StringIO(text(browser.post("/audit/export", {"form": "csv"})))))
    assert [row["subject"] for row in rows if row["act"] == "retention_set"] == ["'=1+1"]
    raw = text(browser.post("/audit/export", {"form": "ndjson"}))
    assert rows[-1]["act"] == json.loads(raw.splitlines()[-2])["act"] == "audit_exported"
    signer = read_signer(tmp_path)

    def problems(given):
        return file_verify(
            (line.encode() for line in given.splitlines(keepends=True)),
            verified=verify_signature,
            trusted={signer.public},
        ).problems

    assert problems(raw) == []
    lines = raw.splitlines(keepends=True)
    assert "missing" in problems("".join(lines[:2] + lines[3:]))[0]
    for cut in (lines[:-1], lines[:-2], [*lines[:-2], lines[-1]]):
        assert "the rest is missing" in problems("".join(cut))[0]
    named = ("actor", "subject", "address", "came_by", "at", "id", "via", "act", "request_id", "reason", "times")
    for field, other in (*((name, "vera") for name in named), ("more", {"a": 1})):
        changed = json.dumps({**json.loads(lines[2]), field: other}) + "\n"
        assert "does not have the hash" in problems("".join([*lines[:2], changed, *lines[3:]]))[0], field
    part = text(browser.post("/audit/export", {"form": "ndjson", "act": "retention_set"}))
    assert len(part.splitlines()) == 3
    assert problems(part) == []


def test_a_hold_is_placed_and_lifted(browser, doubtful):
    given = {"act": "place", "about": "fabric", "name": doubtful, "reason": "Case 12."}
    assert browser.post("/audit/holds", given).status_code == 302
    page = browser.get("/audit/holds").content.decode()
    assert "Case 12." in page
    again = browser.post("/audit/holds", given)
    assert (again.status_code, b"has a legal hold already" in again.content) == (409, True)
    hold = Hold.objects.get()
    assert browser.post("/audit/holds", {"act": "lift", "hold": hold.id, "reason": ""}).status_code == 422
    assert browser.post("/audit/holds", {"act": "lift", "hold": hold.id, "reason": "Over."}).status_code == 302
    assert "1 lifted" in browser.get("/audit/holds").content.decode()


def test_a_rule_is_set_by_an_owner_alone(browser, owner):
    assert browser.post("/audit/holds", {"act": "rule", "kind": "*", "days": "90"}).status_code == 302
    assert AuditRule.objects.get().days == 90
    assert browser.post("/audit/holds", {"act": "rule", "kind": "*", "days": "3"}).status_code == 422
    auditor = signed_in(member("vera", "auditor"))
    assert "Set the rule" not in auditor.get("/audit/holds").content.decode()
    assert auditor.post("/audit/holds", {"act": "rule", "kind": "*", "days": "90"}).status_code == 403


def test_a_receiver_that_fails_is_said(browser, actor, settings):
    settings.FABRIC_AUDIT_SYSLOG = "tcp://127.0.0.1:9"
    AuditForward.objects.create(
        target="syslog", workspace_id=actor.workspace_id, failures=2, said="it cannot be reached"
    )
    page = browser.get("/audit").content.decode()
    assert "it cannot be reached" in page
    assert "Records wait here" in page
