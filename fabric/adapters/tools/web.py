"""One HTTP exchange for a tool: vetted, bounded in size and time, told in the tool's terms."""

from __future__ import annotations

import asyncio
import codecs
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from fabric.adapters.tools.outbound import (
    EXCHANGE,
    Exchange,
    Gate,
    Refused,
    VettedTransport,
    authority,
    retry_after_s,
    transport_failure,
)
from fabric.adapters.tools.outcome import CallBroken, ToolError, code_of
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.core.text import DEPTH_MAX, nesting

JSON = Any

BYTES_MAX = 1_000_000
EXCERPT_CHARS = 300
_TRY_AGAIN: Mapping[int, Cause] = {408: Cause.TIMEOUT, 425: Cause.SERVER_ERROR, 429: Cause.RATE_LIMIT}
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/x-yaml",
)


class AddressRefused(ToolError):
    """The address may not be asked. Whoever named it mends it: the model its argument, the author the fabric."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole. ``body`` is text; ``content_type`` without its parameters."""

    status: int
    content_type: str
    body: str


async def exchange(
    gate: Gate, method: str, url: str, *, deadline_s: float, headers: Mapping[str, str], content: bytes | None = None
) -> Answer:
    """Sends one request and reads the answer.

    Raises ToolError for an address that may not be asked, an answer that is no text or too large, and a 4xx; CallBroken for what another try
    may mend (no connection, 408, 425, 429, 5xx) and at the deadline.
    """
    seen = Exchange()
    token = EXCHANGE.set(seen)
    where = shown(url)
    client = httpx2.AsyncClient(
        transport=VettedTransport(gate, max_bytes=BYTES_MAX), timeout=None, follow_redirects=False, trust_env=False
    )
    try:
        async with asyncio.timeout(deadline_s), client:
            response = await client.request(method, url, headers=dict(headers), content=content)
    except TimeoutError:
        got = f"{len(seen.body)} bytes had come" if seen.status else "no answer had begun"
        sentence = f"{where} did not finish within {deadline_s:.1f} seconds: {got}"
        raise CallBroken(Cause.TIMEOUT, sentence, outcome=unread(seen)) from None
    except Refused as error:
        if seen.status is None:
            raise AddressRefused(str(error)) from None
        larger = "; ask for less" if len(seen.body) > BYTES_MAX else ""
        raise ToolError(f"{error}{larger}", outcome=outcome_of(seen.status)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise CallBroken(*transport_failure(error, seen, where), outcome=unread(seen)) from None
    finally:
        EXCHANGE.reset(token)
    return _answer(response, where)


def try_again(response: httpx2.Response, where: str, text: str = "") -> CallBroken | None:
    """The failure that an answer stands for which another try may mend (408, 425, 429, 5xx); None: it stands for none."""
    status = response.status_code
    if status not in _TRY_AGAIN and status < 500:
        return None
    return CallBroken(
        _TRY_AGAIN.get(status, Cause.SERVER_ERROR),
        f"{where} answered HTTP {status}",
        status=status,
        retry_after_s=retry_after_s(response.headers, time.time()),
        raw=text[:2_000],
        outcome=outcome_of(status),
    )


def outcome_of(status: int) -> Outcome:
    """What an HTTP status says about whether the request was done: 2xx yes, 4xx no, all others nothing."""
    return {2: Outcome.ANSWERED, 4: Outcome.REJECTED}.get(status // 100, Outcome.UNKNOWN)


def unread(seen: Exchange) -> Outcome:
    """Whether a request was done whose answer did not come: certainly not, when it never went out."""
    return Outcome.UNKNOWN if seen.sent else Outcome.REJECTED


def _answer(response: httpx2.Response, where: str) -> Answer:
    status, kind = response.status_code, response.headers.get("content-type", "").partition(";")[0].strip().lower()
    text = ""
    if not kind or kind.startswith(_TEXT_TYPES) or kind.endswith(("+json", "+xml")):
        text = response.content.decode(_codec(response.charset_encoding), "replace")
    excerpt = f"; it says: {' '.join(text.split())[:EXCERPT_CHARS]}" if text.strip() else ""
    if (broken := try_again(response, where, text)) is not None:
        raise broken
    if 300 <= status < 400:
        raise ToolError(
            f"{where} answered HTTP {status}: it is moved, and redirects are not followed", outcome=outcome_of(status)
        )
    if status >= 400:
        raise ToolError(f"{where} answered HTTP {status}{excerpt}", code=_code(kind, text))
    if not text and response.content:
        raise ToolError(
            f"{where} answered with {kind or 'something'}, which is no text; only text is read",
            outcome=outcome_of(status),
        )
    if "\0" in text:
        raise ToolError(f"{where} answered with binary data; only text is read", outcome=outcome_of(status))
    return Answer(status, kind, text)


def _code(kind: str, text: str) -> str:
    """What a refusal's JSON calls the failure (``FAILURE_CODE``); nothing else in it is taken for that, be it named ``code``: an endpoint's codes may
    mean something else each time.
    """
    if not _is_json(kind) or nesting(text) > DEPTH_MAX:
        return ""
    try:
        said = json.loads(text)
    except ValueError:
        return ""
    return code_of(said.get(FAILURE_CODE)) if isinstance(said, dict) else ""


FAILURE_CODE = "failure_code"


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def parsed(answer: Answer) -> JSON:
    """The body as JSON where it is announced as such, else as text. ToolError when what is announced as JSON is none."""
    if not _is_json(answer.content_type):
        return answer.body
    if nesting(answer.body) > DEPTH_MAX:
        raise ToolError(f"the answer's JSON is nested deeper than {DEPTH_MAX} levels", outcome=Outcome.ANSWERED)
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise ToolError(f"the answer is announced as JSON but is none: {error}", outcome=Outcome.ANSWERED) from None


def _codec(name: str | None) -> str:
    try:
        return codecs.lookup(name or "utf-8").name
    except LookupError:
        return "utf-8"


def shown(url: str) -> str:
    """A URL as it is told: without its query, where secrets may be."""
    try:
        parsed_url = httpx2.URL(url)
        return f"{parsed_url.scheme}://{authority(parsed_url)}{parsed_url.path}"[:200]
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:200])
