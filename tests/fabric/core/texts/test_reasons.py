"""docs/reference/reasons.md is made of ``CLASSIFY`` (``fabric/core/values/taxonomy.py``) and of runs that end so; what the tables refuse is refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fabric.core import events as ev
from fabric.core.budgets.key_caps import KeyCap
from fabric.core.events.commands import Command
from fabric.core.events.inputs import CallFailed
from fabric.core.mechanisms import ORDER
from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.reasons import NO_SENTENCES, why_no_sentence
from fabric.core.values.taxonomy import CLASSIFY, Cause
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.providers.openai_compatible import Endpoint, OpenAICompatible
from simulator.endpoint import ScriptedEndpoint, Step, cut_stream, html, refusal
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, travel
from tests.fabric.core.calls.test_persona_runs import BOTH, DENYING
from tests.fabric.core.calls.test_persona_runs import fabric as denied
from tests.fabric.core.calls.test_screening import BOOKS, READS
from tests.fabric.core.calls.test_screening import found as instructed
from tests.fabric.core.child_runs.test_spawn_caps import tree as household_of
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.family_member import Member
from tests.fabric.core.graph.factories import round_robin
from tests.fabric.core.harness import World, ran
from tests.fabric.core.ladders.test_ladder import SAME
from tests.fabric.core.recollections import WRITE as WRITES_NOTES
from tests.fabric.core.recollections import remembering, started
from tests.fabric.core.scripts import HANGS, Answer, asks, broken, call, fails, gives, planned, say, scored, summary
from tests.fabric.core.tills import Till
from tests.fabric.core.told import T0
from tests.fabric.core.topologies.fabrics import graph, passes, peers, rule, talks
from tests.fabric.core.topologies.graph.test_restarts import goes_round
from tests.fabric.core.topologies.graph.test_turns import END, SAYS, of_graph, using
from tests.fabric.providers.asking import KEY as KEY_SENT
from tests.fabric.providers.asking import request

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "reasons.md"
WRITE = "WRITE_DOCS"
"""Set this variable when running this test to write the page anew."""
HEAD = """# Reasons

One sentence says why a run ended, was stopped or asks a person. It names the agent and its call, how often against which
limit, and the cause first. These causes are the finest names that there are. Each stands in the events, in the API and in
`manage.py run explain`.

The examples are made by running the engine. Those of endpoints come from the scripted endpoint over HTTP.

This page is made from `CLASSIFY` in `fabric/core/values/taxonomy.py` by `tests/fabric/core/texts/test_reasons.py`.

| cause | example | what to do now |
|---|---|---|
"""


def _loop() -> World:
    return ran(lone(), {"worker": [*[asks(call(q="order 42"))] * 4, summary("What I have.")]})


def _hub() -> World:
    def hands_on(request: Command) -> Answer:
        part = request.command_id.split(".")[1]
        return asks(call("transfer", to="bob", brief=f"Look at part {part} of it."))

    back = rule({"kind": "from_speaker", "agent": "bob"}, "alice")
    fabric = graph(back, topology={"max_turns": 20}, agents=using("alice"))
    return ran(fabric, {"alice": hands_on, "bob": summary("I need more information.")})


def _circle() -> World:
    script = {"triage": passes("network"), "network": passes("triage")}
    return ran(peers("triage", "network", limits={"hops": 20}), script)


def _hops() -> World:
    steps = {name: [passes(to, f"Matter {n} of {name}, which is new.") for n in range(4)] for name, to in PAIR}
    return ran(peers("triage", "network"), steps)


def _looking(fabric: FabricSpec, **script: Any) -> World:
    """A worker that looks up one thing after the other."""
    return ran(fabric, {"worker": [*[asks(call(call_id=word, q=word)) for word in THINGS], summary()], **script})


def _crossing() -> World:
    failing = [fails(Cause.SERVER_ERROR, "the provider is down", status=503)] * 9
    return ran(goes_round(), {**talks("alice"), "bob": failing})


def _calls(*given: Any, tools: tuple[str, ...] = ("look",), **fields: Any) -> World:
    """A worker that makes these calls in one answer."""
    return ran(lone(tools=tools, **fields), {"worker": [asks(*given), summary()], "look": gives(error="no such page")})


def _written_twice() -> World:
    both = [call(WRITES_NOTES, name, key="k", value=value) for value, name in enumerate("ab")]
    return started(remembering("fabric"), [asks(*both), summary()])[0].go()


def _lost_booking() -> World:
    desk = Desk(lost={1})
    return go(at_the_desk(travel(), desk, [asks(booking(1)), summary()]), desk)


def _near() -> World:
    """The first attempt fails so late that there is no time for a second one."""
    slow = [fails(Cause.SERVER_ERROR, "it is down").after(19.0), summary()]
    return ran(lone(deadlines=SHORT, stall_watchdog={"after_s": 0}), {"worker": slow})


PAIR = (("triage", "network"), ("network", "triage"))
THINGS = (
    "apples",
    "bridges",
    "candles",
    "dragons",
    "engines",
    "forests",
    "gardens",
    "harbours",
    "islands",
    "jackets",
    "kettles",
    "ladders",
)
HOST = "llm.example.com"
"""Stands in the page for the scripted endpoint."""
KEY = "AKIA" + "QZ7TM2XWPL4RD6VB"
KEY_CAP = KeyCap("w-1", "https://llm.example.com:443", day_usd_micros=500)
SHORT = {"interactive": {"call_s": 20, "stage_s": 20, "run_s": 30}}


def _of_mechanism(name: str) -> Mapping[Cause, Callable[[], World]]:
    place = f"tests.fabric.core.mechanisms.test_{name}"
    return getattr(import_module(place), "REASONS", {}) if find_spec(place) else {}


SCENES: Mapping[Cause, Callable[[], World | Member]] = {
    Cause.LOOP_DETECTED: _loop,
    Cause.TURN_LIMIT: lambda: ran(lone(limits={"turns": 1}), {"worker": [asks(call(q="x")), summary()]}),
    Cause.CORRECTIONS_SPENT: lambda: ran(lone(), {"worker": say("")}),
    Cause.PARTIAL_FAN_IN: lambda: ran(
        lone(workers=3), {"worker": [summary(), fails(Cause.AUTH, "the key was refused"), summary()]}
    ),
    Cause.STAGE_DEADLINE: lambda: ran(lone(deadlines=SHORT), {"worker": HANGS}),
    Cause.SUB_AGENT_CAP: lambda: ran(lone(workers=3, limits={"sub_agents_alive": 2})),
    Cause.BUDGET_GATE: lambda: ran(lone(budget={"run_usd_micros": 500})),
    Cause.COST_VELOCITY: lambda: _looking(lone(cost_velocity={"usd_micros_per_minute": 200})),
    Cause.RUN_DEADLINE: lambda: ran(
        lone(deadlines={"interactive": {"call_s": 25, "stage_s": 25, "run_s": 25}}), {"worker": HANGS}
    ),
    Cause.NO_PROGRESS: lambda: _looking(lone()),
    Cause.REPEATED_FAILURE: lambda: _looking(lone(), look=gives(error="the order does not exist")),
    Cause.PLAN_GATE: lambda: ran(spec(), {"planner": planned(1, agent="critic")}),
    Cause.POLICY_DENIED: lambda: ran(spec(), {"finalizer": summary(f"The key is {KEY}.")}),
    Cause.INVARIANT: lambda: ran(spec(gates={"max_outcome_chars": 5})),
    Cause.GROUNDING: lambda: ran(
        spec(gates={"citations": "exist"}), {"aggregator": summary("All.", citations=("ledger.txt",))}
    ),
    Cause.BELOW_TAU: lambda: ran(spec(), {"critic": scored(0.2)}),
    Cause.HANDOFF_CYCLE: _circle,
    Cause.HOP_LIMIT: _hops,
    Cause.SUPERVISOR_STUCK: _hub,
    Cause.BRIEF_REPEATED: lambda: ran(spec(), {"planner": planned(briefs=[SAME, SAME])}),
    Cause.GOAL_UNMET: lambda: ran(
        graph(rule("always", END), topology={"max_turns": 5}, goal_gates={"nodes": ["bob"]}), SAYS
    ),
    Cause.VISIT_LIMIT: lambda: ran(
        of_graph(round_robin(["alice", "bob"], max_turns=40), limits={"max_node_visits": 10}), SAYS
    ),
    Cause.RESTART_BLOCKED: _crossing,
    Cause.RECURSION_LIMIT: lambda: household_of(2, recursion=1).go().root,
    Cause.EVENT_CAP: lambda: _looking(lone(limits={"run_events": 20})),
    Cause.PAYLOAD_CAP: lambda: _looking(lone(limits={"run_payload_bytes": 10_000}), look=gives("word " * 3_000)),
    Cause.PRICE_MISSING: lambda: ran(lone(), prices={}),
    Cause.RETRY_BUDGET_EMPTY: lambda: ran(
        lone(workers=3, retry={"bucket": 1, "base_s": 0.1}), {"worker": fails(Cause.SERVER_ERROR, "it is down")}
    ),
    Cause.DEADLINE_NEAR: _near,
    Cause.OUTCOME_UNKNOWN: _lost_booking,
    Cause.TOOL_CONSTRAINT: lambda: _calls(call("find", q="order 42")),
    Cause.DUPLICATE_CALL: lambda: _calls(call(call_id="c", q="x"), call(call_id="c", q="y")),
    Cause.DEPENDENCY_FAILED: lambda: _calls(
        call(call_id="a"), call("find", call_id="b", of={"$ref": "calls.a.result"}), tools=("look", "find")
    ),
    Cause.WRITE_CONFLICT: _written_twice,
    Cause.WORKSPACE_POLICY: lambda: ran(
        lone(tool={"kind": "http", "target": "https://pay.example.com/charge"}),
        {"worker": [asks(call(q="x")), summary()]},
        policy=WorkspacePolicy(hosts=("crm.example.com",)),
    ),
    Cause.KEY_CAP: lambda: ran(
        lone(),
        till=Till(caps=dict.fromkeys(KEY_CAP.scopes(T0), 500)),
        key_caps={"small": (KEY_CAP,)},
    ),
    Cause.PERSONA_VIOLATION: lambda: ran(denied(DENYING), BOTH),
    Cause.INJECTED_INSTRUCTION: lambda: instructed(READS, BOOKS, BOOKS),
    Cause.SCHEMA_INVALID: lambda: ran(lone(), {"worker": [broken(), summary()]}),
    **{cause: scene for module in ORDER for cause, scene in _of_mechanism(module.NAME).items()},
}
"""A run for each cause whose sentence is the engine's own. A mechanism's test may have its own in ``REASONS``."""

REFUSALS: Mapping[Cause, Step] = {
    Cause.RATE_LIMIT: refusal(429, "slow down", headers={"retry-after": "7"}),
    Cause.SERVER_ERROR: refusal(503, "the model is loading"),
    Cause.DROPPED_STREAM: cut_stream(),
    Cause.MALFORMED_ANSWER: html(),
    Cause.AUTH: refusal(401, "bad key"),
    Cause.BAD_REQUEST: refusal(400, "temperature must be 1"),
    Cause.BAD_CONFIGURATION: refusal(404, "Not Found"),
    Cause.UNKNOWN_MODEL: refusal(404, "no such model", code="model_not_found"),
    Cause.CONTEXT_LENGTH: refusal(400, "too long", code="context_length_exceeded"),
    Cause.QUOTA: refusal(429, "pay first", code="insufficient_quota"),
    Cause.CONTENT_FILTER: refusal(400, "withheld", code="content_filter"),
}
"""An endpoint's answer for each cause whose sentence is about an endpoint."""


def example(cause: Cause) -> str:
    """Returns the sentence of a run that meets the cause, or of a call that an endpoint refuses."""
    if cause in REFUSALS:
        return _refused(cause)
    world = SCENES[cause]()
    said = [fact.cause for fact in world.of(ev.ReactionDecided)] + [
        fact.trip for fact in world.of(ev.RungSkipped) if fact.trip is not None
    ]
    decided = [trip.message for trip in said if trip.cause is cause]
    return next(iter([*decided, *[fact.problem for fact in world.of(ev.CallRefused) if fact.cause is cause]]))


ALL = {**SCENES, **REFUSALS}
OTHERS: Mapping[Cause, str] = {
    Cause.NETWORK: "(the system's own words: which address could not be reached, and why)",
    Cause.TIMEOUT: "(which endpoint or tool, the seconds that it had, and how much of an answer had come)",
    Cause.RETRY_ASKED: "(the tool's own words)",
    Cause.UNKNOWN: "(the tool's own words)",
    Cause.TOKEN_LIMIT: "(no sentence: the agent corrects an answer that was cut)",
    Cause.QUEUE_FULL: "(the words of the worker whose pool of tools is full)",
    Cause.USER_CANCEL: "(the words of the person who cancelled)",
}
"""Who says it where no run makes the sentence."""


def _refused(cause: Cause) -> str:
    async def ask(endpoint: ScriptedEndpoint) -> str:
        provider = OpenAICompatible(Endpoint(endpoint.url, "small", KEY_SENT))
        found = await provider.ask(request())
        await provider.aclose()
        assert isinstance(found, CallFailed)
        assert found.cause is cause
        return found.message.replace(urlsplit(endpoint.url).netloc, HOST)

    with ScriptedEndpoint([REFUSALS[cause]]) as endpoint:
        return asyncio.run(ask(endpoint))


def written() -> str:
    rows = [
        f"| `{cause}` | {example(cause) if cause in ALL else OTHERS[cause]} | {CLASSIFY[cause].advice} |"
        for cause in Cause
    ]
    return HEAD + "\n".join(rows) + "\n"


def test_each_cause_says_what_to_do():
    for cause, row in CLASSIFY.items():
        assert row.advice.endswith("."), cause
        assert len(row.advice.split()) <= 24, cause


def test_each_cause_has_an_example_or_says_whose_words_it_has():
    assert {*SCENES, *REFUSALS, *OTHERS} == set(Cause)
    assert len(SCENES) + len(REFUSALS) + len(OTHERS) == len(Cause)


@pytest.mark.parametrize("cause", ALL)
def test_the_examples_are_sentences(cause):
    said = example(cause)
    assert why_no_sentence(said) == ""
    assert len(said) > 10


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("loop detector I: look with the same arguments for the third time", "the letter of a detector"),
        ("deadlock monitor: planner passes worker the same brief", "the name of a mechanism in front"),
        ("1 of 1 branches came back without a result", "a count of one"),
        ("run budget: the next call may take $0.000000", "money of nothing"),
        ("levels: 9 would pass the limit of 8", "a limit that is passed"),
        ("a limit has no inject rung", "a word of the engine alone"),
        ("safe_fallback", "a token for a sentence"),
        ("child run 1dd8a4b5 ended as aborted: agents alive", "an end before its cause"),
    ],
)
def test_an_unknown_reason_is_no_sentence(reason, why):
    assert why_no_sentence(reason) == why


def test_each_pattern_has_its_sentence():
    assert len(NO_SENTENCES) == 8


@pytest.mark.parametrize("reason", ["finished", "spent $0.27 of $0.05, 1 of 10", "the answer is empty"])
def test_sentences_are_let_pass(reason):
    assert why_no_sentence(reason) == ""


def test_the_page_is_what_the_tables_say():
    if os.environ.get(WRITE):
        PAGE.write_text(written(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == written(), f"set {WRITE}=1 and run this test to write it anew"
