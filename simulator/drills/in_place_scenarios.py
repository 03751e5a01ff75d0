"""A scenario played live on the installation itself: the faults strike at the drills' provider, on real workers, in real time (``scenarios.seam``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fabric.core.events.calls import CallIssued
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.selectors.replay import replay_run
from fabric.selectors.runs import run_outcome
from fabric.wiring import compile_revision
from simulator.drills.driven import Driven
from simulator.drills.equipping import with_lookup
from simulator.drills.in_place import Came, Ended, Place, Ran, journal_of, place_of
from simulator.drills.models import Drill
from simulator.drills.putting_back import acting_in, tell
from simulator.drills.strikes_told import struck_of
from simulator.scenarios import catalogue
from simulator.scenarios.handing import kept, promised
from simulator.scenarios.judging import judged, lines_of, not_held
from simulator.scenarios.meeting import ARMED
from simulator.scenarios.playing import equipped_for, work_of
from simulator.scenarios.probes import Checked, Observed
from simulator.scenarios.reading import read
from simulator.scenarios.scenario import Scenario
from simulator.scenarios.seam import options_of

JSON = Any


def live_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """Plays the scenario as it was asked for. Raises ``catalogue.Refused`` for a fault that cannot be live, and ``Unreadable``."""
    scenario = read(one.source, origin=one.scenario)
    if problems := scenario.only_virtual():
        raise catalogue.Refused(problems)
    disturbances = scenario.disturbances(json.loads(one.parameters or "{}"))
    met, lacked = equipped_for(spec, scenario, disturbances)
    if ARMED & {disturbance.fault.name for disturbance in disturbances}:
        met = with_lookup(met)  # What a failing agent asks for is not to be found.
    place = place_of(one, met, {**options_of(met, disturbances), "drill": one.id})
    place.work, place.abort = work_of(scenario), scenario.abort.reached
    steady = {"title": scenario.steady_state.title}
    came = Came(body={"equipped": [lacked] if lacked else [], "steady": steady, "runs": place.runs})
    try:
        _play(place, came, scenario)
    except Ended as ended:
        came.abort(ended.why)
    finally:
        last = place.put_back()
    came.put_back(last)
    came.body |= {"story": place.story(), "struck": struck_of(one.id)}
    if not place.running():
        tell(one.id, last)
    return came.driven()


def _play(place: Place, came: Came, scenario: Scenario) -> None:
    """The three runs. Raises Ended."""
    before = place.run("before")
    held = _steady(place, came, scenario, "before", before)
    if why_not := not_held(held):
        came.fail(f"the steady state does not hold before anything is disturbed: {why_not}")
        return
    during = place.run("during")
    seen = observed_of(place, during)
    _steady(place, came, scenario, "during", during)
    events = journal_of(during.run_id)
    lines = lines_of(events, Tier(place.one.tier), compile_revision(place.struck))
    came.body["lines"] = [
        {"seq": one.seq, "expected": one.expected, "observed": one.observed, "evidence": f"event {one.seq}"}
        for one in lines
    ]
    came.expected = " > ".join(one.expected for one in lines) or "no decision"
    came.observed = str(during.chain)
    back = place.put_back()
    came.put_back(back)
    if not back.done:
        return
    place.settle(back)
    after = _steady(place, came, scenario, "after", place.run("after"))
    promise = promised(place.struck, scenario.disturbances(json.loads(place.one.parameters or "{}")))
    verdict, why = judged(
        scenario,
        struck=struck_of(place.one.id),
        lines=lines,
        during=seen,
        usual=str(before.state),
        after=after,
        handed=None if promise is None else kept(promise, events),
    )
    came.judge(verdict, str(during.chain), why)


def _steady(place: Place, came: Came, scenario: Scenario, part: str, ran: Ran) -> Sequence[Checked]:
    """What a run came to, held against the scenario's steady state; kept."""
    held = scenario.steady_state.check(observed_of(place, ran))
    came.body["steady"][part] = [{"probe": one.probe, "output": one.output, "why_not": one.why_not} for one in held]
    return held


def observed_of(place: Place, ran: Ran) -> Observed:
    """What a run came to, as the probes of a steady state ask it. ``violations``: what of its rows is not what its journal says."""
    events, actor = journal_of(ran.run_id), acting_in(place.workspace_id)
    kinds = [event.fact.kind for event in events]
    calls = [event.fact.call for event in events if isinstance(event.fact, CallIssued)]
    outcome = run_outcome(actor, ran.run_id) or {}
    return Observed(
        state=str(ran.state),
        chain=str(ran.chain),
        cost_usd_micros=ran.cost_usd_micros,
        duration_s=ran.seconds,
        model_calls=calls.count("model"),
        tool_calls=calls.count("tool"),
        questions=ran.chain.asked,
        replans=kinds.count("replanned"),
        answer=str(outcome.get("text", "")),
        citations=list(outcome.get("citations", ())),
        violations=len(replay_run(actor, ran.run_id).differences),
        struck=sum(struck_of(place.one.id).values()),
    )
