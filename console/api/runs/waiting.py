"""Lets callers wait for a run's events or its end without a thread for each.

1. The operation answers at once. If there is nothing yet and the caller accepts waiting, it says so.
2. This layer around Django then retains the answer, and waits on the event loop until the live hub has news of the
   run.
3. It calls the operation again; after a start, the one that shows the run. That also checks rights again: a token that
   was revoked meanwhile is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest

WAIT_MAX_S = 20
WAITERS_MAX = 1_000
"""Largest number of waiting callers in one process; further ones are answered at once."""

_path = re.compile(r"/api/v1/runs/[0-9a-f-]{36}(/events)?\Z")
START = "/api/v1/runs"
"""Address at which a run is started."""
_SCOPE_KEY = "fabric.wait"

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """A caller's wait: for events of this run after ``after``, at most so many seconds."""

    workspace_id: str
    run_id: str
    after: int
    seconds: int


@dataclass(slots=True)
class _Wish:
    """Carries an operation's wish to wait out of Django."""

    wait: Wait | None = None


def may_wait(request: HttpRequest, wait: Wait) -> None:
    """Retain an answer. Without ASGI no answer is retained."""
    wish: _Wish | None = getattr(request, "scope", {}).get(_SCOPE_KEY)
    if wish is not None:
        wish.wait = wait


@dataclass(slots=True)
class Caller:
    """The caller: its request, which has no body, and its connection."""

    receive: Any
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Read the caller's messages until it disconnects."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    def once(self) -> Any:
        """Return a ``receive`` with which the operation is called once more."""
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        return receive


class LongPoll:
    """An ASGI application around another one: retains answers of callers that accept waiting."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._waiting = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == START:
            await self._start(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET" and _path.match(scope["path"]):
            await self._watch(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _start(self, scope: Any, receive: Any, send: Any) -> None:
        """Start a run, and go on as its page. Status and address are those of the start."""
        wish = _Wish()
        started: list[Message] = []
        await self._app({**scope, _SCOPE_KEY: wish}, receive, collect_messages(started))
        if wish.wait is None:
            for message in started:
                await send(message)
            return
        path = f"{START}/{wish.wait.run_id}"
        shown = {"method": "GET", "path": path, "raw_path": path.encode()}
        query = f"wait={wish.wait.seconds}".encode()
        await self._watch({**scope, **shown, "query_string": query}, receive, _answer_as(started[0], send))

    async def _watch(self, scope: Any, receive: Any, send: Any) -> None:
        caller = Caller(receive)
        watching = asyncio.create_task(caller.watch())
        try:
            await self._serve(scope, caller, send)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _serve(self, scope: Any, caller: Caller, send: Any) -> None:
        loop = asyncio.get_running_loop()
        until = None
        while True:
            wish = _Wish()
            answer: list[Message] = []
            await self._app({**scope, _SCOPE_KEY: wish}, caller.once(), collect_messages(answer))
            if wish.wait is not None and until is None:
                until = loop.time() + wish.wait.seconds
            if wish.wait is None or until is None or loop.time() >= until or self._waiting >= WAITERS_MAX:
                break
            if not await self._more(wish.wait, caller, until):
                return
        for message in answer:
            await send(message)

    async def _more(self, wait: Wait, caller: Caller, until: float) -> bool:
        """Wait until there may be more, or until the time is up. False: the caller has gone."""
        self._waiting += 1
        seen = asyncio.create_task(_wait_for_news(wait))
        gone = asyncio.create_task(caller.gone.wait())
        try:
            left = max(0.0, until - asyncio.get_running_loop().time())
            await asyncio.wait({seen, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return not caller.gone.is_set()
        finally:
            self._waiting -= 1
            for task in (seen, gone):
                task.cancel()
            await asyncio.gather(seen, gone, return_exceptions=True)


async def _wait_for_news(wait: Wait) -> None:
    """Return when the run has events after the cursor, or has ended."""
    from console.live.hub import live_hub
    from console.live.reader import RunKey

    with live_hub().follow(RunKey(wait.workspace_id, wait.run_id), wait.after, ()) as place:
        while place.cursor <= wait.after:
            if await place.next() is None:
                return


def _answer_as(started: Message, send: Any) -> Any:
    """Return a ``send`` that answers with the status and the address of a start."""
    address = [(name, value) for name, value in started["headers"] if name.lower() == b"location"]

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message = {**message, "status": started["status"], "headers": [*message["headers"], *address]}
        await send(message)

    return answer


def collect_messages(answer: list[Message]) -> Any:
    """Return a ``send`` that keeps the messages of an answer."""

    async def send(message: Message) -> None:
        answer.append(message)

    return send
