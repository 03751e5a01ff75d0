"""Chooses which requests a behaviour answers, and answers in the protocol of the request.

Behaviours have names: one for each fault that the endpoint plays, and two that do their work. A step takes the form of
the protocol that is spoken, whole or as a stream, as its behaviour wants.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import brotli

from simulator.endpoint import protocols
from simulator.endpoint.behaviour import misbehaviour
from simulator.endpoint.behaviour.definition import EVERY, PLAIN, Behaviour, Form, Refusal
from simulator.endpoint.behaviour.misbehaviour import healthy, kernel
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.protocols.protocol import Protocol, SimulatedRequest, Unreadable, encode_events
from simulator.endpoint.protocols.responses import list_items
from simulator.endpoint.quirks import calls, connections, content, dialects, form, refusals, streams, strictness
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import JSON_TYPE, SimulatedAnswer, Step, find_answer
from simulator.endpoint.wire.streams import STREAM_TYPE, stream_step
from simulator.faults.catalogue import PLAYED
from simulator.faults.fault import Play
from simulator.texts.problems import nearest

NONSENSE = (TypeError, AttributeError, KeyError, ValueError)
"""The errors that a body raises whose types are not its protocol's."""
UNKNOWN_FORM = Refusal(400, "the request's body has a form that this protocol does not know")


class Playing:
    """The player counts requests for answers. An argument that is not None stands before the behaviour's own."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        after: int | None = None,
        times: int | None = None,
        delay_s: float | None = None,
        seed: int = 1,
    ) -> None:
        self._behaviour, self._seed, self._count = behaviour, seed, 0
        self._spoken: Counter[str] = Counter()
        self._stored: dict[str, list[Any]] = {}
        self.after = behaviour.after if after is None else after
        self.times = behaviour.times if times is None else times
        self.delay_s = behaviour.delay_s if delay_s is None else delay_s
        self.struck = False
        """True: the behaviour answered the request before, and not a healthy model."""

    def reply(self, received: Received) -> Step:
        """Returns the answer to the next request."""
        self.struck = False
        if received.method == "GET" and (models := protocols.list_models(received)) is not None:
            return models
        protocol = protocols.find_protocol(received.path)
        if protocol is None:
            return steps.refusal(
                404, f"nothing is served at {protocols.path_without_query(received.path)}; ask {protocols.SERVED}"
            )
        if not isinstance(received.body, dict):
            return render_refusal(Refusal(400, "the body is no JSON object"), protocol)
        asked = SimulatedRequest(self._count + 1, received.body, received.path, self._stored)
        try:
            read = protocol.read(asked)
        except Unreadable as unreadable:
            return render_refusal(unreadable.refusal, protocol)
        except NONSENSE:
            return render_refusal(UNKNOWN_FORM, protocol)
        self._count += 1
        past = self._count > self.after
        self.struck = past and (self.times is None or self._count <= self.after + self.times)
        turn = Turn(replace(received, body=read, path=protocols.COMPLETIONS), self._seed, protocol.name, self._count)
        if not self.struck or protocol.name not in self._behaviour.protocols:
            return render_step(healthy(turn), protocol, asked)
        step = self._strike(turn, protocol, asked)
        return replace(step, delay_s=self.delay_s) if self.delay_s else step

    def _strike(self, turn: Turn, protocol: Protocol, asked: SimulatedRequest) -> Step:
        behaviour, agent = self._behaviour, turn.received.agent
        judged = {**asked.body, "input": list_items(asked)} if protocol.name == "responses" else asked.body
        for rule in behaviour.rules:
            try:
                found = rule(protocol.name, judged)
            except NONSENSE:
                found = UNKNOWN_FORM
            if found is not None:
                return render_refusal(found, protocol)
        self._spoken[agent] += 1
        if behaviour.spoken is not None and self._spoken[agent] > behaviour.spoken:
            return render_step(healthy(turn), protocol, asked)
        return render_step(behaviour.say(turn), protocol, asked, behaviour.form)


COUNT_DIGITS_MAX = 9
HEALTHY: Mapping[str, str] = {
    "cooperative": "The model does its work: it calls a tool once, reads what is attached, and answers in the form asked for",
    "echo": "The model answers with the last text that it got",
}
"""Behaviours that are no faults, each with its sentence."""
ROOMS: Mapping[Play, ModuleType] = {
    "misbehaviour": misbehaviour,
    "connections": connections,
    "refusals": refusals,
    "form": form,
    "calls": calls,
    "content": content,
    "dialects": dialects,
    "streams": streams,
    "strictness": strictness,
}
"""The module that a fault's ``play`` names. Each has a table ``BEHAVIOURS`` by fault."""
PLAYS: Mapping[str, Behaviour] = {
    "cooperative": Behaviour(healthy),
    "echo": Behaviour(kernel("echo")),
    **{name: ROOMS[fault.play].BEHAVIOURS[name] for name, fault in PLAYED.items() if fault.play is not None},
}
"""The behaviours by the name that ``--fault`` takes."""
COUNTED: Mapping[str, Callable[[int], Behaviour]] = {"cut_after": streams.cut_after, "drop_after": streams.drop_after}
"""Faults that take a number, as in ``cut_after=7``."""


def behaviour_named(name: str) -> Behaviour | None:
    """Return the behaviour of a name, or of a name with a number. None: no behaviour has it."""
    head, sign, number = name.partition("=")
    if not sign:
        return PLAYS.get(name)
    if head in COUNTED and number.isascii() and number.isdigit() and len(number) <= COUNT_DIGITS_MAX:
        return COUNTED[head](int(number))
    return None


def write_sentence(name: str) -> str:
    """Return the sentence of a behaviour, with its full stop."""
    head = name.partition("=")[0]
    return f"{HEALTHY[head] if head in HEALTHY else PLAYED[head].says}."


def describe_unknown(name: str) -> str:
    """Return the sentence about a name that no behaviour has."""
    head, sign, number = name.partition("=")
    if sign and head in COUNTED:
        return f"--fault: {head} takes a whole number from 0 on, not {number!r}"
    near = nearest(head, PLAYS)
    meant = f" {near}" if near.startswith("did you mean") else ""
    return f"--fault: there is no {name!r};{meant} --list lists all"


def format_table() -> str:
    """Return the behaviours as a table of ``docs/reference/endpoint.md``."""
    rows = ["| fault | what it does | protocols |", "|---|---|---|"]
    for name, one in PLAYS.items():
        sentence = write_sentence(name).replace("|", "\\|").replace("<", "&lt;")
        rows.append(f"| `{name}` | {sentence} | {'all' if one.protocols == EVERY else ', '.join(one.protocols)} |")
    return "\n".join(rows) + "\n"


CODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
}


def render_step(step: Step, protocol: Protocol, asked: SimulatedRequest, form: Form = PLAIN) -> Step:
    """Returns the step in its form. A step that is neither an answer nor a refusal of ours stays as it is."""
    answer = step.answer
    if answer is None and step.status == 200 and step.content_type == JSON_TYPE:
        answer = find_answer(step.body)
    if answer is None:
        made = _no_answer(step, protocol, asked)
    elif protocol.streams(asked):
        made = _stream(step, answer, protocol, asked, form)
    else:
        body = json.dumps(form.whole(protocol.name, protocol.write(answer, asked))).encode()
        made = replace(step, body=form.raw(body), stream="as_it_is", answer=None)
    return _pack_body(made, form.encoding) if form.encoding else made


def render_refusal(refusal: Refusal, protocol: Protocol, headers: Mapping[str, str] | None = None) -> Step:
    """Return a refusal in the protocol's form, or in its own."""
    body = protocol.refuse(refusal) if refusal.body is None else refusal.body
    return Step(status=refusal.status, body=json.dumps(body).encode(), headers=headers or {}, stream="as_it_is")


def _stream(step: Step, answer: SimulatedAnswer, protocol: Protocol, asked: SimulatedRequest, form: Form) -> Step:
    stream = replace(step, content_type=STREAM_TYPE, answer=None, stream="as_it_is")
    if step.mode == "trickle":
        blank = next(one for one in protocol.events(replace(answer, text=" ", calls=()), asked) if one.carries)
        return replace(stream, pieces=tuple(encode_events([blank])))
    events = protocol.events(answer, asked)
    if step.stream == "doubled":
        at = next((at for at, one in enumerate(events) if one.carries), 0)
        events.insert(at, events[at])
    if step.stream == "cut":
        events = [one for one in events if not protocol.ends(one)]
        return replace(stream, mode="send", pieces=tuple(encode_events(events[: len(events) // 2])))
    if protocol.name == "google" and "alt=sse" not in asked.path:
        found = [one.data for one in form.events(protocol.name, events)]
        return replace(step, body=form.raw(json.dumps(found).encode()), stream="as_it_is", answer=None)
    pieces = tuple(form.pieces(encode_events(form.events(protocol.name, events))))
    return replace(stream, pieces=pieces, mode="broken" if step.stream == "broken" else step.mode)


def _no_answer(step: Step, protocol: Protocol, asked: SimulatedRequest) -> Step:
    """Return an error of chat completions in the protocol's own form. All else stays as it is."""
    refusal = _refusal(step)
    streams = protocol.streams(asked) and step.stream != "as_it_is"
    if refusal is not None and protocol.name != "chat":
        if step.status == 200 and streams:
            return replace(step, content_type=STREAM_TYPE, pieces=tuple(encode_events([protocol.error_event(refusal)])))
        return replace(step, body=json.dumps(protocol.refuse(refusal)).encode(), stream="as_it_is")
    if not streams:
        return replace(step, stream="as_it_is")
    if step.mode == "trickle":
        blank = next(one for one in protocol.events(SimulatedAnswer(" "), asked) if one.carries)
        return replace(step, content_type=STREAM_TYPE, pieces=tuple(encode_events([blank])), stream="as_it_is")
    return replace(stream_step(step, asked.body), stream="as_it_is")


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


def _pack_body(step: Step, encoding: str) -> Step:
    """Pack the body whole. A stream comes in one piece then."""
    headers = {**step.headers, "Content-Encoding": encoding}
    pack = CODINGS[encoding]
    if step.pieces is not None:
        return replace(step, headers=headers, pieces=(pack(b"".join(step.pieces)),))
    return replace(step, headers=headers, body=pack(step.body))
