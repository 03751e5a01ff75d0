"""The audit stream by the API: list, filter, one, export, holds; by a token of who has the right."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from fabric.services.audit.checkpoints import audit_seal
from tests.people import member, token_of


@pytest.fixture
def program(owner):
    return Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(member('vera', 'auditor'), 'all')}")


def post(program, path, **body):
    return program.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")


def test_records_are_listed_page_by_page_and_one_is_looked_at(program):
    audit_seal()
    page = program.get("/api/v1/audit?limit=1").json()
    assert [one["act"] for one in page["records"]] == ["token_created"]
    assert page["records"][0]["more"]["scopes"]
    rest = program.get(f"/api/v1/audit?limit=200&cursor={page['next_cursor']}").json()
    assert rest["next_cursor"] is None
    assert "workspace_created" in {one["act"] for one in rest["records"]}
    one = program.get(f"/api/v1/audit/{page['records'][0]['id']}").json()
    assert (one["verified"], one["record"]["act"]) == (True, "token_created")
    assert len(one["prev"]) == 64
    assert program.get("/api/v1/audit/nothing").status_code == 404


@pytest.mark.parametrize("query", ["act=nothing", "outcome=x", "cursor=x", "limit=0", "since=yesterday", "more=1"])
def test_what_is_no_filter_is_refused(program, query):
    assert program.get(f"/api/v1/audit?{query}").status_code == 422


def test_a_hold_is_placed_once_and_lifted_once(program, small):
    made = post(program, "/audit/holds", about="fabric", name=small, reason="Case 12.")
    assert made.status_code == 200, made.content
    assert post(program, "/audit/holds", about="fabric", name=small, reason="Again.").status_code == 409
    assert post(program, "/audit/holds", about="fabric", name="never", reason="x").status_code == 404
    assert post(program, "/audit/holds", about="fabric", name=small, reason=" ").status_code == 422
    lift = f"/audit/holds/{made.json()['id']}/lift"
    assert post(program, lift, reason="Over.").json()["lifted_by"] == "vera"
    assert post(program, lift, reason="Over.").status_code == 409
    (held,) = program.get("/api/v1/audit/holds").json()["holds"]
    assert (held["placed_by"], held["lifted_because"]) == ("vera", "Over.")


def test_an_export_is_streamed_and_recorded(program):
    answer = post(program, "/audit/export", form="ndjson")

    async def pieces():
        return [piece async for piece in answer.streaming_content]

    last, end = map(json.loads, b"".join(async_to_sync(pieces)()).splitlines()[-2:])
    assert end["end"] == last["seq"]
    assert (last["act"], last["actor"], last["via"], last["came_by"]) == (
        "audit_exported",
        "vera",
        "token:all",
        "token",
    )


def test_who_has_not_the_right_is_refused(owner):
    other = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(member('carl', 'editor'), 'all')}")
    for path in ("/audit", "/audit/holds", "/audit/x"):
        assert other.get(f"/api/v1{path}").status_code == 403
    assert post(other, "/audit/export").status_code == 403
    assert post(other, "/audit/holds", about="person", name="carl", reason="x").status_code == 403
