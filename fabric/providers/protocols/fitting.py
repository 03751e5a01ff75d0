"""Makes a conversation acceptable to any endpoint, in one place: names, turns, empties, unanswered calls, stray
results, sizes, ids.

Every strict endpoint accepts this form: one system text, then turns of user and assistant that alternate, a user
first and last; each call answered in the turn after it, in order; no empty text. Parts that a provider marked as its
own go back to the model that gave them and to no other.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from fabric.core.calls.proposed import is_ours
from fabric.core.events.inputs import ToolCall
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ChatMessage

TEXT_CHARS_MAX = 1_000_000
"""Largest number of characters of one message; OpenAI's own endpoint refuses some larger ones."""
NAME_CHARS = 64
SHORT_ID_CHARS = 9
"""Mistral takes ids of exactly nine letters and digits, and every other endpoint takes those too."""
NO_TEXT = "(empty)"
NO_RESULT = "(no result)"
NOT_MADE = "(no result: this call was not made)"
GO_ON = "Go on."

_unfit_name = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class SentCall:
    """A call in the history. ``args`` is an object, whatever the model had written."""

    id: str
    tool: str
    args: dict[str, JSON]
    own: JSON = None


@dataclass(slots=True)
class SentResult:
    """The result of a call."""

    id: str
    tool: str
    text: str


@dataclass(slots=True)
class ConversationTurn:
    """One turn of the conversation. A user's has results before its text, an assistant's calls after it."""

    user: bool
    texts: list[str] = field(default_factory=list)
    calls: list[SentCall] = field(default_factory=list)
    results: list[SentResult] = field(default_factory=list)
    own: JSON = None

    @property
    def text(self) -> str:
        """Return all its texts."""
        return "\n\n".join(self.texts)


@dataclass(slots=True)
class FittedConversation:
    """A conversation that every endpoint accepts."""

    system: str
    turns: list[ConversationTurn]


def fit(messages: Sequence[ChatMessage], model: str, protocol: str) -> FittedConversation:
    """Return the conversation for a fabric's model of that name and its protocol (``Protocol.key``)."""
    system = "\n\n".join(_cut(one.text) for one in messages if one.role == "system" and one.text.strip())
    fitted = FittedConversation(system, [])
    ids: dict[str, tuple[str, str]] = {}
    for message in messages:
        if message.role == "assistant":
            _answer_all(fitted.turns, ids)
            _add_assistant(fitted, message, _Target(model, protocol), ids)
        elif message.role == "tool":
            _add_result(_user_turn(fitted.turns), message, ids)
        elif message.role == "user":
            _answer_all(fitted.turns, ids)
            _user_turn(fitted.turns).texts.append(_cut(message.text) if message.text.strip() else NO_TEXT)
    _answer_all(fitted.turns, ids)
    if not fitted.turns or not fitted.turns[0].user:
        fitted.turns.insert(0, ConversationTurn(user=True, texts=[GO_ON]))
    if not fitted.turns[-1].user:
        fitted.turns.append(ConversationTurn(user=True, texts=[GO_ON]))
    return fitted


def fit_name(name: str) -> str:
    """Return a tool's name in the letters that endpoints take in a history, whatever a model had written."""
    return _unfit_name.sub("_", name)[:NAME_CHARS] or "unnamed"


def short_id(call_id: str) -> str:
    """Return an id that every endpoint takes; one call always has one id."""
    return b32encode(blake2b(call_id.encode(), digest_size=10).digest()).decode().lower()[:SHORT_ID_CHARS]


@dataclass(frozen=True, slots=True)
class _Target:
    """The model and the protocol that a conversation is for."""

    model: str
    protocol: str

    def own_of(self, message: ChatMessage, own: JSON) -> JSON:
        """Return the provider's own parts of a message; None for another model or another protocol."""
        if own is None or message.model not in ("", self.model) or own.get("protocol") != self.protocol:
            return None
        return own["parts"]


def _user_turn(turns: list[ConversationTurn]) -> ConversationTurn:
    """Return the user's turn at the end of the conversation; a new one after an assistant's."""
    if not turns or not turns[-1].user:
        turns.append(ConversationTurn(user=True))
    return turns[-1]


def _add_assistant(
    fitted: FittedConversation, message: ChatMessage, asked: _Target, ids: dict[str, tuple[str, str]]
) -> None:
    turns, same = fitted.turns, message.model in ("", asked.model)
    if not (message.text.strip() or message.calls):
        return  # An empty answer has no content, and most endpoints refuse it, with or without reasoning.
    if turns and not turns[-1].user:
        turn = turns[-1]
        turn.own = None  # Two answers in one turn: what is a provider's own belongs to one of them.
    else:
        turn = ConversationTurn(user=False, own=asked.own_of(message, message.own))
        turns.append(turn)
    if message.text.strip():
        turn.texts.append(_cut(message.text))
    ids.clear()
    used: set[str] = set()
    for call in message.calls:
        wire, tool = _wire_id(call, used, same=same), fit_name(call.tool)
        used.add(wire)
        ids[call.call_id] = (wire, tool)
        turn.calls.append(SentCall(wire, tool, _sent_args(call), asked.own_of(message, call.own)))


def _wire_id(call: ToolCall, used: set[str], *, same: bool) -> str:
    """Return the id that goes out: the endpoint's own, whole, to the model that gave it; else a short one."""
    given = call.server_id or ("" if is_ours(call.call_id) else call.call_id)
    return given if same and given and given not in used else short_id(call.call_id)


def _add_result(turn: ConversationTurn, message: ChatMessage, ids: dict[str, tuple[str, str]]) -> None:
    text = _cut(message.text) if message.text.strip() else NO_RESULT
    known = ids.pop(message.call_id, None)
    if known is None:
        turn.texts.append(f"Result of {fit_name(message.tool)}: {text}")
    else:
        turn.results.append(SentResult(*known, text))


def _answer_all(turns: list[ConversationTurn], ids: dict[str, tuple[str, str]]) -> None:
    """Answer the calls without a result, and sort results into the order of their calls."""
    if not turns:
        return
    if ids:
        turn = _user_turn(turns)
        turn.results += [SentResult(wire, tool, NOT_MADE) for wire, tool in ids.values()]
        ids.clear()
    if turns[-1].user and len(turns[-1].results) > 1:
        order = {call.id: n for n, call in enumerate(turns[-2].calls)}
        turns[-1].results.sort(key=lambda result: order[result.id])


def _sent_args(call: ToolCall) -> dict[str, JSON]:
    # Endpoints refuse a history whose arguments do not parse, so a non-object goes back as the text it was.
    return call.args if isinstance(call.args, dict) else {"invalid_json": call.raw_args[:2_000]}


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}\n[{len(text) - TEXT_CHARS_MAX:,} more characters are left out]"


def compact(value: JSON) -> str:
    """Return JSON as it goes out."""
    return json.dumps(value, ensure_ascii=False)
