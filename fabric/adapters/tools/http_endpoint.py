"""Tools that are HTTP endpoints: the arguments go out under the call's idempotency key, the answer comes back as the result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import httpx2

from fabric.adapters.tools.answers.results import result_of
from fabric.adapters.tools.outbound import CALL_HEADER, Gate, call_name
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.adapters.tools.permits import RESERVED, Permits
from fabric.adapters.tools.web import AddressRefused, exchange, shown
from fabric.core.saga import Outcome
from fabric.core.spec_http import PLACEHOLDER, placeholders
from fabric.core.spec_tools import ToolSpec
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest

JSON = Any
WITH_BODY = ("POST", "PUT", "PATCH")
NOT_BY_ARGUMENT = RESERVED | {"authorization", "proxy-authorization", "cookie", "forwarded", "origin", "referer"}
"""Headers, in lower case, that no argument may be: what says who asks is not for a model to say."""
_header_value = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")


async def call_endpoint(gate: Gate, permits: Permits, request: ToolRequest, deadline_s: float) -> JSON:
    """The endpoint's answer, as ``result_of`` reads it.

    An argument travels where ``places`` says; others in the JSON body of POST, PUT and PATCH, in the query of GET and DELETE. ToolError for a 4xx,
    which tells the model what the endpoint said; CallBroken for 5xx, 429, no connection, the deadline, and an address or header that may not be.
    """
    tool = request.tool
    if problem := gate.problem(tool.target) or permits.headers_problem(tool.target, tool.headers_from):
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {problem}", outcome=Outcome.REJECTED)
    url, headers, content = _placed(tool, request.args)
    headers |= {
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: call_name(request),
        "Accept": "application/json, text/*;q=0.9",
    }
    try:
        headers |= permits.headers(tool.headers_from)
        answer = await exchange(gate, tool.method, url, deadline_s=deadline_s, headers=headers, content=content)
    except LookupError as error:
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {error}", outcome=Outcome.REJECTED) from None
    except AddressRefused as error:
        message = f"tool {tool.name!r}: {error}"
        raise CallBroken(Cause.BAD_CONFIGURATION, message, outcome=Outcome.REJECTED) from None
    return result_of(answer, shown(url))


def _placed(tool: ToolSpec, args: Mapping[str, JSON]) -> tuple[str, dict[str, str], bytes | None]:
    """The address, the headers and the body of a call."""
    usual = "json" if tool.method in WITH_BODY else "query"
    by_place: dict[str, dict[str, JSON]] = {"path": {}, "query": {}, "header": {}, "body": {}, "json": {}}
    for name, value in args.items():
        by_place[tool.places.get(name, usual)][name] = value
    headers = {name: _header(name, value) for name, value in by_place["header"].items()}
    url = _address(tool, by_place["path"], by_place["query"])
    if "body" in tool.places.values():
        sent = next(iter(by_place["body"].values()), None)
        bare = not by_place["body"]
    else:
        sent, bare = by_place["json"], tool.method not in WITH_BODY
    if bare:
        return url, headers, None
    headers["Content-Type"] = "application/json"
    return url, headers, json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()


def _address(tool: ToolSpec, path: Mapping[str, JSON], query: Mapping[str, JSON]) -> str:
    parts = urlsplit(tool.target)
    filled = PLACEHOLDER.sub(lambda found: _segment(found[1], path.get(found[1])), parts.path)
    url = urlunsplit(parts._replace(path=filled))
    if not query:
        return url
    if not any(name in tool.places for name in query):
        return str(httpx2.URL(url).copy_merge_params({name: _query(value) for name, value in query.items()}))
    pairs = [
        (name, _query(one)) for name, value in query.items() for one in (value if isinstance(value, list) else [value])
    ]
    return f"{url}{'&' if parts.query else '?'}{urlencode(pairs)}"


def _segment(name: str, value: JSON) -> str:
    """A part of the path, which can neither leave its place nor begin another."""
    if value is None:
        raise ToolError(f"the argument {name} stands in the address's path and is not given")
    text = _query(value)
    if not text or text in (".", ".."):
        raise ToolError(f"the argument {name} stands in the address's path and cannot be {text!r}")
    return quote(text, safe="")


def _query(value: JSON) -> str:
    if isinstance(value, dict | list):
        raise ToolError("the arguments of this tool travel in the URL; give text, numbers or true and false")
    return value if isinstance(value, str) else json.dumps(value)


def _header(name: str, value: JSON) -> str:
    text = _query(value)
    if not _header_value.fullmatch(text):
        raise ToolError(f"the argument {name} travels as a header, which is printable ASCII on one line")
    return text


def problems(spec: ToolSpec) -> Iterator[str]:
    """What is wrong with where a tool's arguments travel."""
    named = set(placeholders(spec.target))
    in_path = {name for name, place in spec.places.items() if place == "path"}
    for name in sorted(named - in_path):
        yield f"has {{{name}}} in its target; say `places: {{{name}: path}}`, or take it out"
    for name in sorted(in_path - named):
        yield f"has {name!r} in the path, and no {{{name}}} in its target"
    bodies = [name for name, place in spec.places.items() if place == "body"]
    if bodies and spec.method not in WITH_BODY:
        yield f"has a body, which {spec.method} has not; use POST, PUT or PATCH"
    if len(bodies) > 1:
        yield f"has several bodies ({', '.join(bodies)}); one argument may be the whole body"
    for name, place in spec.places.items():
        if place == "header" and name.lower() in NOT_BY_ARGUMENT:
            yield f"has the argument {name!r} as a header, which is not an argument's to set"
    yield from _undeclared(spec, in_path & named, whole=bool(bodies))


def _undeclared(spec: ToolSpec, in_path: set[str], *, whole: bool) -> Iterator[str]:
    """What does not go with the schema of its arguments, where that names them."""
    schema = spec.parameters or {}
    declared, required = schema.get("properties"), schema.get("required")
    if not isinstance(declared, dict):
        return
    for name in spec.places:
        if name not in declared:
            yield f"says where {name!r} travels, which is none of its parameters"
    for name in sorted(in_path):
        if name in declared and not (isinstance(required, list) and name in required):
            yield f"has {name!r} in the path, so it has to be required"
    for name in declared if whole else ():
        if name not in spec.places:
            yield f"has a whole body, so say in `places` where {name!r} travels"
