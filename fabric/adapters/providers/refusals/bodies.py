"""The body of a refusal, in any of the forms that endpoints, gateways and proxies write, read into one flat set of fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2

JSON = Any
BODY_BYTES = 100_000
FIELD_CHARS = 2_000
WRAPS_MAX = 3
"""So many gateways may have put the error of another one into their own."""

_MESSAGES = ("message", "msg", "Message", "detail", "error_description", "error_msg", "errorMessage", "status_msg")
_CODES = ("code", "error_code", "statusCode", "errorCode")
_TYPES = ("type", "error_type", "__type")
_DELAYS_S = ("retry_after", "retryAfter", "retry_after_seconds", "resets_in_seconds", "retry_after_s", "Retry-After")
_RESETS = ("resets_at", "reset_at", "resetsAt", "resetAt", "reset_time", "nextResetTime", "X-RateLimit-Reset")
_litellm = re.compile(r"\blitellm\.(?:exceptions\.)?(\w+)")
_title = re.compile(rb"<title[^>]{0,200}>([^<]{1,200})</title", re.IGNORECASE)


def error_of(body: bytes | bytearray, headers: httpx2.Headers | None = None) -> dict[str, str]:
    """The fields of a refusal as text; what is missing is missing. Never raises.

    ``message``; ``param``, the field of the request that it is about; the codes ``causes.CODE_FIELDS``; ``retry_delay`` (a duration) and ``resets_at`` (an
    instant, or a number). A web page gives nothing, any other text is the message.
    """
    named = _aws_name(headers.get("x-amzn-errortype", "") if headers is not None else "")
    found = {"exceptions": named} if named else {}
    try:
        value: JSON = json.loads(bytes(body[:BODY_BYTES]).decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        text = "" if is_page(body) else bytes(body[:FIELD_CHARS]).decode("utf-8", "replace").strip()
        return found | ({"message": text} if text and text[0] not in "{[" else {})
    return found | _cut(_read(value, WRAPS_MAX))


def is_page(body: bytes | bytearray) -> bool:
    """Returns True where a body is markup: a page of a proxy, or of something that is no model endpoint."""
    return bytes(body[:200]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def page_title(body: bytes | bytearray) -> str:
    """The title of a web page; empty: it has none."""
    found = _title.search(bytes(body[: BODY_BYTES // 10]))
    return found[1].decode("utf-8", "replace").strip() if found else ""


def _cut(found: Mapping[str, JSON]) -> dict[str, str]:
    return {field: str(item)[:FIELD_CHARS] for field, item in found.items() if item not in (None, "")}


def _read(value: JSON, wraps: int) -> dict[str, JSON]:
    """The fields of one error, with those of the error that it wraps."""
    if isinstance(value, list) and value:
        value = value[0]  # So some of Google's gateways answer.
    if isinstance(value, str):
        return {"message": value}
    if not isinstance(value, dict):
        return {}
    error = _error_in(value)
    found: dict[str, JSON] = {
        "code": _code(_first(error, _CODES)),
        "type": _code(_first(error, _TYPES)),
        "status": _code(error.get("status")),
        "param": error.get("param"),
        "inner_code": _inner_code(error.get("innererror", error.get("inner_error"))),
    }
    if "__type" in error:
        found["type"] = _aws_name(str(error["__type"]))
    found |= _details(error.get("details"), exhausted=error.get("status") == "RESOURCE_EXHAUSTED")
    found |= _return(value) | _return(error)
    message = _first(error, _MESSAGES)
    if isinstance(message, list | dict):
        found |= {field: item for field, item in _listed(message, wraps).items() if item not in (None, "")}
    else:
        found["message"] = message
    return found | _wrapped(found, error.get("metadata"), wraps)


def _error_in(value: dict[str, JSON]) -> dict[str, JSON]:
    """The object that names the fault: ``error``, also of a choice, the first of ``errors``, MiniMax's ``base_resp``, or the whole."""
    choices = value.get("choices")
    in_choices = (one.get("error") for one in choices if isinstance(one, dict)) if isinstance(choices, list) else ()
    error = value.get("error", value.get("Error")) or next(filter(None, in_choices), None)
    if isinstance(error, dict):
        below = error.get("error")
        return below if isinstance(below, dict) and "message" not in error else error
    if isinstance(error, str) and error:
        # OAuth writes a code there and says more beside it; others write the whole sentence.
        return {"type": error, **value, "message": _first(value, _MESSAGES) or error}
    errors = value.get("errors")
    if isinstance(errors, list) and errors and "message" not in value:
        return errors[0] if isinstance(errors[0], dict) else {"message": str(errors[0])}
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return {"message": base.get("status_msg")}
    return value


def _first(value: Mapping[str, JSON], names: tuple[str, ...]) -> JSON:
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def _code(value: JSON) -> JSON:
    """A code that is an object says itself in one of its fields."""
    return _first(value, (*_CODES, "value", "name", *_TYPES)) if isinstance(value, dict) else value


def _listed(message: JSON, wraps: int) -> dict[str, JSON]:
    """A message that is an object, or FastAPI's list of what is wrong: ``[{"loc": ["body", "stop"], "msg": "..."}]``."""
    if isinstance(message, dict):
        return _read(message, wraps - 1) if wraps else {"message": json.dumps(message)}
    parts, param = [], None
    for item in message:
        if not isinstance(item, dict):
            parts.append(str(item))
            continue
        loc = item.get("loc")
        place = [str(step) for step in loc] if isinstance(loc, list) else []
        param = param or (place[-1] if place else None)
        said = str(_first(item, _MESSAGES) or item)
        parts.append(f"{'.'.join(place)}: {said}" if place else said)
    return {"message": "; ".join(parts), "param": param}


def _inner_code(inner: JSON) -> str:
    """The most particular code of Azure's nested ``innererror``."""
    code = ""
    for _ in range(WRAPS_MAX):
        if not isinstance(inner, dict):
            break
        code = str(inner.get("code") or code)
        inner = inner.get("innererror")
    return code


def _aws_name(text: str) -> str:
    """Only the name of an exception as AWS writes it: ``com.amazon.coral#ThrottlingException:http://...``."""
    return text.partition(":")[0].rpartition("#")[2].strip()


def _return(value: Mapping[str, JSON]) -> dict[str, JSON]:
    """The time to come back, from fields of the error, of its metadata, or of headers that a gateway copied there."""
    metadata = value.get("metadata")
    places = [value, metadata, metadata.get("headers") if isinstance(metadata, dict) else None]
    found: dict[str, JSON] = {}
    for place in (one for one in places if isinstance(one, dict)):
        delay, delay_ms, reset = _first(place, _DELAYS_S), place.get("retry_after_ms"), _first(place, _RESETS)
        if delay is not None:
            found["retry_delay"] = f"{delay}s" if _is_number(delay) else delay
        elif delay_ms is not None:
            found["retry_delay"] = f"{delay_ms}ms"
        if reset is not None:
            found["resets_at"] = reset
    return found


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.replace(".", "", 1).isdigit())


def _wrapped(found: Mapping[str, JSON], metadata: JSON, wraps: int) -> dict[str, JSON]:
    """Returns the other endpoint's error that a gateway passes on: LiteLLM in its message, OpenRouter in ``metadata.raw``."""
    message = str(found.get("message") or "")
    more: dict[str, JSON] = {}
    if names := _litellm.findall(message):
        more["exceptions"] = " ".join(dict.fromkeys(names))
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    inner = _embedded(str(raw)) if raw else _embedded(message)
    # A request that a message quotes is no error. A message that is one object and no word more is an error that a gateway passed on.
    passed_on = bool(raw or names) or (message.startswith("{") and message.endswith("}"))
    is_error = isinstance(inner, dict) and ("error" in inner or ("message" in inner and passed_on))
    if not is_error or not wraps:
        return more
    below = _read(inner, wraps - 1)
    for field in ("reason", "code", "type", "status"):
        if item := below.get(field) or below.get(f"wrapped_{field}"):
            more[f"wrapped_{field}"] = item
    kept = ("message", "param", "retry_delay", "resets_at")
    return more | {field: below[field] for field in kept if below.get(field)}


def _embedded(text: str) -> JSON:
    """The object that stands in a text, as JSON or as Python writes it; None: there is none."""
    text = text[: FIELD_CHARS * 4]
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    inside = text[start : end + 1]
    for form in (inside, inside.replace("\\n", " ")):
        try:
            return json.loads(form)
        except (ValueError, RecursionError):
            continue
    try:
        return ast.literal_eval(inside) if inside.startswith("{'") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _details(details: JSON, *, exhausted: bool) -> dict[str, JSON]:
    """Returns the reason in Google's error details, and the time to come back. ``exhausted``: it refused for a quota."""
    found: dict[str, JSON] = {}
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    for item in items:
        kind = str(item.get("@type", "")).rpartition(".")[2]
        if kind == "ErrorInfo":
            found.setdefault("reason", str(item.get("reason", "")))
        elif kind == "RetryInfo":
            found["retry_delay"] = str(item.get("retryDelay", ""))
        elif kind == "QuotaFailure":
            # It says which quota, where the message says "exceeded your current quota" of one that is back in a minute.
            of_a_day = re.search(r"per_?(day|month)", json.dumps(item.get("violations")), re.IGNORECASE)
            found["reason"] = "quota_of_a_day" if of_a_day else "quota_that_returns"
    if exhausted and "retry_delay" in found:
        found.setdefault("reason", "quota_that_returns")
    return found
