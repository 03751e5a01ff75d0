"""The pieces of the inspector: a section names the template that draws it and carries plain values, never markup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fabric.core.values.words import words
from fabric.selectors.contents import UNREAD
from fabric.selectors.runs.events.moments import EventRecord


class Pair(NamedTuple):
    """One line of facts."""

    name: str
    value: Any
    as_: Literal["text", "code", "at", "usd", "count", "us", "seq", "run"] = "text"
    """Form of the value; ``seq`` links to an event, ``run`` to a run."""
    more: str = ""
    """Shown after the value, in grey."""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the inspector."""

    part: Literal["pairs", "text", "tree", "prompt", "checks", "cell", "others", "list", "said"]
    """``templates/runs/inspector/<part>.html``."""
    title: str
    note: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """The template that draws it."""
        return f"runs/inspector/{self.part}.html"


def pairs(title: str, *rows: Pair, note: str = "") -> Section:
    """Return facts in lines; a line without a value is left out."""
    return Section("pairs", title, note, {"rows": [row for row in rows if row.value not in ("", None, ())]})


def text(title: str, value: str, note: str = "") -> Section:
    """Return a text that a person or a model wrote, shown as it is."""
    return Section("text", title, note, {"text": value})


def sentence(title: str, text: str) -> Section:
    """Return a section of one sentence that the program itself says."""
    return Section("said", title, "", {"sentence": text})


def list_section(title: str, items: list[str], note: str = "") -> Section:
    """Return sentences in a list."""
    return Section("list", title, note, {"items": items})


def erased_section(title: str) -> Section:
    """Return the section that stands for a content that is no longer kept."""
    return sentence(title, "Erased. Its hash is still in the chain; what it said is not kept any more.")


def unread_section(title: str) -> Section:
    """Return the section that stands for a content that the reader may not read."""
    return sentence(title, UNREAD)


def content(record: EventRecord, title: str) -> list[Section]:
    """Return the whole content as a tree; nothing where there never was one."""
    if record.state == "none":
        return []
    if record.state == "erased":
        return [erased_section(title)]
    if record.state == "unread":
        return [unread_section(title)]
    if record.state == "unreadable":
        return [sentence(title, "This content cannot be read as JSON. Its bytes are in the download.")]
    if isinstance(record.content, str):
        return [text(title, record.content)]
    return [Section("tree", title, "", {"value": record.content, "bytes": record.content_bytes, "path": ""})]


def content_part(record: EventRecord, key: str, title: str) -> list[Section]:
    """Return one member of the content: a text, a list of texts, or a tree; nothing where it is missing."""
    if record.state != "kept":
        there = {"erased": erased_section, "unread": unread_section}.get(record.state)
        return [] if there is None else [there(title)]
    found = record.content.get(key) if isinstance(record.content, dict) else None
    if not found and found != 0:
        return []
    if isinstance(found, str):
        return [text(title, found)]
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return [list_section(title, found, f"{len(found):,}")]
    return [Section("tree", title, "", {"value": found, "path": f"/{key}"})]


def gate_checks(fact: dict[str, Any]) -> list[Section]:
    """Return the gate of a fact with all its checks; nothing where it has none."""
    gate = fact["gate"]
    if not gate:
        return []
    score = f"score {gate['score']:.2f} of {gate['tau']:.2f} needed" if gate["score"] is not None else ""
    body = {"checks": gate["checks"], "cause": words(gate["cause"] or ""), "score": score}
    return [Section("checks", f"{gate['gate'].capitalize()}-gate", "refused" if gate["cause"] else "passed", body)]
