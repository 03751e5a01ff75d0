"""Test requests: an author sends one request of an HTTP tool of a draft by hand, outside any run.

It goes through the runner of runs, with its rules for addresses, its variables, its limits and its masking.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.people.actor import Actor
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.units import JSON, US
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.rules import tool_denied
from fabric.http.bodies import read_text
from fabric.http.headers import charset, media_type
from fabric.http.transport import Exchange
from fabric.models import new_id
from fabric.runtime.ports.calls import ToolRequest
from fabric.secrets.known_secrets import KNOWN
from fabric.services.acts import audit_record
from fabric.services.drafts.parts import find_part, read_tree
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.tools.http.exchange import WATCHED
from fabric.tools.runner import ToolRunner

WITHIN_S = 20.0
"""The most seconds that a test request takes."""
AT_ONCE_MAX = 3
"""Largest number of test requests under way in a web process."""
BODY_CHARS, HEADER_CHARS = 4_000, 300
"""Characters of an answer, and of one header, that are shown."""
HEADERS = ("content-type", "content-length", "location", "retry-after", "x-request-id", "www-authenticate")
"""The headers of an answer that help to mend a tool."""
_slots = threading.BoundedSemaphore(AT_ONCE_MAX)


@dataclass(frozen=True, slots=True)
class ToolTestResult:
    """The answer to a test request."""

    took_ms: int
    status: int | None
    """None: no answer came."""
    headers: tuple[tuple[str, str], ...]
    body: str
    """As text, secrets masked."""
    body_chars: int
    """Its whole length; ``body`` has the first ``BODY_CHARS``."""
    problem: str
    """Why an agent gets no result, in one sentence; empty: it gets ``result``."""
    result: JSON = None


def tool_get(actor: Actor, fabric: str, name: str) -> ToolSpec:
    """Return a tool of the actor's draft. Raises Refused: forbidden, not_found, invalid (the tool has errors)."""
    return find_part(read_tree(actor, fabric), "tool", name, ToolSpec, then="send a test request")


def find_hindrance(tool: ToolSpec, policy: WorkspacePolicy) -> str:
    """Return the sentence why no test request of a tool is sent; empty: one may be."""
    if tool.kind != "http":
        return f"only HTTP tools have test requests, and {tool.name!r} is of kind {tool.kind}"
    if tool.effect == "irreversible":
        return f"{tool.name!r} is irreversible: each call needs a review, so try it in a run"
    if tool.price_usd_micros:
        return f"{tool.name!r} costs money for each call, which only the budget of a run counts: try it in a run"
    if denied := tool_denied(tool, policy):
        return f"{tool.name!r} may not be called: {denied}"
    return ""


def tool_test(
    *, actor: Actor, fabric: str, name: str, args: Mapping[str, JSON], agreed: bool = False
) -> ToolTestResult:
    """Send one request of a tool of the actor's draft, and return its answer, within ``WITHIN_S``.

    ``agreed``: the author wants a request that changes something. Raises Refused: forbidden, not_found, invalid (it
    may not be sent, or the author did not agree), unavailable (others are under way).
    """
    tool = tool_get(actor, fabric, name)
    where = here.installation(workspace_id=actor.workspace_id)
    if problem := find_hindrance(tool, where.policy):
        raise Refused(problem, code="invalid", field="tool")
    if tool.effect != "read_only" and not agreed:
        message = f"{name!r} is {tool.effect}, so the request really changes something: tick that you want it"
        raise Refused(message, code="invalid", field="agreed")
    if not _slots.acquire(blocking=False):
        raise Refused(f"{AT_ONCE_MAX} test requests are under way: wait until one is over", code="unavailable")
    try:
        with transaction.atomic():
            audit_record(actor=actor, act=Act.TOOL_TESTED, subject=fabric, tool=name, effect=tool.effect)
        return asyncio.run(_send(tool, args, ToolRunner(gate=where.gate, permits=where.permits)))
    finally:
        _slots.release()


async def _send(tool: ToolSpec, args: Mapping[str, JSON], runner: ToolRunner) -> ToolTestResult:
    watched: list[Exchange] = []
    WATCHED.set(watched)
    key, begun = f"test-{new_id()}", time.monotonic()
    request = ToolRequest(
        command_id=key,
        attempt=1,
        run_id="test",
        trace_headers={},
        tool=tool,
        args=args,
        idempotency_key=key,
        deadline_at=time.time_ns() // 1_000 + int(WITHIN_S * US),
        documents=tuple,
    )
    try:
        found = await runner.run(request)
    finally:
        await runner.end()
        runner.close()
    return _read(found, watched[-1] if watched else Exchange(), round((time.monotonic() - begun) * 1_000))


def _read(found: ToolFinished | CallFailed, seen: Exchange, took_ms: int) -> ToolTestResult:
    shown = ((name, KNOWN.mask_text(seen.headers[name])[:HEADER_CHARS]) for name in HEADERS if name in seen.headers)
    text = read_text(bytes(seen.body), media_type(seen.headers), charset(seen.headers))
    text = f"{len(seen.body):,} bytes that are no text" if "\0" in text else KNOWN.mask_text(text)
    problem, result = (found.message, None) if isinstance(found, CallFailed) else (found.error, found.result)
    return ToolTestResult(
        took_ms=took_ms,
        status=seen.status,
        headers=tuple(shown),
        body=text[:BODY_CHARS],
        body_chars=len(text),
        problem=problem,
        result=result,
    )
