"""Callers: tokens with their scopes, browsers with their CSRF tokens, and no others."""

from __future__ import annotations

import logging
import re
from hashlib import sha256
from typing import get_args

import pytest
from django.middleware.csrf import get_token
from django.test import Client, RequestFactory

from console.api.assembly import api
from console.api.openapi import operations, schema
from console.site.access.callers import NOT_ACCEPTED, SCOPES
from console.site.access.policies import ROUTES, Policy
from fabric.core.people.scopes import Scope
from fabric.models import ApiToken
from fabric.services.people.tokens import NotAccepted, token_create, token_revoke
from tests.console.api.client import Program, check

FABRICS = "/api/v1/fabrics"
RUNS = "/api/v1/runs"
SAMPLE = {
    "invitation_id": "x",
    "model_id": "3d2de876f893f5985f2b504e57044c1a",
    "change_id": "x",
    "run_id": "019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55",
    "name": "small",
    "review_id": "0123456789abcdef",
} | {
    "notification_id": "fedcba9876543210fedcba9876543210",
    "scenario_name": "tool-error",
    "drill_id": "01a20ad2-a0da-75e8-86f0-896fd8797a56",
    "schedule_id": "01a20c1a-59b1-77f1-bef2-cf6045060838",
    "stop_id": "01a20c1a-59b1-77f1-bef2-cf6045060839",
    "channel_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "job_id": "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a12",
    "hold_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "record_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "batch": "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a11",
}


def registered():
    """Every operation: its route, its method, its address."""
    return [
        (operation.url_name, method, re.sub(r"{uuid\w*:", "{", f"/api/v1{operation.path}").format(**SAMPLE))
        for bound in api._get_bound_routers()
        for view in bound.path_operations.values()
        for operation in view.operations
        for method in operation.methods
    ]


def test_every_operation_has_a_scope_and_every_scope_an_operation():
    assert {(route, method) for route, method, _ in registered()} == set(SCOPES)


def test_every_route_of_the_api_is_an_operation_or_for_any_caller():
    routes = {name for name, policy in ROUTES.items() if policy is Policy.API}
    assert routes == {route for route, _ in SCOPES} | {"api-unknown"}


def test_every_operation_is_in_the_schema_under_its_scope():
    told = {
        (method, operation["operationId"]): operation["security"][0]["token"]
        for _, method, operation in operations(schema())
    }
    assert len(told) == len(SCOPES)
    assert told["POST", "startRun"] == ["start"]
    assert told["POST", "decideReview"] == ["decide"]
    assert told["GET", "listRuns"] == ["read"]


@pytest.mark.parametrize(("route", "method", "path"), registered(), ids=lambda value: str(value)[-30:])
class TestEachOperation:
    def test_refuses_no_one(self, db, route, method, path):
        answer = Program().call(method, path)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="fabric-flow"'

    def test_refuses_every_other_scope(self, actor, route, method, path):
        others = tuple(scope for scope in Scope if scope is not SCOPES[route, method])
        answer = Program(token_create(actor=actor, name="t", scopes=others).secret).call(method, path, data=b"{}")
        assert answer.status_code == 403
        assert f'scope="{SCOPES[route, method]}"' in answer.headers["WWW-Authenticate"]
        assert SCOPES[route, method] in answer.json()["detail"]

    def test_takes_its_scope(self, actor, route, method, path):
        secret = token_create(actor=actor, name="t", scopes=(SCOPES[route, method],)).secret
        assert Program(secret).call(method, path, data=b"{}").status_code not in (401, 403, 405)

    def test_refuses_another_method(self, program, route, method, path):
        answer = program.call("DELETE", path)
        assert answer.status_code == 405
        assert method in answer.headers["Allow"]


class TestTokens:
    @pytest.mark.parametrize(
        "header",
        [
            "Bearer nonsense",
            "Bearer ff_" + "A" * 43,
            "Bearer ff_" + "A" * 100_00,
            "Bearer ff_\xff",
            "Bearer ",
            "Bearer",
            "Basic b3duZXI6b3duZXI=",
            "ff_abc",
        ],
    )
    def test_what_is_none(self, db, header):
        answer = Program().get(FABRICS, headers={"Authorization": header})
        assert answer.status_code == 401
        assert 'error="' in answer.headers["WWW-Authenticate"]

    def test_a_token_counts_before_a_session(self, browser):
        answer = browser.get(FABRICS, headers={"Authorization": "Bearer nonsense"})
        assert answer.status_code == 401

    def test_a_revoked_one(self, actor, program):
        assert program.get(FABRICS).status_code == 200
        token_revoke(actor=actor, name="all")
        answer = program.get(FABRICS)
        assert answer.status_code == 401
        assert "revoked" in answer.json()["detail"]
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]

    def test_an_expired_one(self, actor, program):
        ApiToken.objects.update(expires_at=1)
        answer = program.get(FABRICS)
        assert answer.status_code == 401
        assert "expired" in answer.json()["detail"]

    def test_one_of_a_removed_member(self, owner, program):
        owner.is_active = False
        owner.save()
        assert program.get(FABRICS).status_code == 401

    def test_it_needs_no_csrf_token(self, token, small):
        program = Program(token, enforce_csrf_checks=True)
        assert program.post(RUNS, {"fabric": "small", "text": "Why?"}).status_code == 201

    def test_each_reason_has_a_sentence(self):
        assert set(NOT_ACCEPTED) == set(get_args(NotAccepted))

    def test_neither_it_nor_its_hash_is_logged(self, token, small, caplog):
        hashed = sha256(token.encode()).hexdigest()
        with caplog.at_level(logging.DEBUG):
            Program(token).get(FABRICS)
            Program(token).post(RUNS, raw=b"[")
            Program(token[:-1]).get(FABRICS)
            Program(token).get(f"/api/v1/nowhere/{hashed[:8]}")
        said = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
        assert token[:-1] not in said
        assert hashed not in said


class TestBrowsers:
    def test_one_that_is_signed_in(self, browser, small):
        answer = browser.get(FABRICS)
        check("GET", FABRICS, answer)
        assert answer.json()["fabrics"][0]["name"] == "small"

    @pytest.fixture
    def strict(self, browser):
        """A browser that is held to CSRF tokens."""
        browser.handler.enforce_csrf_checks = True
        return browser

    def test_a_change_needs_the_csrf_token(self, strict, small):
        body = {"fabric": "small", "text": "Why?"}
        answer = strict.post(RUNS, body, content_type="application/json")
        check("POST", RUNS, answer)
        assert answer.status_code == 403
        assert "X-CSRFToken" in answer.json()["detail"]

    def test_a_change_with_it(self, strict, small):
        secret = get_token(RequestFactory().get("/"))
        strict.cookies[next(name for name in ("fabric-csrf-8420",))] = secret
        answer = strict.post(
            RUNS, {"fabric": "small", "text": "Why?"}, content_type="application/json", headers={"X-CSRFToken": secret}
        )
        check("POST", RUNS, answer)
        assert answer.status_code == 201
        assert answer.json()["created_by"] == "owner"

    def test_a_change_from_another_origin(self, strict, small):
        secret = get_token(RequestFactory().get("/"))
        strict.cookies["fabric-csrf-8420"] = secret
        headers = {"X-CSRFToken": secret, "Origin": "https://elsewhere.example"}
        answer = strict.post(
            RUNS, {"fabric": "small", "text": "Why?"}, content_type="application/json", headers=headers
        )
        assert answer.status_code == 403

    def test_one_that_is_signed_out_is_not_sent_to_a_page(self, db):
        answer = Client(HTTP_HOST="127.0.0.1").get(FABRICS)
        check("GET", FABRICS, answer)
        assert answer.status_code == 401


def test_no_one_learns_which_addresses_there_are(db):
    assert Program().get("/api/v1/nowhere").status_code == 401
