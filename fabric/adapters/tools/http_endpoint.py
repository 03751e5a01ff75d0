"""Tools that are HTTP endpoints: the arguments go out as JSON under the call's idempotency key, the answer comes back as the result."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from fabric.adapters.tools.outbound import CALL_HEADER, Gate, call_name
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.adapters.tools.web import AddressRefused, exchange, parsed
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest

JSON = Any


async def call_endpoint(gate: Gate, request: ToolRequest, deadline_s: float) -> JSON:
    """The endpoint's answer: JSON where it says so, else text.

    POST, PUT and PATCH carry the arguments as a JSON body, GET and DELETE as query parameters. ToolError for a 4xx, which tells the model
    what the endpoint said; CallBroken for 5xx, 429, no connection, the deadline, and an address that may not be asked.
    """
    tool, args = request.tool, request.args
    headers = {
        "Idempotency-Key": request.idempotency_key,
        CALL_HEADER: call_name(request),
        "Accept": "application/json, text/*;q=0.9",
    }
    url, content = tool.target, None
    if problem := gate.problem(url):
        raise CallBroken(Cause.BAD_CONFIGURATION, f"tool {tool.name!r}: {problem}", outcome=Outcome.REJECTED)
    if tool.method in ("GET", "DELETE"):
        url = str(httpx2.URL(url).copy_merge_params({name: _query(value) for name, value in args.items()}))
    else:
        headers["Content-Type"] = "application/json"
        content = json.dumps(dict(args), ensure_ascii=False, allow_nan=False).encode()
    try:
        return parsed(await exchange(gate, tool.method, url, deadline_s=deadline_s, headers=headers, content=content))
    except AddressRefused as error:
        message = f"tool {tool.name!r}: {error}"
        raise CallBroken(Cause.BAD_CONFIGURATION, message, outcome=Outcome.REJECTED) from None


def _query(value: JSON) -> str:
    if isinstance(value, dict | list):
        raise ToolError("the arguments of this tool travel in the URL; give text, numbers or true and false")
    return value if isinstance(value, str) else json.dumps(value)
