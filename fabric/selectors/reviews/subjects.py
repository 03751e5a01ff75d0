"""Gives the subject of an approval in one shape for the terminal, the pages and the API.

It is the call with its arguments, its effect, its proposer and the consequence of each answer. All of it is in the
digest of the review's content, except the effect: that is the tool's in the revision that the digest names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

from fabric.core.texts import forms
from fabric.core.values.units import JSON
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reviews.review_view import ReviewView

EFFECTS: Mapping[str, str] = {
    "read_only": "read-only",
    "idempotent": "idempotent",
    "mutating": "mutating",
    "irreversible": "irreversible",
}
"""Word for a tool's effect on the world; a test shows that it covers ``ToolSpec.effect``."""
FOLLOWS: Mapping[str, str] = {
    "approve": "the run continues",
    "edit": "it continues with your version, which is gated again",
    "respond": "the step runs again with your words",
    "decline": "the call is not made, and the run continues",
    "reject": "the run is aborted",
}
"""Consequence of each verb where a review has none of its own; a test shows that it is total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAsks:
    """A question of a tool's server in the middle of a call."""

    server: str
    message: str
    args: JSON
    """Arguments of the tool's call."""
    fields: tuple[tuple[str, str], ...]
    """Each field of the form with its type."""
    said: str
    """The server's reply to the message that there is no answer yet; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAbout:
    """The subject of a review."""

    tool: str
    """The tool that would be called; empty: it is no call."""
    effect: str
    """The effect of the call on the world, a key of ``EFFECTS``. Empty: it is no call, or the effect is not known."""
    instead_of: str
    """The tool that the model proposed, where a person proposes another one."""
    undoes: str
    """The tool whose call would be undone."""
    description: str
    payload: JSON
    """Arguments of the call, answer to a server, or content to pass; None: there is none, or it was erased."""
    asks: ServerAsks | None
    """Question of a server; None: there is none."""
    proposed_by: str
    """The agent, or the person who replaced the agent's proposal; empty: the engine."""
    because: str
    """Message of that person."""
    follows: tuple[tuple[str, str], ...]
    """Each possible verb with its effect."""
    expiry: str
    """The consequence when no answer comes in time."""

    @property
    def effect_word(self) -> str:
        """Return the effect as people read it."""
        return EFFECTS.get(self.effect, self.effect)


def find_review_subject(item: ReviewView) -> AskedAbout:
    """Return the subject of a review in its present state."""
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
        expiry=str(shown.get("expiry") or ("nothing happens" if item.follow_up else "rejected by the system")),
    )


def build_subject_json(about: AskedAbout) -> dict[str, JSON]:
    """Return the subject as JSON for programs."""
    same = ("tool", "effect", "instead_of", "undoes", "payload", "proposed_by", "because", "expiry")
    asks = {} if about.asks is None else {"asks": asdict(about.asks) | {"fields": dict(about.asks.fields)}}
    return {**{name: getattr(about, name) for name in same}, "follows": dict(about.follows), **asks}


def _asks(shown: Mapping[str, JSON]) -> ServerAsks | None:
    asked = shown.get("asks")
    if asked is None:
        return None
    fields = tuple(forms.describe_fields(asked["schema"]).items())
    return ServerAsks(
        server=asked["server"], message=asked["message"], args=shown["args"], fields=fields, said=asked["said"]
    )


def _effect(item: ReviewView, tool: str) -> str:
    if not tool:
        return ""
    return _effects(item.revision_id).get(tool, "")


@lru_cache(maxsize=64)
def _effects(revision_id: str) -> Mapping[str, str]:
    """Return the effect of each tool of a revision, which never changes."""
    return {one.name: str(one.effect) for one in revision_spec(revision_id).all_tools}
