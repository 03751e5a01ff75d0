"""Renders the API's schema as a page of the console, without scripts and without external resources."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from console.api.openapi import MEANS, find_scope, operations, resolve_reference, schema
from console.site.errors.problems import KINDS, Problem, ProblemKind, problem_response
from console.site.requests.throttle import API
from fabric.core.values.units import JSON


@dataclass(frozen=True, slots=True)
class DocsRow:
    """A parameter, or a field of a body."""

    name: str
    place: str
    """query, path, header or body."""
    kind: str
    """Its type and bounds, in words."""
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class DocsAnswer:
    """A status that an operation can answer with."""

    status: int
    title: str
    description: str

    @property
    def fine(self) -> bool:
        """Return True if the status means success."""
        return self.status < HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class DocsEntry:
    """One operation."""

    id: str
    method: str
    path: str
    scope: str
    summary: str
    description: str
    rows: list[DocsRow]
    answers: list[DocsAnswer]
    """Statuses with a special meaning for this operation."""
    usual: list[tuple[int, ProblemKind]]
    """Further errors with their usual meaning."""
    curl: str
    example: str
    """Example of its answer, as JSON."""

    @property
    def more(self) -> str:
        """Return the description without its first sentence, which is the summary."""
        return self.description[len(self.summary) :].lstrip(". ")


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Show the whole schema to people."""
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
    """Show the schema itself, without a sign-in: it describes the program and has no data of this installation."""
    if request.method not in ("GET", "HEAD"):
        return problem_response(request, Problem(405, "this address takes GET", headers={"Allow": "GET, HEAD"}))
    return HttpResponse(_encode_schema(), content_type="application/json")


@lru_cache(maxsize=1)
def _encode_schema() -> bytes:
    return json.dumps(schema(), ensure_ascii=False).encode()


@csrf_exempt
def unknown(request: HttpRequest, rest: str) -> HttpResponse:
    """Answer 404 for an unknown address."""
    return problem_response(request, Problem(404))


def _entry(document: JSON, path: str, method: str, operation: JSON) -> DocsEntry:
    name, statuses = operation["operationId"], [int(status) for status in operation["responses"]]
    answered = _success_content(operation)
    return DocsEntry(
        id=name,
        method=method,
        path=path,
        scope=find_scope(name),
        summary=operation["summary"],
        description=operation["description"],
        rows=list(_rows(document, operation)),
        answers=[
            DocsAnswer(status, HTTPStatus(status).phrase, MEANS[name, status])
            for status in statuses
            if (name, status) in MEANS
        ],
        usual=[(status, KINDS[status]) for status in statuses if (name, status) not in MEANS],
        curl=_curl(path, method, operation),
        example=json.dumps(answered["example"], indent=2, ensure_ascii=False) if answered else "",
    )


def _success_content(operation: JSON) -> JSON | None:
    """Return the JSON content of a successful answer; None if it is a file."""
    good = next(status for status in operation["responses"] if status.startswith("2"))
    answered: JSON | None = operation["responses"][good]["content"].get("application/json")
    return answered


def _rows(document: JSON, operation: JSON) -> Iterator[DocsRow]:
    for one in operation["parameters"]:
        description = one.get("description", "")
        yield DocsRow(one["name"], one["in"], _kind(document, one["schema"]), one["required"], description)
    body = operation.get("requestBody")
    if body:
        yield from _fields(document, body["content"]["application/json"]["schema"], "")


def _fields(document: JSON, given: JSON, before: str) -> Iterator[DocsRow]:
    shape = resolve_reference(document, given)
    for name, one in shape["properties"].items():
        field = resolve_reference(document, one)
        yield DocsRow(
            f"{before}{name}",
            "body",
            _kind(document, one),
            name in shape.get("required", ()),
            field.get("description", ""),
        )
        if field.get("type") == "array" and "properties" in resolve_reference(document, field["items"]):
            yield from _fields(document, field["items"], f"{before}{name}[].")


_BOUNDS = {
    "minLength": "at least {:,} characters",
    "maxLength": "at most {:,} characters",
    "minimum": "from {:,}",
    "maximum": "to {:,}",
    "maxItems": "at most {:,}",
}


def _kind(document: JSON, given: JSON) -> str:
    schema = resolve_reference(document, given)
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
        if not _success_content(operation):
            line.append("-OJ")  # A file, under the name that the answer gives it.
    return " \\\n  ".join(line)
