"""One HTTP exchange for a tool: vetted, bounded in size and time, told in the tool's terms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import httpx2

from fabric.adapters.tools.answers.decoding import text_of
from fabric.adapters.tools.answers.headers import charset, handed_up, location, media_type, retry_after_s
from fabric.adapters.tools.answers.pages import leads_to_sign_in, page_of, visible
from fabric.adapters.tools.answers.parsing import NotJson, is_json, is_json_lines, value_of
from fabric.adapters.tools.answers.results import Answer
from fabric.adapters.tools.outbound import (
    EXCHANGE,
    Exchange,
    Gate,
    Refused,
    TooLarge,
    VettedTransport,
    authority,
    transport_failure,
)
from fabric.adapters.tools.outcome import CallBroken, ToolError, code_of
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause

BYTES_MAX = 1_000_000
EXCERPT_CHARS = 300
_TRY_AGAIN: Mapping[int, Cause] = {408: Cause.TIMEOUT, 425: Cause.SERVER_ERROR, 429: Cause.RATE_LIMIT}
_BYTES_TYPES = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/gzip")
"""Types that are no text, whatever their bytes look like."""
_STREAM_TYPE = "text/event-stream"


class AddressRefused(ToolError):
    """The address may not be asked. Whoever named it mends it: the model its argument, the author the fabric."""


async def exchange(
    gate: Gate, method: str, url: str, *, deadline_s: float, headers: Mapping[str, str], content: bytes | None = None
) -> Answer:
    """Sends one request and reads the answer.

    Raises ToolError for an address that may not be asked, an answer that is too large or cannot be unpacked, a redirect and a 4xx. Raises CallBroken
    where another try may mend it (no connection, 408, 425, 429, 5xx), and at the deadline. ``outcome`` of both follows the status.
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
        if (seen.status or 0) >= 300:
            return _answer(seen, _of_refusal(seen), url)
        got = f"{len(seen.body)} bytes had come" if seen.status else "no answer had begun"
        sentence = f"{where} did not finish within {deadline_s:.1f} seconds: {got}"
        raise CallBroken(Cause.TIMEOUT, sentence, outcome=_outcome(seen)) from None
    except Refused as error:
        if seen.status is None:
            raise AddressRefused(str(error)) from None
        less = "; ask for less" if isinstance(error, TooLarge) else ""
        raise ToolError(f"{error}{less}", outcome=outcome_of(seen.status)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise CallBroken(*transport_failure(error, seen, where), outcome=_outcome(seen)) from None
    finally:
        EXCHANGE.reset(token)
    return _answer(seen, response, url)


def _of_refusal(seen: Exchange) -> httpx2.Response:
    """A refusal with what came of its body, which was unpacked as it came."""
    return httpx2.Response(seen.status or 0, headers=handed_up(seen.headers), content=bytes(seen.body))


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
    """Returns the outcome that an HTTP status shows: 2xx yes, 4xx, 307 and 308 no, all others nothing."""
    if status in (307, 308):
        return Outcome.REJECTED  # The same request is to be sent elsewhere. (RFC 9110, 15.4.8)
    return {2: Outcome.ANSWERED, 4: Outcome.REJECTED}.get(status // 100, Outcome.UNKNOWN)


def unread(seen: Exchange) -> Outcome:
    """Whether a request was done whose answer did not come: certainly not, when it never went out."""
    return Outcome.UNKNOWN if seen.sent else Outcome.REJECTED


def _outcome(seen: Exchange) -> Outcome:
    """Returns True where a request was done whose answer did not come whole: its status says so, but for a stream, which has one before anything is done."""
    kind = media_type(seen.headers)
    if seen.status is None or kind == _STREAM_TYPE or is_json_lines(kind):
        return unread(seen)
    return outcome_of(seen.status)


def _answer(seen: Exchange, response: httpx2.Response, url: str) -> Answer:
    status, kind, where = response.status_code, media_type(seen.headers), shown(url)
    text = _text(response.content, kind, charset(seen.headers))
    if (broken := try_again(response, where, text or "")) is not None:
        raise broken
    leads_to = location(seen.headers, url)
    if 300 <= status < 400:
        raise ToolError(f"{where} answered HTTP {status}: {_moved(leads_to)}", outcome=outcome_of(status))
    if status >= 400:
        raise ToolError(f"{where} answered HTTP {status}{_excerpt(text or '')}", code=_code(kind, text or ""))
    if status == 206:
        said = f"{where} answered HTTP 206, a part of what was asked for; a part is not taken for the whole"
        raise ToolError(said, outcome=outcome_of(status))
    return Answer(status, kind, text, len(response.content), leads_to)


def _text(body: bytes, kind: str, named: str) -> str | None:
    """The text of a body; None: its bytes are none. What neither its type nor a charset calls text has to be UTF-8."""
    if kind.startswith(_BYTES_TYPES) and not kind.endswith(("+xml", "+json")):
        return None if body else ""
    text = text_of(body, kind, named)
    sure = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml")) or bool(named)
    if "\0" in text or ("\ufffd" in text and not sure):
        return None
    return text


def _moved(leads_to: str) -> str:
    if not leads_to:
        return "it is moved and says not where, and redirects are not followed"
    try:
        signs_in = leads_to_sign_in(httpx2.URL(leads_to).path)
    except (httpx2.InvalidURL, ValueError):
        signs_in = False
    noun = "a page to sign in, " if signs_in else ""
    return f"it leads to {noun}{shown(leads_to)}, and redirects are not followed"


def _excerpt(text: str) -> str:
    """Returns the words of a refusal; of a page, the words that it shows."""
    page = page_of(text)
    said = (visible(text) if page else " ".join(text.split()))[:EXCERPT_CHARS]
    if page is not None:
        return f" with {page}" + (f"; it says: {said}" if said else "")
    return f"; it says: {said}" if said else ""


def _code(kind: str, text: str) -> str:
    """What a refusal's JSON calls the failure (``FAILURE_CODE``); nothing else in it is taken for that, be it named ``code``: an endpoint's codes may
    mean something else each time.
    """
    if not is_json(kind):
        return ""
    try:
        said = value_of(text)
    except NotJson:
        return ""
    return code_of(said.get(FAILURE_CODE)) if isinstance(said, dict) else ""


FAILURE_CODE = "failure_code"


def shown(url: str) -> str:
    """A URL as it is told: without its query, where secrets may be."""
    try:
        parsed_url = httpx2.URL(url)
        return f"{parsed_url.scheme}://{authority(parsed_url)}{parsed_url.path}"[:200]
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:200])
