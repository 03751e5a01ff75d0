"""Defines a protocol: it turns a request into a body, and a body or the events of a stream into an answer.

The body is read here from raw JSON, before its form is judged. Everything with one meaning is read; unused fields are not looked at.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import Fitted
from fabric.core.metering import Reported
from fabric.runtime.call_ports import ModelRequest

JSON = Any
Finish = Literal["stop", "length", "content_filter"]

FINISHES: Mapping[str, Finish] = {
    # OpenAI and its kin, Mistral, Anthropic, Google, Bedrock, OpenAI Responses.
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "token_limit": "length",
    "continuation": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "content-filter": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "image_safety": "content_filter",
    "language": "content_filter",
    "sensitive": "content_filter",
}
"""The reasons why an answer ended, in small letters. Every other word says that the model was done."""

UNREPORTED = Reported()
TIER_FIELDS = (
    ("service_tier",),  # OpenAI, Azure
    ("usage", "service_tier"),  # Anthropic
    ("serviceTier", "type"),  # Bedrock
    ("usageMetadata", "serviceTier"),  # Gemini
    ("usageMetadata", "trafficType"),  # Vertex
)
"""Where a body names the service tier that it was made in."""
_own_name = re.compile(r"reason|think|thought|signature|encrypt|extra_content|provider_specific", re.IGNORECASE)


@dataclass(slots=True)
class SaidCall:
    """A call as its endpoint gave it. ``arguments``: JSON text, or the object itself."""

    id: str
    tool: str
    arguments: JSON
    own: JSON = None


@dataclass(slots=True)
class Answer:
    """An answer, read. ``own``: what only its provider understands; None: nothing."""

    text: str = ""
    calls: list[SaidCall] = field(default_factory=list)
    finish: Finish = "stop"
    model: str = ""
    usage: Reported = UNREPORTED
    own: JSON = None
    tier: str = ""
    """The service tier that it was made in, as its provider names it; empty: it does not say."""


class Assembly(ABC):
    """Puts the events of a stream together into the body that would have come at once."""

    over: bool = False
    """The answer is over."""
    output: bool = False
    """A part of the answer has come."""

    @abstractmethod
    def take(self, event: dict[str, JSON]) -> None:
        """Takes one event in. Raises Malformed for one that is no event of the protocol's."""

    @abstractmethod
    def body(self) -> dict[str, JSON]:
        """Returns what has come so far, as a body."""

    @abstractmethod
    def begun(self) -> int:
        """Returns how many calls have begun."""

    whole_at_once: ClassVar[bool] = False
    """A call comes in one piece, so that it is whole when it has begun. Elsewhere it is whole once the next part has begun."""

    @property
    def after_calls(self) -> bool:
        """Something began after the last call, so that it is whole."""
        return False


class Protocol(ABC):
    """One provider's protocol. Every method is pure."""

    key: ClassVar[str]
    """Its name in the journal."""
    noun: ClassVar[str]
    """The name of an answer, for sentences: "chat completion"."""
    wanted: ClassVar[str]
    """The field that each answer has."""
    url_hint: ClassVar[str] = ""
    """The usual form of the URL, for one that leads nowhere; begins with "; "."""
    headers: ClassVar[Mapping[str, str]] = {}
    schema_with_tools: ClassVar[bool] = False
    """An answer may be constrained to a schema although tools are offered; the option of that name says so for one model."""
    done_line: ClassVar[bool] = False
    """A line ``[DONE]`` ends a stream. Elsewhere gateways may send one all the same, and it says nothing."""

    @abstractmethod
    def path(self, model: str, *, stream: bool) -> str:
        """The path behind the base URL, with its query."""

    @abstractmethod
    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body. ``schema``: the answer is to be constrained to the request's schema."""

    @abstractmethod
    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where a body has an answer in it."""

    @abstractmethod
    def read(self, value: dict[str, JSON]) -> Answer:
        """The answer in a body. Raises Malformed for one that has none."""

    @abstractmethod
    def assembly(self) -> Assembly:
        """Begins to put a stream together."""


def finish_of(said: JSON) -> Finish:
    """Returns why an answer ended, from its provider's word."""
    return FINISHES.get(said.lower(), "stop") if isinstance(said, str) else "stop"


def tier_of(value: Mapping[str, JSON]) -> str:
    """The service tier that a body names; see ``TIER_FIELDS``."""
    for path in TIER_FIELDS:
        found: JSON = value
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            return found
    return ""


def text_of(value: JSON) -> str:
    """A text; empty for what is none."""
    return value if isinstance(value, str) else ""


def id_of(value: JSON) -> str:
    """An id as text; some servers number calls."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def dicts(value: JSON) -> list[dict[str, JSON]]:
    """The objects in a list; of one object that object."""
    if isinstance(value, dict):
        return [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def are_objects(value: JSON) -> bool:
    """Returns True where a value is an object or a list of nothing but objects."""
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def own_fields(value: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """Fields that a provider marks as its own: reasoning, thoughts, signatures. None: there are none."""
    found = {name: one for name, one in value.items() if one and _own_name.search(name)}
    return found or None


def malformed_event() -> Malformed:
    """An event whose form is not its protocol's."""
    return Malformed("with an event that is not as its protocol has it")


def object_of(arguments: JSON) -> JSON:
    """Arguments as an object, for protocols that send them back so."""
    return arguments if isinstance(arguments, dict) else {}
