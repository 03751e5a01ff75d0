"""Runs the scenarios: an endpoint for each run, one engine in this process, and its database."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from django.conf import settings

from fabric import wiring
from fabric.adapters.nudge import Nudged
from fabric.core.actor import Actor
from fabric.selectors.escalations import escalations_open
from fabric.selectors.runs import RunView, run_events, run_get, run_outcome
from fabric.services.escalations import escalation_decide
from fabric.services.fabrics import fabric_publish
from fabric.services.runs import run_start
from fabric.services.workspaces import owner_actor
from simulator.endpoint import Received, ScriptedEndpoint, Step, refusal
from simulator.scoreboard.judging import WITHIN_S, Seen
from simulator.scoreboard.scenarios import ITSELF, Scenario

FABRIC = """\
name: {name}
title: {name}
tiers: {{default: {tier}, allowed: [{tier}]}}
models:
  - {{name: script, provider: openai, model: scripted, base_url: "http://{authority}/v1", price: {{input_usd_per_mtok: 3, output_usd_per_mtok: 15}}}}
tools:
  - name: lookup
    kind: http
    target: http://{authority}/lookup
    description: Says where an order is.
    polling: {polling}
    parameters: {{type: object, properties: {{order: {{type: string}}}}, required: [order]}}
{more}agents:
  - {{name: clerk, model: script, answers: {answers}, instructions: Find the order., tools: [{tools}]}}
{agents}topology: {topology}
policy:
  budget: {{run_usd_micros: 1000000}}
reviewers: [owner]
"""
"""The least that publication demands: every limit is the default."""
ALONE = "{workers: [clerk], plan: {briefs: [{agent: clerk, title: The order, instructions: Find it.}], exit_criteria: [It is found.]}}"
PARTS = {"polling": "false", "answers": "text", "tools": "lookup", "more": "", "agents": "", "topology": ALONE}
PATHS = frozenset({"/lookup", "/cancel"})
"""Served as tools, and counted as one."""
RESTING = frozenset({"completed", "stopped", "failed", "aborted", "cancelled", "waiting"})
EVENTS_MAX = 500


@dataclass(slots=True)
class Playing:
    """One run under way, and what its endpoint has seen."""

    scenario: Scenario
    tier: str
    endpoint: ScriptedEndpoint
    run_id: str = ""
    began: float = 0.0
    seconds: float = 0.0
    away_s: float = 0.0
    """When it was first seen to wait for its provider, seconds after its start; 0: it never was."""
    away_requests: int = 0
    """Requests by then."""
    approved: bool = False


def scripted(scenario: Scenario) -> Callable[[Received], Step]:
    """Model and tool behind one endpoint, each counted for itself."""
    counts = {"model": 0, "tool": 0}
    lock = threading.Lock()

    def reply(received: Received) -> Step:
        kind = "model" if received.path.endswith("/chat/completions") else "tool"
        if kind == "tool" and received.path not in PATHS:
            return refusal(404, "nothing is served here")
        with lock:
            counts[kind] += 1
            n = counts[kind]
        return scenario.says(n, received) if kind == "model" else scenario.gives(n)

    return reply


def played(scenarios: Sequence[Scenario], tiers: Sequence[str], most_s: float) -> Iterator[Seen]:
    """Runs each scenario in each tier, all at once. Yields each run as seen when it rests, or after ``most_s`` seconds."""
    with ExitStack() as stack:
        playing = [
            Playing(scenario, tier, stack.enter_context(ScriptedEndpoint(scripted(scenario))))
            for tier in tiers
            for scenario in scenarios
        ]
        settings.FABRIC_ALLOWED_HOSTS = tuple(one.endpoint.authority for one in playing)
        heard = stack.enter_context(_listening())
        stack.enter_context(wiring.local_engine())
        actor = owner_actor()
        for one in playing:
            _start(actor, one)
        waiting = list(playing)
        while waiting:
            for one in list(waiting):
                run = run_get(actor, one.run_id)
                if _rests(actor, one, run, time.monotonic() - one.began, most_s):
                    waiting.remove(one)
                    yield _seen(actor, one, run)
            with heard:
                heard.wait(0.2)


def _rests(actor: Actor, one: Playing, run: RunView, seconds: float, most_s: float) -> bool:
    """Whether a run is looked at no longer: it rests, or still waits for its provider when the time of the board is over. It rests since it was first seen to wait."""
    one.seconds = seconds
    if run.waits_for == "provider":
        if not one.away_s:
            one.away_s, one.away_requests = seconds, _requests(one)
        if seconds > WITHIN_S:
            one.seconds = one.away_s
            return True
    if run.waits_for == "person" and one.scenario.approves and not one.approved:
        one.approved = _approve(actor, one)
        return False
    return run.state in RESTING or seconds > most_s


def _approve(actor: Actor, one: Playing) -> bool:
    for question in escalations_open(actor, run_id=one.run_id):
        escalation_decide(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            escalation_id=question.id,
            verb="approve",
            message="It is a poll.",
            digest=question.digest,
        )
        return True
    return False


def _requests(one: Playing) -> int:
    return sum(request.path.endswith("/chat/completions") for request in list(one.endpoint.received))


@contextmanager
def _listening() -> Iterator[threading.Condition]:
    heard = threading.Condition()

    def hear(nudged: Nudged) -> None:
        with heard:
            heard.notify_all()

    ear = wiring.listener(hear, "told")
    ear.start()
    try:
        yield heard
    finally:
        ear.stop()


def _start(actor: Actor, one: Playing) -> None:
    name = f"{one.scenario.name}-{one.tier}".replace("_", "-")
    given = {**PARTS, **one.scenario.fabric, "name": name, "tier": one.tier, "authority": one.endpoint.authority}
    published = fabric_publish(actor=actor, source=FABRIC.format(**given).replace(ITSELF, one.endpoint.authority))
    one.began = time.monotonic()
    started = run_start(
        store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=published.name, text="Where is order 42?"
    )
    one.run_id = started.run_id


def _seen(actor: Actor, one: Playing, run: RunView) -> Seen:
    events = list(run_events(actor, one.run_id, limit=EVENTS_MAX))
    outcome = run_outcome(actor, one.run_id)
    asked = [question.reason for question in escalations_open(actor, run_id=one.run_id)]
    received = list(one.endpoint.received)
    return Seen(
        scenario=one.scenario.name,
        tier=one.tier,
        state="waiting" if run.waits_for == "provider" else str(run.state) if run.state in RESTING else "running",
        first=(asked[0] if asked else run.reason) or "",
        seconds=one.seconds,
        requests=one.away_requests if run.waits_for == "provider" else _requests(one),
        executions=sum(request.path in PATHS for request in received),
        kept=sum(event.kind == "tool_answered" for event in events),
        usd_micros=run.cost_usd_micros,
        outcome=outcome,
        told=json.dumps([[event.fact, event.content] for event in events]) + json.dumps(outcome),
    )
