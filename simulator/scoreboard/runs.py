"""Runs the scenarios, and judges each run by its caller's view.

Each run has an endpoint. One engine in this process serves all, with its database.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from django.conf import settings

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import RunView, run_events, run_get, run_outcome
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import ReceivedNudge
from simulator.endpoint import Received, ScriptedEndpoint, Step, refusal
from simulator.scoreboard.cases import FOUND, ITSELF, KEY, ScoreboardScenario

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
"""The smallest publishable fabric: every limit is the default."""
ALONE = "{workers: [clerk], plan: {briefs: [{agent: clerk, title: The order, instructions: Find it.}], exit_criteria: [It is found.]}}"
PARTS = {"polling": "false", "answers": "text", "tools": "lookup", "more": "", "agents": "", "topology": ALONE}
PATHS = frozenset({"/lookup", "/cancel"})
"""Paths served as tools, and counted as one."""
RESTING = frozenset({"completed", "stopped", "failed", "aborted", "cancelled", "waiting"})
EVENTS_MAX = 500


@dataclass(slots=True)
class Playing:
    """One active run, and the requests to its endpoint."""

    scenario: ScoreboardScenario
    tier: str
    endpoint: ScriptedEndpoint
    run_id: str = ""
    began: float = 0.0
    seconds: float = 0.0
    away_s: float = 0.0
    """Seconds after its start at which it was first seen to wait for its provider; 0 if never."""
    away_requests: int = 0
    """Number of requests by then."""
    approved: bool = False


def script_endpoint(scenario: ScoreboardScenario) -> Callable[[Received], Step]:
    """Return model and tool behind one endpoint, counted separately."""
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


def play_scenarios(scenarios: Sequence[ScoreboardScenario], tiers: Sequence[str], most_s: float) -> Iterator[SeenRun]:
    """Run each scenario in each tier, all at once. Yield each run when it rests, or after ``most_s`` seconds."""
    with ExitStack() as stack:
        playing = [
            Playing(scenario, tier, stack.enter_context(ScriptedEndpoint(script_endpoint(scenario))))
            for tier in tiers
            for scenario in scenarios
        ]
        settings.FABRIC_ALLOWED_HOSTS = tuple(one.endpoint.authority for one in playing)
        heard = stack.enter_context(_listen())
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
                    yield _see_run(actor, one, run)
            with heard:
                heard.wait(0.2)


def _rests(actor: Actor, one: Playing, run: RunView, seconds: float, most_s: float) -> bool:
    """Return True if a run is observed no longer. It rests, or still waits for its provider after the board's time.

    A run that waits for its provider counts as resting since it was first seen to wait.
    """
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
    for review in list_open_reviews(actor, run_id=one.run_id):
        decide_review(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            review_id=review.id,
            verb="approve",
            message="It is a poll.",
            digest=review.digest,
        )
        return True
    return False


def _requests(one: Playing) -> int:
    return sum(request.path.endswith("/chat/completions") for request in list(one.endpoint.received))


@contextmanager
def _listen() -> Iterator[threading.Condition]:
    heard = threading.Condition()

    def hear(nudged: ReceivedNudge) -> None:
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


def _see_run(actor: Actor, one: Playing, run: RunView) -> SeenRun:
    events = list(run_events(actor, one.run_id, limit=EVENTS_MAX))
    outcome = run_outcome(actor, one.run_id)
    asked = [review.reason for review in list_open_reviews(actor, run_id=one.run_id)]
    received = list(one.endpoint.received)
    return SeenRun(
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


WITHIN_S = 60.0
"""Seconds in which a run on the board has to be stopped, quarantined or recovered."""


@dataclass(frozen=True, slots=True)
class SeenRun:
    """One run as its caller reads it. ``first``: the first text, a waiting run's review or else the run's reason."""

    scenario: str
    tier: str
    state: str
    first: str
    seconds: float
    requests: int
    executions: int
    kept: int
    """Number of tool results in the journal."""
    usd_micros: int
    outcome: JSON
    told: str
    """Everything in its events and its outcome, as JSON text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The marks of one run."""

    in_time: bool
    honest: bool
    named: bool
    kept: bool
    few: bool
    """True if it made no more requests than a caller may expect."""

    @property
    def whole(self) -> bool:
        """Return True if no mark is missing. Surplus requests are shown and do not count."""
        return self.in_time and self.honest and self.named and self.kept


def verdict(scenario: ScoreboardScenario, seen: SeenRun) -> Verdict:
    """Judge a run."""
    rests = seen.state != "running"
    answered = seen.state == "completed" and FOUND in json.dumps(seen.outcome)
    stopped = rests and seen.state != "completed" and KEY not in seen.told
    parked = seen.state == "waiting" and scenario.kind == "board"  # A control may not even be parked.
    honest = answered or parked if scenario.ends == "answers" else stopped
    named = scenario.ends == "answers" or all(word in seen.first for word in scenario.words)
    return Verdict(
        in_time=rests and seen.seconds <= WITHIN_S,
        honest=honest,
        named=named,
        kept=seen.kept >= seen.executions,
        few=seen.requests <= scenario.requests,
    )


def table(judged: Sequence[tuple[ScoreboardScenario, SeenRun, Verdict]]) -> list[str]:
    """Return the lines that a person reads: one a run, then the marks of each tier."""
    lines = [f"{'scenario':<18} {'tier':<12} {'state':<10} {'s':>5} {'req':>4} {'exec':>4} {'$':>8}  marks    first"]
    for scenario, seen, mark in judged:
        marks = "".join(
            letter if ok else "-"
            for letter, ok in zip("THNKR", (mark.in_time, mark.honest, mark.named, mark.kept, mark.few), strict=True)
        )
        lines.append(
            f"{scenario.name:<18} {seen.tier:<12} {seen.state:<10} {seen.seconds:5.1f} {seen.requests:4} {seen.executions:4} "
            f"{seen.usd_micros / 1e6:8.4f}  {marks}    {seen.first[:110]}"
        )
    lines += ["T in time, H honest, N cause named, K work kept, R no more requests than expected", ""]
    return lines + [_sums(judged, tier) for tier in dict.fromkeys(seen.tier for _, seen, _ in judged)]


def _sums(judged: Sequence[tuple[ScoreboardScenario, SeenRun, Verdict]], tier: str) -> str:
    mine = [(scenario, mark) for scenario, seen, mark in judged if seen.tier == tier]
    board = [mark for scenario, mark in mine if scenario.kind == "board"]
    parts = [
        f"{word} {sum(getattr(mark, name) for mark in board)} of {len(board)}"
        for name, word in (("in_time", "in time"), ("honest", "honest"), ("named", "named"), ("kept", "kept"))
    ]
    for kind, word in (("control", "controls"), ("beyond", "beyond")):
        marks = [mark for scenario, mark in mine if scenario.kind == kind]
        parts.append(f"{word} {sum(mark.whole for mark in marks)} of {len(marks)}")
    return f"{tier}: {', '.join(parts)}"


def as_json(judged: Sequence[tuple[ScoreboardScenario, SeenRun, Verdict]]) -> list[JSON]:
    """Return the results for programs."""
    return [
        {**{key: value for key, value in asdict(seen).items() if key != "told"}, "kind": scenario.kind, **asdict(mark)}
        for scenario, seen, mark in judged
    ]
