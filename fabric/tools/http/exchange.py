"""Makes one HTTP exchange for a tool: vetted, bounded in size and time, with errors in the tool's terms.

The answer becomes the model's result by a table of types and readings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2

from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.bodies import (
    GUARD,
    MARK,
    NotJson,
    find_page,
    is_json,
    is_json_lines,
    leads_to_sign_in,
    list_values,
    read_text,
    read_value,
    visible,
)
from fabric.http.headers import charset, list_upward_headers, location, media_type, retry_after_s
from fabric.http.transport import (
    EXCHANGE,
    Exchange,
    ExchangeRefused,
    Gate,
    TooLarge,
    VettedTransport,
    authority,
    transport_failure,
)
from fabric.tools.answers.binary import UNKNOWN_TYPE, build_placeholder
from fabric.tools.answers.outcome import CallBroken, ToolError, read_code

BYTES_MAX = 1_000_000
EXCERPT_CHARS = 300
_TRY_AGAIN: Mapping[int, Cause] = {408: Cause.TIMEOUT, 425: Cause.SERVER_ERROR, 429: Cause.RATE_LIMIT}
_BYTES_TYPES = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/gzip")
"""Types that are no text, whatever their bytes look like."""
_STREAM_TYPE = "text/event-stream"


WATCHED: ContextVar[list[Exchange] | None] = ContextVar("watched", default=None)
"""Set before a call to see its exchanges from outside; None: no caller watches."""


class AddressRefused(ToolError):
    """The address may not be called. The model corrects its argument, or the author the fabric."""


async def exchange(
    gate: Gate, method: str, url: str, *, deadline_s: float, headers: Mapping[str, str], content: bytes | None = None
) -> EndpointAnswer:
    """Send one request and read the answer.

    Raises ToolError for a forbidden address, an answer that is too large or cannot be unpacked, a redirect and a 4xx.
    Raises CallBroken where a retry may help (no connection, 408, 425, 429, 5xx), and at the deadline. ``outcome`` of
    both follows the status.
    """
    seen = Exchange()
    if (watched := WATCHED.get()) is not None:
        watched.append(seen)
    token = EXCHANGE.set(seen)
    where = url_for_message(url)
    client = httpx2.AsyncClient(
        transport=VettedTransport(gate, max_bytes=BYTES_MAX), timeout=None, follow_redirects=False, trust_env=False
    )
    try:
        async with asyncio.timeout(deadline_s), client:
            response = await client.request(method, url, headers=dict(headers), content=content)
    except TimeoutError:
        if (seen.status or 0) >= 300:
            return _answer(seen, _build_refusal(seen), url)
        got = f"{len(seen.body)} bytes had come" if seen.status else "no answer had begun"
        sentence = f"{where} did not finish within {deadline_s:.1f} seconds: {got}"
        raise CallBroken(Cause.TIMEOUT, sentence, outcome=_outcome(seen)) from None
    except ExchangeRefused as error:
        if seen.status is None:
            raise AddressRefused(str(error)) from None
        less = "; ask for less" if isinstance(error, TooLarge) else ""
        raise ToolError(f"{error}{less}", outcome=find_outcome(seen.status)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise CallBroken(*transport_failure(error, seen, where), outcome=_outcome(seen)) from None
    finally:
        EXCHANGE.reset(token)
    return _answer(seen, response, url)


def _build_refusal(seen: Exchange) -> httpx2.Response:
    """Return a refusal with the received part of its body."""
    return httpx2.Response(seen.status or 0, headers=list_upward_headers(seen.headers), content=bytes(seen.body))


def try_again(response: httpx2.Response, where: str, text: str = "") -> CallBroken | None:
    """Return the failure of an answer after which a retry may help (408, 425, 429, 5xx); None for any other."""
    status = response.status_code
    if status not in _TRY_AGAIN and status < 500:
        return None
    return CallBroken(
        _TRY_AGAIN.get(status, Cause.SERVER_ERROR),
        f"{where} answered HTTP {status}",
        status=status,
        retry_after_s=retry_after_s(response.headers, time.time()),
        raw=text[:2_000],
        outcome=find_outcome(status),
    )


def find_outcome(status: int) -> Outcome:
    """Return the outcome of an HTTP status: 2xx done, 4xx, 307 and 308 not done, all others unknown."""
    if status in (307, 308):
        return Outcome.REJECTED  # The request is to be repeated elsewhere. (RFC 9110, 15.4.8)
    return {2: Outcome.ANSWERED, 4: Outcome.REJECTED}.get(status // 100, Outcome.UNKNOWN)


def unread(seen: Exchange) -> Outcome:
    """Return the outcome of a request without an answer: it was certainly not done when it never went out."""
    return Outcome.UNKNOWN if seen.sent else Outcome.REJECTED


def _outcome(seen: Exchange) -> Outcome:
    """Return the outcome of a request with an incomplete answer, by its status. A stream has a status before anything
    is done.
    """
    kind = media_type(seen.headers)
    if seen.status is None or kind == _STREAM_TYPE or is_json_lines(kind):
        return unread(seen)
    return find_outcome(seen.status)


def _answer(seen: Exchange, response: httpx2.Response, url: str) -> EndpointAnswer:
    status, kind, where = response.status_code, media_type(seen.headers), url_for_message(url)
    text = _text(response.content, kind, charset(seen.headers))
    if (broken := try_again(response, where, text or "")) is not None:
        raise broken
    leads_to = location(seen.headers, url)
    if 300 <= status < 400:
        raise ToolError(f"{where} answered HTTP {status}: {_moved_sentence(leads_to)}", outcome=find_outcome(status))
    if status >= 400:
        raise ToolError(f"{where} answered HTTP {status}{_excerpt(text or '')}", code=_code(kind, text or ""))
    if status == 206:
        said = f"{where} answered HTTP 206, a part of what was asked for; a part is not taken for the whole"
        raise ToolError(said, outcome=find_outcome(status))
    return EndpointAnswer(status, kind, text, len(response.content), leads_to)


def _text(body: bytes, kind: str, named: str) -> str | None:
    """Return the text of a body; None for bytes. A body that neither its type nor a charset calls text has to be
    UTF-8.
    """
    if kind.startswith(_BYTES_TYPES) and not kind.endswith(("+xml", "+json")):
        return None if body else ""
    text = read_text(body, kind, named)
    sure = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml")) or bool(named)
    if "\0" in text or ("\ufffd" in text and not sure):
        return None
    return text


def _moved_sentence(leads_to: str) -> str:
    if not leads_to:
        return "it is moved and says not where, and redirects are not followed"
    try:
        signs_in = leads_to_sign_in(httpx2.URL(leads_to).path)
    except (httpx2.InvalidURL, ValueError):
        signs_in = False
    noun = "a page to sign in, " if signs_in else ""
    return f"it leads to {noun}{url_for_message(leads_to)}, and redirects are not followed"


def _excerpt(text: str) -> str:
    """Return the words of a refusal; of a page, its visible words."""
    page = find_page(text)
    said = (visible(text) if page else " ".join(text.split()))[:EXCERPT_CHARS]
    if page is not None:
        return f" with {page}" + (f"; it says: {said}" if said else "")
    return f"; it says: {said}" if said else ""


def _code(kind: str, text: str) -> str:
    """Return the failure's name in a refusal's JSON (``FAILURE_CODE``).

    No other field counts, not even ``code``: an endpoint's codes may mean something else each time.
    """
    if not is_json(kind):
        return ""
    try:
        said = read_value(text)
    except NotJson:
        return ""
    return read_code(said.get(FAILURE_CODE)) if isinstance(said, dict) else ""


FAILURE_CODE = "failure_code"


def url_for_message(url: str) -> str:
    """Return a URL without its query, where secrets may be, for messages."""
    try:
        parsed_url = httpx2.URL(url)
        return f"{parsed_url.scheme}://{authority(parsed_url)}{parsed_url.path}"[:200]
    except (httpx2.InvalidURL, ValueError):
        return repr(url[:200])


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """A complete answer. ``text`` is None for ``size`` bytes of no text; ``content_type`` has no parameters;
    ``location`` is a whole URL.
    """

    status: int
    content_type: str
    text: str | None
    size: int
    location: str = ""


def find_result(answer: EndpointAnswer, where: str) -> JSON:
    """Return an answer as the model gets it: JSON, the values of its lines, text, or a description of bytes. None: the
    answer is empty.

    Raises ToolError for a web page and for unreadable JSON. A page leaves open whether the call was done: it may come
    from a proxy in front of the endpoint.
    """
    text, kind = answer.text, answer.content_type
    if text is None:
        return build_placeholder(kind or UNKNOWN_TYPE, answer.size)
    if not text.strip(f"{MARK} \t\r\n"):
        return _read_status(answer)
    if (page := find_page(text)) is not None:
        said = f"{where} answered HTTP {answer.status} with {page} where data is expected; pages are read with the built-in http_get"
        raise ToolError(said, outcome=Outcome.UNKNOWN)
    try:
        if is_json_lines(kind):
            return list_values(text)
        if is_json(kind):
            return read_value(text)
    except NotJson as error:
        raise ToolError(
            f"{where} answered HTTP {answer.status}, but its JSON {error}", outcome=Outcome.ANSWERED
        ) from None
    return _parse_unannounced(text) if kind in SAYS_NOTHING else text


SAYS_NOTHING = frozenset(["", "text/html", "application/octet-stream", "binary/octet-stream"])
"""Default types of servers, whatever the body is."""


def _parse_unannounced(text: str) -> JSON:
    """Return the JSON object or list in a text, else the text."""
    if not text.lstrip(f"{MARK} \t\r\n").startswith(("{", "[", GUARD)):
        return text
    try:
        return read_value(text)
    except NotJson:
        return text


def _read_status(answer: EndpointAnswer) -> JSON:
    """Return the meaning of a status without a body: created (201), accepted but not done yet (202), or a location.
    None: it means "done".
    """
    if answer.status not in (201, 202) and not answer.location:
        return None
    return {"status": answer.status} | ({"location": answer.location} if answer.location else {})
