"""Gives the subject of an approval in one shape for the terminal, the pages and the API.

It is the call with its arguments, its effect, its proposer and the consequence of each answer.

All of it is in the content that the question's digest is made of, but for the effect: that is the tool's in the revision that the digest names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from fabric.core import forms
from fabric.selectors.escalations import EscalationView
from fabric.selectors.fabrics import revision_spec

JSON = Any
EFFECTS: Mapping[str, str] = {
    "read_only": "read-only",
    "idempotent": "idempotent",
    "mutating": "mutating",
    "irreversible": "irreversible",
}
"""The word for what a tool does to the world; total over ``ToolSpec.effect``, by test."""
FOLLOWS: Mapping[str, str] = {
    "approve": "the run goes on",
    "edit": "it goes on with your version, which is gated again",
    "respond": "the step runs again with your words",
    "decline": "the call is not made, and the run goes on",
    "reject": "the run is aborted",
}
"""The consequence of each verb where a question does not say; total by test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAsks:
    """The question that a tool's server asks in the middle of a call."""

    server: str
    message: str
    args: JSON
    """The arguments that the tool was called with."""
    fields: tuple[tuple[str, str], ...]
    """Each field of the form, with what it takes."""
    said: str
    """The server's reply to the word that there is no answer yet; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAbout:
    """The subject of a question."""

    tool: str
    """The tool that would be called; empty: it is no call."""
    effect: str
    """The effect of the call on the world, a key of ``EFFECTS``; empty: it is no call, or the effect is not known."""
    instead_of: str
    """The tool that the model proposed, where a person proposes another one."""
    undoes: str
    """The tool whose call would be undone."""
    description: str
    payload: JSON
    """The arguments of the call, the answer to a server, or what would pass; None: there is none, or it was erased."""
    asks: ServerAsks | None
    """The question of a server; None: it asks nothing."""
    proposed_by: str
    """The agent, or the person who wrote it in place of what the agent proposed; empty: the engine."""
    because: str
    """The words of that person."""
    follows: tuple[tuple[str, str], ...]
    """Each verb that is possible, with what it does."""
    expiry: str
    """The consequence when no answer comes in time."""

    @property
    def effect_word(self) -> str:
        """The effect as people read it."""
        return EFFECTS.get(self.effect, self.effect)


def asked_about(item: EscalationView) -> AskedAbout:
    """Returns the subject of a question, as it stands."""
    shown = item.content
    undoes = str(shown.get("tool", "")) if item.item == "compensation" else ""
    tool = str(shown.get("compensation" if undoes else "tool", ""))
    proposes_brief = shown.get("edit_of") == "brief" and "edited" in shown
    return AskedAbout(
        tool=tool,
        effect=str(shown.get("effect") or _effect(item, tool)),
        instead_of=str(shown.get("tool_from", "")),
        undoes=undoes,
        description=str(shown.get("description") or ""),
        payload=shown["edited"] if proposes_brief else shown.get("payload"),
        asks=_asks(shown),
        proposed_by=str(shown.get("edited_by") or shown.get("agent") or ""),
        because=str(shown.get("edited_because") or ""),
        follows=tuple((verb, str(shown.get(verb) or FOLLOWS.get(verb, ""))) for verb in item.verbs),
        expiry=str(shown.get("expiry") or ("nothing happens" if item.ticket else "rejected by the system")),
    )


def asked_about_json(about: AskedAbout) -> dict[str, JSON]:
    """The same as programs read it."""
    same = ("tool", "effect", "instead_of", "undoes", "payload", "proposed_by", "because", "expiry")
    asks = {} if about.asks is None else {"asks": asdict(about.asks) | {"fields": dict(about.asks.fields)}}
    return {**{name: getattr(about, name) for name in same}, "follows": dict(about.follows), **asks}


def _asks(shown: Mapping[str, JSON]) -> ServerAsks | None:
    asked = shown.get("asks")
    if asked is None:
        return None
    fields = tuple(forms.described(asked["schema"]).items())
    return ServerAsks(
        server=asked["server"], message=asked["message"], args=shown["args"], fields=fields, said=asked["said"]
    )


def _effect(item: EscalationView, tool: str) -> str:
    if not tool:
        return ""
    return _effects(item.revision_id).get(tool, "")


@lru_cache(maxsize=64)
def _effects(revision_id: str) -> Mapping[str, str]:
    """The effect of each tool of a revision, which never changes."""
    return {one.name: str(one.effect) for one in revision_spec(revision_id).all_tools}
