"""Streams that are odd: their events, their bytes, their order, their end. Without streaming the answers are good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint import protocols
from simulator.endpoint.behaviour.definition import Behaviour, Event, Form, Name, Refusal, Saying
from simulator.endpoint.behaviour.misbehaviour import healthy
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.quirks.calls import TWO
from simulator.endpoint.quirks.wording import change_calls, keep_answer
from simulator.endpoint.wire.steps import SimulatedAnswer, Step

MANY = 10_000
CUT_AFTER = 3
"""Events that come before a stream is cut, where no number is given."""
BIT_CHARS = 3
ODD_BYTES = 7
"""Bytes in a piece that ends wherever it ends."""
OVERLOADED = Refusal(503, "The model is overloaded", "overloaded", "server_error")


def cut_after(count: int) -> Behaviour:
    """Return a behaviour that ends a stream after so many events as if it were over."""
    return Behaviour(healthy, form=Form(events=lambda protocol, events: events[:count]))


def drop_after(count: int) -> Behaviour:
    """Return a behaviour that breaks the connection of a stream after so many events."""
    return Behaviour(_drop_connection, form=Form(events=lambda protocol, events: events[:count]))


def _midway(protocol: Name, events: list[Event]) -> list[Event]:
    """Return half of the events that carry something, and then an error."""
    carrying = [at for at, one in enumerate(events) if one.carries]
    upto = carrying[len(carrying) // 2] if carrying else 0
    return [*events[: upto + 1], protocols.PROTOCOLS[protocol].error_event(OVERLOADED)]


def _drop_connection(turn: Turn) -> Step:
    return replace(healthy(turn), stream="broken")


def _many(turn: Turn) -> Step:
    if turn.tools or turn.wants_json:
        return healthy(turn)
    return Step(answer=SimulatedAnswer("ab " * MANY))


def _small(protocol: Name, events: list[Event]) -> list[Event]:
    """Cut the whole text into bits of three characters, each in an event of its own."""
    carrying = [at for at, one in enumerate(events) if one.carries and _find_text(protocol, one.data)]
    if not carrying:
        return events
    text = "".join(holder[key] for at in carrying for holder, key in [_find_call(protocol, events[at])])
    template = events[carrying[0]]
    holder, key = _find_call(protocol, template)
    made = []
    for start in range(0, len(text), BIT_CHARS):
        holder[key] = text[start : start + BIT_CHARS]
        made.append(replace(template, data=deepcopy(template.data)))
    return [*events[: carrying[0]], *made, *events[carrying[-1] + 1 :]]


def _find_call(protocol: Name, event: Event) -> tuple[dict[str, JSON], str]:
    found = _find_text(protocol, event.data)
    assert found is not None
    return found


def _find_text(protocol: Name, data: JSON) -> tuple[dict[str, JSON], str] | None:
    """Return the object and the key that hold an event's bit of text."""
    if protocol == "chat":
        holders = [choice["delta"] for choice in data["choices"]]
        key = "content"
    elif protocol == "google":
        holders = [part for one in data["candidates"] for part in one["content"]["parts"]]
        key = "text"
    elif protocol == "anthropic":
        holders, key = [data.get("delta") or {}], "text"
    else:
        holders, key = [data], "delta"
    return next(((one, key) for one in holders if isinstance(one.get(key), str)), None)


def _drop_end(protocol: Name, events: list[Event]) -> list[Event]:
    """Leave out the event that says that it is over, and keep the finish reason."""
    last = {"anthropic": "message_stop", "responses": "response.completed"}.get(protocol)
    return [one for one in events if one.data != "[DONE]" and (last is None or one.data.get("type") != last)]


def _index(value: int | None) -> Callable[[Name, list[Event]], list[Event]]:
    """Each call at this index; None: no index at all."""
    keys = {"chat": "index", "anthropic": "index", "responses": "output_index"}

    def change(protocol: Name, events: list[Event]) -> list[Event]:
        for event in events:
            for holder in _list_indexed(protocol, event.data):
                if value is None:
                    holder.pop(keys[protocol], None)
                else:
                    holder[keys[protocol]] = value
        return events

    return change


def _list_indexed(protocol: Name, data: JSON) -> list[dict[str, JSON]]:
    if not isinstance(data, dict):
        return []
    if protocol == "chat":
        return [call for choice in data["choices"] for call in choice["delta"].get("tool_calls") or ()]
    return [data] if "index" in data or "output_index" in data else []


def _interleave_calls(protocol: Name, events: list[Event]) -> list[Event]:
    """Send the bits of two calls in turn."""
    first = [at for at, one in enumerate(events) if _call_index(one) == 0]
    second = [at for at, one in enumerate(events) if _call_index(one) == 1]
    places = sorted((*first, *second))
    turned: list[int] = []
    for number in range(max(len(first), len(second), 0)):
        turned += [*first[number : number + 1], *second[number : number + 1]]
    order = dict(zip(places, turned, strict=True))
    return [events[order.get(at, at)] for at in range(len(events))]


def _call_index(event: Event) -> int | None:
    found = _list_indexed("chat", event.data)
    return found[0].get("index") if found else None


def _repeat_names(protocol: Name, events: list[Event]) -> list[Event]:
    """Each bit of a call has the id and the name again."""
    known: dict[int, tuple[str, str]] = {}
    for event in events:
        for call in _list_indexed(protocol, event.data):
            known.setdefault(call["index"], (call.get("id", ""), call["function"].get("name", "")))
            call["id"], call["function"]["name"] = known[call["index"]]
    return events


def _add_comments(found: list[bytes]) -> list[bytes]:
    """Put a comment before each event, which keeps the connection alive. HTML Standard, section 9.2.6."""
    return [piece for one in found for piece in (b": keep-alive\n\n", one)]


def _pings(found: list[bytes]) -> list[bytes]:
    return [piece for one in found for piece in (b"event: ping\ndata: {}\n\n", one)]


def _crlf(found: list[bytes]) -> list[bytes]:
    return [one.replace(b"\n", b"\r\n") for one in found]


def _no_space(found: list[bytes]) -> list[bytes]:
    return [one.replace(b"data: ", b"data:", 1) for one in found]


def _odd(found: list[bytes]) -> list[bytes]:
    whole = b"".join(found)
    return [whole[at : at + ODD_BYTES] for at in range(0, len(whole), ODD_BYTES)]


def _join_all(found: list[bytes]) -> list[bytes]:
    return [b"".join(found)]


def _no_last_blank(found: list[bytes]) -> list[bytes]:
    return [*found[:-1], found[-1].rstrip(b"\n")]


def _broken_event(found: list[bytes]) -> list[bytes]:
    return [*found[: len(found) // 2], b'data: {"id": "x", "cho\n\n', *found[len(found) // 2 :]]


def _empty_usage(protocol: Name, events: list[Event]) -> list[Event]:
    """Add chunks with the usage and no choices, whether the client asked for usage or not."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {**events[0].data, "choices": [], "usage": usage}
    return [Event({**head, "usage": None}), *events[:-1], Event(head), events[-1]]


_two: Saying = change_calls(keep_answer, words=TWO)
INDEXED: tuple[Name, ...] = ("chat", "responses", "anthropic")

BEHAVIOURS: Mapping[str, Behaviour] = {
    "cut_after": cut_after(CUT_AFTER),
    "drop_after": drop_after(CUT_AFTER),
    "error_midway": Behaviour(healthy, form=Form(events=_midway)),
    "many_chunks": Behaviour(_many, form=Form(events=_small)),
    "no_done": Behaviour(healthy, form=Form(events=_drop_end)),
    "empty_usage_chunk": Behaviour(healthy, form=Form(events=_empty_usage), protocols=("chat",)),
    "keep_alive": Behaviour(healthy, form=Form(pieces=_add_comments)),
    "pings": Behaviour(healthy, form=Form(pieces=_pings), protocols=("responses", "anthropic")),
    "crlf": Behaviour(healthy, form=Form(pieces=_crlf)),
    "no_space": Behaviour(healthy, form=Form(pieces=_no_space)),
    "odd_pieces": Behaviour(healthy, form=Form(pieces=_odd)),
    "one_piece": Behaviour(healthy, form=Form(pieces=_join_all)),
    "no_last_blank": Behaviour(healthy, form=Form(pieces=_no_last_blank)),
    "broken_event": Behaviour(healthy, form=Form(pieces=_broken_event)),
    "index_zero": Behaviour(_two, form=Form(events=_index(0)), protocols=INDEXED),
    "no_index": Behaviour(_two, form=Form(events=_index(None)), protocols=INDEXED),
    "interleaved": Behaviour(_two, form=Form(events=_interleave_calls), protocols=("chat",)),
    "repeated_ids": Behaviour(_two, form=Form(events=_repeat_names), protocols=("chat",)),
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
