"""Captures a run that met failures as a scenario. The scenario makes them happen again, in the same work and the same
tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fabric.core.events.decisions import ReactionDecided
from fabric.core.events.envelope import fact_json, from_row
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.flow import RunState
from fabric.core.values.words import cut
from fabric.models import Attachment, Event
from fabric.selectors.contents import holds_mark, line_for, mask_content
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.inputs import run_inputs
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.stored_events import StoredEvent, read_events
from fabric.services.rights import right_wanted
from simulator.drills.library import causes as facts
from simulator.drills.library.calls import Facts
from simulator.drills.library.causes import build_facts
from simulator.drills.library.recordings import MASKED, record_run
from simulator.drills.library.selectors import ScenarioView, scenario_get
from simulator.drills.library.services import DOING, NAME_MAX, check_scenario, free_name, rename_scenario, scenario_save
from simulator.drills.services.drills import SEED_MAX
from simulator.scenarios.promises.expectation import LINKED, build_chain
from simulator.scenarios.spec.recorded import list_causes
from simulator.scenarios.spec.scenario import REQUEST, Scenario
from simulator.scenarios.spec.toml import dump, read_scenario
from simulator.texts.toml import BYTES_MAX

ABORT = {"virtual_s": 400_000.0}
STEADY = {
    "title": "The run is answered, and no promise is broken",
    "probes": [{"probe": "state", "tolerance": "completed"}, {"probe": "violations", "tolerance": 0}],
}

UNBROKEN = {"title": "No promise is broken", "probes": [{"probe": "violations", "tolerance": 0}]}
"""Steady state of a replayed run. Its fabric may be the reason why no run of it completes."""


@dataclass(frozen=True, slots=True)
class Captured:
    """Scenario made from a run. ``left_out``: failures that cannot be repeated, a sentence each."""

    view: ScenarioView
    left_out: tuple[str, ...]


def scenario_capture(*, actor: Actor, run_id: str, name: str = "") -> Captured:
    """Keeps the failures of a run as a scenario. It has the run's request, documents and tier, and a disturbance for
    each failed call.

    ``name``: without it one is made of the run's id. Raises Refused: not_found, conflict (nothing of it can be made to
    happen again; it was erased; the name is taken), invalid (a name that is none), forbidden.
    """
    right_wanted(actor, Right.EDIT, DOING)
    scenario, left_out = capturable(actor, run_id, name)
    kept = scenario_save(actor=actor, source=dump(scenario), captured_from=run_id)
    return Captured(scenario_get(actor, kept.name), left_out)


def capturable(actor: Actor, run_id: str, name: str = "") -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario that a capture would store, with failures that cannot be repeated. Raises Refused as
    ``scenario_capture`` does, except for a taken name.
    """
    run = run_get(actor, run_id)
    found = _read(run)
    return scenario_from(actor, run, found, name or captured_name(actor, run.id))


def captured_name(actor: Actor, run_id: str) -> str:
    """A free name for what is captured from a run."""
    base = f"run-{run_id[-12:].replace('-', '')}"
    try:
        scenario_get(actor, base)
    except Refused:
        return base
    return free_name(actor, base)


def _read(run: RunView) -> Facts:
    rows = read_events(Event.objects.filter(run_id=run.id), page=2_000)
    cap = revision_spec(run.revision_id).policy.budget.run_usd_micros
    return build_facts(_events(rows), cap)


def _events(rows: Iterable[StoredEvent]) -> Iterable[facts.Event]:
    for seq, kind, version, _, header, *_ in rows:
        if kind in facts.READ:
            yield seq, kind, fact_json(from_row(seq, kind, version, header))


def scenario_from(actor: Actor, run: RunView, found: Facts, name: str) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario, and what of the work cannot be repeated. Refused conflict where nothing went wrong, or nothing of
    it can be repeated; invalid for what is no name.

    Its calls are replayed as they were recorded. Without their contents, faults of the catalogue repeat its failures.
    """
    recording = record_run(actor, run)
    eventful = run.state != RunState.COMPLETED or found.decided or bool(found.left_out)
    if not found.disturbances and not (recording.parts and run.terminal and eventful):
        why = f": {found.left_out[0]}" if found.left_out else ", as none of its calls failed"
        message = f"nothing of this run can be made to happen again{why}"
        raise Refused(message, code="conflict", field="run", problems=(message, *found.left_out[1:]))
    workload, notes = _work(actor, run)
    if recording.parts:
        left_out = (*recording.notes, *notes)
        kept: dict[str, Any] = {"recorded": recording.parts, "expect": _expect(run)}
        # The world's own service takes changes back, so its refusal is a fault of the catalogue.
        kept["disturbance"] = [one for one in found.disturbances if one["fault"] in NOT_RECORDED]
    else:
        left_out = (*recording.notes, *found.left_out, *notes)
        kept = {"disturbance": found.disturbances}
    tree = {
        "name": name,
        "title": cut(f"As in the run: {clean_text(line_for(run.title, reads=run.reads))[0]}"),
        "description": _describe_capture(run, left_out),
        "tiers": [str(run.tier)],
        "seed": found.seed & SEED_MAX,
        "tags": ["captured"],
        "workload": workload,
        **kept,
        "steady_state": UNBROKEN if recording.parts else STEADY,
        "abort": ABORT,
    } | ({"failure": str(found.failure)} if found.failure else {})
    if len(name) > NAME_MAX:
        raise Refused(f"a name has at most {NAME_MAX} characters: shorten it", code="invalid", field="name")
    source = dump(read_scenario({**tree, "name": "a"}))
    return check_scenario(rename_scenario(source, check_scenario(source), name)), left_out


NOT_RECORDED = ("compensation_fails",)
MASKED_END = MASKED.removeprefix("{}")


def _expect(run: RunView) -> list[dict[str, str]]:
    """Return the expectation that the run ends as it did, by the same causes. A run that goes on expects nothing."""
    if not run.terminal:
        return []
    rows = read_events(Event.objects.filter(run_id=run.id), kinds=LINKED | {ReactionDecided.kind}, page=2_000)
    events = [from_row(one.seq, one.kind, one.version, one.header) for one in rows]
    chain = build_chain(((one.fact.kind, fact_json(one)) for one in events if one.fact.kind in LINKED), run.state)
    causes = list_causes(events)
    return [
        {"probe": "chain", "tolerance": str(chain)},
        *([{"probe": "causes", "tolerance": causes}] if causes else []),
    ]


def _work(actor: Actor, run: RunView) -> tuple[dict[str, object], tuple[str, ...]]:
    given, notes = run_inputs(actor, run.id), []
    if given.text is None:
        why = "was erased" if given.reads else "is withheld from you"
        notes.append(f"the request {why}: another one is asked")
    elif holds_mark(given.text):
        notes.append(MASKED.format("the request"))
    kept = list(
        Attachment.objects.filter(run_id=run.id).order_by("position").values_list("name", "text", "bytes", "origin")
    )
    if not given.reads:
        kept = []
        notes.append("its documents are withheld from you: they are left out")
    documents = [
        {"name": name, "text": mask_content(text), "origin": origin}
        for name, text, size, origin in kept
        if text or not size
    ]
    if any(one["text"] != text for one, (_, text, *_) in zip(documents, kept, strict=False)):
        notes.append(MASKED.format("a document"))
    if len(documents) < len(kept):
        notes.append("the text of its documents was erased: they are left out")
    if sum(len(one["text"].encode()) for one in documents) > BYTES_MAX // 2:
        documents = []
        notes.append("its documents are too long to be kept in a scenario: they are left out")
    if not documents:
        notes.append("no document is attached: the two built-in samples are")
    return {"request": given.text or REQUEST, "documents": documents}, tuple(notes)


def _describe_capture(run: RunView, left_out: tuple[str, ...]) -> str:
    told = f"Captured from run {run.id} of {run.fabric_name}@r{run.revision_number}: what failed in it fails again, call by call."
    return "\n".join([told, *(f"{'' if one.endswith(MASKED_END) else 'Not repeated: '}{one}." for one in left_out)])
