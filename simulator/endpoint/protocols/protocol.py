"""Defines a protocol of this endpoint: it reads a request, and writes an answer or a refusal for the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.endpoint.answers import Answer
from simulator.endpoint.scenario import Event, Name, Refusal

JSON = Any


class Unreadable(Exception):
    """A request that makes no sense, in one sentence; ``refusal`` where the provider says more of it."""

    def __init__(self, sentence: str, refusal: Refusal | None = None) -> None:
        super().__init__(sentence)
        self.refusal = refusal or Refusal(400, sentence)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that is answered. ``number``: 1 for the first that asks for an answer; ``body`` as the client sent it."""

    number: int
    body: Mapping[str, JSON]
    path: str
    stored: dict[str, list[Mapping[str, JSON]]] = field(default_factory=dict)
    """Of the Responses API: the items of each response that is kept, by its id. The protocol writes it."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol. ``read`` gives the request as chat completions have it, and raises ``Unreadable``."""

    name: Name
    read: Callable[[Asked], dict[str, JSON]]
    write: Callable[[Answer, Asked], dict[str, JSON]]
    events: Callable[[Answer, Asked], list[Event]]
    refuse: Callable[[Refusal], JSON]
    error_event: Callable[[Refusal], Event]
    ends: Callable[[Event], bool]
    """True: this event says that the stream is at its end, and nothing else."""

    def streams(self, asked: Asked) -> bool:
        """Returns True where a stream is asked for."""
        if self.name == "google":
            return ":streamGenerateContent" in asked.path
        return asked.body.get("stream") is True


def encoded(events: Iterable[Event]) -> list[bytes]:
    """Server-sent events as bytes, escaped throughout. HTML Standard, section 9.2."""
    return [_encoded(event) for event in events]


def _encoded(event: Event) -> bytes:
    named = f"event: {event.name}\n" if event.name else ""
    text = event.data if isinstance(event.data, str) else json.dumps(event.data)
    return f"{named}data: {text}\n\n".encode()
