"""Turns a refused or broken call into a ``CallFailed``: its cause, one sentence, and the endpoint's own text.

``refusals`` has the meaning of a refusal. The raw text is stored, cleaned and without the key. A table names the
setting of a fabric's model that corrects each refused request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

import httpx2

from fabric.core.events.inputs import CallFailed
from fabric.core.texts.text import clean_text
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Exchange, causes, transport_failure
from fabric.providers.refusals.bodies import ServiceReturn, build_error, find_return, is_page, page_title, wait_s
from fabric.providers.refusals.causes import (
    GAVE_UP,
    QUOTA_S,
    find_cause,
    is_success,
    list_codes,
    status_in_200,
    status_of_code,
)
from fabric.secrets.known_secrets import MASK

__all__ = [
    "ADVICE",
    "SCHEMA_NAMES",
    "SCHEMA_OFF",
    "SENTENCES",
    "MalformedAnswer",
    "RequestFacts",
    "SettingAdvice",
    "SettingNames",
    "advice_on",
    "build_error",
    "build_failure",
    "build_unsent",
    "came_in_part",
    "classify",
    "fit",
]


_W = re.IGNORECASE
_REFUSED = (
    r"(?:unsupported|unrecognized|unrecognised|unknown|unexpected|extra (?:inputs|fields)|invalid (?:parameter|argument)s?"
    r"|no endpoints found that support|(?:does|do)(?: not|n't) support|must be verified|cannot (?:use|set|specify))"
)
_REFUSING = (
    r"(?:not (?:supported|permitted|allowed|enabled|available|implemented|compatible)"
    r"|unsupported|unknown|unrecognized|deprecated|cannot|can't|must be|only supports?|requires?|extra inputs|extra fields"
    r"|isn't|unavailable|does(?: not|n't) (?:support|exist))"
)
_WITHIN = r"(?:[^.]|\.(?=\w)){0,60}?"
"""The rest of a sentence between the two."""
_CODES = ("unsupportedparameter", "unsupportedvalue", "unknownparameter", "extraforbidden", "invalidparameter")


@dataclass(frozen=True, slots=True)
class SettingAdvice:
    """A part that an endpoint may refuse, with the setting to use."""

    names: str
    """Pattern of the endpoint's name of the part."""
    do: str
    """The advice, with ``{name}`` for the model's name in the fabric."""
    refused: str = ""
    """Pattern of the refusal's words; empty: any of the usual ones."""

    def fits(self, message: str, param: str, codes: tuple[str, ...]) -> bool:
        """Return True where a refusal is of this part."""
        named = re.fullmatch(self.names, param, _W) is not None
        if self.refused:
            return re.search(rf"\b(?:{self.names})\b.{{0,80}}?(?:{self.refused})", message, _W | re.DOTALL) is not None
        if named:
            return bool(_any_way.search(message)) or any(code in _CODES for code in codes)
        whole = rf"(?<![\w-])(?:{self.names})(?![\w-])"
        behind, before = rf"\b{_REFUSED}\b{_WITHIN}{whole}", rf"{whole}{_WITHIN}\b{_REFUSING}"
        return re.search(rf"{behind}|{before}", message, _W) is not None


_any_way = re.compile(rf"\b(?:{_REFUSED}|{_REFUSING})", _W)


def _advise_without(option: str) -> str:
    return f"take `{option}` out of the options of the fabric's model {{name!r}}"


def _option(option: str, value: str) -> str:
    return f"set the option `{option}: {value}` of the fabric's model {{name!r}}"


def _field(field: str, value: str) -> str:
    return f"set `{field}: {value}` on the fabric's model {{name!r}}"


SCHEMA_NAMES = (
    r"response_format|response_?json_?schema|response_?mime_?type|response_?schema|json_schema|json_object|json mode"
    r"|structured[ _-]?outputs?|guided_json|grammar|output_config|output_format"
)
SCHEMA_OFF = _field("structured_output", "false")
ADVICE: tuple[SettingAdvice, ...] = (
    SettingAdvice(
        r"max_(?:completion_|output_)?tokens|maxOutputTokens",
        "give the agents that use the fabric's model {name!r} a smaller `max_output_tokens`",
        r"too large|at most|maximum allowed|less than or equal|exceeds the|supported range",
    ),
    SettingAdvice(r"max_tokens", _option("max_tokens_field", "max_completion_tokens")),
    SettingAdvice(r"max_completion_tokens", _option("max_tokens_field", "max_tokens")),
    SettingAdvice(r"stream|streaming|stream_options|streamGenerateContent|to stream", _option("stream", "false")),
    SettingAdvice(
        r"parallel_tool_calls|disable_parallel_tool_use|parallel (?:tool|function) calls",
        _advise_without("parallel_tool_calls"),
    ),
    SettingAdvice(
        r"(?:function calling|tools?|tool use)",
        _option("schema_with_tools", "false"),
        r"(?:with|and|together with) (?:a )?(?:response (?:mime ?type|format|schema)|response_format|json mode|structured output)",
    ),
    SettingAdvice(
        SCHEMA_NAMES,
        SCHEMA_OFF,
    ),
    SettingAdvice(r"tool_choice|tool choice|toolConfig", _field("tool_calls", "false")),
    SettingAdvice(
        r"tools?(?: param| use| calls?| calling)?|functions?(?: call(?:s|ing)?)?", _field("tool_calls", "false")
    ),
    SettingAdvice(r"temperature", _advise_without("temperature")),
    SettingAdvice(r"top_p|topP", _advise_without("top_p")),
    SettingAdvice(r"stop|stop_sequences|stopSequences|stop sequences?", _advise_without("stop_sequences")),
    SettingAdvice(r"seed", _advise_without("seed")),
    SettingAdvice(
        r"(?:system|developer) (?:role|messages?|instructions?|prompts?)|role:? ['\"`]?(?:system|developer)['\"`]?"
        r"|['\"`](?:system|developer)['\"`](?: role)?",
        _option("system_role", "user"),
    ),
    SettingAdvice(
        r"roles?|messages?|turns?|user and assistant|tool",
        _option("strict_turns", "true"),
        r"must alternate|should alternate|alternate between|after (?:the )?role ['\"`]?tool|unexpected role",
    ),
    SettingAdvice(
        r"encrypted content|reasoning(?:\.encrypted_content|_content|_details)?|thinking(?:_blocks)?|extra_content|provider_specific_fields",
        _option("reasoning_back", "never"),
        r"unsupported|not supported|not permitted|unknown|unexpected|extra",
    ),
)
"""Refusals, and the advice for each; the first row that fits counts."""


def advice_on(said: Mapping[str, str], codes: tuple[str, ...]) -> str:
    """Return the advice, with ``{name}`` for the fabric's name of the model; empty: this program knows none.

    ``said``: ``bodies.build_error``; ``codes``: plain.
    """
    message, param = said.get("message", ""), said.get("param", "").rpartition(".")[2]
    return next((row.do for row in ADVICE if row.fits(message, param, codes)), "")


RAW_CHARS = 2_000
"""Characters of an endpoint's answer that are stored with a failure."""
SAID_CHARS = 300
KEY_CHARS_MIN = 6
"""Least length of a secret key: a shorter one is a word ("none", "local") that any text may contain."""

SENTENCES: Mapping[Cause, str] = {
    Cause.AUTH: "{where} refused the key ({http}); {key_advice}",
    Cause.QUOTA: "{where} says that the account's quota or credit is used up ({http}){back}",
    Cause.RATE_LIMIT: "{where} asks for fewer requests ({http}){back}",
    Cause.SERVER_ERROR: "{where} failed on its side ({http})",
    Cause.TIMEOUT: "{where} gave up waiting for the model ({http})",
    Cause.UNKNOWN_MODEL: "{where} has no model named {model!r} ({http}); {model_advice}",
    Cause.BAD_CONFIGURATION: "{where} does not serve this request ({http}){url_hint}",
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
"""Sentences for statuses that explain more than their cause; they apply while the cause is the status's own."""
_PAGE_REFUSES = (
    "a web page came in place of an answer of {where} ({http}): a proxy, firewall or sign-in page did not let the request "
    "through; check the URL, and {key_advice}"
)
_PAGE = "; a web page came, so a proxy in front of it may have answered"
_ADVISED = frozenset({Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION})
"""Causes that a setting of the model may explain."""
_schema = re.compile(rf"\b({SCHEMA_NAMES})\b", re.IGNORECASE)
_SCHEMA = f"{{where}} does not take a response format ({{http}}); {SCHEMA_OFF}"


class MalformedAnswer(httpx2.TransportError):
    """A 200 whose body is no answer. The message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class SettingNames:
    """Names of the settings of a provider's endpoint, for sentences that name the one to set."""

    url: str = "FABRIC_MODEL_URL"
    key: str = "FABRIC_MODEL_KEY"
    model: str = "FABRIC_MODEL"
    """Setting of the model; empty: a fabric names its models itself."""
    example: str = "https://example.org/v1"


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """Description of a request, as far as an error's sentence needs it."""

    command_id: str
    attempt: int
    where: str
    """The visible part of the URL."""
    name: str
    """The model's name in the fabric."""
    model: str
    """The provider's model id."""
    key: str = ""
    """The key that was sent; never shown."""
    key_host: str = ""
    """The only host that gets a key."""
    schema: bool = False
    names: SettingNames = SettingNames()
    noun: str = "chat completion"
    """Noun for an answer."""
    url_hint: str = "; the URL usually ends in /v1"
    stored: bool = False
    """True if the workspace stored the key for this host."""
    signed: str = ""
    """The source that signed the request, where no key did; empty: none."""


def build_failure(
    asked: RequestFacts,
    cause: Cause,
    message: str,
    *,
    raw: str = "",
    raw_chars: int = RAW_CHARS,
    status: int | None = None,
    retry_after_s: float | None = None,
    billed: bool = False,
    never_sent: bool = False,
) -> CallFailed:
    """Return a failure as data, its texts cleaned, cut and without the key."""
    return CallFailed(
        command_id=asked.command_id,
        attempt=asked.attempt,
        cause=cause,
        message=fit(message, asked.key, 1_000),
        status=status,
        retry_after_s=retry_after_s,
        raw=fit(raw, asked.key, raw_chars),
        billed=billed,
        never_sent=never_sent,
    )


def build_unsent(asked: RequestFacts, cause: Cause, message: str) -> CallFailed:
    """Return a failure that is certain before any request, so that no breaker counts it."""
    return build_failure(asked, cause, message, never_sent=True)


def fit(text: str, key: str, limit: int) -> str:
    """Return text from outside, without the key, cleaned and cut."""
    shown = text.replace(key, MASK) if len(key) >= KEY_CHARS_MIN else text
    return clean_text(shown[:limit])[0]


def broken_off(exchange: Exchange, asked: RequestFacts) -> CallFailed:
    """Return the failure of an answer that its endpoint broke off itself. The engine uses nothing of it, and it may be
    billed.
    """
    raw = exchange.body[: RAW_CHARS * 4].decode("utf-8", "replace")
    message = f"{asked.where} broke off its answer and says so, so nothing of it is used"
    lost = build_failure(asked, Cause.DROPPED_STREAM, message, raw=raw, status=exchange.status, billed=True)
    return replace(lost, partial=True)


def came_in_part(exchange: Exchange) -> bool:
    """Return True if a part of the answer had come. It is a stream's output, or any bytes of an answer without a
    stream.
    """
    streams = exchange.headers.get("content-type", "").startswith("text/event-stream")
    return exchange.output or (
        is_success(exchange.status) and not streams and not exchange.complete and bool(exchange.body)
    )


def classify(error: BaseException, exchange: Exchange, asked: RequestFacts, now: float) -> CallFailed:
    """Return the failure for an exception or a refusal. ``now`` is seconds since the epoch, for a Retry-After date."""
    found = _classify_error(error, exchange, asked, now)
    # An endpoint that has sent a part of its answer may bill it, whatever follows.
    return replace(found, partial=came_in_part(exchange), billed=found.billed or exchange.output)


def _classify_error(error: BaseException, exchange: Exchange, asked: RequestFacts, now: float) -> CallFailed:
    raw = exchange.said or exchange.body[: RAW_CHARS * 4].decode("utf-8", "replace")
    if is_success(exchange.status) and not exchange.complete and not _is_transport(error):
        # Its stream did not break: its events cannot be read.
        message = f"{asked.where} answered, but with events that are no {asked.noun}"
        return build_failure(asked, Cause.MALFORMED_ANSWER, message, raw=raw, status=exchange.status, billed=True)
    # A refusal is one by its status, however little of its body can be read.
    if exchange.status is None or (exchange.status < 300 and not exchange.complete):
        if exchange.status is None and not exchange.sent and not _is_transport(error):
            return build_failure(
                asked, Cause.BAD_CONFIGURATION, f"the request for {asked.where} could not be made: {_error_name(error)}"
            )
        cause, message = transport_failure(error, exchange, asked.where)
        return build_failure(asked, cause, message, raw=raw, status=exchange.status, billed=exchange.sent)
    said = build_error(exchange.body, exchange.headers)
    status = status_in_200(said) if exchange.status < 300 else exchange.status
    if status < 300:
        malformed = next((str(link) for link in causes(error) if isinstance(link, MalformedAnswer)), "")
        message = f"{asked.where} answered, but {malformed or f'with JSON that is no {asked.noun}'}"
        return build_failure(asked, Cause.MALFORMED_ANSWER, message, raw=raw, raw_chars=200, status=status, billed=True)
    return _classify_refusal(status, said, exchange, asked, raw, now)


def _classify_refusal(
    status: int, said: Mapping[str, str], exchange: Exchange, asked: RequestFacts, raw: str, now: float
) -> CallFailed:
    """Return the meaning of an endpoint's refusal. ``status``: HTTP's, or that of an error inside a 200."""
    back = find_return(exchange.headers, said, now)
    cause = find_cause(status, said, None if back is None else back.in_s)
    advice = advice_on(said, tuple(list_codes(said))) if cause in _ADVISED else ""
    wait = wait_s(exchange.headers, said, now, limited=cause is Cause.RATE_LIMIT)
    if cause is Cause.QUOTA:
        # Google names seconds beside the quota of a day too.
        back = back if back is not None and (back.dated or back.in_s >= QUOTA_S) else None
        wait = None if back is None else round(back.in_s, 3)
    elif cause is Cause.RATE_LIMIT:
        exact = back is not None and back.in_s == wait
        back = back if exact else ServiceReturn(wait) if wait else None
    if advice:
        cause = Cause.BAD_REQUEST
    when = _when(back, cause, now)
    return build_failure(
        asked,
        cause,
        _sentence(_template(cause, status, said, asked, exchange, advice), status, said, asked, exchange, when),
        raw=raw,
        status=_read_status(exchange.status, said),
        retry_after_s=wait,
        # A proxy that gave up waiting for the model may have to pay for its work so far.
        billed=cause is Cause.TIMEOUT or (status in GAVE_UP and cause is Cause.SERVER_ERROR),
    )


def _read_status(status: int | None, said: Mapping[str, str]) -> int | None:
    """Return the HTTP status; for an error inside a 200 the status in its code, else 500."""
    if status is None or status >= 300:
        return status
    return next((one for field in ("code", "status") if (one := status_of_code(said.get(field, "")))), 500)


def _when(back: ServiceReturn | None, cause: Cause, now: float) -> str:
    """Return the time of the next permitted request, as the end of a sentence; empty: not known."""
    if back is None or back.in_s <= 0:
        return ""
    if cause is Cause.RATE_LIMIT and back.in_s < 60:
        return f"; it asks to wait {max(1, ceil(back.in_s))} s"
    instant = datetime.fromtimestamp(ceil(round(now + back.in_s) / 60) * 60, UTC)
    said = "it may be asked again" if cause is Cause.RATE_LIMIT else "it is back"
    unsure = "" if back.zoned else " (it names no time zone; read as UTC)"
    return f"; {said} {'no earlier than' if back.least else 'at'} {instant:%Y-%m-%d %H:%M} UTC{unsure}"


def _sentence(
    template: str, status: int, said: Mapping[str, str], asked: RequestFacts, exchange: Exchange, back: str
) -> str:
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


def _template(
    cause: Cause, status: int, said: Mapping[str, str], asked: RequestFacts, exchange: Exchange, advice: str
) -> str:
    """Return the sentence of a refusal, with the setting that corrects it, where this program knows one."""
    page = is_page(exchange.body)
    if page and status in (401, 403):
        return _PAGE_REFUSES
    template = SENTENCES.get(cause, "{where} answered ({http})")
    if cause is find_cause(status, {}):
        template = STATUS_SENTENCES.get(status, template)
    if page:
        return template if status < 400 or "proxy" in template else template + _PAGE
    if advice and advice != SCHEMA_OFF:
        return f"{SENTENCES[Cause.BAD_REQUEST]}; {advice}"
    text = said.get("message") or exchange.body[:2_000].decode("utf-8", "replace")
    return _SCHEMA if cause is Cause.BAD_REQUEST and asked.schema and _schema.search(text) else template


def _key_advice(asked: RequestFacts) -> str:
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


def _error_name(error: BaseException) -> str:
    text = " ".join(str(error).split())[:SAID_CHARS]
    return f"{text or 'no message'} ({type(error).__name__})"
