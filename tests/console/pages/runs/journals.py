"""Journals made by hand: every kind of event there is, hostile texts, values of any size, as rows of the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

from django.db import transaction

from fabric.core.events.envelope import KINDS, Event, fact_class, to_row
from fabric.core.people.actor import Actor
from fabric.core.values.fingerprint import ZERO_HASH, content_ref
from fabric.core.values.units import JSON, US
from fabric.models import Event as EventRow
from fabric.models import Run
from tests.fabric.selectors.runs.display.test_display import example

BEGAN = 1_790_000_000 * US


def journal(
    actor: Actor, like: str, facts: Iterable[tuple[Any, JSON]], *, step_us: int = US, state: str = "running"
) -> str:
    """A run of its own, like another one, with these facts and contents as its journal; its id."""
    run = Run.objects.get(id=like)
    run.pk = run.id = str(uuid4())
    run.start_key, run.state, run.last_seq, run.head_hash = run.id, state, 0, ZERO_HASH
    run.wake_at = run.incarnation = None  # No engine takes it: what is in it is not for going on with.
    run.save(force_insert=True)
    append(run.id, actor, facts, step_us=step_us)
    return run.id


def append(run_id: str, actor: Actor, facts: Iterable[tuple[Any, JSON]], *, step_us: int = US) -> None:
    """Adds facts to the end of a run's journal, as its owner would."""
    run = Run.objects.get(id=run_id)
    seq, head, rows = run.last_seq, bytes(run.head_hash), []
    for fact, content in facts:
        seq += 1
        raw = None if content is None else json.dumps(content, ensure_ascii=False).encode()
        ref, size = (content_ref(raw), len(raw)) if raw else ("", 0)
        row = to_row(Event(seq, BEGAN + seq * step_us, fact, "", ref, size), raw, head)
        head = row.hash
        rows.append(
            EventRow(
                run_id=run_id,
                workspace_id=actor.workspace_id,
                seq=seq,
                at=row.at,
                version=row.version,
                kind=row.kind,
                header=row.header,
                payload=row.payload,
                payload_hash=row.payload_hash,
                hash=row.hash,
            )
        )
    with transaction.atomic():
        EventRow.objects.bulk_create(rows, batch_size=500)
        Run.objects.filter(id=run_id).update(last_seq=seq, head_hash=head)


def every_kind(content: JSON = None) -> list[tuple[Any, JSON]]:
    """One fact of each kind."""
    return [(example(kind), content) for kind in KINDS]


def tight(page: str) -> str:
    """A page without the blanks and line breaks that only lay its source out."""
    return re.sub(r">\s+<", "><", re.sub(r"\s+", " ", page))


class Acting(HTMLParser):
    """A parser finds elements and attributes of a page that could act."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag in ("img", "iframe", "object", "svg:script") or (tag == "script" and "nonce" not in given):
            self.found.append(tag)
        self.found += [str(given[name]) for name in ("href", "src", "action") if "script:" in str(given.get(name, ""))]


def hostile(kind: str, text: str) -> Any:
    """A fact of that kind with a text in every field that takes any."""
    fact = example(kind)
    changes = {f.name: text for f in fields(fact_class(kind)) if getattr(fact, f.name, None) == "reader"}
    return type(fact)(**{f.name: changes.get(f.name, getattr(fact, f.name)) for f in fields(fact_class(kind))})
