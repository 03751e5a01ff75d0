"""An error in the middle of a stream, in the protocol's own form."""

from __future__ import annotations

from simulator.endpoint import protocols
from simulator.endpoint.scenario import Event, Name, Refusal

OVERLOADED = Refusal(503, "The model is overloaded", "overloaded", "server_error")


def midway(protocol: Name, events: list[Event]) -> list[Event]:
    """Half of the events that carry something, and the error."""
    carrying = [at for at, one in enumerate(events) if one.carries]
    upto = carrying[len(carrying) // 2] if carrying else 0
    return [*events[: upto + 1], protocols.PROTOCOLS[protocol].error_event(OVERLOADED)]
