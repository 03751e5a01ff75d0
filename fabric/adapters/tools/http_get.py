"""Reading a page from the hosts that a fabric allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from fabric.adapters.tools.outbound import Gate, authority
from fabric.adapters.tools.outcome import ToolError
from fabric.adapters.tools.web import exchange, shown
from fabric.core.saga import Outcome

JSON = Any

READ_CHARS = 20_000
PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "https address to read."},
        "start": {"type": "integer", "minimum": 0, "description": "First character to read; 0 unless told."},
        "length": {"type": "integer", "minimum": 1, "maximum": READ_CHARS, "description": "Characters to read."},
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
    """``{"url", "status", "content_type", "text", "start", "total", "more"}``. ToolError and CallBroken as ``web.exchange``."""
    if problem := gate.problem(url):
        raise ToolError(problem)
    if not is_allowed(url, allowed):
        raise ToolError(f"{httpx2.URL(url).host} is not among the allowed hosts: {', '.join(allowed) or 'none'}")
    accept = {"Accept": "text/*, application/json, application/xml;q=0.9"}
    answer = await exchange(gate, "GET", url, deadline_s=deadline_s, headers=accept)
    if answer.text is None:
        noun = answer.content_type or "something"
        raise ToolError(
            f"{shown(url)} answered with binary data ({noun}), which is no text; only text is read",
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
    """Whether a URL's host is listed: ``host`` means its usual port, ``host:port`` that port. Names are compared whole."""
    parsed = httpx2.URL(url)
    host = parsed.host.lower().rstrip(".")
    for entry in allowed:
        name = entry.strip().lower()
        if name == authority(parsed) or (parsed.port is None and name.strip("[]").rstrip(".") == host):
            return True
    return False
