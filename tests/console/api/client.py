"""A program that calls the API. Whatever it is answered is held to the schema: the status is documented, and the body has the promised shape."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
from django.test import Client

from console.api.openapi import operations, schema

MEDIA = {True: "application/json", False: "application/problem+json"}


def promised(method: str, path: str) -> Any:
    """The operation that answers there; None where there is none."""
    # An address without names comes before one with them: /runs/jobs is no run.
    for template, verb, operation in sorted(operations(schema()), key=lambda one: one[0].count("{")):
        if verb == method and re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path):
            return operation
    return None


def fits(shape: Any, value: Any) -> list[str]:
    """Return what is wrong with a value, by a schema of the document."""
    whole = {**shape, "components": schema()["components"]}
    return [error.message for error in jsonschema_rs.Draft202012Validator(whole).iter_errors(value)]


class Program:
    """``get`` and ``post`` give the answer; every answer is checked."""

    def __init__(self, token: str = "", **defaults: Any) -> None:
        self.client = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False, **defaults)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, *, headers: dict[str, str] | None = None, **query: Any) -> Any:
        """Ask for something."""
        return self.call("GET", path, headers=headers, query=query)

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        **more: Any,
    ) -> Any:
        """Send JSON, or ``raw`` bytes."""
        data = json.dumps(body).encode() if raw is None else raw
        return self.call("POST", path, headers=headers, data=data, **more)

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        query: Any = None,
        data: bytes = b"",
        content_type: str = "application/json",
    ) -> Any:
        """One request."""
        answer = self.client.generic(
            method, path, data, content_type, headers=self.headers | (headers or {}), query_params=query
        )
        check(method, path, answer)
        return answer


def check(method: str, path: str, answer: Any) -> None:
    """The answer is one that the schema promises."""
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"
    fine = answer.status_code < 400
    if answer.streaming:  # A file.
        documented = promised(method, path.partition("?")[0])["responses"][str(answer.status_code)]
        assert answer.headers["Content-Type"] in documented["content"]
        return
    assert answer.headers["Content-Type"].partition(";")[0] == MEDIA[fine], answer.content[:300]
    told = json.loads(answer.content)
    if not fine:
        assert told["status"] == answer.status_code
        assert told["instance"] == answer.wsgi_request.path
        assert told["request_id"] == answer.headers["X-Request-Id"]
        assert re.fullmatch(r"[^\n]+[.!?]", told["detail"]), told["detail"]
        assert "Traceback" not in told["detail"]
        assert fits({"$ref": "#/components/schemas/Problem"}, told) == []
    if answer.status_code == 401:
        assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="fabric-flow"')
    operation = promised(method, path.partition("?")[0])
    if path == "/api/v1/openapi.json" and fine:
        return
    if operation is None:
        assert answer.status_code in (401, 403, 404, 405, 413), answer.status_code
        return
    documented = operation["responses"]
    assert str(answer.status_code) in documented, f"{method} {path} answered {answer.status_code}"
    shape = documented[str(answer.status_code)]["content"][MEDIA[fine]]["schema"]
    assert fits(shape, told) == []
