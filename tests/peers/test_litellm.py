"""The product's adapters through LiteLLM's proxy, each of their protocols to each protocol behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.schema.payloads import AGENT_OUTPUT, json_schema
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ChatMessage
from fabric.runtime.ports.journal import Document
from simulator.endpoint import Received, Step, hang
from simulator.endpoint.behaviour.misbehaviour import agents
from simulator.endpoint.wire.streams import STREAM_TYPE
from tests.fabric.composition.installation import installation
from tests.fabric.providers.asking import TOOL, request
from tests.fabric.providers.wires import AZURE, GOOGLE, OPENAI, VENDORS, Spoken
from tests.peers.litellm import BEDROCK_FRONT, BEHIND, FRONTS, KEY, Proxy, proxy, spoken_behind

pytestmark = [pytest.mark.peers, pytest.mark.slow]
CALLS = [("look", {"at": "ü"}, "a1"), ("look", {"at": "there"}, "b1")]


@pytest.fixture(scope="module")
def between(tmp_path_factory: Any) -> Any:
    """One proxy for all of this file: it takes long to start."""
    with proxy(tmp_path_factory.mktemp("litellm")) as found:
        yield found


def pairs(found: list[tuple[str, str]]) -> Any:
    """Return what the product speaks, and what the proxy asks."""
    given = [(BEDROCK_FRONT if front == "bedrock" else FRONTS[front], behind) for front, behind in found]
    return pytest.mark.parametrize(("front", "behind"), given, ids=[f"{front} to {behind}" for front, behind in found])


EACH = [*((front, behind) for front in FRONTS for behind in BEHIND), ("bedrock", "bedrock")]
each = pairs(EACH)
each_stream = pairs([one for one in EACH if one[1] != "bedrock"])
"""Bedrock streams in a form of its own, which the scripted endpoint does not write."""
star = pairs(
    [
        *((front, "openai") for front in FRONTS),
        *(("openai", behind) for behind in BEHIND if behind != "openai"),
        *(("responses", behind) for behind in BEHIND if behind != "openai"),
        ("bedrock", "bedrock"),
    ]
)
"""Pairs that have each protocol in front and behind once, and Responses before each."""
fronts = pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)


def ask(between: Proxy, front: Spoken, behind: str, script: Any, *, key: str = KEY, **changed: Any) -> tuple[Any, Any]:
    """Return what the adapter makes of it, and the requests that came to the endpoint."""
    between.script = script
    before = len(between.received)
    options = dict(front.options) | ({"stream": True} if changed.get("streamed") else {})
    model = ModelSpec(name="main", provider=front.name, model=behind, options=options)

    return between.ask(front, key, request(model=model, **changed)), between.received[before:]


@each
def test_an_answer_comes_through_with_its_tokens(between: Proxy, front: Spoken, behind: str) -> None:
    spoken = spoken_behind(front, behind)
    result, (received,) = ask(between, front, behind, spoken.answer("Hello.", usage=(12, 3)))
    assert isinstance(result, ModelReplied), result
    assert (result.text, result.input_tokens, result.output_tokens, result.finish) == ("Hello.", 12, 3, "stop")
    assert "You are a reader." in json.dumps(received.body)


@each
def test_calls_come_through_in_order(between: Proxy, front: Spoken, behind: str) -> None:
    spoken = spoken_behind(front, behind)
    result, (received,) = ask(between, front, behind, spoken.answer(None, CALLS), tools=(TOOL,))
    assert isinstance(result, ModelReplied), result
    assert [(one.tool, one.args) for one in result.calls] == [(name, args) for name, args, _ in CALLS]
    ids = {one.call_id for one in result.calls}
    assert len(ids) == 2 or (front is GOOGLE and ids == {""})  # Its form needs none, and the proxy passes none on.
    assert '"look"' in json.dumps(received.body)


@each
def test_the_schema_of_a_tool_arrives(between: Proxy, front: Spoken, behind: str) -> None:
    spoken = spoken_behind(front, behind)
    _, (received,) = ask(between, front, behind, spoken.answer("ok"), tools=(TOOL,))
    assert '"at"' in json.dumps(received.body)


@each_stream
def test_a_call_begins_while_the_rest_of_a_stream_is_still_to_come(between: Proxy, front: Spoken, behind: str) -> None:
    spoken = spoken_behind(front, behind)
    begun: list[Any] = []
    events = Step(content_type=STREAM_TYPE, pieces=tuple(spoken.events("Let me see.", CALLS)))
    result, (received,) = ask(between, front, behind, events, tools=(TOOL,), streamed=begun.append)
    assert isinstance(result, ModelReplied), result
    assert result.text == "Let me see."
    assert [one.args for one in result.calls] == [args for _, args, _ in CALLS]
    assert [one.call_id for one in begun[-1].calls] == [one.call_id for one in result.calls]
    assert (result.input_tokens, result.output_tokens) == (10, 5)


@each
def test_a_conversation_with_calls_goes_out_whole(between: Proxy, front: Spoken, behind: str) -> None:
    messages = (
        ChatMessage("system", "S"),
        ChatMessage("user", "the question"),
        ChatMessage("assistant", "thinking", (ToolCall(call_id="call-1", tool="look", args={"at": "here"}),)),
        ChatMessage("tool", "what was seen", call_id="call-1", tool="look"),
        ChatMessage("user", "again"),
    )
    spoken = spoken_behind(front, behind)
    result, (received,) = ask(between, front, behind, spoken.answer("ok"), messages=messages, tools=(TOOL,))
    assert isinstance(result, ModelReplied), result
    sent = json.dumps(received.body)
    places = [sent.index(words) for words in ("the question", "thinking", "here", "what was seen", "again")]
    assert places == sorted(places)


@each
def test_a_schema_arrives(between: Proxy, front: Spoken, behind: str) -> None:
    """In the form of the protocol behind, or, where Azure and older ones have none, as a tool."""
    schema = json_schema("critique")
    spoken = spoken_behind(front, behind)
    result, (received,) = ask(between, front, behind, spoken.answer("{}"), output_schema=schema, output="critique")
    assert isinstance(result, ModelReplied), result
    sent = json.dumps(received.body).replace('\\"', '"')  # Bedrock has a schema as text.
    assert all(f'"{name}"' in sent for name in schema["properties"])
    # Each protocol has its own field for it: response_format, output_format, response_json_schema, responseJsonSchema.
    assert "schema" in json.dumps(received.body).lower()


@star
@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (400, Cause.BAD_REQUEST),
        (401, Cause.AUTH),
        (429, Cause.RATE_LIMIT),
        (500, Cause.SERVER_ERROR),
        (503, Cause.SERVER_ERROR),
    ],
)
def test_a_refusal_keeps_its_cause(between: Proxy, front: Spoken, behind: str, status: int, cause: Cause) -> None:
    spoken = spoken_behind(front, behind)
    result, received = ask(between, front, behind, spoken.refusal(status, "the words of the provider"))
    assert isinstance(result, CallFailed), result
    assert (result.cause, result.billed, len(received)) == (cause, False, 1)
    assert "the words of the provider" in result.message


@star
@pytest.mark.parametrize("usage", [None, (0, 0), (-5, -5), (10**12, 10**12)])
def test_odd_usage_is_never_taken_for_a_price(between: Proxy, front: Spoken, behind: str, usage: Any) -> None:
    """An answer is charged as if each character were a token; where the proxy itself trips over it, the attempt says so."""
    spoken = spoken_behind(front, behind)
    result, (_,) = ask(between, front, behind, spoken.answer("four", usage=usage))
    if isinstance(result, CallFailed):
        assert result.cause in (Cause.SERVER_ERROR, Cause.BAD_REQUEST)
        assert result.status in (400, 422, 500)
        return
    assert result.text == "four"
    assert result.input_tokens >= len("Hello?")
    assert result.output_tokens >= 0


@pairs([(front, "openai") for front in FRONTS])
def test_the_deadline_ends_what_hangs_behind_the_proxy(between: Proxy, front: Spoken, behind: str) -> None:
    result, _ = ask(between, front, behind, hang(), within_s=1.5)
    assert isinstance(result, CallFailed)
    assert (result.cause, result.billed) == (Cause.TIMEOUT, True)


@star
def test_when_to_come_back_is_read_where_the_proxy_says_it(between: Proxy, front: Spoken, behind: str) -> None:
    """In OpenAI's form ``Retry-After`` is called ``llm_provider-retry-after``; in the others it is gone, and the product waits as it does without one."""
    spoken = spoken_behind(front, behind)
    result, _ = ask(between, front, behind, spoken.refusal(429, "slow down", headers={"Retry-After": "7"}))
    assert isinstance(result, CallFailed)
    assert result.cause is Cause.RATE_LIMIT
    assert result.retry_after_s in ((7.0, None) if front in VENDORS[1:] else (7.0,))


@fronts
def test_a_key_that_the_proxy_does_not_know(between: Proxy, front: Spoken) -> None:
    """Without a database it answers 400 and not 401: what it says stands in the message."""
    result, received = ask(between, front, "openai", OPENAI.answer("ok"), key="sk-wrong")
    assert isinstance(result, CallFailed)
    assert received == []
    assert result.cause in (Cause.BAD_REQUEST, Cause.AUTH)
    assert "No connected db" in result.message


@fronts
def test_a_model_that_the_proxy_does_not_know(between: Proxy, front: Spoken) -> None:
    result, received = ask(between, front, "nothing", OPENAI.answer("ok"))
    assert isinstance(result, CallFailed)
    assert received == []
    assert result.cause in (Cause.BAD_REQUEST, Cause.BAD_CONFIGURATION, Cause.SERVER_ERROR)


def test_cut_arguments_behind_the_proxy_are_no_call_that_parses_by_luck(between: Proxy) -> None:
    step = OPENAI.answer(None, [("look", '{"at": "th', "a1")], finish="length")
    result, _ = ask(between, OPENAI, "openai", step, tools=(TOOL,))
    assert isinstance(result, ModelReplied), result
    assert result.finish == "length"
    assert [(one.args, one.raw_args) for one in result.calls] == [(None, '{"at": "th')]


# -- a whole run -------------------------------------------------------------------------------------------------------

DOCUMENTS = (
    Document("bridge.md", "The bridge is 40 metres long. It was built in 1931 and repaired in 1988."),
    Document("ferry.md", "The ferry crosses in 12 minutes. It has run since 1902."),
)
RUNS = {
    OPENAI.name: ("FABRIC_MODEL_URL", "FABRIC_MODEL_KEY"),
    **{one.name: one.settings for one in (*VENDORS[1:], AZURE)},
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("front", [*VENDORS, FRONTS["azure"]], ids=lambda spoken: spoken.name)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_goes_end_to_end(between: Proxy, front: Spoken, stream: bool, settings: Any) -> None:
    """Plan, tools, merge, critic, outcome, each through the proxy."""
    between.script = by_schema()
    url, key = RUNS[front.name]
    setattr(settings, url, f"http://{between.where}{front.base}")
    setattr(settings, key, KEY)
    price = "    price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
    given = json.dumps({**dict(front.options), "stream": stream})
    options = f"    model: openai\n    options: {given}\n{price}"
    with installation() as site:
        name = site.publish(
            "document-review", **{"    provider: openai": f"    provider: {front.name}", price: options}
        )
        run_id = site.start(name, "Which is older, the bridge or the ferry?", DOCUMENTS, "interactive")
        row, kinds = site.rest(run_id), site.kinds(run_id)
    assert row.state == "completed", row.reason
    assert "tool_answered" in kinds
    assert row.tokens > 0


def by_schema() -> Any:
    """The scripted agents, which read what the proxy makes of a request: it names each schema ``response``, and a result comes from Google's form wrapped."""
    reply = agents()
    outputs = {frozenset(json_schema(name)["properties"]): name for name in AGENT_OUTPUT}

    def script(received: Received) -> Step:
        body = dict(received.body or {})
        form = body.get("response_format") or {}
        if asked := form.get("json_schema"):
            named = asked | {"name": outputs[frozenset(asked["schema"]["properties"])]}
            body["response_format"] = {**form, "json_schema": named}
        body["messages"] = [unwrapped(message) for message in body.get("messages", ())]
        return reply(replace(received, body=body))

    return script


def unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    content = str(message.get("content"))
    if message.get("role") != "tool" or not content.startswith('{"output": '):
        return message
    return message | {"content": json.loads(content)["output"]}


def test_it_fetches_nothing_from_outside(between: Proxy) -> None:
    """After all of the above: no connection but to this machine."""
    assert [(one.method, one.path) for one in between.outside.received] == []
