"""The parts of a run's page, each rendered by itself: one that cannot be shown says so alone, and the page goes on without it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import DatabaseError
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from console.markdown import rendered
from console.templatetags.figures import span, usd
from console.views import json_tree
from console.views.run_money import by_agent, by_model, by_stage
from console.views.run_page import VIEWS, RunPage, spec_of
from console.views.talk_words import talk
from console.views.timeline import grid_id, timeline
from console.views.topology import topology
from console.views.turns_picture import turns
from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.cost import Price
from fabric.core.flow import RunState, Stage
from fabric.core.loop_names import names_of
from fabric.core.mechanisms import budget, hop_limit, state_of
from fabric.core.teams import spec_within
from fabric.core.words import words
from fabric.selectors.breaker_margin import breaker_nearest
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.families import children_of
from fabric.selectors.limits import caps_said
from fabric.selectors.margin import Margin
from fabric.selectors.run_inputs import run_inputs
from fabric.selectors.run_margins import MARGINS
from fabric.selectors.run_settings import Setting, settings_under
from fabric.selectors.run_story import RunStory
from fabric.selectors.runs import RunView, outcome_seq, run_outcome
from fabric.selectors.standing import queue_place
from fabric.selectors.token_kinds import kind_shares
from simulator.drills.kept import drill_of

log = logging.getLogger(__name__)

Context = Mapping[str, object]
AHEAD_COUNTED = 100
"""Runs before a queued one are counted so far."""


def part(name: str, actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None = None) -> str:
    """The part as HTML; in its place a sentence, when it cannot be made. Refused and a database that is away are the page's business.

    ``beside``: ``beside_of``, for those parts that have margins. KeyError for a part that there is none of.
    """
    context = PARTS[name]
    made_of = (None if story is None else story.seq, run, beside)
    if story is not None and _kept(name, run):
        of, html = story.made.get(name, (None, ""))
        if of == made_of:
            return html
    try:
        html = render_to_string(f"runs/panel_{name}.html", {"run": run, **context(actor, run, story, beside)})
    except (Refused, DatabaseError):
        raise
    except Exception:
        log.exception("the part %s of the page of run %s could not be made", name, run.id)
        return render_to_string("runs/panel_failed.html", {"run": run, "name": name})
    if story is not None and _kept(name, run):
        story.made[name] = (made_of, html)
    return html


def beside_of(run: RunView) -> Margin | None:
    """What a run's margins have beside what its own journal says. Read once for all parts that are made at a time; without it they are shown as they are."""
    try:
        return breaker_nearest(run, revision_spec(run.revision_id))
    except DatabaseError:
        raise
    except Exception:
        log.exception("the shared breakers in front of run %s could not be judged", run.id)
        return None


def _kept(name: str, run: RunView) -> bool:
    """Whether a part is made of nothing that ``DRAWN`` does not name. While a run waits for a worker, its header also says for how many."""
    return name in DRAWN and not (name == "head" and run.state is RunState.QUEUED)


def page_of(
    actor: Actor, run: RunView, story: RunStory | None, *, outcome: bool = False, beside: Margin | None = None
) -> RunPage:
    """The run with what its header says about it, and with its outcome where that is asked for."""
    spec = spec_of(run, story)
    found = run_outcome(actor, run.id) if outcome and run.terminal else None
    ledger = budget.State() if story is None or story.run is None else state_of(story.run.guards, budget)
    cap = budget.cap(spec.policy.budget, ledger)
    cap = cap if run.cap_usd_micros is None else min(cap, run.cap_usd_micros)
    return RunPage(run, cap, found, data_of(actor, run, found), story, spec, beside)


def data_of(actor: Actor, run: RunView, outcome: dict[str, Any] | None) -> SafeString | str:
    """The data of an outcome as the inspector shows JSON; what is not there at once is read of the event that holds it. Empty where it has none."""
    if outcome is None or "data" not in outcome:
        return ""
    base = reverse("run-event-json", args=(run.id, outcome_seq(actor, run.id)))
    return json_tree.tree(outcome["data"], base, "/output/data")


def head_context(actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None) -> dict[str, Any]:
    """The header; of a run that no worker has begun, also its place in the queue."""
    return {"page": page_of(actor, run, story, beside=beside), "drill": drill_of(run), **queue_context(actor, run)}


def queue_context(actor: Actor, run: RunView) -> dict[str, Any]:
    """What a queued run waits for; nothing once it has begun."""
    queued = run.state is RunState.QUEUED
    return {"place": queue_place(actor, run.id, AHEAD_COUNTED) if queued else None, "ahead_max": AHEAD_COUNTED}


def timeline_context(run: RunView, story: RunStory | None, *, fold: bool = True) -> dict[str, Any]:
    """The timeline, or that it comes in a moment."""
    drawn = None if story is None else timeline(story, run.created_at, fold=fold)
    return {"timeline": drawn, "fold": fold, "story": story, "grid": grid_id(fold=fold)}


def outcome_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """How the run ended and what came of it; hardly anything while it goes on."""
    page = page_of(actor, run, story, outcome=True)
    return {"page": page, "answer": answer(page)}


def graph_context(run: RunView, story: RunStory | None) -> dict[str, Any]:
    """The topology as a picture and as a table."""
    if story is None:
        return {"topology": None}
    spec = spec_within(spec_of(run, story), "" if story.run is None else story.run.topology)
    hops = None
    if story.run is not None and story.handed:
        hops = (state_of(story.run.guards, hop_limit).hops, spec.policy.of_stage(Stage.FAN_OUT).limits.hops)
    return {
        "topology": topology(story, spec.topology),
        "turns": turns(story, spec.topology),
        "kind": spec.topology.kind,
        "hops": hops,
    }


def protections_context(actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None) -> dict[str, Any]:
    """Every protection: how often it fired, how near it is, what it is set to and why."""
    page = page_of(actor, run, story, beside=beside)
    rows: list[dict[str, Any]] = []
    folded = story.run if story is not None else None
    if story is not None and folded is not None and page.spec is not None:
        meters, published = page.meters, revision_spec(run.revision_id)
        for name, row in MARGINS.items():
            rows.append(
                {
                    "name": name,
                    "title": row.title,
                    "fired": story.fired.get(name, 0),
                    "meters": [meter for meter in meters if meter.margin.row == name],
                    "settings": setting_lines(settings_under(name, page.spec.policy, published.policy, folded)),
                    "nothing": row.nothing,
                }
            )
    others = {} if story is None else {words(n): c for n, c in sorted(story.fired.items()) if n not in MARGINS}
    trips = [] if story is None else trips_of(story)
    return {"page": page, "rows": rows, "others": others, "trips": trips[:50], "trips_count": len(trips)}


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting with its value in the unit that its name ends with."""

    setting: Setting
    rows: int = 1
    """Lines that its source speaks for, this one and the next; 0: the line above speaks for it."""

    @property
    def shown(self) -> str:
        """The value; ``off`` where there is none."""
        value = self.setting.value
        if value is None:
            return "off"
        if isinstance(value, Mapping):
            return "; ".join(caps_said(name, one) for name, one in value.items()) or "none"
        if isinstance(value, frozenset):
            return names_of(value)
        if isinstance(value, tuple):
            return ", ".join(str(one) for one in sorted(value)) or "none"
        if isinstance(value, bool | str):
            return str(value).replace("_", " ").lower() if isinstance(value, bool) else value.replace("_", " ")
        if self.setting.name.endswith("_usd_micros"):
            return usd(value)
        return span(round(value * 1_000_000)) if self.setting.name.endswith("_s") else f"{value:,}"

    @property
    def name(self) -> str:
        """Its name in the fabric, without the unit that the value already has."""
        return self.setting.name.removesuffix("_usd_micros").removesuffix("_s")


def setting_lines(settings: list[Setting]) -> list[SettingLine]:
    """The settings in their order; a source that several in a row have is said once."""
    made: list[SettingLine] = []
    for _, same in groupby(settings, key=lambda one: one.source):
        alike = list(same)
        made += [SettingLine(one, 0 if n else len(alike)) for n, one in enumerate(alike)]
    return made


def trips_of(story: RunStory) -> list[Any]:
    """Everything that fired, the latest first."""
    lanes = (trip for lane in story.lanes.values() for trip in lane.trips)
    stages = (trip for trips in story.stage_trips.values() for trip in trips)
    return sorted((*lanes, *stages), key=lambda trip: -trip.seq)


def cost_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """Money by stage, agent and model."""
    page = page_of(actor, run, story)
    if story is None or page.spec is None:
        return {"page": page, "tables": []}
    tables = [
        ("By stage", "Stage", "Calls", by_stage(story)),
        ("By agent", "Agent", "Calls", by_agent(story)),
        ("By model", "Model", "Model calls", by_model(story, page.spec)),
    ]
    return {"page": page, "tables": tables, "kinds": kind_shares(story, _prices(run, story))}


def _prices(run: RunView, story: RunStory) -> Mapping[str, Price]:
    """Of the run's revision; none where it cannot be loaded."""
    number = 0 if story.run is None else story.run.policy
    try:
        return wiring.compiled_under(run.revision_id, run.workspace_id, number, run.tier).prices
    except (LookupError, ValueError):
        return {}


def io_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """What was asked, with the documents, and what came of it."""
    page = page_of(actor, run, story, outcome=True)
    return {"page": page, "inputs": run_inputs(actor, run.id), "answer": answer(page)}


def talk_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """What people said to its conversation, and what became of that."""
    return {"talk": talk(actor, run, story)}


def children_context(actor: Actor, run: RunView) -> dict[str, Any]:
    """The runs that it spawned."""
    return {"children": children_of(actor, run.id)}


Made = Callable[[Actor, RunView, RunStory | None, Margin | None], Context]
PARTS: Mapping[str, Made] = {
    "head": head_context,
    "queue": lambda actor, run, story, beside: queue_context(actor, run),
    "outcome": lambda actor, run, story, beside: outcome_context(actor, run, story),
    "timeline": lambda actor, run, story, beside: timeline_context(run, story),
    "unfolded": lambda actor, run, story, beside: timeline_context(run, story, fold=False),
    "graph": lambda actor, run, story, beside: graph_context(run, story),
    "talk": lambda actor, run, story, beside: talk_context(actor, run, story),
    "protections": protections_context,
    "cost": lambda actor, run, story, beside: cost_context(actor, run, story),
    "io": lambda actor, run, story, beside: io_context(actor, run, story),
    "children": lambda actor, run, story, beside: children_context(actor, run),
}
"""The parts of the page by name; each has its template ``runs/panel_NAME.html``."""
WITH_MARGINS = frozenset({"head", "protections"})
"""Parts that show margins."""


DRAWN = frozenset({"head", "timeline", "unfolded", "graph", "protections", "cost"})
"""Parts made of the run's row, its story and what stands beside its margins alone: kept with the story, and made again when one of them has changed."""
ALONE = ("graph", "protections", "cost", "io", "queue", "children")
"""Parts that can be asked for alone; most are a view of their own."""


def tabs(page: RunPage) -> list[tuple[str, str, int | None, str]]:
    """``(name, word, number beside it, its tone)`` of each view; None for one that never has a number."""
    notes = {"events": (page.run.last_seq, ""), "protections": (page.fired, "warn")}
    return [(name, word, *notes.get(name, (None, ""))) for name, word in VIEWS]


def answer(page: RunPage) -> SafeString | None:
    """The outcome's text as markup; None when there is none."""
    return None if page.outcome is None else rendered(page.outcome["text"])
