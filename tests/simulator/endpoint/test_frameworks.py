"""An agent of a framework that knows nothing of this product, on the endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from simulator.endpoint import ScriptedEndpoint
from tests.simulator.endpoint.asking import client, playing

QUESTION = "What is it?"
LIMIT = 4
"""Requests that the framework lets an agent make."""


class Report(BaseModel):
    """What an agent is asked for."""

    title: str
    pages: int


def look(q: str) -> str:
    """Looks something up."""
    return "42"


def agent(made: AsyncOpenAI, output: type[Any]) -> Agent[None, Any]:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=made))
    return Agent(model, output_type=output, tools=[look])


async def whole(found: Agent[None, Any]) -> Any:
    return (await found.run(QUESTION, usage_limits=UsageLimits(request_limit=LIMIT))).output


async def stream(found: Agent[None, Any]) -> Any:
    async with found.run_stream(QUESTION, usage_limits=UsageLimits(request_limit=LIMIT)) as running:
        return await running.get_output()


BOTH = pytest.mark.parametrize("run", [whole, stream])


def ran(scenario: str, output: type[Any], run: Callable[[Agent[None, Any]], Awaitable[Any]]) -> tuple[Any, int]:
    """Return what the agent came to, and the requests that it took. Whatever the framework raises is raised."""

    async def go(url: str) -> Any:
        async with client(url) as made:
            return await run(agent(made, output))

    with ScriptedEndpoint(playing(scenario)) as endpoint:
        return asyncio.run(go(endpoint.url)), len(endpoint.received)


@BOTH
def test_a_well_behaved_one_answers_in_two_requests(run):
    assert ran("cooperative", str, run) == ("The tool says: 42", 2)


@BOTH
def test_a_well_behaved_one_answers_in_the_form_that_is_asked_for(run):
    output, requests = ran("cooperative", Report, run)
    assert (output, requests) == (Report(title="The tool says: 42", pages=1), 2)


@BOTH
@pytest.mark.parametrize("scenario", ["tool_loop", "tool_loop_of_3", "cost_spike_tokens"])
def test_a_loop_goes_on_to_the_limit_of_the_framework(scenario, run):
    with pytest.raises(UsageLimitExceeded):
        ran(scenario, str, run)


@BOTH
def test_a_refusal_is_one(run):
    with pytest.raises(ModelHTTPError) as caught:
        ran("unavailable", str, run)
    assert caught.value.status_code == 503
