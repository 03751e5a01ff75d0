"""The official clients of the four protocols, each asked once, and what each makes of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import anthropic
import openai
from google import genai

from simulator.endpoint import Received, ScriptedEndpoint, Step
from simulator.endpoint.behaviour.definition import Name

PATIENCE_S = 10.0
KEY = "sk-test"
QUESTION = "What does the report say?"
PARAMETERS = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["q"],
}
DESCRIPTION = "Looks."


@dataclass(frozen=True)
class Said:
    """One answer as the client gave it."""

    text: str
    calls: tuple[tuple[str, Any], ...]
    """Tool and arguments, as an object where they are one."""
    finish: str | None

    @property
    def outcome(self) -> str:
        """In a word or two: how many calls, or a text, and another reason than the usual one."""
        usual = (None, "stop", "tool_calls", "end_turn", "tool_use", "STOP", "completed")
        what = f"{len(self.calls)} calls" if self.calls else "text" if self.text else "nothing"
        return what if self.finish in usual[1:] else f"{what}, {self.finish}"


def _args(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, TypeError):
        return arguments


@cache
def _openai(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=PATIENCE_S)


@cache
def _anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key=KEY, max_retries=0, timeout=PATIENCE_S)


@cache
def _google(url: str) -> genai.Client:
    options: Any = {"base_url": url.removesuffix("/v1"), "timeout": int(PATIENCE_S * 1000)}
    return genai.Client(api_key=KEY, http_options=options)


def chat(url: str, *, stream: bool) -> Said:
    function = {"name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "temperature": 1}
    asked["tools"] = [{"type": "function", "function": function}]
    client = _openai(url)
    if stream:
        with client.chat.completions.stream(**asked) as events:
            completion = events.get_final_completion()
    else:
        completion = client.chat.completions.create(**asked)
    [choice] = completion.choices
    calls = tuple((one.function.name, _args(one.function.arguments)) for one in choice.message.tool_calls or ())
    return Said(choice.message.content or "", calls, choice.finish_reason)


def responses(url: str, *, stream: bool) -> Said:
    tool = {"type": "function", "name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    asked: dict[str, Any] = {"model": "m", "input": QUESTION, "tools": [tool]}
    client = _openai(url)
    if stream:
        with client.responses.stream(**asked) as events:
            response = events.get_final_response()
    else:
        response = client.responses.create(**asked)
    calls = tuple((one.name, _args(one.arguments)) for one in response.output if one.type == "function_call")
    return Said(response.output_text, calls, response.status)


def messages(url: str, *, stream: bool) -> Said:
    asked: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}
    asked["tools"] = [{"name": "look", "description": DESCRIPTION, "input_schema": PARAMETERS}]
    client = _anthropic(url)
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    calls = tuple((block.name, block.input) for block in message.content if block.type == "tool_use")
    text = "".join(block.text for block in message.content if block.type == "text")
    return Said(text, calls, message.stop_reason)


def generate(url: str, *, stream: bool) -> Said:
    declared = {"name": "look", "description": DESCRIPTION, "parameters_json_schema": PARAMETERS}
    config: Any = {
        "tools": [{"function_declarations": [declared]}],
        "automatic_function_calling": {"disable": True},
    }
    client = _google(url)
    if stream:
        found = list(client.models.generate_content_stream(model="m", contents=QUESTION, config=config))
    else:
        found = [client.models.generate_content(model="m", contents=QUESTION, config=config)]
    calls: list[tuple[str, Any]] = []
    text, finish = "", None
    for one in found:
        calls += [(str(call.name), call.args) for call in one.function_calls or ()]
        for candidate in one.candidates or ():
            finish = candidate.finish_reason.value if candidate.finish_reason else finish
            parts = (candidate.content and candidate.content.parts) or ()
            text += "".join(part.text for part in parts if part.text and not part.thought)
    return Said(text, tuple(calls), finish)


ASK = {"chat": chat, "responses": responses, "anthropic": messages, "google": generate}


@contextmanager
def switched() -> Iterator[tuple[ScriptedEndpoint, Any]]:
    """One endpoint whose script can be changed between requests: ``play(reply)``."""
    current: list[Any] = []

    def reply(received: Received) -> Step:
        found: Step = current[-1](received)
        return found

    with ScriptedEndpoint(reply) as endpoint:
        yield endpoint, current.append


def outcome(protocol: Name, url: str, *, stream: bool) -> str:
    """Return what the client makes of it: the answer in a word or two, or its exception and the status."""
    try:
        return ASK[protocol](url, stream=stream).outcome
    except Exception as error:  # noqa: BLE001 - What the client raises is what is looked at.
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
