"""A tool request with everything that a test does not care about filled in."""

import asyncio
import time
from typing import Any

from fabric.core.spec.tools import ToolSpec
from fabric.runtime.ports.calls import ToolRequest
from fabric.runtime.ports.journal import Document
from fabric.tools.functions.named_tools import build_tools
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.functions.sample_tools import NAMED

DOCUMENTS = (
    Document("report.md", "# Report\n\nRevenue rose to 4.2 million in 2025.\n\nCosts fell by three percent."),
    Document("plan.md", "The plan names two markets.\n\nRevenue is expected to double."),
)


def samples(**changed: Any) -> Permits:
    """Return what an operator lets fabrics do who named the sample tools."""
    return Permits(tools=build_tools(NAMED), **{"variables": frozenset({"SAMPLE_KEY"}), **changed})


def request(tool: ToolSpec, args: dict[str, Any], within_s: float = 30.0, **changed: Any) -> ToolRequest:
    values: dict[str, Any] = {
        "command_id": "t1",
        "attempt": 1,
        "run_id": "r1",
        "trace_headers": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
        "tool": tool,
        "args": args,
        "idempotency_key": "key-1",
        "deadline_at": time.time_ns() // 1_000 + int(within_s * 1e6),
        "documents": lambda: DOCUMENTS,
    }
    return ToolRequest(**{**values, **changed})


def run(tool: ToolSpec, args: dict[str, Any], runner: ToolRunner | None = None, **changed: Any) -> Any:
    """Runs one call, by the sample tools' names unless the runner is given; a test that hangs fails instead."""
    used = runner or ToolRunner(permits=samples())
    try:
        return asyncio.run(asyncio.wait_for(used.run(request(tool, args, **changed)), 60))
    finally:
        if runner is None:
            used.close()
