"""Show a run's events: as a card, one in full, JSON step by step, the journal as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.pages.runs.event_line import EventLine, Line, list_lines
from console.pages.runs.inspector.events import inspect_event
from console.pages.texts import json_tree
from console.site.access.actors import actor_on_run
from console.site.downloads import NDJSON, bundle_response, lines_response
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.flow import Stage
from fabric.selectors.errors import Refused
from fabric.selectors.runs.display import EVENT_DISPLAY
from fabric.selectors.runs.events.moments import EventRecord, event_get
from fabric.selectors.runs.events.windows import (
    SCAN_MAX,
    WINDOW,
    EventFilter,
    events_window,
    neighbours,
    run_agents,
    stages_around,
)
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.services.reviews.reveals import event_reveal
from fabric.services.runs.export import may_take_bytes, run_lines
from simulator.drills.selectors.runs import find_drill

DENSITIES = (
    ("compact", "Compact", "key events only"),
    ("full", "Full", "every event"),
    ("raw", "Raw", "headers as they are journaled, with their hashes"),
)
TEXT_MAX = 200
LANDMARKS_MAX = 12


@dataclass(frozen=True, slots=True)
class ListState:
    """The list that the address asks for. A wrong value is left out and named once."""

    wanted: EventFilter
    view: str = ""
    """The view of the run's page that the list stands in; empty for the one that a run opens with."""
    before: int | None = None
    after: int | None = None
    ignored: tuple[str, ...] = ()

    def query(self, **changes: Any) -> str:
        """Return the list with changes, as the end of an address. Defaults are left out."""
        shown: dict[str, Any] = {
            "view": self.view,
            "events": "" if self.wanted.density == "compact" else self.wanted.density,
            "failed": "1" if self.wanted.failed else "",
            "stage": self.wanted.stage,
            "agent": self.wanted.agent,
            "kind": self.wanted.kind,
            "q": self.wanted.text,
        }
        left = {name: value for name, value in (shown | changes).items() if value}
        return f"?{urlencode(left)}" if left else ""

    @property
    def unfiltered_address(self) -> str:
        """The list's address without its filter."""
        return self.query(failed="", stage="", agent="", kind="", q="")

    @property
    def here(self) -> str:
        """The filter alone, as the end of an address."""
        return self.query()

    @property
    def without_failed(self) -> str:
        """All events of this filter, or only the failed ones: the other of the two."""
        return self.query(failed="" if self.wanted.failed else "1")

    @property
    def tail(self) -> bool:
        """True: it is the end of the journal, where new events are added."""
        return self.before is None and self.after is None


def list_state(given: QueryDict) -> ListState:
    """Reads the address."""
    ignored = []

    def choice(name: str, known: tuple[str, ...]) -> str:
        value = str(given.get(name, ""))
        if value and value not in known:
            ignored.append(f"{name} {value[:40]!r}")
            return ""
        return value

    def number(name: str) -> int | None:
        value = str(given.get(name, ""))
        if not value:
            return None
        if not (value.isdecimal() and value.isascii() and len(value) < 10):
            ignored.append(f"{name} {value[:40]!r}")
            return None
        return int(value)

    density = choice("events", tuple(name for name, _, _ in DENSITIES)) or "compact"
    wanted = EventFilter(
        density=density,  # type: ignore[arg-type]
        failed=given.get("failed", "") == "1",
        stage=choice("stage", tuple(Stage)),
        agent=str(given.get("agent", ""))[:TEXT_MAX],
        kind=str(given.get("kind", ""))[:TEXT_MAX],
        text=str(given.get("q", ""))[:TEXT_MAX].strip(),
    )
    before, after = number("before"), number("after")
    view = "events" if given.get("view") == "events" else ""
    return ListState(wanted, view, before, None if before is not None else after, tuple(ignored))


def events_context(actor: Actor, run: RunView, given: QueryDict) -> dict[str, Any]:
    """Return the context of the events card and the inspector beside it."""
    state = list_state(given)
    window = events_window(actor, run.id, state.wanted, before=state.before, after=state.after, limit=WINDOW)
    lines = list_lines(window.rows, window.gaps, window.waits)
    return {
        "list": state,
        "window": window,
        "lines": lines,
        "columns": 5 if state.wanted.density == "raw" else 7,
        "densities": [
            (name, word, state.query(events="" if name == "compact" else name)) for name, word, _ in DENSITIES
        ],
        "density_says": next(says for name, _, says in DENSITIES if name == state.wanted.density),
        "stages": tuple(Stage),
        "agents": run_agents(actor, run.id),
        "earlier": state.query(before=window.earlier) if window.earlier else "",
        "later": state.query(after=window.later) if window.later else "",
        "follows": state.tail and not run.terminal,
        "scan_max": SCAN_MAX,
        "may_take_bytes": may_take_bytes(actor),
        "landmarks": landmarks(lines),
        "landmarks_max": LANDMARKS_MAX,
        **picked_event(actor, run, state, str(given.get("event", ""))),
    }


def list_kinds(wanted: str, counts: Mapping[str, int] | None) -> list[tuple[str, str, int | None]]:
    """Return ``(kind, label, events)`` of the kinds that the run has, and of the wanted one. ``counts`` None: they are
    not counted yet, and all kinds are there.
    """
    rows = sorted(EVENT_DISPLAY.items(), key=lambda item: item[1].label)
    if counts is None:
        return [(kind, row.label, None) for kind, row in rows]
    return [(kind, row.label, counts.get(kind, 0)) for kind, row in rows if kind in counts or kind == wanted]


def landmarks(lines: list[Line]) -> list[EventLine]:
    """Return good places to begin reading: stages, and grave events; of many, the latest."""
    events = [line for line in lines if isinstance(line, EventLine)]
    grave = [line for line in events if line.importance > 2 or not line.row.known]
    begun = [line for line in events if line.row.kind == "stage_entered"]
    chosen = {line.row.seq for line in [*begun[-LANDMARKS_MAX:], *grave][-LANDMARKS_MAX:]}
    return [line for line in events if line.row.seq in chosen]


def picked_event(actor: Actor, run: RunView, state: ListState, seq: str) -> dict[str, Any]:
    """Return the inspector of the event in the address. Empty: it is no event of this run."""
    if not (seq.isdecimal() and seq.isascii() and len(seq) < 10):
        return {}
    try:
        return event_context(actor, run, state, int(seq))
    except Refused:
        return {}


def event_context(
    actor: Actor, run: RunView, state: ListState, seq: int, record: EventRecord | None = None
) -> dict[str, Any]:
    """Return the inspector of one event. ``record``: the event, where it was read before. Refused not_found."""
    record = record or event_get(actor, run.id, seq)
    previous, following = neighbours(actor, run.id, state.wanted, seq)
    stage_before, stage_after = stages_around(actor, run.id, seq)

    def address(other: int | None) -> str:
        return reverse("run-event", args=(run.id, other)) + state.here if other is not None else ""

    sections = inspect_event(actor, run, record)
    for section in sections:
        if section.part == "tree":
            of = section.body.get("seq", seq)
            base = reverse("run-event-json", args=(run.id, of))
            section.body["html"] = json_tree.render_tree(section.body["value"], base, section.body["path"])
    return {
        "line": EventLine(record.row),
        "record": record,
        "may_reveal": actor.may(Right.REVEAL),
        "sections": sections,
        "list": state,
        "previous": address(previous),
        "following": address(following),
        "stage_before": address(stage_before),
        "stage_after": address(stage_after),
        "here": reverse("run-event", args=(run.id, seq)),
        "forks": run.reads and find_drill(run) is None,
        "in_list": f"{reverse('run', args=(run.id,))}{state.query(before=seq + 1, event=seq)}#events",
        "run_id": run.id,
        "run": run,
    }


@require_safe
def event(request: HttpRequest, run_id: UUID, seq: int) -> HttpResponse:
    """One event in full: as a page, or as the part that the run's page shows beside its events."""
    actor = actor_on_run(request)
    shown = event_context(actor, run_get(actor, str(run_id)), list_state(request.GET), seq)
    template = "runs/events/event.html" if request.headers.get("HX-Request") else "runs/events/page.html"
    return _add_vary(render(request, template, shown))


@require_POST
def reveal(request: HttpRequest, run_id: UUID, seq: int) -> HttpResponse:
    """Show the event with its credentials, and audit that. 403: no right; 409: nothing is masked."""
    actor = actor_on_run(request)
    run = run_get(actor, str(run_id))
    record = event_reveal(actor=actor, run_id=run.id, seq=seq)
    found = event_context(actor, run, list_state(request.GET), seq, record)
    template = "runs/events/event.html" if request.headers.get("HX-Request") else "runs/events/page.html"
    return _add_vary(render(request, template, found))


@require_safe
def event_json(request: HttpRequest, run_id: UUID, seq: int) -> HttpResponse:
    """The children of one place in an event's content: a fragment, or a page of its own without a script."""
    actor = actor_on_run(request)
    record = event_get(actor, str(run_id), seq)
    path, begin = str(request.GET.get("path", "")), list_state(QueryDict(f"after={request.GET.get('from', '')[:9]}"))
    if record.state != "kept":
        raise Refused(f"event {seq} has no content any more, or never had one", code="not_found", field="path")
    base = reverse("run-event-json", args=(str(run_id), seq))
    children = json_tree.children_at(record.content, path, base, first=begin.after or 0)
    if children is None:
        raise Refused(f"there is nothing at {path[:80]!r} in event {seq}", code="not_found", field="path")
    shown = {"children": children, "path": path, "run_id": str(run_id), "seq": seq, "continued": begin.after}
    template = "runs/events/json.html" if request.headers.get("HX-Request") else "runs/events/json_page.html"
    return _add_vary(render(request, template, shown))


@require_safe
def download(request: HttpRequest, run_id: UUID) -> StreamingHttpResponse:
    """The run's events as lines of JSON, streamed: ``?form=journal`` with hashes, to be verified and replayed, or
    ``readable``. 403: not for this person.
    """
    form = str(request.GET.get("form", "journal"))
    lines = run_lines(actor=actor_on_run(request), run_id=str(run_id), form=form)
    return lines_response(lines.next_page, NDJSON, f"run-{run_id}.{form}.ndjson")


@require_POST
def export_bundle(request: HttpRequest, run_id: UUID) -> FileResponse:
    """Send the run's bundle: events, revision, decisions, and a program that verifies them offline. 503: no key, or no
    room.
    """
    return bundle_response(actor_on_run(request), str(run_id))


def _add_vary(response: HttpResponse) -> HttpResponse:
    response.headers["Vary"] = "HX-Request, Cookie"
    return response
