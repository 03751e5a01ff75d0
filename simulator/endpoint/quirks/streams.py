"""Streams that are odd: their events, their bytes, their order, their end. Without streaming the answers are good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from simulator.endpoint.answers import Answer
from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.protocols.errors import midway
from simulator.endpoint.quirks.calls import TWO
from simulator.endpoint.quirks.saying import in_calls, unchanged
from simulator.endpoint.scenario import Event, Form, Name, Saying, Scenario
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn

JSON = Any

MANY = 10_000
CUT_AFTER = 3
"""Events that come before a stream is cut, where no number is given."""
BIT_CHARS = 3
ODD_BYTES = 7
"""Bytes in a piece that ends wherever it ends."""


def cut_after(count: int) -> Scenario:
    """A stream that ends after so many events as if it were over."""
    sentence = f"Ends a stream after {count} events as if it were over; cut_after=N says after how many."
    return Scenario(sentence, healthy, form=Form(events=lambda protocol, events: events[:count]))


def drop_after(count: int) -> Scenario:
    """A stream whose connection breaks after so many events."""
    sentence = f"Breaks the connection of a stream after {count} events; drop_after=N says after how many."
    return Scenario(sentence, _dropped, form=Form(events=lambda protocol, events: events[:count]))


def _dropped(turn: Turn) -> Step:
    return replace(healthy(turn), stream="broken")


def _many(turn: Turn) -> Step:
    if turn.tools or turn.wants_json:
        return healthy(turn)
    return Step(answer=Answer("ab " * MANY))


def _small(protocol: Name, events: list[Event]) -> list[Event]:
    """The whole text in bits of three characters, each in an event of its own."""
    carrying = [at for at, one in enumerate(events) if one.carries and _text_of(protocol, one.data)]
    if not carrying:
        return events
    text = "".join(holder[key] for at in carrying for holder, key in [_found(protocol, events[at])])
    template = events[carrying[0]]
    holder, key = _found(protocol, template)
    made = []
    for start in range(0, len(text), BIT_CHARS):
        holder[key] = text[start : start + BIT_CHARS]
        made.append(replace(template, data=deepcopy(template.data)))
    return [*events[: carrying[0]], *made, *events[carrying[-1] + 1 :]]


def _found(protocol: Name, event: Event) -> tuple[dict[str, JSON], str]:
    found = _text_of(protocol, event.data)
    assert found is not None
    return found


def _text_of(protocol: Name, data: JSON) -> tuple[dict[str, JSON], str] | None:
    """Where an event's bit of text stands."""
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


def _without_end(protocol: Name, events: list[Event]) -> list[Event]:
    """Without the event that says that it is over; with the reason why it ended."""
    last = {"anthropic": "message_stop", "responses": "response.completed"}.get(protocol)
    return [one for one in events if one.data != "[DONE]" and (last is None or one.data.get("type") != last)]


def _index(value: int | None) -> Callable[[Name, list[Event]], list[Event]]:
    """Each call at this index; None: no index at all."""
    keys = {"chat": "index", "anthropic": "index", "responses": "output_index"}

    def change(protocol: Name, events: list[Event]) -> list[Event]:
        for event in events:
            for holder in _indexed(protocol, event.data):
                if value is None:
                    holder.pop(keys[protocol], None)
                else:
                    holder[keys[protocol]] = value
        return events

    return change


def _indexed(protocol: Name, data: JSON) -> list[dict[str, JSON]]:
    if not isinstance(data, dict):
        return []
    if protocol == "chat":
        return [call for choice in data["choices"] for call in choice["delta"].get("tool_calls") or ()]
    return [data] if "index" in data or "output_index" in data else []


def _interleaved(protocol: Name, events: list[Event]) -> list[Event]:
    """The bits of two calls in turn."""
    first = [at for at, one in enumerate(events) if _call_index(one) == 0]
    second = [at for at, one in enumerate(events) if _call_index(one) == 1]
    places = sorted((*first, *second))
    turned: list[int] = []
    for number in range(max(len(first), len(second), 0)):
        turned += [*first[number : number + 1], *second[number : number + 1]]
    order = dict(zip(places, turned, strict=True))
    return [events[order.get(at, at)] for at in range(len(events))]


def _call_index(event: Event) -> int | None:
    found = _indexed("chat", event.data)
    return found[0].get("index") if found else None


def _repeated(protocol: Name, events: list[Event]) -> list[Event]:
    """Each bit of a call has the id and the name again."""
    known: dict[int, tuple[str, str]] = {}
    for event in events:
        for call in _indexed(protocol, event.data):
            known.setdefault(call["index"], (call.get("id", ""), call["function"].get("name", "")))
            call["id"], call["function"]["name"] = known[call["index"]]
    return events


def _commented(found: list[bytes]) -> list[bytes]:
    """A comment before each event, which keeps the connection alive. HTML Standard, section 9.2.6."""
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


def _at_once(found: list[bytes]) -> list[bytes]:
    return [b"".join(found)]


def _no_last_blank(found: list[bytes]) -> list[bytes]:
    return [*found[:-1], found[-1].rstrip(b"\n")]


def _broken_event(found: list[bytes]) -> list[bytes]:
    return [*found[: len(found) // 2], b'data: {"id": "x", "cho\n\n', *found[len(found) // 2 :]]


def _empty_usage(protocol: Name, events: list[Event]) -> list[Event]:
    """A chunk with the usage and no choices, whether it was asked for or not."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {**events[0].data, "choices": [], "usage": usage}
    return [Event({**head, "usage": None}), *events[:-1], Event(head), events[-1]]


_two: Saying = in_calls(unchanged, words=TWO)
INDEXED: tuple[Name, ...] = ("chat", "responses", "anthropic")

SCENARIOS: Mapping[str, Scenario] = {
    "cut_after": cut_after(CUT_AFTER),
    "drop_after": drop_after(CUT_AFTER),
    "error_midway": Scenario("Sends half of a stream and then an error.", healthy, form=Form(events=midway)),
    "many_chunks": Scenario("Sends a text of 30,000 characters in 10,000 events, where words are wanted.", _many, form=Form(events=_small)),
    "no_done": Scenario("Ends a stream without the event that says that it is over.", healthy, form=Form(events=_without_end)),
    "empty_usage_chunk": Scenario("Sends usage in chunks without choices, asked for or not.", healthy, form=Form(events=_empty_usage), protocols=("chat",)),
    "keep_alive": Scenario("Sends a comment before each event.", healthy, form=Form(pieces=_commented)),
    "pings": Scenario("Sends an event of the name ping before each event.", healthy, form=Form(pieces=_pings), protocols=("responses", "anthropic")),
    "crlf": Scenario("Ends the lines of a stream with CR and LF.", healthy, form=Form(pieces=_crlf)),
    "no_space": Scenario("Writes no blank behind data: in a stream.", healthy, form=Form(pieces=_no_space)),
    "odd_pieces": Scenario("Sends a stream in pieces of seven bytes.", healthy, form=Form(pieces=_odd)),
    "one_piece": Scenario("Sends a stream in one piece.", healthy, form=Form(pieces=_at_once)),
    "no_last_blank": Scenario("Leaves out the blank line behind the last event of a stream.", healthy, form=Form(pieces=_no_last_blank)),
    "broken_event": Scenario("Sends an event in the middle of a stream that is no JSON.", healthy, form=Form(pieces=_broken_event)),
    "index_zero": Scenario("Streams two calls that both stand at index 0.", _two, form=Form(events=_index(0)), protocols=INDEXED),
    "no_index": Scenario("Streams two calls without an index.", _two, form=Form(events=_index(None)), protocols=INDEXED),
    "interleaved": Scenario("Streams the bits of two calls in turn.", _two, form=Form(events=_interleaved), protocols=("chat",)),
    "repeated_ids": Scenario("Streams calls with their id and name in each bit.", _two, form=Form(events=_repeated), protocols=("chat",)),
}  # fmt: skip
"""By what ``--scenario`` takes."""
