"""When the model or the provider misbehaves, over real HTTP: the production host and store, one scripted endpoint for model and tool, which counts itself.

One row a scenario of the comparison of six frameworks, by its name there. Limits are the defaults; deadlines and backoffs are shortened by policy.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from fabric.services.actors import login_link_create
from fabric.services.fabrics.revisions import fabric_publish
from simulator.endpoint import Received, ScriptedEndpoint, Step, answer, call, html, refusal
from tests.fabric.composition.installation import Installation, installation

pytestmark = pytest.mark.django_db(transaction=True)

FABRIC = """\
name: lone
title: One worker under a fixed plan
tiers: {{default: {tier}, allowed: [{allowed}]}}
models:
  - {{name: script, provider: openai, price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
tools:
  - name: look
    kind: http
    target: {root}/look
    description: Looks something up.
    polling: {polling}
    parameters: {{type: object, properties: {{q: {{type: string}}}}, required: [q]}}
agents:
  - {{name: planner, model: script, instructions: Plan.}}
  - {{name: worker, model: script, instructions: Work., tools: [look], max_output_tokens: {output}}}
{agents}topology: {topology}
{gates}policy:
  budget: {{run_usd_micros: {cap}}}
  deadlines:
    interactive: {{call_s: 1.5, stage_s: 15, run_s: 30}}
    batch: {{call_s: 5, stage_s: 20, run_s: 40}}
    high_stakes: {{call_s: 5, stage_s: 20, run_s: 40}}
  retry: {retry}
{policy}reviewers: [owner]
safe_fallback: This cannot be answered here.
"""
FIXED = (
    "{workers: [worker], plan: {briefs: [{agent: worker, title: It, instructions: Do it.}], exit_criteria: [Done.]}}"
)
SUMMARY = json.dumps({"text": "What I found.", "citations": []})
SECRET = "AKIAIOSFODNN7EXAMPLF"
TURN = Callable[[int], Step]
"""What a model does at its n-th request, from 1."""


def looks(n: int, *queries: str) -> Step:
    """An answer that proposes calls."""
    return answer("", [call("look", {"q": q}, f"call-{n}-{at}") for at, q in enumerate(queries)])


def after(count: int, first: TURN) -> TURN:
    """So many slips, then a usable answer."""
    return lambda n: first(n) if n <= count else answer(SUMMARY)


@dataclass
class Seen:
    """The outcome of a run, the endpoint's own counts included."""

    row: Any
    events: list[Any]
    requests: list[Received]
    executions: list[Received]
    at: dict[int, float]
    site: Installation
    rows: tuple[Any, ...] = ()
    log: str = ""
    page: str = ""

    def kinds(self, kind: str) -> list[Any]:
        """Facts of a kind."""
        return [event.fact for event in self.events if event.kind == kind]

    @property
    def said(self) -> str:
        """The run's reason, and why each reaction was chosen."""
        return f"{self.row.reason} {json.dumps(self.kinds('reaction_decided'))}"

    @property
    def with_tools(self) -> int:
        """Requests that offered tools: what comes after the last of them is the agent's last word."""
        return sum(bool(request.body.get("tools")) for request in self.requests)


@dataclass(frozen=True)
class Row:
    """One scenario: how the model, and the tool, behave, and what must be true."""

    turn: TURN
    holds: Callable[[Seen], None]
    tool: TURN = lambda n: Step(body=b'"the same"')
    tier: str = "interactive"
    fabric: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 1
    in_turn: bool = False
    """Whether each run starts when the one before has come to its end."""
    by_request: Callable[[Received], Step] | None = None
    storm_s: float = 0.0
    """Seconds from the first request in which the endpoint says 429."""


def stopped(requests: int, executions: int, *words: str) -> Callable[[Seen], None]:
    """Stopped after at most so many requests with tools, and executions, its cause named, and what it had found kept."""

    def holds(seen: Seen) -> None:
        assert seen.row.state == "failed", seen.row.reason
        assert seen.with_tools <= requests
        assert len(seen.requests) <= seen.with_tools + 1, "no more than the last word"
        assert len(seen.executions) <= executions
        assert all(word in seen.said for word in words), seen.said
        assert len(seen.kinds("tool_answered")) == len(seen.executions), "what was done is kept"
        assert seen.events[-1].kind == "run_ended"

    return holds


def put_to_a_person(requests: int, executions: int, *words: str) -> Callable[[Seen], None]:
    """A call that may be a poll: a person is asked about it after at most so many requests and executions."""

    def holds(seen: Seen) -> None:
        assert seen.row.state == "waiting", seen.row.reason
        assert (len(seen.requests), len(seen.executions)) <= (requests, executions)
        [asked] = seen.kinds("review_opened")
        assert all(word in asked["reason"] for word in words), asked
        assert len(seen.kinds("tool_answered")) == len(seen.executions), "what was done is kept"

    return holds


def unusable(*words: str) -> Callable[[Seen], None]:
    """Asked at most four times, the raw text kept."""

    def holds(seen: Seen) -> None:
        assert (seen.row.state, len(seen.requests), seen.executions) == ("failed", 4, [])
        assert all(word in seen.row.reason for word in words), seen.row.reason
        assert "did not give a usable answer in 4 turns" in seen.row.reason
        kept = [event.content for event in seen.events if event.kind == "model_answered"]
        assert len(kept) == 4
        assert all(content for content in kept)

    return holds


def answered(requests: int, executions: int) -> Callable[[Seen], None]:
    """Completed with so many requests and executions, no more and no less."""

    def holds(seen: Seen) -> None:
        assert seen.row.state == "completed", seen.row.reason
        assert (len(seen.requests), len(seen.executions)) == (requests, executions)
        assert "What I found." in json.dumps(seen.site.outcome(seen.row.id))

    return holds


def ran_again(seen: Seen) -> None:
    """The call's retries, then the node once more after its wait, with a call of its own; each attempt an event, each layer named."""
    assert seen.row.state == "completed", seen.said
    assert [fact["layer"] for fact in seen.kinds("reaction_decided")] == ["call_retries"] * 3 + ["node_retries"], (
        seen.said
    )
    assert len(seen.requests) == len(seen.kinds("call_issued")) == 5
    [waited] = seen.kinds("node_retry_scheduled")
    assert (waited["attempt"], waited["attempts"]) == (2, 5)
    assert seen.at[5] - seen.at[4] >= waited["delay_s"] >= 0.1
    assert len({request.idempotency_key for request in seen.requests[:4]}) == 1
    assert "Node retry" in seen.page


def capped(seen: Seen) -> None:
    assert seen.row.state == "aborted"
    assert seen.row.cost_usd_micros <= 250_000
    assert len(seen.requests) == 2
    assert seen.row.reason.startswith("run budget: the next call may take $0.1")


def spawning(seen: Seen) -> None:
    assert seen.row.state in ("failed", "aborted")
    assert len(seen.requests) <= 10
    assert {request.agent for request in seen.requests} == {"planner"}, "no agent was spawned"
    assert "200 briefs" in seen.said or "at most 16" in seen.said, seen.said


def withheld(seen: Seen) -> None:
    """Nothing of it stands where a person reads."""
    assert seen.row.state == "completed"
    assert "This cannot be answered here." in json.dumps(seen.site.outcome(seen.row.id))
    assert "credentials" in json.dumps([event.fact for event in seen.events])
    for place in (json.dumps([event.fact for event in seen.events]), seen.row.reason or "", seen.log, seen.page):
        assert SECRET not in place
        assert SECRET[6:] not in place


def refused_beyond_16(seen: Seen) -> None:
    assert seen.row.state == "completed", seen.row.reason
    assert len(seen.executions) == 16
    refused = seen.kinds("call_refused")
    assert len(refused) == 184
    assert all("only 16 calls of one answer are executed" in fact["problem"] for fact in refused)


def changing() -> TURN:
    return lambda n: Step(body=json.dumps(f"row {n} of many").encode())


def paraphrased(n: int) -> Step:
    ends = ("please", "now", "again", "once", "soon", "today", "quickly", "here", "there", "kindly")
    return looks(n, f"find one more old record about these famous lighthouse keepers {ends[n % 10]}")


UNGUARDED = "  breakers: []\n  breakers_deviation: What a retry layer does is looked at alone.\n"
LAYERS = f"{UNGUARDED}  retry_layers: {{preset: fabro, stages: {{fan_out: {{retry_policy: standard}}}}}}\n"
SOON = {"Retry-After": "0.01"}
GUARDED = "gates:\n  guardrails: [{rules: [credentials]}]\n"
BRIEFS = [{"agent": "worker", "title": f"Part {n}", "instructions": f"Do part {n}."} for n in range(200)]
PLANNED = {"topology": "{planner: planner, workers: [worker]}"}
DEAR = {"cap": 250_000, "output": 50_000}
NO_JSON = answer("", [call("look", '{"q": ', "call-1")])
UNKNOWN = answer("", [call("delete_all", {}, "call-1")])
OFF = answer('{"citations": 7}')
ROWS: Mapping[str, tuple[Row, ...]] = {
    "same call for ever": (Row(lambda n: looks(n, "x"), put_to_a_person(4, 2, "asked for look", "3 times within 5 calls")),),
    "same call, changing results": (Row(lambda n: looks(n, "x"), put_to_a_person(6, 4, "asked for look", "5 times in a row"), tool=changing()),),
    "paraphrased call": (Row(paraphrased, stopped(9, 9, "asked for calls like look", "3 times within 5 calls")),),
    "A, B, A, B": (Row(lambda n: looks(n, "ab"[n % 2]), put_to_a_person(5, 4, "look", "the same (limit")),),
    "legal polling (8 times, then done)": (Row(after(8, lambda n: looks(n, "job")), answered(9, 8), fabric={"polling": "true"}),),
    "503 until the node runs again": (
        Row(lambda n: refusal(503, "overloaded", headers=SOON) if n <= 4 else answer(SUMMARY), ran_again, tier="batch", fabric={"policy": LAYERS, "retry": "{}"}),
    ),
    "broken tool JSON": (Row(lambda n: NO_JSON, unusable("look: the arguments are not a JSON object")), Row(after(1, lambda n: NO_JSON), answered(2, 0))),
    "unknown tool": (
        Row(lambda n: UNKNOWN, unusable("there is no tool 'delete_all'; offered are: look")),
        Row(after(1, lambda n: UNKNOWN), answered(2, 0)),
    ),
    "off-schema output": (Row(lambda n: OFF, unusable("text is missing")), Row(after(1, lambda n: OFF), answered(2, 0))),
    "sub-agents spawning": (
        Row(lambda n: answer(json.dumps({"goal": "Answer.", "briefs": BRIEFS, "exit_criteria": ["Done."]})), spawning, fabric=PLANNED),
    ),
    "50k tokens an answer": (
        Row(lambda n: answer("", [call("look", {"q": f"{n}"}, f"c{n}")], usage=(900, 50_000)), capped, fabric=DEAR),
    ),
    "credential in the answer": (
        Row(lambda n: answer(json.dumps({"text": f"The key is {SECRET}.", "citations": []})), withheld, fabric={"gates": GUARDED}),
    ),
    "200 tool calls in one answer": (Row(after(1, lambda n: looks(n, *map(str, range(200)))), refused_beyond_16),),
    "HTML, empty answer": (
        Row(lambda n: answer("<html><h1>502</h1></html>"), unusable("no JSON object")),
        Row(lambda n: answer(""), unusable("the answer is empty")),
        Row(after(1, lambda n: answer("")), answered(2, 0)),
        Row(lambda n: html(), stopped(2, 0, "web page")),
        Row(after(1, lambda n: html()), answered(2, 0)),
    ),
    "spends within its cap": tuple(Row(lambda n: answer("", [call("look", {"q": f"{n}"}, f"c{n}")], usage=(20_000, 50_000)) if n < 8 else answer(SUMMARY), answered(8, 7), tier=tier, fabric={"cap": 1_000_000}) for tier in ("interactive", "batch")),
    "well-behaved": (Row(lambda n: looks(n, "x") if n == 1 else answer(SUMMARY), answered(2, 1)),),
}  # fmt: skip
"""By the scenario's name."""
PROVIDER = "test_provider_failures_http.py"
ELSEWHERE = {
    **dict.fromkeys(("429 storm", "four 429s, then healthy", "503 after three good calls", "hang, trickle"), PROVIDER),
    "handoff ping-pong": "test_misbehaviour_handoff.py, with fabrics of peers; the rules in core/test_deadlock_rules.py",
}
SCENARIOS = (
    *("same call for ever", "same call, changing results", "paraphrased call", "A, B, A, B", "legal polling (8 times, then done)", "429 storm"),
    *("four 429s, then healthy", "503 after three good calls", "hang, trickle", "broken tool JSON", "unknown tool", "off-schema output"),
    *("handoff ping-pong", "sub-agents spawning", "50k tokens an answer", "credential in the answer", "200 tool calls in one answer"),
    *("HTML, empty answer", "well-behaved"),
)  # fmt: skip
"""The comparison's scenarios, in its order."""
OURS = ("503 until the node runs again", "spends within its cap")  # Of no other run.


def test_every_scenario_has_its_rows_or_says_why_not():
    assert len(SCENARIOS) == 19
    assert set(ROWS) | set(ELSEWHERE) == {*SCENARIOS, *OURS}
    assert not set(ROWS) & set(ELSEWHERE)


def scripted(row: Row, at: dict[int, float]) -> Callable[[Received], Step]:
    """Model and tool behind one endpoint, each counting for itself."""
    counts = {"model": 0, "tool": 0}

    def reply(received: Received) -> Step:
        model = received.path.endswith("/chat/completions")
        if not model and received.path != "/look":
            return refusal(404, "nothing is served here")
        kind = "model" if model else "tool"
        counts[kind] += 1
        if not model:
            return row.tool(counts[kind])
        at[counts[kind]] = time.monotonic()
        if at[counts[kind]] - at[1] < row.storm_s:
            return refusal(429, "slow down", headers={"Retry-After": "0.5"})
        return row.by_request(received) if row.by_request else row.turn(counts[kind])

    return reply


def seen_of(row: Row, settings: Any, caplog: Any) -> Seen:
    at: dict[int, float] = {}
    with ScriptedEndpoint(scripted(row, at)) as endpoint:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = "m", "sk-test", endpoint.url
        settings.FABRIC_ALLOWED_HOSTS = (endpoint.authority,)
        given = {
            "tier": row.tier,
            "allowed": "interactive, batch",
            "root": f"http://{endpoint.authority}",
            "polling": "false",
            "output": 1_000,
            "gates": "",
            "policy": "",
            "retry": "{base_s: 0.05, cap_s: 5}",
        }
        given |= {"agents": "", "topology": FIXED, "cap": 10_000_000, **row.fabric}
        with installation() as site, caplog.at_level(logging.DEBUG):
            name = fabric_publish(actor=site.actor, source=FABRIC.format(**given)).name
            run_ids, rows = [], []
            for n in range(row.runs):
                run_ids.append(site.start(name, f"What is it? {n}"))
                if row.in_turn:
                    site.rest(run_ids[-1])
            rows = [site.rest(run_id) for run_id in run_ids]
            received = endpoint.wait(0)
            return Seen(
                next((one for one in rows if one.state != "completed"), rows[0]),
                site.events(run_ids[0]),
                [one for one in received if one.path.endswith("/chat/completions")],
                [one for one in received if one.path == "/look"],
                at,
                site,
                tuple(rows),
                caplog.text,
                page_of(run_ids[0]),
            )


def page_of(run_id: str) -> str:
    """The run's page, its events and its export's address as a person sees them."""
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(get_user_model().objects.get())})
    answers = [client.get(f"/runs/{run_id}"), client.get(f"/runs/{run_id}/events")]
    assert answers[0].status_code == 200
    return "".join(found.content.decode() for found in answers if not found.streaming)


CASES = [(name, row) for name, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize("row", [row for _, row in CASES], ids=[name for name, _ in CASES])
def test_it_is_stopped_parked_or_recovered_and_says_why(settings, caplog, row):
    seen = seen_of(row, settings, caplog)
    row.holds(seen)
    assert "sk-test" not in json.dumps([event.fact for event in seen.events])
