"""Shows one drill: its verdict, the promised and observed lines, and earlier drills of its cell.

A reader steps through the disturbed run. Each moment has its own address.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.pages.drills.lines import DrillLine, find_run, list_lines, mark_moment
from console.pages.drills.steady_state import list_disturbance_facts, list_phases
from console.pages.drills.timeline import find_picture
from console.site.access.actors import find_actor
from console.site.access.fabric_roles import actor_on
from console.site.fragments import fresh_part
from console.site.sentences import sentence
from console.templatetags.marks import EVENT_ICONS
from console.words.decision_table import cell_anchor
from console.words.drills import STRIKES, DrillMark, cell_words, drill_mark
from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from fabric.selectors.contents import may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.runs.display import EVENT_DISPLAY, choose_label
from fabric.selectors.runs.lookup import run_get
from simulator.drills.library.requests import drill_fresh
from simulator.drills.library.selectors import scenario_source
from simulator.drills.models.tables import Status
from simulator.drills.runs.names import draft_name
from simulator.drills.selectors.drill_views import DrillView, State
from simulator.drills.selectors.drills import drill_get, drills_recent
from simulator.drills.services.drill_stop import find_drill_stop
from simulator.drills.services.drills import SEED_MAX
from simulator.scenarios.play.verdicts import HEADLINES, split_reason
from simulator.scenarios.stories.evidence import exactly, seconds

OTHERS = 20
"""Number of other drills of this cell that the page lists."""


@require_safe
def drill(request: HttpRequest, drill_id: str) -> HttpResponse:
    """Show a drill. The page's script, stepping from moment to moment, gets the part that changes."""
    actor = find_actor(request.user)
    seen = drill_get(actor, drill_id)
    at = request.GET.get("at", "")
    if request.headers.get("HX-Request"):
        return render(request, "drills/drill/watch.html", build_watch(seen, at, _run(actor, seen)))
    now_ms = time.time_ns() // 1_000_000
    shown = {"one": seen, "title": cell_words(seen), "board": _board(actor, seen, at), "now_ms": now_ms}
    shown |= {"given": json.dumps(dict(seen.parameters)), "another": secrets.randbelow(SEED_MAX) + 1}
    return render(request, "drills/drill/page.html", shown)


@require_safe
def live(request: HttpRequest, drill_id: str) -> HttpResponse:
    """Return the part of the page that changes while the drill runs; without a script, redirect to the page."""
    actor = find_actor(request.user)
    seen = drill_get(actor, drill_id)
    if not request.headers.get("HX-Request"):
        return redirect("drill", drill_id=drill_id)
    return fresh_part(request, _board(actor, seen), time.time_ns() // 1_000)


def _board(actor: Actor, seen: DrillView, at: str = "") -> str:
    return render_to_string("drills/drill/body.html", drill_context(actor, seen, at))


def drill_context(actor: Actor, seen: DrillView, at: str = "") -> dict[str, Any]:
    """Return the context of a drill's page. ``at``: the moment at which the player stands."""
    # A draft has no page among the revisions, so its drill is named by its draft.
    published = None if seen.author else fabric_get(actor, seen.fabric)
    named = draft_name(seen.fabric, seen.author) if seen.author else seen.fabric
    others, _ = drills_recent(actor, fabric=named, limit=OTHERS + 1, **_filter_like(seen))
    table = "" if seen.author else f"{reverse('fabric-revision', args=[seen.fabric, seen.number])}?tab=table"
    run = _run(actor, seen)
    watch = build_watch(seen, at, run)
    kind, detail = split_reason(seen.why)
    return {
        **watch,
        "reads": may_read(actor, seen.fabric),
        "mark": drill_mark(seen),
        "title": cell_words(seen),
        "strikes": STRIKES[seen.failure] if seen.failure and not seen.scenario else "",
        "verdict": verdict_words(seen, watch["lines"]),
        "why": detail if kind else seen.why,
        "fresh": drill_fresh(
            seen, published.revision_id if published else seen.revision_id, scenario_source(actor, seen.scenario)
        ),
        "published": published.number if published else None,
        "cell": f"{table}#{cell_anchor(*seen.cell)}" if seen.cell and table else table,
        "coverage": f"{reverse('drills-coverage')}?{urlencode({'fabric': seen.fabric, 'mode': seen.mode})}",
        "steady": list_phases(seen),
        "disturbance": list_disturbance_facts(seen),
        "run": reverse("run", args=[run]) if run else "",
        "drill_stop": find_drill_stop(actor),
        "others": [(other, drill_mark(other)) for other in others if other.id != seen.id][:OTHERS],
    }


def _run(actor: Actor, seen: DrillView) -> str:
    """Return the id of the disturbed run; empty if it was not kept, or the actor may not see it."""
    run = find_run(seen)
    try:
        return run and run_get(actor_on(actor, "run", run), run).id
    except Refused:
        return ""


def build_watch(seen: DrillView, at: str, run: str = "") -> dict[str, Any]:
    """Return the part that a moment changes: lines, picture and player. ``run``: the run that the lines link to."""
    story = seen.body.get("story")
    kept = story if isinstance(story, dict) else {}
    player, lines = find_player(kept, at), list_lines(seen, run)
    here = player if player is not None and player.chosen else None
    return {
        "one": seen,
        "lines": mark_moment(lines, here.seq) if here else lines,
        "player": player,
        "picture": find_picture(kept, lines, here.at_s if here else None),
    }


def _filter_like(seen: DrillView) -> dict[str, Any]:
    """Return the filter that finds drills of this kind."""
    return {"scenario": seen.scenario, "tier": seen.tier} if seen.scenario else {"cell": seen.cell, "mode": seen.mode}


def verdict_words(seen: DrillView, lines: Sequence[DrillLine]) -> tuple[DrillMark, str]:
    """Return the verdict in one sentence, with its mark."""
    tone, icon, said = _verdicts(seen, lines).get(seen.verdict, ("", "", ""))
    if said:
        return DrillMark("", tone, icon), said
    words = {
        Status.QUEUED: ("neutral", "clock", "It waits for its turn."),
        Status.RUNNING: ("drill", "run", "It is driven now."),
        Status.ABORTED: ("neutral", "stop", _describe_abort(seen)),
        Status.INTERRUPTED: ("warn", "plug", "It came to no verdict."),
    }
    return DrillMark("", *words[seen.status][:2]), words[seen.status][2]


def _describe_abort(seen: DrillView) -> str:
    if seen.body.get("aborted"):
        return "It met a limit of its own and was ended before it came to a verdict:"
    return f"{seen.stopped_by or 'A person'} stopped it before a verdict."


def _verdicts(seen: DrillView, lines: Sequence[DrillLine]) -> dict[str, tuple[str, str, str]]:
    return {
        State.PASS: ("ok", "okc", "The run followed the table, step by step."),
        State.DEVIATED: ("danger", "alert", _describe_deviation(seen.why, lines)),
        State.UNKNOWN: (
            "neutral",
            "unknown",
            "The drill showed nothing about this cell. An unknown result is never a pass.",
        ),
        State.ERROR: ("danger", "xc", "The drill failed, so it says nothing about the cell."),
    }


def _describe_deviation(why: str, lines: Sequence[DrillLine]) -> str:
    """Return the headline of the reason, or else a sentence about the first line that deviates."""
    kind, _ = split_reason(why)
    if kind:
        return sentence(HEADLINES[kind])
    wrong = [line for line in lines if line.how != "same"]
    if not wrong:
        return "The run broke a promise." if why else "The run did not follow the table: the decisions differ."
    first = wrong[0]
    expected = first.expected.words if first.expected else "nothing more"
    observed = f"and {first.observed.words} was seen" if first.observed else "and it did not happen"
    many = "1 line differs" if len(wrong) == 1 else f"{len(wrong)} lines differ, the first is this"
    return f"The run did not follow the table. {many}. Line {first.number}: {expected} was expected, {observed}."


Fact = Mapping[str, JSON]
BREAKERS: Mapping[str, tuple[str, str, str]] = {
    "": ("not met", "neutral", "never"),
    "closed": ("closed", "ok", "okc"),
    "half_open": ("half-open, probing", "warn", "breaker"),
    "open": ("open", "danger", "breaker"),
}
"""Word, tone and icon of the breaker's state at a moment; total over ``moments``."""


@dataclass(frozen=True, slots=True)
class Player:
    """The position of the player."""

    at: int
    """Number of the moment, from 1."""
    count: int
    chosen: bool
    """True if the viewer chose the moment; False at the end, where the page opens."""
    fact: Fact
    cap_usd_micros: int
    cut: int
    """Number of moments that the story left out."""

    @property
    def first(self) -> int:
        """Return the number of the first moment; 0 if the player is there."""
        return 1 if self.at > 1 else 0

    @property
    def previous(self) -> int:
        """Return the number of the previous moment; 0 if there is none."""
        return self.at - 1

    @property
    def next(self) -> int:
        """Return the number of the next moment; 0 if there is none."""
        return self.at + 1 if self.at < self.count else 0

    @property
    def last(self) -> int:
        """Return the number of the last moment; 0 if the player is there."""
        return self.count if self.at < self.count else 0

    @property
    def at_s(self) -> float:
        """Virtual seconds since the run began."""
        return float(self.fact["at_s"])

    @property
    def when(self) -> str:
        """Return the moment in words."""
        return seconds(self.at_s)

    @property
    def seq(self) -> int:
        """Return the event's sequence number."""
        return int(self.fact["seq"])

    @property
    def label(self) -> str:
        """Return the label of the event, two or three words."""
        return choose_label(str(self.fact["kind"]))

    @property
    def icon(self) -> str:
        """Return the sprite's symbol."""
        row = EVENT_DISPLAY.get(self.fact["kind"])
        return EVENT_ICONS[row.icon] if row else "unknown"

    @property
    def tone(self) -> str:
        """Return the tone of the event."""
        return str(self.fact.get("tone") or "neutral")

    @property
    def sentence(self) -> str:
        """Return the event in one sentence."""
        return str(self.fact.get("said", ""))

    @property
    def stage(self) -> str:
        """Return the stage that the run was in."""
        return words(str(self.fact.get("stage", ""))) or "not begun"

    @property
    def epoch(self) -> int:
        """Return the number of the plan that was followed, from 1."""
        return int(self.fact.get("epoch", 0)) + 1

    @property
    def spending(self) -> str:
        """Return the money spent so far, and the cap."""
        return f"{exactly(int(self.fact.get('spent_usd_micros', 0)))} of {exactly(self.cap_usd_micros)}"

    @property
    def retries(self) -> str:
        """Return the retries so far, and the tokens left in the budget."""
        left = self.fact.get("tokens_left")
        used = int(self.fact.get("retries", 0))
        return f"{used}, {left:g} tokens left" if left is not None else str(used)

    @property
    def breaker(self) -> tuple[str, str, str]:
        """Return word, tone and icon of the breaker's state."""
        return BREAKERS[str(self.fact.get("breaker", ""))]


def find_player(story: Mapping[str, JSON], asked: str) -> Player | None:
    """Return the player at the nearest moment to the requested one; at the end without a request. None without a
    story.
    """
    seen = story.get("disturbed") or {}
    moments: Sequence[Fact] = seen.get("moments") or ()
    if not moments:
        return None
    chosen = asked.isascii() and asked.isdecimal() and len(asked) < 6
    at = min(max(1, int(asked)), len(moments)) if chosen else len(moments)
    cut = int((seen.get("folded") or {}).get("moments", 0))
    return Player(at, len(moments), chosen, moments[at - 1], int(seen.get("cap_usd_micros", 0)), cut)
