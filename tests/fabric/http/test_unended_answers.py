"""Answers with status 200, and no stream, that never end: of models, HTTP tools and MCP servers. Each attempt ends at its deadline and closes its connection."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import pytest

from fabric.core.budgets.charges import NOTHING, Charge, charge
from fabric.core.events.inputs import CallFailed
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.cost import Price
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.tools.runner import ToolRunner
from simulator.endpoint import Received, ScriptedEndpoint, Step, hang, trickle
from tests.fabric.providers.asking import request, side_by_side
from tests.fabric.providers.wires import ALL, Spoken
from tests.fabric.tools import asking
from tests.fabric.tools.mcp.test_http import greeting
from tests.fabric.tools.mcp.worlds import call, http, runner

WITHIN_S = 1.5
LATER_S = 10.0
"""Until then, on a slow machine, an attempt with that deadline is over."""
UNENDED = {
    "no answer": (hang(), "no answer had begun"),
    "headers alone": (Step(body=b"{", mode="stall"), "0 bytes"),
    "half": (Step(body=b"{" * 34, mode="stall"), "17 bytes"),
    "a trickle": (trickle(), "[1-9][0-9]* bytes"),
}
"""Sent in place of an answer, and a pattern of the sentence."""


async def left_alone(endpoint: ScriptedEndpoint, attempt: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """Returns how an attempt ends and its seconds, once its connection is closed."""
    began = time.monotonic()
    found = await attempt
    seconds = time.monotonic() - began
    await asyncio.to_thread(endpoint.wait_left, 1)
    return found, seconds


async def model(spoken: Spoken, endpoint: ScriptedEndpoint) -> Any:
    provider = spoken.port(endpoint)
    try:
        # Before all its connections are closed.
        return await left_alone(endpoint, provider.ask(request(WITHIN_S, model=spoken.spec())))
    finally:
        await provider.aclose()


async def tool(method: str, endpoint: ScriptedEndpoint) -> Any:
    port = ToolRunner(gate=Gate.trust_hosts([endpoint.authority]))
    target = f"http://{endpoint.authority}/act"
    spec = ToolSpec(name="act", kind="http", description="D", parameters={}, target=target, method=method)
    try:
        return await left_alone(endpoint, port.run(asking.request(spec, {}, WITHIN_S)))
    finally:
        port.close()


async def mcp(endpoint: ScriptedEndpoint) -> Any:
    server = http(endpoint.authority)
    port = runner(server, gate=Gate.trust_hosts([endpoint.authority]))
    try:
        await call(port, server, "none")  # Begins the session.
        return await left_alone(endpoint, call(port, server, "act", within_s=WITHIN_S))
    finally:
        await port.end()
        port.close()


class Row(NamedTuple):
    name: str
    ask: Callable[[ScriptedEndpoint], Coroutine[Any, Any, tuple[Any, float]]]
    then: Outcome
    """The outcome once a status 200 had come; without one it is unknown."""
    billed: bool = False


ROWS = (
    *(Row(f"{spoken.name} {spoken.path}", partial(model, spoken), Outcome.UNKNOWN, billed=True) for spoken in ALL),
    *(Row(f"tool {method}", partial(tool, method), Outcome.ANSWERED) for method in ("GET", "POST")),
    Row("MCP", mcp, Outcome.UNKNOWN),
)
RESERVED = Charge(1_000, 600)


def asked(row: Row, step: Step) -> tuple[Any, float, int, int]:
    """The failure, its seconds, its requests, and those of them whose connection was closed in mid-answer."""
    sent = []

    def script(received: Received) -> Step:
        method = received.body.get("method") if isinstance(received.body, dict) else None
        if row.ask is mcp and method != "tools/call":
            return greeting(received) if received.method == "POST" else Step(status=405)
        sent.append(received)
        return step

    with ScriptedEndpoint(script) as endpoint:
        found, seconds = asyncio.run(asyncio.wait_for(row.ask(endpoint), 60))
        return found, seconds, len(sent), len(endpoint.left)


@pytest.mark.parametrize(("step", "said"), UNENDED.values(), ids=UNENDED)
def test_an_answer_that_does_not_end_is_left_at_the_deadline(step: Step, said: str) -> None:
    for row, (found, seconds, sent, left) in side_by_side(ROWS, lambda row: asked(row, step)):
        assert isinstance(found, CallFailed), row.name
        assert (found.cause, sent, left) == (Cause.TIMEOUT, 1, 1), row.name
        assert found.outcome is (Outcome.UNKNOWN if step.mode == "hang" else row.then), row.name
        assert re.search(rf"within [0-9.]+ seconds: {said}", found.message), (row.name, found.message)
        assert WITHIN_S - 0.1 <= seconds < LATER_S, row.name
        charged = charge(Price(1_000_000, 2_000_000), RESERVED, found)
        assert charged == (RESERVED if row.billed else NOTHING), row.name
