"""A behaviour has words turn by turn, refusals of requests, and the form in which its answers go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.wire.steps import Step

Name = Literal["chat", "responses", "anthropic", "google"]
"""The four protocols."""
EVERY: tuple[Name, ...] = ("chat", "responses", "anthropic", "google")
Saying = Callable[[Turn], Step]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reply of an endpoint to a request that it refuses. ``body`` is set where the provider has a form
    of its own.
    """

    status: int
    message: str
    code: str = ""
    kind: str = ""
    param: str = ""
    body: JSON = None


Rule = Callable[[Name, Mapping[str, JSON]], Refusal | None]
"""Takes a request's body in its own protocol, and returns its refusal. None: the body is good."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream. ``data`` as text goes out as it is; ``carries``: it carries some of the answer."""

    data: JSON
    name: str = ""
    carries: bool = False


def _same(protocol: Name, value: Any) -> Any:
    return value


def _as_sent(data: Any) -> Any:
    return data


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which an answer goes out. Each field changes the protocol's own form."""

    whole: Callable[[Name, JSON], JSON] = _same
    """The body of an answer that comes at once."""
    events: Callable[[Name, list[Event]], list[Event]] = _same
    """The events of a stream."""
    raw: Callable[[bytes], bytes] = _as_sent
    """The bytes of the body."""
    pieces: Callable[[list[bytes]], list[bytes]] = _as_sent
    """The bytes of the events."""
    encoding: str = ""
    """A content coding that was not asked for: gzip, deflate, br."""


PLAIN = Form()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One way in which the endpoint answers."""

    say: Saying
    after: int = 0
    """Requests that it first answers well."""
    times: int | None = None
    """Requests that it then takes. None: all."""
    delay_s: float = 0.0
    """Seconds before each answer."""
    spoken: int | None = None
    """After so many answers to one agent the endpoint does its work. Its rules hold on. None: it never does."""
    rules: tuple[Rule, ...] = ()
    form: Form = field(default=PLAIN)
    protocols: tuple[Name, ...] = EVERY
    """Protocols in which it has a meaning. In the others the endpoint does its work."""
