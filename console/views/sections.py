"""The pieces of the inspector: a section names the template that draws it and carries plain values, never markup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fabric.core.words import words
from fabric.selectors.contents import UNREAD
from fabric.selectors.moments import EventRecord

JSON = Any


class Pair(NamedTuple):
    """One line of facts. ``as_``: how the value is written."""

    name: str
    value: Any
    as_: Literal["text", "code", "at", "usd", "count", "us", "seq", "ref", "tone"] = "text"
    more: str = ""
    """Said after it, in grey."""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the inspector."""

    part: Literal["pairs", "text", "tree", "prompt", "checks", "cell", "others", "list", "said"]
    """``templates/runs/inspector_<part>.html``."""
    title: str
    note: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """The template that draws it."""
        return f"runs/inspector_{self.part}.html"


def pairs(title: str, *rows: Pair, note: str = "") -> Section:
    """Facts in lines; those without a value are left out."""
    return Section("pairs", title, note, {"rows": [row for row in rows if row.value not in ("", None, ())]})


def text(title: str, value: str, note: str = "") -> Section:
    """Something that somebody wrote, shown as it is."""
    return Section("text", title, note, {"text": value})


def told(title: str, sentence: str) -> Section:
    """One sentence of our own."""
    return Section("said", title, "", {"sentence": sentence})


def listed(title: str, items: list[str], note: str = "") -> Section:
    """Sentences in a list."""
    return Section("list", title, note, {"items": items})


def erased(title: str) -> Section:
    """Where a content was, and is no longer kept."""
    return told(title, "Erased. Its hash is still in the chain; what it said is not kept any more.")


def unread(title: str) -> Section:
    """Where a content is that who looks may not read."""
    return told(title, UNREAD)


def content(record: EventRecord, title: str, note: str = "") -> list[Section]:
    """The whole content as a tree; nothing where there never was one."""
    if record.state == "none":
        return []
    if record.state == "erased":
        return [erased(title)]
    if record.state == "unread":
        return [unread(title)]
    if record.state == "unreadable":
        return [told(title, "This content cannot be read as JSON. Its bytes are in the download.")]
    if isinstance(record.content, str):
        return [text(title, record.content, note)]
    return [Section("tree", title, note, {"value": record.content, "bytes": record.content_bytes, "path": ""})]


def part(record: EventRecord, key: str, title: str, note: str = "") -> list[Section]:
    """One member of the content: as text where it is one, as a tree where it is more; nothing where it is missing."""
    if record.state != "kept":
        there = {"erased": erased, "unread": unread}.get(record.state)
        return [] if there is None else [there(title)]
    found = record.content.get(key) if isinstance(record.content, dict) else None
    if not found and found != 0:
        return []
    if isinstance(found, str):
        return [text(title, found, note)]
    return [Section("tree", title, note, {"value": found, "path": f"/{key}"})]


def gate_checks(fact: dict[str, Any]) -> list[Section]:
    """The gate of a fact with all its checks; nothing, where it has none."""
    gate = fact["gate"]
    if not gate:
        return []
    score = f"score {gate['score']:.2f} of {gate['tau']:.2f} needed" if gate["score"] is not None else ""
    body = {"checks": gate["checks"], "cause": words(gate["cause"] or ""), "score": score}
    return [Section("checks", f"{gate['gate'].capitalize()}-gate", "refused" if gate["cause"] else "passed", body)]
