"""A fabric may give a model's endpoint options: none that costs more, speaks in the journal's stead or asks another model."""

from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.providers.exchange.http_model import Endpoint
from fabric.providers.protocols.options import HARMLESS, VALUES, extend_body, problem
from simulator.endpoint import ScriptedEndpoint, answer
from tests.fabric.providers.asking import KEY, request
from tests.fabric.providers.test_openai_compatible import ask, ask_all
from tests.fabric.providers.wires import ANTHROPIC, AZURE, BEDROCK, GOOGLE, OPENAI, RESPONSES, VERTEX

DEARER: dict[str, Any] = {
    "model": "gpt-5-pro-EXPENSIVE",
    "max_tokens": 999_999,
    "max_completion_tokens": 999_999,
    "max_output_tokens": 999_999,
    "n": 50,
    "best_of": 50,
    "messages": [{"role": "user", "content": "Mine."}],
    "input": "Mine.",
    "system": "Mine.",
    "instructions": "Mine.",
    "tools": [],
    "service_tier": "priority",
    "stream": True,
    "store": True,
    "provider": {"order": ["dear"]},
    "generationConfig": {"candidateCount": 8, "maxOutputTokens": 999_999},
    "inferenceConfig": {"maxTokens": 999_999},
    "performanceConfig": {"latency": "optimized"},
    "reasoning": {"max_tokens": 999_999},
    "user": {"deep": {"n": 2}},
    "top_k": [1] * 1_000,
}
"""Each field on its own: what the finding sent, and its kin."""


@pytest.mark.parametrize("name", DEARER)
def test_a_field_that_costs_speaks_or_asks_another_model_is_not_sent(name):
    result, received = ask(
        answer("Hi."), model=request().model.model_copy(update={"options": {"extra_body": {name: DEARER[name]}}})
    )
    assert isinstance(result, CallFailed)
    assert (result.cause, received) == (Cause.BAD_CONFIGURATION, [])
    assert f"options.extra_body.{name}" in result.message


@pytest.mark.parametrize("name", ["max_tokens_field", "system_role", "response_format", "api"])
def test_an_option_with_another_value_is_not_sent(name):
    """``max_tokens_field: n`` would ask for a hundred answers without a limit."""
    result, received = ask(answer("Hi."), model=request().model.model_copy(update={"options": {name: "n"}}))
    assert isinstance(result, CallFailed)
    assert received == []
    assert f"options.{name} is 'n'; write " in result.message


def test_every_option_of_every_adapter_has_its_values():
    known = {
        option
        for one in (OPENAI, AZURE, RESPONSES, ANTHROPIC, GOOGLE, VERTEX, BEDROCK)
        for option in one.adapter.OPTIONS
    }
    assert known == {*VALUES, "extra_body", *OF_THEIR_CLOUD}


OF_THEIR_CLOUD = ("api_version", "project", "location")
"""Judged by the adapters of Azure and Vertex AI, and by their tests."""


def nested(name: str, value: Any) -> dict[str, Any]:
    first, _, rest = name.partition(".")
    return {first: nested(rest, value) if rest else value}


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_harmless_field_is_sent_beside_the_bodys_own(name):
    body = {"model": "small", "generationConfig": {"maxOutputTokens": 5}, "output_config": {"format": "x"}}
    options = {"extra_body": nested(name, 1)}
    assert problem(options) == ""
    sent = extend_body(body, options)
    found: Any = sent
    for part in name.split("."):
        found = found[part]
    assert found == 1
    assert (sent["model"], sent["generationConfig"]["maxOutputTokens"], sent["output_config"]["format"]) == (
        "small",
        5,
        "x",
    )


def test_the_operator_lets_more_through_and_never_over_what_the_adapter_writes():
    model = request().model.model_copy(update={"options": {"extra_body": {"mirostat": {"tau": 5}, "model": "dear"}}})
    with ScriptedEndpoint([answer("Hi.")]) as endpoint:
        own = Endpoint(endpoint.url, "small", KEY, frozenset({"mirostat", "model"}))
        (result,) = ask_all(OPENAI.adapter(own), [request(model=model)])
        (sent,) = endpoint.received
    assert isinstance(result, ModelReplied)
    assert (sent.body["mirostat"], sent.body["model"]) == ({"tau": 5}, "small")
