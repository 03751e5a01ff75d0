"""Shows a run as of one of its events. The page is not live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.live.stories import past_stories
from console.pages.conversations.turns import fate, list_speakers
from console.pages.runs.event_line import EventLine
from console.pages.runs.page import VIEWS
from console.pages.runs.panels import build_page, part
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.runs.events.windows import events_after
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.past.views import PastRun, build_past_run, decisions_around
from fabric.selectors.runs.story.messages import closed_because

AS_OF = "as_of"
"""The parameter of the address with the event."""
SHOWN = ("timeline", "graph", "protections", "cost")
"""The views of a run's page that a run of the past has too."""
SPOKEN_MAX = 30
"""Lines of the conversation that are shown, the newest."""
DIGITS_MAX = 9


def show_past(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Show the run as of the event ``?as_of=``; to the page's script the changing part alone."""
    run = run_get(actor, run_id)
    view = _read_view(request.GET.get("view", SHOWN[0]))
    story = past_stories.read_story(actor, run, _read_event(request.GET.get(AS_OF, "")))
    past = build_past_run(run, story)
    spoken, earlier = list_lines(past)
    shown = {
        "run": past.run,
        "past": past,
        "page": build_page(actor, past.run, story),
        "line": next((EventLine(row) for row in events_after(actor, run.id, after=past.seq - 1, limit=1)), None),
        "steps": list_steps(actor, past, view),
        "view": view,
        "tabs": [(name, word, _address(past.run, past.seq, name)) for name, word in VIEWS if name in SHOWN],
        "spoken": spoken,
        "spoken_earlier": earlier,
        "panel": part(view, actor, past.run, story),
    }
    template = "runs/past/moment.html" if request.headers.get("HX-Request") else "runs/past/page.html"
    response = render(request, template, shown)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


def _read_event(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) <= DIGITS_MAX):
        message = f"{given[:40]!r} is no number of an event; write as_of=7"
        raise Refused(message, code="invalid", field=AS_OF)
    return int(given)


def _read_view(name: str) -> str:
    if name not in SHOWN:
        message = f"a run of the past has no view {name[:40]!r}; there are: {', '.join(SHOWN)}"
        raise Refused(message, code="invalid", field="view")
    return name


@dataclass(frozen=True, slots=True)
class Step:
    """A link to another event."""

    word: str
    icon: str
    href: str
    """Empty: there is no such event."""
    rel: str = ""


def list_steps(actor: Actor, past: PastRun, view: str) -> list[Step]:
    """Return the links to other events, in order."""
    before, after = decisions_around(actor, past.run, past.seq)
    first, last = past.seq > 1, past.seq < past.last_seq
    targets = (
        ("First", "up", 1 if first else None, ""),
        ("Previous decision", "undo", before, ""),
        ("Previous", "up", past.seq - 1 if first else None, "prev"),
        ("Next", "down", past.seq + 1 if last else None, "next"),
        ("Next decision", "redo", after, ""),
        ("Last", "down", past.last_seq if last else None, ""),
    )
    return [
        Step(word, icon, "" if seq is None else _address(past.run, seq, view), rel) for word, icon, seq, rel in targets
    ]


def _address(run: RunView, seq: int, view: str) -> str:
    asked: dict[str, Any] = {AS_OF: seq} | ({} if view == SHOWN[0] else {"view": view})
    return f"{reverse('run', args=(run.id,))}?{urlencode(asked)}"


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """One line of the conversation so far."""

    seq: int
    who: str
    what: str
    tone: str = "neutral"
    icon: str = "agent"


def list_lines(past: PastRun) -> tuple[list[SpokenLine], int]:
    """Return the newest lines of the conversation so far, in order, and how many are older."""
    speaking, closed = list_speakers(past.story), closed_because(past.run, past.story)
    lines = []
    for one in past.conversation[-SPOKEN_MAX:]:
        if one.said is None:
            lines.append(SpokenLine(one.seq, one.who, f"{one.step}: {one.state}"))
        else:
            became = fate(one.said, speaking, closed)
            lines.append(SpokenLine(one.seq, one.who, f"message: {became.word}", became.tone, "human"))
    return lines, max(0, len(past.conversation) - SPOKEN_MAX)
