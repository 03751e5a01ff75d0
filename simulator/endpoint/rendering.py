"""A step in the form of the protocol that is spoken, whole or as a stream, with whatever a scenario changes of it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import brotli

from simulator.endpoint.answers import Answer, answer_of
from simulator.endpoint.protocols.protocol import Asked, Protocol, encoded
from simulator.endpoint.scenario import PLAIN, Form, Refusal
from simulator.endpoint.steps import JSON_TYPE, Step
from simulator.endpoint.streaming import STREAM_TYPE, streamed

JSON = Any

CODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
}


def rendered(step: Step, protocol: Protocol, asked: Asked, form: Form = PLAIN) -> Step:
    """Returns the step in its form. A step that is neither an answer nor a refusal of ours stays as it is."""
    answer = step.answer
    if answer is None and step.status == 200 and step.content_type == JSON_TYPE:
        answer = answer_of(step.body)
    if answer is None:
        made = _no_answer(step, protocol, asked)
    elif protocol.streams(asked):
        made = _stream(step, answer, protocol, asked, form)
    else:
        body = json.dumps(form.whole(protocol.name, protocol.write(answer, asked))).encode()
        made = replace(step, body=form.raw(body), stream="as_it_is", answer=None)
    return _packed(made, form.encoding) if form.encoding else made


def refused(refusal: Refusal, protocol: Protocol, headers: Mapping[str, str] | None = None) -> Step:
    """A refusal in the protocol's form, or in its own."""
    body = protocol.refuse(refusal) if refusal.body is None else refusal.body
    return Step(status=refusal.status, body=json.dumps(body).encode(), headers=headers or {}, stream="as_it_is")


def _stream(step: Step, answer: Answer, protocol: Protocol, asked: Asked, form: Form) -> Step:
    stream = replace(step, content_type=STREAM_TYPE, answer=None, stream="as_it_is")
    if step.mode == "trickle":
        blank = next(one for one in protocol.events(replace(answer, text=" ", calls=()), asked) if one.carries)
        return replace(stream, pieces=tuple(encoded([blank])))
    events = protocol.events(answer, asked)
    if step.stream == "doubled":
        at = next((at for at, one in enumerate(events) if one.carries), 0)
        events.insert(at, events[at])
    if step.stream == "cut":
        events = [one for one in events if not protocol.ends(one)]
        return replace(stream, mode="send", pieces=tuple(encoded(events[: len(events) // 2])))
    if protocol.name == "google" and "alt=sse" not in asked.path:
        found = [one.data for one in form.events(protocol.name, events)]
        return replace(step, body=form.raw(json.dumps(found).encode()), stream="as_it_is", answer=None)
    pieces = tuple(form.pieces(encoded(form.events(protocol.name, events))))
    return replace(stream, pieces=pieces, mode="broken" if step.stream == "broken" else step.mode)


def _no_answer(step: Step, protocol: Protocol, asked: Asked) -> Step:
    """An error of chat completions in the protocol's own form; everything else as it is."""
    refusal = _refusal(step)
    streams = protocol.streams(asked) and step.stream != "as_it_is"
    if refusal is not None and protocol.name != "chat":
        if step.status == 200 and streams:
            return replace(step, content_type=STREAM_TYPE, pieces=tuple(encoded([protocol.error_event(refusal)])))
        return replace(step, body=json.dumps(protocol.refuse(refusal)).encode(), stream="as_it_is")
    if not streams:
        return replace(step, stream="as_it_is")
    if step.mode == "trickle":
        blank = next(one for one in protocol.events(Answer(" "), asked) if one.carries)
        return replace(step, content_type=STREAM_TYPE, pieces=tuple(encoded([blank])), stream="as_it_is")
    return replace(streamed(step, asked.body), stream="as_it_is")


def _refusal(step: Step) -> Refusal | None:
    if step.content_type != JSON_TYPE or step.stream == "as_it_is":
        return None
    try:
        error = json.loads(step.body)["error"]
        status = step.status if step.status != 200 else int(error.get("code") or 500)
        code = error.get("code") if isinstance(error.get("code"), str) else ""
        return Refusal(status, error["message"], code or "", error.get("type") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _packed(step: Step, encoding: str) -> Step:
    """Packed whole, a stream too: it comes in one piece then."""
    headers = {**step.headers, "Content-Encoding": encoding}
    pack = CODINGS[encoding]
    if step.pieces is not None:
        return replace(step, headers=headers, pieces=(pack(b"".join(step.pieces)),))
    return replace(step, headers=headers, body=pack(step.body))
