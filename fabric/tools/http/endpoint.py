"""Calls tools that are HTTP endpoints, and reads pages from the hosts that a fabric allows.

The arguments go out under the call's idempotency key, and the answer is the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import httpx2

from fabric.core.spec.http import PLACEHOLDER, placeholders
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.transport import CALL_HEADER, Gate, authority, call_name
from fabric.runtime.ports.calls import ToolRequest
from fabric.tools.answers.outcome import CallBroken, ToolError
from fabric.tools.functions.permits import RESERVED, Permits
from fabric.tools.http.exchange import AddressRefused, exchange, find_result, url_for_message

WITH_BODY = ("POST", "PUT", "PATCH")
NOT_BY_ARGUMENT = RESERVED | {"authorization", "proxy-authorization", "cookie", "forwarded", "origin", "referer"}
"""Headers, in lower case, that no argument may set: a model must not state the identity of the caller."""
_header_value = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")


async def call_endpoint(gate: Gate, permits: Permits, request: ToolRequest, deadline_s: float) -> JSON:
    """Call the endpoint and return its answer, as ``find_result`` reads it.

    An argument travels where ``places`` puts it; others in the JSON body of POST, PUT and PATCH, in the query of GET
    and DELETE. Raises ToolError for a 4xx, with the endpoint's words for the model; CallBroken for 5xx, 429, no
    connection, the deadline, and a forbidden address or header.
    """
    tool = request.tool
    if problem := gate.problem(tool.target) or permits.headers_problem(tool.target, tool.headers_from):
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {problem}", outcome=Outcome.REJECTED)
    url, headers, content = _place_arguments(tool, request.args)
    headers |= {
        **request.trace_headers,
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
    return find_result(answer, url_for_message(url))


def _place_arguments(tool: ToolSpec, args: Mapping[str, JSON]) -> tuple[str, dict[str, str], bytes | None]:
    """Return the address, the headers and the body of a call."""
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
    """Return a part of the path, escaped so that it stays one part."""
    if value is None:
        raise ToolError(f"the argument {name} is part of the address's path and is missing")
    text = _query(value)
    if not text or text in (".", ".."):
        raise ToolError(f"the argument {name} is part of the address's path and cannot be {text!r}")
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
    """Yield the errors in the places of a tool's arguments."""
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
    yield from _list_undeclared(spec, in_path & named, whole=bool(bodies))


def _list_undeclared(spec: ToolSpec, in_path: set[str], *, whole: bool) -> Iterator[str]:
    """Yield the places that contradict the schema of the arguments, where that names them."""
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


READ_CHARS = 20_000
PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "url": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2_000,
            "description": "Address of the page; it begins with https.",
        },
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "Position of the first character to read, from 0; default 0.",
        },
        "length": {
            "type": "integer",
            "minimum": 1,
            "maximum": READ_CHARS,
            "description": "Number of characters to read; default 20000.",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}
DESCRIPTION = (
    "Reads a text page by HTTP GET from one of the allowed hosts, up to 20,000 characters at a time from `start`."
)


async def http_get(
    gate: Gate, allowed: Sequence[str], deadline_s: float, url: str, start: int = 0, length: int = READ_CHARS
) -> dict[str, JSON]:
    """Return ``{"url", "status", "content_type", "text", "start", "total", "more"}``. Raises ToolError and
    CallBroken as ``web.exchange``.
    """
    if problem := gate.problem(url):
        raise ToolError(problem)
    if not is_allowed(url, allowed):
        raise ToolError(f"{httpx2.URL(url).host} is not among the allowed hosts: {', '.join(allowed) or 'none'}")
    accept = {"Accept": "text/*, application/json, application/xml;q=0.9"}
    answer = await exchange(gate, "GET", url, deadline_s=deadline_s, headers=accept)
    if answer.text is None:
        noun = answer.content_type or "something"
        raise ToolError(
            f"{url_for_message(url)} answered with binary data ({noun}), which is no text; only text is read",
            outcome=Outcome.ANSWERED,
        )
    text = answer.text[start : start + min(length, READ_CHARS)]
    more = start + len(text) < len(answer.text)
    return {
        "url": url,
        "status": answer.status,
        "content_type": answer.content_type,
        "text": text,
        "start": start,
        "total": len(answer.text),
        "more": more,
    }


def is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Return True if a URL's host is listed: ``host`` means its usual port, ``host:port`` that port. Names are
    compared whole.
    """
    parsed = httpx2.URL(url)
    host = parsed.host.lower().rstrip(".")
    for entry in allowed:
        name = entry.strip().lower()
        if name == authority(parsed) or (parsed.port is None and name.strip("[]").rstrip(".") == host):
            return True
    return False
