"""Tools that are HTTP endpoints: the arguments go out as JSON under the call's idempotency key, the answer comes back as the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx2

from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.adapters.tools.web import AddressRefused, exchange, parsed
from fabric.core.spec import ToolSpec
from fabric.core.taxonomy import Cause

JSON = Any


async def call_endpoint(gate: Gate, tool: ToolSpec, args: Mapping[str, JSON], key: str, deadline_s: float) -> JSON:
    """The endpoint's answer: JSON where it says so, else text.

    POST, PUT and PATCH carry the arguments as a JSON body, GET and DELETE as query parameters. ToolError for a 4xx, which tells the model
    what the endpoint said; CallBroken for 5xx, 429, no connection, the deadline, and an address that may not be asked.
    """
    headers = {"Idempotency-Key": key, "Accept": "application/json, text/*;q=0.9"}
    url, content = tool.target, None
    if problem := gate.problem(url):
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {problem}")
    if tool.method in ("GET", "DELETE"):
        url = str(httpx2.URL(url).copy_merge_params({name: _query(value) for name, value in args.items()}))
    else:
        headers["Content-Type"] = "application/json"
        content = json.dumps(dict(args), ensure_ascii=False, allow_nan=False).encode()
    try:
        return parsed(await exchange(gate, tool.method, url, deadline_s=deadline_s, headers=headers, content=content))
    except AddressRefused as error:
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {error}") from None


def _query(value: JSON) -> str:
    if isinstance(value, dict | list):
        raise ToolError("the arguments of this tool travel in the URL; give text, numbers or true and false")
    return value if isinstance(value, str) else json.dumps(value)
