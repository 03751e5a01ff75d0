"""Marks every content that the database has, each kind by a word of its own, so that a page that shows one is found out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from fabric.core.values.fingerprint import ZERO_HASH, content_ref, encode, event_hash
from fabric.models import (
    Attachment,
    Event,
    FollowUpClosure,
    Inbox,
    MemoryEntry,
    Notification,
    Review,
    ReviewComment,
    Run,
)
from fabric.selectors.contents import CHOSEN, SENTENCES
from simulator.drills.models.tables import Drill
from tests.servers.unguarded import unguarded

MARKS = (
    *("request", "prompt", "answer", "arguments", "result", "message", "outcome", "sentence"),
    *("title", "document", "memory", "review", "words", "told"),
)
OF_KINDS = {
    "run_started": "request",
    "model_answered": "answer",
    "tool_answered": "result",
    "person_said": "message",
    "run_ended": "outcome",
    "stage_left": "outcome",
}
"""By the kind of an event, the mark in its content; of every other kind ``prompt``: it is what an agent or a person is told."""
NAMES = frozenset(
    {
        *("agent", "call_id", "cause", "edit_of", "id", "item", "kind", "mechanism", "name", "ref", "role", "rule"),
        *("stage", "tool", "unit", "verb", "origin", "input_id", "actor", "tier", "answer_id", "scope", "key", "roles"),
        *(
            "compensation",
            "digest",
            "expiry",
            "approve",
            "edit",
            "reject",
            "respond",
            "decline",
            "status",
            "type",
            "verdict",
            "proposal",
            "gate",
            "failure",
            "citations",
            "model",
        ),
    }
)
"""Fields of contents that hold names, which have to stay what they are."""


def mark(name: str) -> str:
    """The word that stands for a kind of content."""
    assert name in MARKS
    return f"CANARY{name}"


def marked(given: Any, name: str, key: str = "") -> Any:
    """The same content with its mark in each text; arguments of calls have their own."""
    if isinstance(given, dict):
        return {field: marked(value, "arguments" if field == "args" else name, field) for field, value in given.items()}
    if isinstance(given, list):
        return [marked(one, name, key) for one in given]
    return f"{given} {mark(name)}" if isinstance(given, str) and given and key not in NAMES else given


def sentences_marked(given: Any, key: str = "") -> Any:
    """The same fact with the mark in each of its sentences."""
    if isinstance(given, dict):
        return {field: sentences_marked(value, field) for field, value in given.items()}
    if isinstance(given, list):
        return [sentences_marked(one, key) for one in given]
    told = isinstance(given, str) and given and key in SENTENCES - CHOSEN
    return f"{given} {mark('sentence')}" if told else given


def words_marked(given: Any) -> Any:
    """The same input with the mark in what a person wrote."""
    if isinstance(given, list):
        return [words_marked(one) for one in given]
    if not isinstance(given, dict):
        return given
    written = {field: f"{value} {mark('words')}" for field, value in given.items() if field in ("message", "text")}
    return {field: words_marked(value) for field, value in given.items()} | written


def _mark_journal(run_id: str) -> None:
    """Marks what one journal has, and names and chains it anew, so that it is still whole for what reads it on."""
    before = ZERO_HASH
    refs: dict[str, str] = {}
    for event in Event.objects.filter(run_id=run_id).order_by("seq"):
        header, payload, payload_hash = bytes(event.header), event.payload, bytes(event.payload_hash)
        if payload is not None:
            given = json.loads(_named_anew(bytes(payload), refs))
            new = encode(marked(given, OF_KINDS.get(event.kind, "prompt")))
            refs[content_ref(bytes(payload))] = content_ref(new)
            payload, payload_hash = new, sha256(new).digest()
        first, *others = _named_anew(header, refs).split(b"\n")
        named = (one.split(b" ", 2) for one in others)
        lines = [b" ".join((kind, version, _mark_header(own))) for kind, version, own in named]
        header = b"\n".join((_mark_header(first), *lines))
        before = event_hash(before, event.seq, event.kind, event.version, header, payload_hash)
        fields = {"header": header, "payload": payload, "payload_hash": payload_hash, "hash": before}
        Event.objects.filter(run_id=run_id, seq=event.seq).update(**fields)


def _mark_header(header: bytes) -> bytes:
    return encode(sentences_marked(json.loads(header)))


def _named_anew(raw: bytes, refs: Mapping[str, str]) -> bytes:
    for old, new in refs.items():
        raw = raw.replace(old.encode(), new.encode())
    return raw


def mark_all() -> None:
    """Marks the contents of all runs, memories, reviews and drills."""
    with unguarded():
        for run_id in Run.objects.values_list("id", flat=True):
            _mark_journal(run_id)
        for row in MemoryEntry.objects.exclude(value=""):
            given = {"value": json.dumps(mark("memory")), "reason": f"{row.reason} {mark('words')}"}
            MemoryEntry.objects.filter(pk=row.pk).update(**given)
    for run in Run.objects.all():
        Run.objects.filter(id=run.id).update(
            title=f"{mark('title')} {run.title}", reason=run.reason and f"{run.reason} {mark('sentence')}"
        )
    for one in Review.objects.all():
        content = encode(marked(json.loads(bytes(one.content) or b"{}"), "review"))
        Review.objects.filter(id=one.id).update(content=content, reason=f"{one.reason} {mark('sentence')}")
    for document in Attachment.objects.all():
        Attachment.objects.filter(pk=document.pk).update(text=f"{mark('document')} {document.text}")
    for sent in Inbox.objects.all():
        body = json.loads(bytes(sent.body) or b"null")
        Inbox.objects.filter(pk=sent.pk).update(body=encode(words_marked(body)) if body else b"")
    for told in Notification.objects.all():
        data = json.loads(bytes(told.content))
        Notification.objects.filter(id=told.id).update(content=encode(data | {"reason": mark("told")}))
    FollowUpClosure.objects.update(note=mark("words"))
    ReviewComment.objects.update(text=mark("words"))
    for drill in Drill.objects.exclude(body="{}"):
        Drill.objects.filter(id=drill.id).update(body=json.dumps(_drill_marked(json.loads(drill.body))))


def _drill_marked(body: Any) -> Any:
    """The same of a drill: the mark is in the sentences that its journal's are copied to."""
    run = body.get("story", {}).get("disturbed", {})
    for part, field in (("moments", "said"), ("decisions", "evidence")):
        for one in run.get(part, ()):
            one[field] = f"{one[field]} {mark('sentence')}"
    return body
