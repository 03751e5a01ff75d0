"""Defines a protocol. It turns a request into a body, and a body or the events of a stream into an answer.

The body is read here from raw JSON, before its form is judged. Everything with one meaning is read; unused fields are
ignored.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from fabric.core.values.metering import ReportedTokens, whole
from fabric.core.values.units import JSON
from fabric.providers.protocols.fitting import FittedConversation
from fabric.providers.refusals.errors import MalformedAnswer
from fabric.runtime.ports.calls import ModelRequest

Finish = Literal["stop", "length", "content_filter"]
Ended = Finish | Literal["broken"]
"""End of an answer. ``broken``: the server broke it off. Such an answer is a failed attempt, whatever it contains."""

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
"""Words, in plain form, for the reason of an unfinished answer."""


def plain(word: str) -> str:
    """Return a word without case and punctuation."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


FINISHES: Mapping[str, Ended] = {plain(word): end for end, words in _WORDS.items() for word in words.split()}
"""Reasons for the end of an answer, in plain form. Every other word means that the model was done."""

UNREPORTED = ReportedTokens()
ARGUMENT_FIELDS = ("arguments", "args", "parameters", "input")
"""Fields in which servers write the arguments of a call."""
TIER_FIELDS = (
    ("service_tier",),  # OpenAI, Azure
    ("usage", "service_tier"),  # Anthropic
    ("serviceTier", "type"),  # Bedrock
    ("usageMetadata", "serviceTier"),  # Gemini
    ("usageMetadata", "trafficType"),  # Vertex
)
"""Places of the service tier in a body."""
_own_name = re.compile(r"reason|think|thought|signature|encrypt|extra_content|provider_specific", re.IGNORECASE)


@dataclass(slots=True)
class SaidCall:
    """A call as its endpoint gave it. ``arguments``: JSON text, or the object itself."""

    id: str
    tool: str
    arguments: JSON
    own: JSON = None


@dataclass(slots=True)
class ModelAnswer:
    """A parsed answer. ``own``: parts that only its provider understands; None: there are none."""

    text: str = ""
    calls: list[SaidCall] = field(default_factory=list)
    finish: Ended = "stop"
    model: str = ""
    usage: ReportedTokens = UNREPORTED
    own: JSON = None
    tier: str = ""
    """Service tier of the answer, as its provider names it; empty: unknown."""


class Assembly(ABC):
    """Assembles the events of a stream into the body that would have come at once."""

    over: bool = False
    """True once the answer is over."""
    output: bool = False
    """True once a part of the answer has come. The reader of events may reset it, to see if the next one brings a
    part.
    """

    @abstractmethod
    def take(self, event: dict[str, JSON]) -> None:
        """Read one event. Raises MalformedAnswer for one that the protocol does not have."""

    @abstractmethod
    def body(self) -> dict[str, JSON]:
        """Return the received part, as a body."""

    @abstractmethod
    def count_begun(self) -> int:
        """Return the number of calls that have begun."""

    whole_at_once: ClassVar[bool] = False
    """A call comes in one piece, so that it is whole when it has begun. Elsewhere it is whole once its JSON object
    is, or the next part has begun.
    """

    @property
    def after_calls(self) -> bool:
        """Return True if a part began after the last call, so that it is whole."""
        return False

    @property
    def closes(self) -> bool:
        """Return True if the last call's arguments end with a brace, so that its object may be whole."""
        return False


class Protocol(ABC):
    """One provider's protocol. Every method is pure."""

    key: ClassVar[str]
    """Its name in the journal."""
    noun: ClassVar[str]
    """The name of an answer, for sentences: "chat completion"."""
    wanted: ClassVar[str]
    """Field that each answer has."""
    url_hint: ClassVar[str] = ""
    """Usual form of the URL, for one without an endpoint; begins with "; "."""
    headers: ClassVar[Mapping[str, str]] = {}
    schema_with_tools: ClassVar[bool] = False
    """An answer may be constrained to a schema although tools are offered. The option of that name sets it for one
    model.
    """
    done_line: ClassVar[bool] = False
    """A line ``[DONE]`` ends a stream. Elsewhere gateways may send one all the same, and it means nothing."""

    enveloped: ClassVar[bool] = False
    """Each event of a stream is a body of its own, which a gateway may have put into an envelope."""

    listed: ClassVar[bool] = False
    """The chunks of a stream may come as one list in JSON."""

    @abstractmethod
    def path(self, model: str, *, stream: bool) -> str:
        """Return the path behind the base URL, with its query."""

    @abstractmethod
    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body. ``schema``: True constrains the answer to the request's schema."""

    @abstractmethod
    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True where a body has an answer in it."""

    @abstractmethod
    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Return the answer in a body. Raises MalformedAnswer for one that has none."""

    @abstractmethod
    def assembly(self) -> Assembly:
        """Return a fresh assembly of a stream."""


def find_word(said: JSON) -> str:
    """Return the word for the end of an answer; empty: it is not over. Some servers write an object with the word in
    it.
    """
    if isinstance(said, list):
        said = said[0] if said else None
    if isinstance(said, dict):
        said = next((said[name] for name in ("type", "reason", "finish_reason") if said.get(name)), None)
    return said if isinstance(said, str) and plain(said) not in _NO_END else ""


def build_finish(*said: JSON) -> Ended:
    """Return the reason for an answer's end, from its provider's words. The first one that says more than "done"
    counts.
    """
    ends = (FINISHES.get(plain(find_word(one)), "stop") for one in said)
    return next((end for end in ends if end != "stop"), "stop")


def later_finish(known: JSON, said: JSON) -> JSON:
    """Return the word that applies where a stream gives two reasons for its end. An answer that was cut stays cut."""
    return known if not find_word(said) or build_finish(known) != "stop" else said


def later_usage(known: JSON, said: JSON) -> JSON:
    """Return the counts of a stream, updated by a later event. A later zero, or nothing, takes no count back."""
    if not isinstance(said, dict):
        return known or said
    return {**(known if isinstance(known, dict) else {}), **{name: one for name, one in said.items() if one}} or said


def read_tier(value: Mapping[str, JSON]) -> str:
    """Return the service tier in a body; see ``TIER_FIELDS``."""
    for path in TIER_FIELDS:
        found: JSON = value
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            return found
    return ""


def read_text(value: JSON) -> str:
    """Return a text; empty for any other value."""
    return value if isinstance(value, str) else ""


def build_id(value: JSON) -> str:
    """Return an id as text; some servers number calls."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def find_index(value: JSON) -> int | None:
    """Return a place in a list, which some servers write as text or with a fraction. None: any other value."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value[:9])
    return whole(value)


def find_first(several: list[dict[str, JSON]]) -> dict[str, JSON]:
    """Return the answer of index 0, or the first one; empty: there is none."""
    return next((one for one in several if find_index(one.get("index")) == 0), several[0] if several else {})


def read_call(value: Mapping[str, JSON], call_id: JSON, own: JSON = None) -> SaidCall:
    """Return a call, with its name and arguments from ``function``, from ``custom`` or from the call itself."""
    inner: Mapping[str, JSON] = next(
        (value[name] for name in ("function", "custom") if isinstance(value.get(name), dict)), {}
    )
    names = (inner.get("name"), value.get("name"), value.get("function"))
    given = [place[name] for place in (inner, value) for name in ARGUMENT_FIELDS if place.get(name) is not None]
    # An empty text is no arguments where there are some beside it.
    arguments = next((one for one in given if one != ""), given[0] if given else None)
    tool = next((one.strip() for one in names if isinstance(one, str) and one.strip()), "")
    return SaidCall(build_id(call_id), tool, arguments, own)


def dicts(value: JSON) -> list[dict[str, JSON]]:
    """Return the objects in a list; of one object that object."""
    if isinstance(value, dict):
        return [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def are_objects(value: JSON) -> bool:
    """Return True where a value is an object or a list of objects only."""
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def own_fields(value: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """Return the fields that a provider marks as its own: reasoning, thoughts, signatures. None: there are none."""
    found = {name: one for name, one in value.items() if one and _own_name.search(name)}
    return found or None


def malformed_event() -> MalformedAnswer:
    """Return the error for an event in another form than its protocol's."""
    return MalformedAnswer("with an event that is not as its protocol has it")
