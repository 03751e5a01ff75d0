"""flow5 on DBOS: ``python -m tests.benchmarks.peers.dbos_flow5 URL``, in the environment of ``dbos.txt``.

As its documentation has it: an async workflow of async steps, the four workers' gathered, each step's result committed before the next begins.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Any

from dbos import DBOS

from tests.benchmarks.peers.serving import on_a_loop, serve
from tests.benchmarks.throughput.answers import REQUEST, SAID


@DBOS.step()
async def plan(request: str) -> Any:
    """The plan."""
    return SAID["plan"]


@DBOS.step()
async def work(brief: Any) -> Any:
    """One worker's part."""
    return SAID["summary"]


@DBOS.step()
async def fan_in(parts: Any) -> Any:
    """All parts as one."""
    return SAID["summary"]


@DBOS.step()
async def validate(merged: Any) -> Any:
    """The critique."""
    return SAID["critique"]


@DBOS.step()
async def finalize(merged: Any) -> Any:
    """The outcome."""
    return SAID["summary"]


@DBOS.workflow()
async def flow5(request: str) -> Any:
    """The five stages."""
    planned = await plan(request)
    parts = await asyncio.gather(*(work(brief) for brief in planned["briefs"]))
    merged = await fan_in(parts)
    await validate(merged)
    return await finalize(merged)


def main(url: str) -> None:
    """Serves until standard input closes."""
    DBOS(config={"name": "flow5", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    serve(f"dbos {version('dbos')}", on_a_loop(lambda: flow5(REQUEST)))
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1])
