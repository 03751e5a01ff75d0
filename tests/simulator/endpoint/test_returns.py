"""A conversation sends back what it got, through each official client, or leaves it out and is refused."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from simulator.endpoint import ScriptedEndpoint
from tests.simulator.endpoint.asking import playing
from tests.simulator.endpoint.official_clients import DESCRIPTION, KEY, PARAMETERS, PATIENCE_S, QUESTION

ROUNDS = 4
"""Three of calls, then the answer."""
ANSWER = "The tool says: 42"


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=PATIENCE_S)


def chat_conversation(url: str, *, without: str = "") -> str:
    function: Any = {"name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai_client(url) as client:
        for _ in range(ROUNDS):
            made = client.chat.completions.create(
                model="m", messages=messages, tools=[{"type": "function", "function": function}]
            )
            message = made.choices[0].message.model_dump(exclude_none=True)
            if not message.get("tool_calls"):
                return str(message["content"])
            told = [{"role": "tool", "tool_call_id": one["id"], "content": "42"} for one in message["tool_calls"]]
            for holder in (message, *message["tool_calls"]):
                holder.pop(without, None)
            messages += [message, *told]
    return "no end"


def anthropic_conversation(url: str, *, without: str = "") -> str:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools: Any = [{"name": "look", "description": DESCRIPTION, "input_schema": PARAMETERS}]
    base = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0, timeout=PATIENCE_S) as client:
        for _ in range(ROUNDS):
            with client.messages.stream(model="m", max_tokens=100, messages=messages, tools=tools) as events:
                made = events.get_final_message()
            blocks = [block for block in made.content if block.type != without]
            used = [block.id for block in blocks if block.type == "tool_use"]
            if not used:
                return "".join(block.text for block in blocks if block.type == "text")
            told = [{"type": "tool_result", "tool_use_id": one, "content": "42"} for one in used]
            messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": told}]
    return "no end"


def google_conversation(url: str, *, without: str = "") -> str:
    declared = {"name": "look", "description": DESCRIPTION, "parameters_json_schema": PARAMETERS}
    config: Any = {"tools": [{"function_declarations": [declared]}], "automatic_function_calling": {"disable": True}}
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    options: Any = {"base_url": url.removesuffix("/v1"), "timeout": int(PATIENCE_S * 1000)}
    with genai.Client(api_key=KEY, http_options=options) as client:
        for _ in range(ROUNDS):
            made: Any = client.models.generate_content(model="m", contents=contents, config=config)
            if not made.function_calls:
                return str(made.text)
            content = made.candidates[0].content
            for part in content.parts:
                if without:
                    setattr(part, without, None)
            told = [
                types.Part.from_function_response(name=one.name, response={"result": "42"})
                for one in made.function_calls
            ]
            contents += [content, types.Content(role="user", parts=told)]
    return "no end"


def responses_conversation(url: str, *, without: str = "", store: bool = False) -> str:
    tool: Any = {"type": "function", "name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai_client(url) as client:
        for _ in range(ROUNDS):
            made = client.responses.create(
                model="m", input=items, tools=[tool], store=store, include=["reasoning.encrypted_content"]
            )
            calls = [one for one in made.output if one.type == "function_call"]
            if not calls:
                return str(made.output_text)
            items += [
                one.model_dump(exclude_none=True, exclude={without}) for one in made.output if one.type != without
            ]
            items += [{"type": "function_call_output", "call_id": one.call_id, "output": "42"} for one in calls]
    return "no end"


KEEPS = {
    "return_reasoning": (chat_conversation, "reasoning_content"),
    "return_details": (chat_conversation, "reasoning_details"),
    "return_signature": (chat_conversation, "extra_content"),
    "return_thinking": (anthropic_conversation, "thinking"),
    "return_redacted": (anthropic_conversation, "redacted_thinking"),
    "return_sealed": (responses_conversation, "encrypted_content"),
}


@pytest.mark.parametrize("scenario", KEEPS)
def test_a_client_that_sends_it_back_comes_to_its_answer(scenario):
    converse, _ = KEEPS[scenario]
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        assert converse(endpoint.url) == ANSWER
        assert len(endpoint.received) == ROUNDS


@pytest.mark.parametrize("scenario", KEEPS)
def test_a_client_that_leaves_it_out_is_refused(scenario):
    converse, what = KEEPS[scenario]
    with (
        ScriptedEndpoint(playing(scenario)) as endpoint,
        pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught,
    ):
        converse(endpoint.url, without=what)
    assert caught.value.status_code == (404 if scenario == "return_sealed" else 400)
    assert len(endpoint.received) == 2


def test_google_wants_its_signature_back():
    with ScriptedEndpoint(playing("return_signature")) as endpoint:
        assert google_conversation(endpoint.url) == ANSWER
    with ScriptedEndpoint(playing("return_signature")) as endpoint:
        with pytest.raises(genai.errors.ClientError, match="missing a thought_signature"):
            google_conversation(endpoint.url, without="thought_signature")
        assert len(endpoint.received) == 2


def test_a_call_whose_reasoning_item_is_gone_is_refused():
    with (
        ScriptedEndpoint(playing("return_sealed")) as endpoint,
        pytest.raises(openai.BadRequestError, match="was provided without its required 'reasoning' item: 'rs_000001'"),
    ):
        responses_conversation(endpoint.url, without="reasoning")


def previous_conversation(url: str) -> str:
    """Sends nothing but what is new."""
    tool: Any = {"type": "function", "name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    with openai_client(url) as client:
        made = client.responses.create(model="m", input=QUESTION, tools=[tool])
        for _ in range(ROUNDS):
            calls = [one for one in made.output if one.type == "function_call"]
            if not calls:
                return str(made.output_text)
            told: Any = [{"type": "function_call_output", "call_id": one.call_id, "output": "42"} for one in calls]
            made = client.responses.create(model="m", input=told, tools=[tool], previous_response_id=made.id)
    return "no end"


@pytest.mark.parametrize("scenario", ["strict", "return_sealed", "cooperative"])
def test_a_stored_response_stands_for_what_went_before(scenario):
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        assert previous_conversation(endpoint.url) == ANSWER


def test_a_response_that_is_not_kept_cannot_be_gone_on_from():
    with (
        ScriptedEndpoint(playing("forgotten_response")) as endpoint,
        pytest.raises(openai.BadRequestError, match="Previous response with id 'resp_000001' not found") as caught,
    ):
        previous_conversation(endpoint.url)
    assert caught.value.code == "previous_response_not_found"
