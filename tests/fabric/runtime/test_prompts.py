"""Words for prompts: every template renders, and no prompt is larger than what was reserved for it."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.core.decision import prompt
from fabric.core.schema.payloads import AGENT_OUTPUT
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.runtime import prompts
from fabric.runtime.answer_shapes import SHAPES
from fabric.runtime.ports.calls import ToolOffer
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import agent, lone, spec, tree
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, broken, call, fails, gives, planned, say, scored, summary
from tests.fabric.core.topologies.fabrics import duty, sop

DOCUMENTS = (Document("a.md", "alpha " * 100), Document("b.md", "beta"))


def texts(world, agent):
    return [message.text for request in world.requests if request.agent == agent for message in request.messages]


def test_every_template_that_is_named_exists_and_every_one_is_named():
    named = set(re.findall(r'"([a-z]+@\d+)"', inspect.getsource(prompt)))
    assert named == set(prompts.TEMPLATES)


def test_every_shape_that_is_asked_for_is_explained():
    assert set(prompt.OUTPUT.values()) | {"judgement", "verdict", "text", "typed"} == set(SHAPES)
    assert set(SHAPES) - {"text", "typed"} == set(AGENT_OUTPUT)


@pytest.mark.parametrize("shape", sorted(AGENT_OUTPUT))
def test_what_an_agent_is_told_names_the_fields_of_the_schema(shape):
    required = AGENT_OUTPUT[shape].model_json_schema()["properties"]
    assert all(f'"{name}"' in SHAPES[shape] for name in required)


@pytest.fixture(scope="module")
def busy():
    """A run that uses every template."""
    loop = [asks(call(q="x")) for _ in range(4)]
    script = {
        "planner": [planned(2), planned(1)],
        "worker": [say("no"), summary(), *loop, *loop[:3], summary("Last.")],
        "critic": [say("no"), scored(0.9)],
    }
    table = {
        "infinite_tool_loop": {
            "batch": {
                "rungs": [
                    {"reaction": "inject", "times": 1},
                    {"reaction": "replan", "times": 1},
                    {"reaction": "terminate"},
                ]
            }
        }
    }
    return ran(spec(table=table), script, tier=Tier.BATCH, documents=DOCUMENTS)


def test_the_busy_run_renders_every_template(busy):
    found = tree(
        roles=("planner", "finalizer"),
        topology={"plan_critic": "judge"},
        gates={
            "grounding": "citations",
            "grounding_critic": "judge",
            "oracle": [{"name": "own", "message": "No balance.", "critic": "judge"}],
        },
    )
    accepts = say('{"accept": true, "evidence": ["It is so."]}')
    found["agents"].append(agent("judge"))
    judged = ran(FabricSpec.model_validate(found), {"judge": accepts})
    turns = ran(sop(duty("one", "First"), duty("two", "Second")), {"one": summary(), "two": summary()})
    performed = [*busy.performed, *judged.performed, *turns.performed]
    used = {message.template for command in performed if command.kind == "call_model" for message in command.messages}
    assert used == set(prompts.TEMPLATES)
    assert busy.end.truncated


def test_the_planner_learns_the_request_the_workers_and_the_documents(busy):
    (text,) = [text for text in texts(busy, "planner") if text.startswith("Request:")][:1]
    assert "What is it?" in text
    assert "Attached documents: a.md, b.md" in text
    assert "- worker: Work as worker." in text
    assert "at most 16 briefs" in text


def test_a_worker_learns_its_part_and_no_other(busy):
    first = next(request for request in busy.requests if request.agent == "worker").messages[1].text
    assert "Your part: Part 1\nDo part 1." in first
    assert "Part 2" not in first


def test_the_critic_learns_the_exit_criteria(busy):
    text = next(text for text in texts(busy, "critic") if text.startswith("Request:"))
    assert "Exit criteria:\n- It answers the request." in text
    assert "Result:\nAll of it." in text


def test_every_call_a_model_proposed_is_answered_before_it_is_asked_again(busy):
    for request in busy.requests:
        asked = [made.call_id for message in request.messages for made in message.calls]
        answered = [message.call_id for message in request.messages if message.role == "tool"]
        assert sorted(asked) == sorted(answered)


def test_a_system_message_comes_first_and_says_who_and_in_what_shape(busy):
    for request in busy.requests:
        assert request.messages[0].role == "system"
        assert request.messages[0].text.startswith(f"You are {request.agent}. Work as {request.agent}.")


def test_documents_stand_in_the_prompt_as_far_as_the_agent_takes_them():
    fabric = lone(agents={"worker": {"inline_document_chars": 12}})
    world = ran(fabric, documents=DOCUMENTS)
    assert "--- a.md ---\nalpha alpha \n--- b.md ---\nbeta" in texts(world, "worker")[1]


def test_a_tool_call_carries_the_arguments_of_the_answer_that_proposed_it():
    world = ran(lone(), {"worker": [asks(call(q="x", deep={"n": [1, 2]})), summary()]})
    assert world.executed == [("look", {"q": "x", "deep": {"n": [1, 2]}})]


def test_a_retry_sends_the_very_same_prompt():
    world = ran(spec(), {"critic": [fails(), scored(0.9)]})
    one, two = (request for request in world.requests if request.agent == "critic")
    assert (one.messages, one.idempotency_key, one.command_id) == (two.messages, two.idempotency_key, two.command_id)
    assert (one.attempt, two.attempt) == (1, 2)
    assert one.trace_headers["traceparent"] != two.trace_headers["traceparent"]


# -- the reservation bounds the prompt: the harness asserts it for each prompt it renders -------------------------------

TEXT = st.text(max_size=120)
RESULT = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=80,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    results=st.lists(RESULT, min_size=1, max_size=5),
    words=st.lists(TEXT, max_size=3),
    request=st.text(min_size=1, max_size=200).filter(str.strip),
    inline=st.sampled_from([0, 5, 1_000]),
    documents=st.lists(TEXT, max_size=3),
)
def test_no_prompt_is_larger_than_what_was_reserved(results, words, request, inline, documents):
    waves = [asks(call(n=n, deep=results), text=word) for n, word in enumerate([*words, "x"])]
    fabric = spec(agents={"worker": {"inline_document_chars": inline}})
    files = tuple(Document(f"{n}.md", text) for n, text in enumerate(documents))
    script = {
        "planner": [say(words[0] if words else "no"), planned(2)],
        "worker": [*waves, broken(), say("no"), summary(words[-1].strip() or "x" if words else "x")],
        "look": [gives(result) for result in results],
    }
    world = World(fabric, script, documents=files).start(request).go()
    assert world.requests


def test_a_result_that_is_all_brackets_and_commas_is_no_larger_than_its_content():
    flat = gives(list(range(10)) * 3_000)
    world = ran(lone(), {"worker": [asks(), summary()], "look": flat})
    assert len(world.requests) == 2


def test_a_result_that_is_shown_twice_is_counted_twice():
    big = gives("long " * 4_000)
    again = [asks(call(call_id="c", q="x")) for _ in range(2)]
    world = ran(lone(), {"worker": [*again, summary()], "look": big})
    assert [len(m.text) for m in world.requests[-1].messages if m.role == "tool"] == [20_000, 20_000]


def test_many_corrections_are_counted():
    fabric = lone(limits={"corrections_per_step": 60, "turns": 200})
    world = ran(fabric, {"worker": [*[say("no")] * 50, summary()]})
    assert len(world.requests) == 51


def test_the_overhead_covers_tools_and_schema():
    fabric = spec()
    small = prompts.overhead_bytes(fabric, fabric.agent("worker"), {})
    offer = ToolOffer(name="look", description="d" * 5_000, parameters={"type": "object"})
    assert prompts.overhead_bytes(fabric, fabric.agent("worker"), {"look": offer}) >= small + 5_000
    assert small > max(len(json.dumps(dict(prompts.json_schema(shape)))) for shape in AGENT_OUTPUT)
