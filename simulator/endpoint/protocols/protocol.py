"""Defines a protocol of this endpoint: it reads a request, and writes an answer or a refusal for the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Event, Name, Refusal
from simulator.endpoint.wire.steps import SimulatedAnswer


class Unreadable(Exception):
    """A request that makes no sense, in one sentence; ``refusal`` where the provider says more of it."""

    def __init__(self, sentence: str, refusal: Refusal | None = None) -> None:
        super().__init__(sentence)
        self.refusal = refusal or Refusal(400, sentence)


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request that is answered. ``number``: 1 for the first that asks for an answer; ``body`` as the client sent
    it.
    """

    number: int
    body: Mapping[str, JSON]
    path: str
    stored: dict[str, list[Mapping[str, JSON]]] = field(default_factory=dict)
    """The items of each stored response of the Responses API, by its id. The protocol writes it."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol. ``read`` gives the request as chat completions have it, and raises ``Unreadable``."""

    name: Name
    read: Callable[[SimulatedRequest], dict[str, JSON]]
    write: Callable[[SimulatedAnswer, SimulatedRequest], dict[str, JSON]]
    events: Callable[[SimulatedAnswer, SimulatedRequest], list[Event]]
    refuse: Callable[[Refusal], JSON]
    error_event: Callable[[Refusal], Event]
    ends: Callable[[Event], bool]
    """True: this event says that the stream is at its end, and nothing else."""

    def streams(self, asked: SimulatedRequest) -> bool:
        """Returns True where a stream is asked for."""
        if self.name == "google":
            return ":streamGenerateContent" in asked.path
        return asked.body.get("stream") is True


def encode_events(events: Iterable[Event]) -> list[bytes]:
    """Return server-sent events as bytes, escaped throughout. HTML Standard, section 9.2."""
    return [_encode_event(event) for event in events]


def _encode_event(event: Event) -> bytes:
    named = f"event: {event.name}\n" if event.name else ""
    text = event.data if isinstance(event.data, str) else json.dumps(event.data)
    return f"{named}data: {text}\n\n".encode()
