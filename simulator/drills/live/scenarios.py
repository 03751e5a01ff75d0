"""Plays scenarios live on the installation: faults strike at the drills' provider, on real workers
(``scenarios.seam``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fabric.composition.engine import compile_revision
from fabric.core.events.calls import CallIssued
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.selectors.runs.lookup import run_outcome
from fabric.selectors.runs.replay import replay_run
from simulator.drills.live.cells import Ended, LiveDrill, LiveResult, RestedRun, build_place, list_journal
from simulator.drills.live.restoration import acting_in
from simulator.drills.live.strikes import list_struck
from simulator.drills.models.tables import Drill
from simulator.drills.runs.storage import Driven
from simulator.faults import catalogue
from simulator.scenarios.baseline.equipment import with_lookup
from simulator.scenarios.play.handovers import judge_promise, promise_handovers
from simulator.scenarios.play.player import build_work, equipped_for, judge_played, list_lines, not_held
from simulator.scenarios.spec.probes import CheckedProbe, Observed
from simulator.scenarios.spec.recorded import list_causes
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import parse_scenario
from simulator.scenarios.strikes.answers import ARMED
from simulator.scenarios.strikes.live import map_options


def live_scenario(one: Drill, spec: FabricSpec) -> Driven:
    """Play the stored scenario. Raises ``catalogue.FaultRefused`` for a fault that cannot be live, and
    ``Unreadable``.
    """
    scenario = parse_scenario(one.source, origin=one.scenario)
    if problems := scenario.only_virtual():
        raise catalogue.FaultRefused(problems)
    disturbances = scenario.disturbances(json.loads(one.parameters or "{}"))
    met, lacked = equipped_for(spec, scenario, disturbances)
    if ARMED & {disturbance.fault.name for disturbance in disturbances}:
        met = with_lookup(met)  # A failing agent's queries find nothing.
    place = build_place(one, met, {**map_options(met, disturbances), "drill": one.id})
    place.work, place.abort = build_work(scenario), scenario.abort.explain_abort
    steady = {"title": scenario.steady_state.title}
    came = LiveResult(body={"equipped": [lacked] if lacked else [], "steady": steady, "runs": place.runs})
    try:
        _play(place, came, scenario)
    except Ended as ended:
        came.abort(ended.why)
    finally:
        last = place.put_back()
    came.put_back(last)
    came.body |= {"story": place.story(), "struck": list_struck(one.id)}
    return came.build_columns()


def _play(place: LiveDrill, came: LiveResult, scenario: Scenario) -> None:
    """Drive the three runs. Raises Ended."""
    before = place.run("before")
    held = _steady(place, came, scenario, "before", before)
    if why_not := not_held(held):
        came.fail(f"the steady state does not hold before anything is disturbed: {why_not}")
        return
    during = place.run("during")
    seen = build_observation(place, during)
    _steady(place, came, scenario, "during", during)
    events = list_journal(during.run_id)
    lines = list_lines(events, Tier(place.one.tier), compile_revision(place.struck))
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
    promise = promise_handovers(place.struck, scenario.disturbances(json.loads(place.one.parameters or "{}")))
    verdict, why = judge_played(
        scenario,
        struck=list_struck(place.one.id),
        lines=lines,
        during=seen,
        usual=str(before.state),
        after=after,
        handed=None if promise is None else judge_promise(promise, events),
    )
    came.judge(verdict, str(during.chain), why)


def _steady(
    place: LiveDrill, came: LiveResult, scenario: Scenario, part: str, ran: RestedRun
) -> Sequence[CheckedProbe]:
    """Check a run against the scenario, and record it."""
    check = scenario.check_disturbed if part == "during" else scenario.steady_state.check
    held = check(build_observation(place, ran))
    came.body["steady"][part] = [{"probe": one.probe, "output": one.output, "why_not": one.why_not} for one in held]
    return held


def build_observation(place: LiveDrill, ran: RestedRun) -> Observed:
    """Return a run's results for the probes of a steady state. ``violations``: rows that differ from its journal."""
    events, actor = list_journal(ran.run_id), acting_in(place.workspace_id)
    kinds = [event.fact.kind for event in events]
    calls = [event.fact.call for event in events if isinstance(event.fact, CallIssued)]
    outcome = run_outcome(actor, ran.run_id) or {}
    return Observed(
        state=str(ran.state),
        chain=str(ran.chain),
        causes=list_causes(events),
        cost_usd_micros=ran.cost_usd_micros,
        duration_s=ran.seconds,
        model_calls=calls.count("model"),
        tool_calls=calls.count("tool"),
        reviews=ran.chain.asked,
        replans=kinds.count("replanned"),
        answer=str(outcome.get("text", "")),
        citations=list(outcome.get("citations", ())),
        violations=len(replay_run(actor, ran.run_id).differences),
        struck=sum(list_struck(place.one.id).values()),
    )
