"""Render the parts of a run's page one by one. A part that fails says so, and the page goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from console.pages.conversations.turns import talk, turns
from console.pages.runs.money import share_by_agent, share_by_model, share_by_stage
from console.pages.runs.page import VIEWS, Meter, RunPage
from console.pages.runs.timeline.lanes import grid_id, timeline
from console.pages.texts import json_tree
from console.pages.texts.markdown import render_markdown
from console.templatetags.figures import decimals_of, span, usd
from console.topologies.runs import topology
from fabric.composition import engine as wiring
from fabric.core.child_runs.teams import spec_within
from fabric.core.mechanisms import find_state, hop_limit
from fabric.core.people.actor import Actor
from fabric.core.schema.limits import Unit
from fabric.core.spec.policies.loop_limits import find_names
from fabric.core.values.cost import Price
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.words import words
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.limits import caps_said
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.overview.frame_counts import queue_place
from fabric.selectors.runs.families import build_children
from fabric.selectors.runs.inputs import run_inputs
from fabric.selectors.runs.lookup import RunView, outcome_seq, run_outcome
from fabric.selectors.runs.margins.breakers import breaker_nearest
from fabric.selectors.runs.margins.margin import Margin
from fabric.selectors.runs.margins.protections import Setting, settings_under
from fabric.selectors.runs.margins.table import MARGINS, ProtectionRow
from fabric.selectors.runs.past.views import find_cap, spec_of
from fabric.selectors.runs.story.figures import kind_shares
from fabric.selectors.runs.story.fold import RunStory
from simulator.drills.selectors.runs import find_drill

log = logging.getLogger(__name__)

Context = Mapping[str, object]
AHEAD_COUNTED = 100
"""Runs before a queued one are counted so far."""


def part(name: str, actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None = None) -> str:
    """The part as HTML; in its place a sentence, when it cannot be made. Refused and a database that is away are the
    page's business.

    ``beside``: ``read_margin_facts``, for those parts that have margins. KeyError for a part that there is none of.
    """
    context = PARTS[name]
    made_of = (None if story is None else story.seq, run, beside)
    if story is not None and _is_kept(name, run):
        of, html = story.made.get(name, (None, ""))
        if of == made_of:
            return html
    try:
        html = render_to_string(f"runs/panels/{name}.html", {"run": run, **context(actor, run, story, beside)})
    except (Refused, DatabaseError):
        raise
    except Exception:
        log.exception("the part %s of the page of run %s could not be made", name, run.id)
        return render_to_string("runs/panels/failed.html", {"run": run, "name": name})
    if story is not None and _is_kept(name, run):
        story.made[name] = (made_of, html)
    return html


def read_margin_facts(run: RunView) -> Margin | None:
    """Return what a run's margins need beside its journal, read once for all parts."""
    try:
        return breaker_nearest(run, revision_spec(run.revision_id))
    except DatabaseError:
        raise
    except Exception:
        log.exception("the shared breakers in front of run %s could not be judged", run.id)
        return None


def _is_kept(name: str, run: RunView) -> bool:
    """Return True where a part depends on ``DRAWN`` alone. A header of a queued run also counts those before it."""
    return name in DRAWN and not (name == "head" and run.state is RunState.QUEUED)


def build_page(
    actor: Actor, run: RunView, story: RunStory | None, *, outcome: bool = False, beside: Margin | None = None
) -> RunPage:
    """The run with what its header says about it, and with its outcome where that is asked for."""
    spec = spec_of(run, story)
    found = run_outcome(actor, run.id) if outcome and run.terminal else None
    return RunPage(run, find_cap(run, spec, story), found, build_data(actor, run, found), story, spec, beside)


def build_data(actor: Actor, run: RunView, outcome: dict[str, Any] | None) -> SafeString | str:
    """Return the data of an outcome as JSON; its depths are read from the event on demand. Empty: there is none."""
    if outcome is None or "data" not in outcome:
        return ""
    base = reverse("run-event-json", args=(run.id, outcome_seq(actor, run.id)))
    return json_tree.render_tree(outcome["data"], base, "/output/data")


def head_context(actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None) -> dict[str, Any]:
    """The header; of a run that no worker has begun, also its place in the queue."""
    return {"page": build_page(actor, run, story, beside=beside), "drill": find_drill(run), **queue_context(actor, run)}


def queue_context(actor: Actor, run: RunView) -> dict[str, Any]:
    """Return what a queued run waits for. Empty: it has begun."""
    queued = run.state is RunState.QUEUED
    return {"place": queue_place(actor, run.id, AHEAD_COUNTED) if queued else None, "ahead_max": AHEAD_COUNTED}


def timeline_context(run: RunView, story: RunStory | None, *, fold: bool = True) -> dict[str, Any]:
    """The timeline, or that it comes in a moment."""
    drawn = None if story is None else timeline(story, run.created_at, fold=fold)
    decimals = decimals_of(row.cost for row in drawn.rows) if drawn else 4
    return {"timeline": drawn, "fold": fold, "story": story, "grid": grid_id(fold=fold), "decimals": decimals}


def outcome_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """Return the run's end and its outcome. A run that goes on has little of it."""
    page = build_page(actor, run, story, outcome=True)
    return {"page": page, "answer": answer(page)}


def graph_context(run: RunView, story: RunStory | None) -> dict[str, Any]:
    """The topology as a picture and as a table."""
    if story is None:
        return {"topology": None}
    spec = spec_within(spec_of(run, story), "" if story.run is None else story.run.topology)
    hops = None
    if story.run is not None and story.handed:
        hops = (find_state(story.run.guards, hop_limit).hops, spec.policy.of_stage(Stage.FAN_OUT).limits.hops)
    return {
        "topology": topology(story, spec.topology),
        "turns": turns(story, spec.topology),
        "kind": spec.topology.kind,
        "hops": hops,
    }


def protections_context(actor: Actor, run: RunView, story: RunStory | None, beside: Margin | None) -> dict[str, Any]:
    """Every protection: how often it fired, how near it is, what it is set to and why."""
    page = build_page(actor, run, story, beside=beside)
    rows = list_protections(page) if story is not None and story.run is not None else []
    others = {} if story is None else {words(n): c for n, c in sorted(story.fired.items()) if n not in MARGINS}
    trips = [] if story is None else list_trips(story)
    return {"page": page, "rows": rows, "others": others, "trips": trips[:50], "trips_count": len(trips)}


@dataclass(frozen=True, slots=True)
class ProtectionLine:
    """One protection: what it stops, how often it fired, how near it is, what it is set to."""

    name: str
    row: ProtectionRow
    fired: int
    meters: tuple[Meter, ...]
    settings: tuple[SettingLine, ...]

    @property
    def near(self) -> bool:
        """True where it fired, or is near to it: then it is open."""
        return bool(self.fired) or any(meter.tone for meter in self.meters)


def list_protections(page: RunPage) -> list[ProtectionLine]:
    """Return all protections: those that fired, then those that are near, then the rest in guard order."""
    story, policy, published = page.story, page.spec, revision_spec(page.run.revision_id)
    assert story is not None
    assert story.run is not None
    assert policy is not None
    lines = []
    for name, row in MARGINS.items():
        meters = tuple(meter for meter in page.meters if meter.margin.row == name)
        settings = settings_under(name, policy.policy, published.policy, story.run)
        lines.append(ProtectionLine(name, row, story.fired.get(name, 0), meters, tuple(map(SettingLine, settings))))
    return sorted(lines, key=lambda line: (not line.fired, not line.near))


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting with its value in words."""

    setting: Setting

    @property
    def value_words(self) -> str:
        """The value. Without one, a limit is ``off``, and a name ``none``."""
        value = self.setting.value
        if value is None:
            return "none" if self.setting.unit is None else "off"
        if isinstance(value, Mapping):
            return "; ".join(caps_said(name, one) for name, one in value.items()) or "none"
        if isinstance(value, frozenset):
            return find_names(value)
        if isinstance(value, tuple):
            return ", ".join(str(one) for one in sorted(value)) or "none"
        if isinstance(value, bool | str):
            return str(value).replace("_", " ").lower() if isinstance(value, bool) else value.replace("_", " ")
        match self.setting.unit:
            case Unit.USD | Unit.USD_A_MINUTE:
                return usd(value)
            case Unit.SECONDS:
                return span(round(value * 1_000_000))
        return f"{value:,}"


def list_trips(story: RunStory) -> list[Any]:
    """Everything that fired, the latest first."""
    lanes = (trip for lane in story.lanes.values() for trip in lane.trips)
    stages = (trip for trips in story.stage_trips.values() for trip in trips)
    return sorted((*lanes, *stages), key=lambda trip: -trip.seq)


def cost_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """Money by stage, agent and model."""
    page = build_page(actor, run, story)
    if story is None or page.spec is None:
        return {"page": page, "tables": []}
    tables = [
        ("By stage", "Stage", "Calls", share_by_stage(story)),
        ("By agent", "Agent", "Calls", share_by_agent(story)),
        ("By model", "Model", "Model calls", share_by_model(story, page.spec)),
    ]
    kinds = kind_shares(story, _prices(run, story))
    amounts = [one.cost for *_, shares in tables for one in shares] + [one.cost for one in kinds]
    return {"page": page, "tables": tables, "kinds": kinds, "decimals": decimals_of(amounts)}


def _prices(run: RunView, story: RunStory) -> Mapping[str, Price]:
    """Spec of the run's revision; None where it cannot be loaded."""
    number = 0 if story.run is None else story.run.policy
    try:
        return wiring.compile_under_policy(run.revision_id, run.workspace_id, number, run.tier).prices
    except (LookupError, ValueError):
        return {}


def io_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """Return the request with its documents, and the outcome."""
    page = build_page(actor, run, story, outcome=True)
    return {"page": page, "inputs": run_inputs(actor, run.id), "answer": answer(page)}


def talk_context(actor: Actor, run: RunView, story: RunStory | None) -> dict[str, Any]:
    """Return the people's messages to the conversation, and the fate of each."""
    return {"talk": talk(actor, run, story)}


def children_context(actor: Actor, run: RunView) -> dict[str, Any]:
    """The runs that it spawned."""
    return {"children": build_children(actor, run.id)}


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
"""The parts of the page by name; each has its template ``runs/panels/NAME.html``."""
WITH_MARGINS = frozenset({"head", "protections"})
"""Parts that show margins."""


DRAWN = frozenset({"head", "timeline", "unfolded", "graph", "protections", "cost"})
"""Parts made of the run's row, its story and the lines beside its margins alone. They are kept with the story, and made
again when one of these has changed.
"""
ALONE = ("graph", "protections", "cost", "io", "queue", "children")
"""Parts that can be asked for alone; most are a view of their own."""


def tabs(page: RunPage) -> list[tuple[str, str, int | None, str]]:
    """``(name, word, number beside it, its tone)`` of each view; None for one that never has a number."""
    notes = {"events": (page.run.last_seq, ""), "protections": (page.fired_count, "warn")}
    return [(name, word, *notes.get(name, (None, ""))) for name, word in VIEWS]


def answer(page: RunPage) -> SafeString | None:
    """The outcome's text as markup; None when there is none."""
    return None if page.outcome is None else render_markdown(page.outcome["text"])
