"""A model request with everything that a test does not care about filled in."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fabric.core.spec.tree import ModelSpec
from fabric.runtime.ports.calls import ChatMessage, ModelRequest, ToolOffer

One = TypeVar("One")
Said = TypeVar("Said")
KEY = "sk-test-0123456789abcdefghij"
TOOL = ToolOffer(
    name="look", description="Looks.", parameters={"type": "object", "properties": {"at": {"type": "string"}}}
)


def request(within_s: float = 30.0, **changed: Any) -> ModelRequest:
    values: dict[str, Any] = {
        "command_id": "c1",
        "attempt": 2,
        "run_id": "r1",
        "trace_headers": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
        "agent": "reader",
        "model": ModelSpec(name="main", model="small"),
        "messages": (ChatMessage("system", "You are a reader."), ChatMessage("user", "Hello?")),
        "tools": (),
        "output": "summary",
        "output_schema": None,
        "max_output_tokens": 100,
        "idempotency_key": "key-1",
        "deadline_at": time.time_ns() // 1_000 + int(within_s * 1e6),
    }
    return ModelRequest(**{**values, **changed})


def side_by_side(several: Sequence[One], ask: Callable[[One], Said]) -> Iterator[tuple[One, Said]]:
    """Asks each at the same time, for what waits for a deadline: each with what it said."""
    with ThreadPoolExecutor(len(several)) as pool:
        yield from zip(several, pool.map(ask, several), strict=True)
