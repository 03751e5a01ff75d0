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
from fabric.core.metering import Reported, whole
from fabric.runtime.call_ports import ModelRequest

JSON = Any
Finish = Literal["stop", "length", "content_filter"]
Ended = Finish | Literal["broken"]
"""``broken``: the server says that it broke the answer off. Such an answer is a failed attempt, whatever stands in it."""

_WORDS: Mapping[Ended, str] = {
    # OpenAI and its kin, Mistral, Anthropic, Google, Bedrock, OpenAI Responses, text-generation-inference, Cohere.
    "length": "length max_tokens max_output_tokens max_completion_tokens max_new_tokens max_tokens_reached max_length model_length length_limit"
    " length_capped token_limit continuation truncated incomplete model_context_window_exceeded context_window_exceeded context_length_exceeded",
    "content_filter": "content_filter content_filtered guardrail_intervened refusal safety recitation blocklist prohibited_content spii image_safety"
    " image_prohibited_content image_recitation model_armor language sensitive",
    # OpenRouter, vLLM and SGLang, DeepSeek, Z.ai, Cohere, Google.
    "broken": "error abort aborted cancel cancelled canceled user_cancel failed failure interrupted timeout time_limit network_error server_error internal_error"
    " engine_error insufficient_system_resource repetition_truncation malformed_response other expired",
}
_NO_END = frozenset({"", "null", "none", "unspecified", "finishreasonunspecified"})
"""Words for a reason of an answer that is not over, plain."""


def plain(word: str) -> str:
    """A word without case and punctuation."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


FINISHES: Mapping[str, Ended] = {plain(word): end for end, words in _WORDS.items() for word in words.split()}
"""The reasons why an answer ended, plain. Every other word says that the model was done."""

UNREPORTED = Reported()
ARGUMENT_FIELDS = ("arguments", "args", "parameters", "input")
"""Where servers put the arguments of a call."""
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
    finish: Ended = "stop"
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
    """A part of the answer has come. Who gives events to it may take this back, to see whether the next one brings a part."""

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
    """A call comes in one piece, so that it is whole when it has begun. Elsewhere it is whole once its JSON object is, or the next part has begun."""

    @property
    def after_calls(self) -> bool:
        """Something began after the last call, so that it is whole."""
        return False

    @property
    def closes(self) -> bool:
        """The last call's arguments end with a brace, so that its object may be whole."""
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

    enveloped: ClassVar[bool] = False
    """Each event of a stream is a body of its own, which a gateway may have put into an envelope."""

    listed: ClassVar[bool] = False
    """The chunks of a stream may come as one list in JSON."""

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


def word_of(said: JSON) -> str:
    """The word for why an answer ended; empty: it is not over. Some servers write an object with the word in it."""
    if isinstance(said, list):
        said = said[0] if said else None
    if isinstance(said, dict):
        said = next((said[name] for name in ("type", "reason", "finish_reason") if said.get(name)), None)
    return said if isinstance(said, str) and plain(said) not in _NO_END else ""


def finish_of(*said: JSON) -> Ended:
    """Returns why an answer ended, from its provider's words: the first that says more than that the model was done."""
    ends = (FINISHES.get(plain(word_of(one)), "stop") for one in said)
    return next((end for end in ends if end != "stop"), "stop")


def later_finish(known: JSON, said: JSON) -> JSON:
    """Returns the word that holds where a stream says twice why it ended: an answer that was cut stays cut."""
    return known if not word_of(said) or finish_of(known) != "stop" else said


def later_usage(known: JSON, said: JSON) -> JSON:
    """The counts of a stream, with what a later event says. A later zero, or nothing, takes no count back."""
    if not isinstance(said, dict):
        return known or said
    return {**(known if isinstance(known, dict) else {}), **{name: one for name, one in said.items() if one}} or said


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


def index_of(value: JSON) -> int | None:
    """A place in a list, which some servers write as text or with a fraction; None: it is none."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value[:9])
    return whole(value)


def first_of(several: list[dict[str, JSON]]) -> dict[str, JSON]:
    """The answer of index 0, or the first one; empty: there is none."""
    return next((one for one in several if index_of(one.get("index")) == 0), several[0] if several else {})


def said_call(value: Mapping[str, JSON], call_id: JSON, own: JSON = None) -> SaidCall:
    """A call, whether its name and arguments stand in ``function``, in ``custom`` or in the call itself."""
    inner: Mapping[str, JSON] = next(
        (value[name] for name in ("function", "custom") if isinstance(value.get(name), dict)), {}
    )
    names = (inner.get("name"), value.get("name"), value.get("function"))
    given = [place[name] for place in (inner, value) for name in ARGUMENT_FIELDS if place.get(name) is not None]
    # An empty text is no arguments where there are some beside it.
    arguments = next((one for one in given if one != ""), given[0] if given else None)
    tool = next((one.strip() for one in names if isinstance(one, str) and one.strip()), "")
    return SaidCall(id_of(call_id), tool, arguments, own)


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
