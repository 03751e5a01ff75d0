"""An agent of the OpenAI Agents SDK, run case by case: cases come as lines of JSON, and what became of each goes out the same way.

Runs in the peers' environment and needs nothing else.
"""

import asyncio
import importlib.metadata
import json
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.result import RunResultBase
from openai import AsyncOpenAI
from pydantic import BaseModel

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
QUESTION = "Hello?"


class Report(BaseModel):
    """What an agent may be asked for."""

    title: str
    pages: int


def agent_of(case: dict, client: AsyncOpenAI, looked: list) -> Agent:
    @function_tool(strict_mode=False)
    def look(at: str = "") -> str:
        """Looks at a place."""
        looked.append(at)
        return f"{at} is calm"

    model = MODELS[case.get("api", "chat")](model="scripted", openai_client=client)
    other = Agent(name="Editor", instructions="You edit.", model=model)
    handoffs = [other] if case.get("handoff") else []
    settings = ModelSettings(include_usage=True)
    if case.get("history") == "sealed":
        settings.store, settings.response_include = False, ["reasoning.encrypted_content"]
    return Agent(
        name="Reader",
        instructions="You read.",
        model=model,
        tools=[look],
        handoffs=handoffs,
        model_settings=settings,
        output_type=Report if case.get("typed") else None,
    )


async def run(case: dict, agent: Agent) -> RunResultBase:
    """``history``: of the second question, if there is one: its items (as they are, or sealed), or the response before it."""
    result = await ask(case, agent, QUESTION)
    if case.get("history") == "response":
        return await ask(case, agent, "Again?", previous_response_id=result.last_response_id)
    if "history" in case:
        return await ask(case, agent, [*result.to_input_list(), {"role": "user", "content": "Again?"}])
    return result


async def ask(case: dict, agent: Agent, given: str | list, **more: str | bool | None) -> RunResultBase:
    more = {"max_turns": case.get("turns", 6), **more}
    if case.get("history") == "response":
        more["auto_previous_response_id"] = True
    if not case.get("stream"):
        return await Runner.run(agent, given, **more)
    result = Runner.run_streamed(agent, given, **more)
    async for _ in result.stream_events():
        pass
    return result


async def played(case: dict) -> dict:
    looked: list = []
    try:
        async with AsyncOpenAI(base_url=case["url"], api_key="sk-test", max_retries=0, timeout=20) as client:
            result = await run(case, agent_of(case, client, looked))
    except Exception as error:  # noqa: BLE001 - Whatever it raises is what the test wants to know.
        return {"error": type(error).__name__, "words": str(error)[:300], "looked": looked}
    usage = result.context_wrapper.usage
    said = result.final_output
    return {
        "text": said.model_dump() if isinstance(said, Report) else said,
        "looked": looked,
        "agent": result.last_agent.name,
        "tokens": [usage.input_tokens, usage.output_tokens],
    }


def main() -> None:
    set_tracing_disabled(True)
    print(json.dumps({"version": importlib.metadata.version("openai-agents")}), flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(played(json.loads(line)))), flush=True)


main()
