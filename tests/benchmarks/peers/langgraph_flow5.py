"""flow5 on LangGraph: ``python -m tests.benchmarks.peers.langgraph_flow5 URL``, in the environment of ``langgraph.txt``.

As its documentation has it: a state graph sends its workers out by ``Send``. Its checkpointer has a pool of connections (PostgreSQL) or one file
(SQLite). ``durability="sync"``: each step's checkpoint is committed before the next begins.
"""

from __future__ import annotations

import operator
import sqlite3
import sys
import uuid
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from tests.benchmarks.peers.serving import on_threads, serve
from tests.benchmarks.throughput.answers import REQUEST, SAID

POOL = 16


class State(TypedDict, total=False):
    """The state that stages hand on."""

    request: str
    plan: Any
    parts: Annotated[list[Any], operator.add]
    merged: Any
    critique: Any
    outcome: Any


def spread(state: State) -> list[Send]:
    """A worker for each brief."""
    return [Send("work", brief) for brief in state["plan"]["briefs"]]


def compiled(checkpointer: Any) -> Any:
    """The five stages."""
    graph: Any = StateGraph(State)
    graph.add_node("plan", lambda state: {"plan": SAID["plan"]})
    graph.add_node("work", lambda brief: {"parts": [SAID["summary"]]})
    graph.add_node("fan_in", lambda state: {"merged": SAID["summary"]})
    graph.add_node("validate", lambda state: {"critique": SAID["critique"]})
    graph.add_node("finalize", lambda state: {"outcome": SAID["summary"]})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", spread, ["work"])
    for before, after in (("work", "fan_in"), ("fan_in", "validate"), ("validate", "finalize"), ("finalize", END)):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=checkpointer)


def main(url: str) -> None:
    """Serves until standard input closes."""
    if url.startswith("sqlite:///"):
        checkpointer: Any = SqliteSaver(sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False))
    else:
        kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        checkpointer = PostgresSaver(ConnectionPool(url, min_size=1, max_size=POOL, kwargs=kwargs, open=True))
    checkpointer.setup()
    graph = compiled(checkpointer)

    def one() -> Any:
        return graph.invoke({"request": REQUEST}, {"configurable": {"thread_id": str(uuid.uuid4())}}, durability="sync")

    serve(f"langgraph {version('langgraph')}", on_threads(one))


if __name__ == "__main__":
    main(sys.argv[1])
