"""The schema: what the framework derives from the operations, and what it cannot know: who may call, every error, an example of everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings

from console.api.api import api
from console.api.callers import SCOPES
from console.api.meanings import MEANS, TAGS
from console.api.problems import KINDS, MEDIA_TYPE, REQUEST_ID

JSON = Any
ROOT = "/api/v1/"

ALWAYS = (400, 401, 403, 413, 422, 429, 500, 503)
"""Errors that every operation can have. 404 comes with an id in the path, 415 with a body."""

_PROBLEM: JSON = {
    "title": "Problem",
    "description": "Why a request was not carried out (RFC 9457). It changed nothing.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "What kind of problem: an address in the documentation."},
        "title": {"type": "string", "description": "The kind in a few words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "One sentence: what is wrong, where, what to do."},
        "instance": {"type": "string", "description": "The path that was asked for."},
        "request_id": {"type": "string", "description": "The request's id, as in the X-Request-Id header and the server's log."},
        "errors": {
            "type": "array",
            "description": "Each thing that is wrong, where there are places to name.",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {
                    "path": {"type": "string", "description": "Where: documents.0.name, limit; empty for the whole."},
                    "message": {"type": "string", "description": "One sentence."},
                },
            },
        },
        "problems": {
            "type": "array",
            "description": "Of a text that was sent: each thing that is wrong with it, and where.",
            "items": {"$ref": "#/components/schemas/PlacedOut"},
        },
        "answer": {"$ref": "#/components/schemas/AnswerOut", "description": "The answer that a question has already."},
        "claim": {"$ref": "#/components/schemas/ClaimOut", "description": "Who has the question in hand."},
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def schema() -> JSON:
    """The OpenAPI 3.1 document. Not to be changed."""
    made: JSON = dict(api.get_openapi_schema(path_prefix=ROOT))
    made["info"] = {**made["info"], "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}
    made["servers"] = [{"url": "/", "description": "This installation."}]
    made["tags"] = [{"name": name, "description": means} for name, means in TAGS.items()]
    components = made["components"]
    components["schemas"]["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `manage.py token create NAME --scope read run decide`; each operation names the scope it needs.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "A signed-in browser. What changes something also needs its CSRF token in the X-CSRFToken header.",
        },
    }
    for path, method, operation in operations(made):
        _complete(made, path, method, operation)
    return made


def operations(document: JSON) -> Iterator[tuple[str, str, JSON]]:
    """Every operation: its path, its method in capitals, its description."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def scope_of(operation_id: str) -> str:
    """The scope that a token needs for an operation."""
    return _ROUTES[operation_id]


def _routes() -> dict[str, str]:
    found = {}
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            for operation in view.operations:
                assert operation.operation_id is not None
                found[operation.operation_id] = SCOPES[operation.url_name, operation.methods[0]].value
    return found


_ROUTES = _routes()


def _complete(document: JSON, path: str, method: str, operation: JSON) -> None:
    name = operation["operationId"]
    operation["summary"] = operation["description"].partition(". ")[0].rstrip(".")
    operation["security"] = [{"token": [scope_of(name)]}, {"session": []}]
    for parameter in operation["parameters"]:
        parameter["schema"] = _sent(parameter["schema"])
        parameter["example"] = parameter["schema"].pop("example", None) or example(document, parameter["schema"])
        parameter["schema"].pop("description", None)
    responses = operation["responses"]
    for status, response in responses.items():
        response["description"] = MEANS[name, status]
        for content in response["content"].values():
            content["example"] = example(document, content["schema"])
    statuses = {*ALWAYS, *(status for of, status in MEANS if of == name and status >= 400)}
    if "{" in path:
        statuses.add(404)
    if "requestBody" in operation:
        statuses.add(415)
        for content in operation["requestBody"]["content"].values():
            content["schema"] = _sent(content["schema"])
            content["example"] = example(document, content["schema"])
    for status in sorted(statuses):
        responses[status] = _problem(name, status, path, method)
    for status, response in responses.items():
        response["headers"] = _headers(name, status)
    operation["responses"] = {str(status): responses[status] for status in sorted(responses)}


def _sent(given: JSON) -> JSON:
    """The schema of what is sent, as a caller sends it: who leaves a parameter out sends no null, and a shape's own default is nothing to send."""
    among = [one for one in given.get("anyOf", given.get("allOf", [])) if one != {"type": "null"}]
    if len(among) == 1:
        beside = {key: value for key, value in given.items() if key not in ("anyOf", "allOf", "default")}
        given = {**among[0], **beside}
    schema = {key: value for key, value in given.items() if key != "title"}
    if schema.get("default") == "":
        del schema["default"]
    return schema


def _problem(name: str, status: int, path: str, method: str) -> JSON:
    kind = KINDS[status]
    instance = path.replace("{", "").replace("}", "")
    example = {
        "type": f"/api/v1/docs#problem-{kind.slug}",
        "title": kind.title,
        "status": status,
        "detail": kind.otherwise,
        "instance": instance,
        "request_id": "5c1f0a9be2d74386",
    }
    return {
        "description": MEANS.get((name, status), kind.otherwise),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
    }


def _headers(name: str, status: int) -> JSON:
    text = {"type": "string"}
    headers: JSON = {
        REQUEST_ID: {"description": "The request's id, also where it succeeded.", "schema": text, "required": True}
    }
    if status == 401:
        headers["WWW-Authenticate"] = {"description": "How to call (RFC 6750).", "schema": text, "required": True}
    if status in (429, 503):
        headers["Retry-After"] = {"description": "Seconds to wait.", "schema": text, "required": True}
    if name == "startRun" and status < 300:
        headers["Location"] = {"description": "The run's address.", "schema": text, "required": True}
    return headers


# -- examples ----------------------------------------------------------------------------------------------------------

_OF_TYPE: Mapping[str, JSON] = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "object": {}}


def resolved(document: JSON, given: JSON) -> JSON:
    """A schema with its reference followed; what stands beside the reference counts more."""
    while "$ref" in given:
        beside = {key: value for key, value in given.items() if key != "$ref"}
        given = {**document["components"]["schemas"][given["$ref"].rpartition("/")[2]], **beside}
    return given


def example(document: JSON, given: JSON) -> JSON:
    """A value that fits a schema: the author's examples where there are any."""
    given = resolved(document, given)
    if "example" in given:
        return given["example"]
    for key in ("examples", "enum"):
        if given.get(key):
            return given[key][0]
    if "const" in given:
        return given["const"]
    if "default" in given:
        return given["default"]
    if "anyOf" in given:
        return example(document, given["anyOf"][0])
    if "properties" in given:
        return {name: example(document, one) for name, one in given["properties"].items()}
    if given.get("type") == "array":
        return [example(document, given["items"])]
    return _OF_TYPE.get(given.get("type", "null"))
