"""The audit stream has each change and each refusal: who, by what, from where, what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from console.site.access.audit_trail import ROUTE_ACTS, ByDoor, ByService
from console.site.access.rights import CHANGES, roles_for
from fabric.core.audit.acts import ACTS
from fabric.core.audit.lines import Act
from fabric.core.people.roles import Role
from fabric.models import AuditFold, AuditLine
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.audit import folds as audit_folding
from fabric.services.audit.folds import STRANGERS_MAX, folds_flush
from fabric.services.people.sign_in.attempts import sign_in_failed
from tests.console.site.access import test_rights
from tests.console.site.access.changing import CHANGING
from tests.console.site.access.test_rights import DOORS, World, changes, world
from tests.fabric.services.world import ran
from tests.people import member, signed_in, token_of

__all__ = ["world"]


def lines(*kinds: str) -> list[tuple[AuditLine, dict[str, Any]]]:
    return [(row, json.loads(bytes(row.body))) for row in AuditLine.objects.filter(kind__in=kinds).order_by("at", "id")]


def test_every_act_and_every_address_that_changes_something_is_in_a_table():
    assert set(ACTS) == set(Act)
    assert set(ROUTE_ACTS) == set(CHANGES)


@pytest.mark.parametrize("door", DOORS)
def test_what_is_done_at_each_address_is_recorded(door: str, world: World):
    """A member with the right asks each address; what is taken leaves a record of one of the acts that its row names."""
    wrong, driven = [], 0
    # After signing out nothing else is asked; a breaker that others open would keep a question from being asked.
    asked = sorted(changes(door).items(), key=lambda one: (one[0] == "logout", one[0] not in CHANGING))
    for name, _ in asked:
        told = ROUTE_ACTS[name]
        role = Role.OWNER if Role.OWNER in roles_for(name, "POST") else min(roles_for(name, "POST"))
        before = set(AuditLine.objects.values_list("id", flat=True))
        AuditFold.objects.all().delete()
        answer = CHANGING[name](world, name, role) if name in CHANGING else DOORS[door](world, role, name)
        if name in CHANGING:
            assert answer.status_code < 400, (name, answer.content)
        if answer.status_code >= 400 or not isinstance(told, ByService | ByDoor):
            continue
        driven += 1
        acts = told.acts if isinstance(told, ByService) else (told.act,)
        made = AuditLine.objects.exclude(id__in=before)
        found = {row.kind: json.loads(bytes(row.body)).get("origin", {}) for row in made}
        came = next((found[act.value] for act in acts if act.value in found), None)
        by = "token" if door == "api" else "session"
        if came is None or (came.get("by"), came.get("address")) != (by, "127.0.0.1") or not came.get("request"):
            wrong.append(f"{name}: {answer.status_code} {found}")
    assert "\n".join(wrong) == ""
    assert driven >= 25, "the addresses were not asked so that they do something"


def test_who_may_not_is_recorded_once_with_the_number_of_the_others(owner):
    browser = signed_in(member("vera", "viewer"))
    for _ in range(3):
        answer = browser.post("/drills/stop", {"act": "pull", "reason": "x"}, headers={"x-request-id": "mine-0001"})
        assert answer.status_code == 403
    ((line, told),) = lines("request_refused")
    assert (line.actor, line.subject, line.address) == ("vera", "drill-stop", "127.0.0.1")
    assert told["origin"] == {"by": "session", "address": "127.0.0.1", "request": "mine-0001"}
    assert (told["status"], told["method"]) == (403, "POST")
    assert "that is for" in told["reason"]
    until = AuditFold.objects.get().until
    assert folds_flush(now=until - 1) == 0
    assert folds_flush(now=until) == 1
    assert lines("request_refused")[1][1]["times"] == 2
    assert folds_flush(now=until) == 0


def test_a_missing_scope_and_a_token_that_is_none_are_recorded(owner):
    user = member("vera", "owner")
    program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(user, 'reads', ['read'])}")
    assert program.post("/api/v1/drill-stop/pull", "{}", content_type="application/json").status_code == 403
    ((line, told),) = lines("request_refused")
    assert (line.actor, line.via, line.subject) == ("vera", "token:reads", "api-drill-stop-pull")
    assert told["origin"]["by"] == "token"
    assert "scope" in told["reason"]
    stranger = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION="Bearer secret-of-somebody")
    for _ in range(2):
        assert stranger.get("/api/v1/runs").status_code == 401
    ((line, told),) = lines("caller_refused")
    assert (line.actor, line.subject, told["origin"]["by"]) == ("unknown", "api-runs", "unknown")
    assert "secret-of-somebody" not in str(told)


def test_a_wrong_digest_and_a_four_eyes_refusal_are_recorded(actor, owner, doubtful):
    run = ran(actor, doubtful)
    (item,) = list_open_reviews(actor, run.id)
    program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(owner, 'all')}")
    body = json.dumps({"verb": "approve", "digest": "0" * 64})
    answer = program.post(f"/api/v1/reviews/{item.id}/decision", body, content_type="application/json")
    assert answer.status_code == 409, answer.content
    ((line, told),) = lines("request_refused")
    assert (line.subject, told["about"], told["status"]) == ("api-review-decision", item.id, 409)
    change = test_rights.change_waits(actor, doubtful)
    answer = program.post(
        f"/api/v1/change-requests/{change}/approve", '{"digest": "00000000"}', content_type="application/json"
    )
    assert answer.status_code in (403, 409), answer.content
    assert lines("request_refused")[1][0].subject == "api-change-approve"


def test_sign_ins_that_fail_are_counted_by_name_and_address_and_hold_no_password(owner):
    for name in ("owner", "owner", "hunter2-typed-as-name"):
        Client(HTTP_HOST="127.0.0.1").post("/login", {"name": name, "password": "sesame-sesame"})
    first, second = lines("sign_in_failed")
    assert (first[0].actor, first[0].subject, second[0].subject) == ("unknown", "owner", "unknown")
    assert first[0].address == "127.0.0.1"
    assert first[1]["how"] == "password"
    assert "sesame" not in str((first[1], second[1]))
    assert "hunter2" not in str((first[1], second[1]))
    folds_flush(now=AuditFold.objects.first().until)
    assert [told.get("times") for _, told in lines("sign_in_failed")] == [None, None, 1]
    Client(HTTP_HOST="127.0.0.1").post("/login/link", {"token": "never-was-a-link"})
    assert lines("sign_in_failed")[-1][1]["how"] == "link"


def test_each_way_of_failing_is_a_record_of_its_own(owner):
    for how in ("password", "second_factor", "password"):
        sign_in_failed(name="owner", address="192.0.2.1", how=how)
    assert [told["how"] for _, told in lines("sign_in_failed")] == ["password", "second_factor"]


def test_strangers_fill_no_disk(owner, monkeypatch):
    monkeypatch.setattr(audit_folding, "STRANGERS_MAX", 5)
    for number in range(30):
        audit_folding.audit_fold(actor=audit_folding.stranger(), act=Act.SIGN_IN_FAILED, subject=f"n{number}", now=1)
    assert STRANGERS_MAX >= 5
    assert (AuditFold.objects.count(), len(lines("sign_in_failed"))) == (6, 6)
    folds_flush(now=AuditFold.objects.first().until)
    assert lines("sign_in_failed")[-1][1]["times"] == 24


def test_a_draft_that_is_changed_ten_times_is_two_records(owner, small):
    browser = signed_in(owner)
    browser.post(f"/fabrics/{small}/draft/begin")
    for number in range(10):
        browser.post(f"/fabrics/{small}/draft", {"step": number, "part": "basics", "f.title": f"Title {number}"})
    assert len(lines("draft_changed")) == 1
    assert max(AuditFold.objects.values_list("times", flat=True)) == 10
