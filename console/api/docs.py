"""The API's documentation, made from its schema as a page of the console: without a script, and without anything from elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from console.api.meanings import MEANS
from console.api.openapi import operations, resolved, schema, scope_of
from console.api.problems import KINDS, Kind, Problem
from console.api.responses import problem_response
from console.throttle import API

JSON = Any


@dataclass(frozen=True, slots=True)
class Row:
    """A parameter, or a field of a body."""

    name: str
    place: str
    """query, path, header or body."""
    kind: str
    """Its type and bounds, in words."""
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A status that an operation can answer with."""

    status: int
    title: str
    description: str

    @property
    def fine(self) -> bool:
        """Whether it did what was asked."""
        return self.status < HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation."""

    id: str
    method: str
    path: str
    scope: str
    summary: str
    description: str
    rows: list[Row]
    answers: list[Answer]
    """Those that mean something special here."""
    usual: list[tuple[int, Kind]]
    """The other errors: they mean what they mean everywhere."""
    curl: str
    example: str
    """What it answers, as JSON."""

    @property
    def more(self) -> str:
        """The description without its first sentence, which is the summary."""
        return self.description[len(self.summary) :].lstrip(". ")


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Everything the schema says, for people."""
    document = schema()
    entries = [_entry(document, *one) for one in operations(document)]
    by_tag = {
        entry.id: operation["tags"][0] for entry, (_, _, operation) in zip(entries, operations(document), strict=True)
    }
    groups = [(tag, [entry for entry in entries if by_tag[entry.id] == tag["name"]]) for tag in document["tags"]]
    shown = {
        "groups": groups,
        "kinds": list(KINDS.items()),
        "base": settings.FABRIC_PUBLIC_URL,
        "info": document["info"],
        "per_minute": f"{API.most:,}" if API.most else "",
    }
    return render(request, "api/docs.html", shown)


@csrf_exempt
def openapi(request: HttpRequest) -> HttpResponse:
    """The schema itself."""
    if request.method not in ("GET", "HEAD"):
        return problem_response(request, Problem(405, "this address takes GET", headers={"Allow": "GET, HEAD"}))
    return HttpResponse(json.dumps(schema(), ensure_ascii=False), content_type="application/json")


@csrf_exempt
def unknown(request: HttpRequest, rest: str) -> HttpResponse:
    """What no route knows."""
    return problem_response(request, Problem(404))


def _entry(document: JSON, path: str, method: str, operation: JSON) -> Entry:
    name, statuses = operation["operationId"], [int(status) for status in operation["responses"]]
    answered = _answered(operation)
    return Entry(
        id=name,
        method=method,
        path=path,
        scope=scope_of(name),
        summary=operation["summary"],
        description=operation["description"],
        rows=list(_rows(document, operation)),
        answers=[
            Answer(status, HTTPStatus(status).phrase, MEANS[name, status])
            for status in statuses
            if (name, status) in MEANS
        ],
        usual=[(status, KINDS[status]) for status in statuses if (name, status) not in MEANS],
        curl=_curl(path, method, operation),
        example=json.dumps(answered["example"], indent=2, ensure_ascii=False) if answered else "",
    )


def _answered(operation: JSON) -> JSON | None:
    """What a success says in JSON; None: it is a file."""
    good = next(status for status in operation["responses"] if status.startswith("2"))
    answered: JSON | None = operation["responses"][good]["content"].get("application/json")
    return answered


def _rows(document: JSON, operation: JSON) -> Iterator[Row]:
    for one in operation["parameters"]:
        description = one.get("description", "")
        yield Row(one["name"], one["in"], _kind(document, one["schema"]), one["required"], description)
    body = operation.get("requestBody")
    if body:
        yield from _fields(document, body["content"]["application/json"]["schema"], "")


def _fields(document: JSON, given: JSON, before: str) -> Iterator[Row]:
    shape = resolved(document, given)
    for name, one in shape["properties"].items():
        field = resolved(document, one)
        yield Row(
            f"{before}{name}",
            "body",
            _kind(document, one),
            name in shape.get("required", ()),
            field.get("description", ""),
        )
        if field.get("type") == "array" and "properties" in resolved(document, field["items"]):
            yield from _fields(document, field["items"], f"{before}{name}[].")


_BOUNDS = {
    "minLength": "at least {:,} characters",
    "maxLength": "at most {:,} characters",
    "minimum": "from {:,}",
    "maximum": "to {:,}",
    "maxItems": "at most {:,}",
}


def _kind(document: JSON, given: JSON) -> str:
    schema = resolved(document, given)
    if "anyOf" in schema:
        return " or ".join(_kind(document, one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    kind = {"array": "list", "integer": "whole number"}.get(schema.get("type", ""), schema.get("type", "anything"))
    kind = schema.get("format", kind)
    bounds = [
        words.format(schema[key])
        for key, words in _BOUNDS.items()
        if key in schema and schema[key] not in (1, 2**31 - 1)
    ]
    default = [f"{schema['default']} if left out"] if schema.get("default") not in (None, "", []) else []
    return ", ".join([kind, *bounds, *default])


def _curl(path: str, method: str, operation: JSON) -> str:
    values = {one["name"]: one["example"] for one in operation["parameters"] if one["in"] == "path"}
    address = f"$FABRIC_URL{path.format(**values)}"
    line = [f'curl -H "Authorization: Bearer $FABRIC_TOKEN" {address}']
    if method == "POST":
        line[0] = f'curl -X POST -H "Authorization: Bearer $FABRIC_TOKEN" {address}'
        if any(one["name"] == "Idempotency-Key" for one in operation["parameters"]):
            line.append("-H 'Idempotency-Key: order-4711-first-try'")
        if "requestBody" in operation:
            example = operation["requestBody"]["content"]["application/json"]["example"]
            line += [
                "-H 'Content-Type: application/json'",
                f"-d {shlex.quote(json.dumps(example, ensure_ascii=False))}",
            ]
        if not _answered(operation):
            line.append("-OJ")  # A file, under the name that the answer gives it.
    return " \\\n  ".join(line)
