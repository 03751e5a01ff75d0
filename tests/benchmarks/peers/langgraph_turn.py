"""An agent's turn on LangGraph: ``python -m tests.benchmarks.peers.langgraph_turn``, in the environment of ``langgraph.txt``.

Its prebuilt tool node behind a model that answers at once, without a checkpointer, its recursion limit set: what a turn costs in process.
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.benchmarks.peers.serving import on_threads, serve

TURNS = 30
"""Of one run."""


@tool
def lookup(query: str) -> str:
    """Looks something up."""
    return f"It says {query}."


def compiled() -> Any:
    """Model, tool, model, ... until the turns are over."""
    numbers = count(1)

    def model(state: MessagesState) -> dict[str, Any]:
        number = next(numbers)
        if len(state["messages"]) > 2 * TURNS:
            return {"messages": [AIMessage("done")]}
        call = {"name": "lookup", "args": {"query": f"part {number}"}, "id": f"c{number}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([lookup]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile()


def main() -> None:
    """Serves until standard input closes."""
    graph = compiled()

    def one() -> Any:
        done = graph.invoke({"messages": [("user", "Find it.")]}, {"recursion_limit": 2 * TURNS + 5})
        assert len(done["messages"]) == 2 * TURNS + 2

    serve(f"langgraph {version('langgraph')}", on_threads(one))


if __name__ == "__main__":
    main()
