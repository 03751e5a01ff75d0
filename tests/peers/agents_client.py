"""An agent of the OpenAI Agents SDK, run case by case: cases come as lines of JSON, and what became of each goes out the same way.

Runs in the peers' environment and needs nothing else.
"""

import asyncio
import importlib.metadata
import json
import sys

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.result import RunResultBase
from openai import AsyncOpenAI


def agent_of(case: dict, client: AsyncOpenAI, looked: list) -> Agent:
    @function_tool(strict_mode=False)
    def look(at: str = "") -> str:
        """Looks at a place."""
        looked.append(at)
        return f"{at} is calm"

    model = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
    other = Agent(name="Editor", instructions="You edit.", model=model)
    handoffs = [other] if case.get("handoff") else []
    settings = ModelSettings(include_usage=True)
    return Agent(
        name="Reader", instructions="You read.", model=model, tools=[look], handoffs=handoffs, model_settings=settings
    )


async def run(case: dict, agent: Agent) -> RunResultBase:
    turns = case.get("turns", 6)
    if not case.get("stream"):
        return await Runner.run(agent, "Hello?", max_turns=turns)
    result = Runner.run_streamed(agent, "Hello?", max_turns=turns)
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
    return {
        "text": result.final_output,
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
