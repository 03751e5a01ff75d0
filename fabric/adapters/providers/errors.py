"""A call that an endpoint refused, or that broke, as a ``CallFailed``: its cause, one sentence for a person, and the endpoint's own text.

The meaning of a refusal stands in ``refusals``. The raw text is kept, cleaned and without the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

import httpx2

from fabric.adapters.known_secrets import MASK
from fabric.adapters.providers.refusals.advice import SCHEMA_NAMES, SCHEMA_OFF, advice_on
from fabric.adapters.providers.refusals.bodies import error_of, is_page, page_title
from fabric.adapters.providers.refusals.causes import (
    GAVE_UP,
    QUOTA_S,
    cause_of,
    codes_of,
    status_in_200,
    status_of_code,
    succeeded,
)
from fabric.adapters.providers.waiting import Back, back_of, wait_s
from fabric.adapters.tools.outbound import Exchange, causes, transport_failure
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed
from fabric.core.taxonomy import Cause
from fabric.core.text import clean_text

__all__ = ["SENTENCES", "Asked", "Malformed", "Names", "came_in_part", "classify", "error_of", "failed", "fit"]

RAW_CHARS = 2_000
"""Characters of an endpoint's answer that are kept with a failure."""
SAID_CHARS = 300
KEY_CHARS_MIN = 6
"""A shorter key is a word ("none", "local") that is no secret and that any text may hold."""

SENTENCES: Mapping[Cause, str] = {
    Cause.AUTH: "{where} refused the key ({http}); {key_advice}",
    Cause.QUOTA: "{where} says that the account's quota or credit is used up ({http}){back}",
    Cause.RATE_LIMIT: "{where} asks for fewer requests ({http}){back}",
    Cause.SERVER_ERROR: "{where} failed on its side ({http})",
    Cause.TIMEOUT: "{where} gave up waiting for the model ({http})",
    Cause.UNKNOWN_MODEL: "{where} has no model named {model!r} ({http}); {model_advice}",
    Cause.BAD_CONFIGURATION: "{where} has nothing to ask there ({http}){url_hint}",
    Cause.CONTEXT_LENGTH: "the prompt is longer than model {model!r} at {where} takes ({http})",
    Cause.CONTENT_FILTER: "{where} withheld the answer by its content filter ({http})",
    Cause.BAD_REQUEST: "{where} does not take this request ({http})",
}
_MOVED = "{where} is moved ({http}), and redirects are not followed; set the URL to where it is now"
STATUS_SENTENCES: Mapping[int, str] = {
    **dict.fromkeys(range(300, 400), _MOVED),
    407: "a proxy in front of {where} wants a sign-in of its own ({http}); set the URL to one that needs none",
    409: "{where} was busy with another request that conflicts with this one ({http})",
    425: "{where} would not take the request this early in its connection ({http})",
    460: "a load balancer in front of {where} gave up the request before there was an answer ({http})",
    499: "a proxy in front of {where} gave up the request before there was an answer ({http})",
    501: "{where} does not know this kind of request ({http}){url_hint}",
    504: "a proxy in front of {where} gave up waiting for the model ({http})",
    511: "a network in between wants a sign-in before {where} can be asked ({http})",
    521: "{where} is down, says the proxy in front of it ({http})",
    522: "the proxy in front of {where} could not connect to it ({http})",
    523: "the proxy in front of {where} could not reach it ({http})",
    524: "a proxy in front of {where} gave up waiting for the model ({http})",
    529: "{where} has too much to do ({http})",
}
"""Where a status says more than its cause; it holds as long as the cause is the status's own."""
_PAGE_REFUSES = (
    "a web page came in place of an answer of {where} ({http}): a proxy, firewall or sign-in page did not let the request "
    "through; check the URL, and {key_advice}"
)
_PAGE = "; a web page came, so a proxy in front of it may have answered"
_ADVISED = frozenset({Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION})
"""Causes of which a setting of the model may be to blame."""
_schema = re.compile(rf"\b({SCHEMA_NAMES})\b", re.IGNORECASE)
_SCHEMA = f"{{where}} does not take a response format ({{http}}); {SCHEMA_OFF}"


class Malformed(httpx2.TransportError):
    """A 200 whose body is no answer. The message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the settings of a provider's endpoint are called, for sentences that say which to set."""

    url: str = "FABRIC_MODEL_URL"
    key: str = "FABRIC_MODEL_KEY"
    model: str = "FABRIC_MODEL"
    """Empty: a fabric names its models itself."""
    example: str = "https://example.org/v1"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, as far as an error's sentence needs it."""

    command_id: str
    attempt: int
    where: str
    """The URL as it may be shown."""
    name: str
    """The model's name in the fabric."""
    model: str
    """The provider's model id."""
    key: str = ""
    """The key that was sent; never shown."""
    key_host: str = ""
    """The only host a key is sent to."""
    schema: bool = False
    names: Names = Names()
    noun: str = "chat completion"
    """What an answer is called."""
    url_hint: str = "; the URL usually ends in /v1"
    stored: bool = False
    """Whether the key is one that the workspace stored for this host."""
    signed: str = ""
    """The source that signed the request, where no key did; empty: none."""


def failed(
    asked: Asked,
    cause: Cause,
    message: str,
    *,
    raw: str = "",
    raw_chars: int = RAW_CHARS,
    status: int | None = None,
    retry_after_s: float | None = None,
    billed: bool = False,
) -> CallFailed:
    """A failure as data, its texts cleaned, cut and without the key."""
    return CallFailed(
        command_id=asked.command_id,
        attempt=asked.attempt,
        cause=cause,
        message=fit(message, asked.key, 1_000),
        status=status,
        retry_after_s=retry_after_s,
        raw=fit(raw, asked.key, raw_chars),
        billed=billed,
    )


def fit(text: str, key: str, limit: int) -> str:
    """Text from outside, without the key, cleaned and cut."""
    shown = text.replace(key, MASK) if len(key) >= KEY_CHARS_MIN else text
    return clean_text(shown[:limit])[0]


def broken_off(exchange: Exchange, asked: Asked) -> CallFailed:
    """The failure of an answer that its endpoint says it broke off itself: nothing of it is used, and it may be billed."""
    raw = exchange.body[: RAW_CHARS * 4].decode("utf-8", "replace")
    message = f"{asked.where} broke off its answer and says so, so nothing of it is used"
    lost = failed(asked, Cause.DROPPED_STREAM, message, raw=raw, status=exchange.status, billed=True)
    return replace(lost, partial=True)


def came_in_part(exchange: Exchange) -> bool:
    """Whether a part of the answer had come: of a stream what the model says, of what comes at once any of its bytes."""
    streams = exchange.headers.get("content-type", "").startswith("text/event-stream")
    return exchange.output or (
        succeeded(exchange.status) and not streams and not exchange.complete and bool(exchange.body)
    )


def classify(error: BaseException, exchange: Exchange, asked: Asked, now: float) -> CallFailed:
    """The failure that an exception or a refusal stands for. ``now`` is seconds since the epoch, for a Retry-After date."""
    found = _classified(error, exchange, asked, now)
    # What has said something of its answer may bill it, whatever it says next.
    return replace(found, partial=came_in_part(exchange), billed=found.billed or exchange.output)


def _classified(error: BaseException, exchange: Exchange, asked: Asked, now: float) -> CallFailed:
    raw = exchange.said or exchange.body[: RAW_CHARS * 4].decode("utf-8", "replace")
    if succeeded(exchange.status) and not exchange.complete and not _is_transport(error):
        # Its stream did not break: its events cannot be read.
        message = f"{asked.where} answered, but with events that are no {asked.noun}"
        return failed(asked, Cause.MALFORMED_ANSWER, message, raw=raw, status=exchange.status, billed=True)
    # A refusal is one by its status, however little of its body can be read.
    if exchange.status is None or (exchange.status < 300 and not exchange.complete):
        if exchange.status is None and not exchange.sent and not _is_transport(error):
            return failed(
                asked, Cause.BAD_CONFIGURATION, f"the request for {asked.where} could not be made: {_named(error)}"
            )
        cause, message = transport_failure(error, exchange, asked.where)
        return failed(asked, cause, message, raw=raw, status=exchange.status, billed=exchange.sent)
    said = error_of(exchange.body, exchange.headers)
    status = status_in_200(said) if exchange.status < 300 else exchange.status
    if status < 300:
        malformed = next((str(link) for link in causes(error) if isinstance(link, Malformed)), "")
        message = f"{asked.where} answered, but {malformed or f'with JSON that is no {asked.noun}'}"
        return failed(asked, Cause.MALFORMED_ANSWER, message, raw=raw, raw_chars=200, status=status, billed=True)
    return _refused(status, said, exchange, asked, raw, now)


def _refused(
    status: int, said: Mapping[str, str], exchange: Exchange, asked: Asked, raw: str, now: float
) -> CallFailed:
    """Returns the meaning of an endpoint's refusal. ``status``: HTTP's, or the one that an error inside a 200 stands for."""
    back = back_of(exchange.headers, said, now)
    cause = cause_of(status, said, None if back is None else back.in_s)
    advice = advice_on(said, tuple(codes_of(said))) if cause in _ADVISED else ""
    wait = wait_s(exchange.headers, said, now, limited=cause is Cause.RATE_LIMIT)
    if cause is Cause.QUOTA:
        # Google names seconds beside the quota of a day too.
        back = back if back is not None and (back.dated or back.in_s >= QUOTA_S) else None
        wait = None if back is None else round(back.in_s, 3)
    elif cause is Cause.RATE_LIMIT:
        exact = back is not None and back.in_s == wait
        back = back if exact else Back(wait) if wait else None
    if advice:
        cause = Cause.BAD_REQUEST
    when = _when(back, cause, now)
    return failed(
        asked,
        cause,
        _sentence(_template(cause, status, said, asked, exchange, advice), status, said, asked, exchange, when),
        raw=raw,
        status=_reported(exchange.status, said),
        retry_after_s=wait,
        # Whoever gave up waiting for the model may have paid for what it did so far.
        billed=cause is Cause.TIMEOUT or (status in GAVE_UP and cause is Cause.SERVER_ERROR),
    )


def _reported(status: int | None, said: Mapping[str, str]) -> int | None:
    """The HTTP status; of an error inside a 200 the status that it writes as its code, else 500."""
    if status is None or status >= 300:
        return status
    return next((one for field in ("code", "status") if (one := status_of_code(said.get(field, "")))), 500)


def _when(back: Back | None, cause: Cause, now: float) -> str:
    """The time at which it may be asked again, as the end of a sentence; empty: not known."""
    if back is None or back.in_s <= 0:
        return ""
    if cause is Cause.RATE_LIMIT and back.in_s < 60:
        return f"; it asks to wait {max(1, ceil(back.in_s))} s"
    instant = datetime.fromtimestamp(ceil(round(now + back.in_s) / 60) * 60, UTC)
    said = "it may be asked again" if cause is Cause.RATE_LIMIT else "it is back"
    unsure = "" if back.zoned else " (it names no time zone; read as UTC)"
    return f"; {said} {'no earlier than' if back.least else 'at'} {instant:%Y-%m-%d %H:%M} UTC{unsure}"


def _sentence(template: str, status: int, said: Mapping[str, str], asked: Asked, exchange: Exchange, back: str) -> str:
    message, page = said.get("message", ""), is_page(exchange.body)
    sentence = template.format(
        where=asked.where,
        http=f"HTTP {exchange.status}{' with an error in it' if exchange.status != status else ''}",
        model=asked.model,
        name=asked.name,
        key_advice=_key_advice(asked),
        model_advice=f"check the fabric's model{f' or {asked.names.model}' if asked.names.model else ''}",
        url_hint=asked.url_hint,
        back=back,
    )
    words = page_title(exchange.body) if page else message
    # The key goes first: after a cut, half a key can no longer be recognised.
    said_so = " ".join(fit(words, asked.key, RAW_CHARS).split())[:SAID_CHARS]
    return f"{sentence}. It says: {said_so}" if said_so else sentence


def _template(cause: Cause, status: int, said: Mapping[str, str], asked: Asked, exchange: Exchange, advice: str) -> str:
    """The sentence of a refusal, with the setting that mends it, where this program knows one."""
    page = is_page(exchange.body)
    if page and status in (401, 403):
        return _PAGE_REFUSES
    template = SENTENCES.get(cause, "{where} answered ({http})")
    if cause is cause_of(status, {}):
        template = STATUS_SENTENCES.get(status, template)
    if page:
        return template if status < 400 or "proxy" in template else template + _PAGE
    if advice and advice != SCHEMA_OFF:
        return f"{SENTENCES[Cause.BAD_REQUEST]}; {advice}"
    text = said.get("message") or exchange.body[:2_000].decode("utf-8", "replace")
    return _SCHEMA if cause is Cause.BAD_REQUEST and asked.schema and _schema.search(text) else template


def _key_advice(asked: Asked) -> str:
    name = asked.names.key
    if asked.signed:
        return f"{asked.signed} signed the request: check what they may do"
    if asked.stored:
        return "the key stored for it was sent: store another under Models and prices"
    if asked.key:
        return f"check {name}"
    if asked.key_host:
        return f"none was sent, because {name} is only ever sent to {asked.key_host} ({asked.names.url}); store one for it under Models and prices"
    return f"none was sent, because {name} is not set and none is stored for it"


def _is_transport(error: BaseException) -> bool:
    return any(isinstance(link, httpx2.TransportError | OSError) for link in causes(error))


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())[:SAID_CHARS]
    return f"{text or 'no message'} ({type(error).__name__})"
