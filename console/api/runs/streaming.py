"""Goes on with an answer of events as a stream, without a thread for each caller.

1. The operation answers at once with the events so far, as text of server-sent events (WHATWG HTML, section 9.2).
2. This layer around Django sends that text and stays: it sends the events of which the live hub has news.
3. In silence it sends a comment now and then. It asks again every few seconds if the caller may still see the run.
4. It ends with the run. A caller that was cut sends the id of its last event as ``Last-Event-ID``, and misses nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest

from console.api.runs.records import EventOut
from console.api.runs.waiting import Caller, Message, collect_messages
from console.api.shapes.common import instant
from console.live.admission import TRY_AGAIN, Admission, places
from console.live.connections import keep_connection
from console.live.consumer import LIFE_S, RECHECK_S, read_credentials
from console.live.hub import live_door, live_hub
from console.live.reader import HEARTBEAT_S, RunKey
from console.pages.runs.live_source import find_reader
from console.site.requests.slow_clients import LET_GO
from fabric.core.values.units import JSON
from fabric.selectors.runs.export.bundle import EnvelopePage, run_envelopes

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"
EVENTS_A_READ = 200
HEARTBEAT = ":\n\n"
"""A comment, which clients drop."""

_path = re.compile(r"/api/v1/runs/([0-9a-f-]{36})/stream\Z")
_SCOPE_KEY = "fabric.stream"


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that goes on after an answer."""

    run_id: str
    user: str
    """Under this name its place is counted."""
    after: int
    """The last event of the answer."""
    contents: bool
    ended: bool = False
    """True: the answer has the run's end."""


@dataclass(slots=True)
class _Wish:
    """Carries an operation's wish to go on out of Django."""

    stream: Stream | None = None


def may_stream(request: HttpRequest, stream: Stream) -> None:
    """Go on after the answer. Without ASGI the stream ends with it."""
    wish: _Wish | None = getattr(request, "scope", {}).get(_SCOPE_KEY)
    if wish is not None:
        wish.stream = stream


def write_page(page: EnvelopePage) -> str:
    """Return the events of a page as text, and the end of the run where it follows them."""
    events = [EventOut(at=instant(one["timestamp"]), **one) for one in page.events]
    lines = [f"id: {one.seq}\nevent: {one.kind}\ndata: {_encode(one.model_dump(mode='json'))}\n\n" for one in events]
    if is_over(page):
        end = {"state": page.run.state.value, "last_seq": page.run.last_seq}
        lines.append(f"id: {page.last}\nevent: end\ndata: {_encode(end)}\n\n")
    return "".join(lines)


def is_over(page: EnvelopePage) -> bool:
    """Return True if the run has ended and this is its last page."""
    return page.run.terminal and not page.more


def _encode(value: Mapping[str, JSON]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class EventStreams:
    """An ASGI application around another one: goes on with streams of events."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["method"] != "GET" or not _path.match(scope["path"]):
            await self._app(scope, receive, send)
            return
        caller = Caller(receive)
        scope[LET_GO] = caller.gone.set  # A server that stops does not wait for it.
        watching = asyncio.create_task(caller.watch())
        try:
            await self._serve(scope, caller, send)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _serve(self, scope: Any, caller: Caller, send: Any) -> None:
        wish, answer = _Wish(), list[Message]()
        await self._app({**scope, _SCOPE_KEY: wish}, caller.once(), collect_messages(answer))
        stream = wish.stream
        if stream is None:
            for message in answer:
                await send(message)
            return
        begin, *bodies = answer
        headers = [(name, value) for name, value in begin["headers"] if name.lower() != b"content-length"]
        await send({**begin, "headers": headers})
        for body in bodies:
            await send({**body, "more_body": True})
        places.take(stream.user)
        try:
            if not stream.ended:
                await _Follower(scope, stream, caller, send).follow()
        except Exception:
            log.exception("a stream lost run %s; its caller comes back", stream.run_id)
        finally:
            places.leave(stream.user)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Follower:
    """One stream in its course."""

    def __init__(self, scope: Any, stream: Stream, caller: Caller, send: Any) -> None:
        self._credentials = read_credentials(scope)
        self._stream = stream
        self._caller = caller
        self._send = send
        self._said_at = self._asked_at = asyncio.get_running_loop().time()

    async def follow(self) -> None:
        """Send what happens until the run has ended, the right to see it has, or the caller has gone."""
        admission = await self._admit()
        if admission.key is None:
            return
        live_door().enter(admission.mark, self._let_go)
        try:
            await self._follow(admission.key)
        finally:
            live_door().leave(admission.mark, self._let_go)

    def _let_go(self, _code: int) -> None:
        self._caller.gone.set()

    async def _admit(self) -> Admission:
        return await live_door().ask(self._credentials, self._stream.run_id)

    async def _follow(self, key: RunKey) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LIFE_S
        gone = asyncio.create_task(self._caller.gone.wait())
        with live_hub().follow(key, self._stream.after, ()) as place:
            news = asyncio.create_task(place.next())
            try:
                while loop.time() < until:
                    await asyncio.wait({news, gone}, timeout=RECHECK_S, return_when=asyncio.FIRST_COMPLETED)
                    if self._caller.gone.is_set() or not await self._may_go_on(key):
                        return
                    if news.done():
                        ended = news.result() is None
                        if await self._send_news(key) or ended:
                            return
                        news = asyncio.create_task(place.next())
            finally:
                for task in (news, gone):
                    task.cancel()
                await asyncio.gather(news, gone, return_exceptions=True)

    async def _send_news(self, key: RunKey) -> bool:
        """Send the events after the last one; return True after the run's end."""
        while not self._caller.gone.is_set():
            page = await live_hub().look(lambda: self._read(key))
            self._stream = replace(self._stream, after=page.last)
            text = write_page(page)
            if text:
                await self._say(text.encode())
            if is_over(page) or not page.more:
                return is_over(page)
        return True

    def _read(self, key: RunKey) -> EnvelopePage:
        try:
            return run_envelopes(
                find_reader(key),
                key.run_id,
                after=self._stream.after,
                limit=EVENTS_A_READ,
                contents=self._stream.contents,
            )
        finally:
            keep_connection()

    async def _may_go_on(self, key: RunKey) -> bool:
        """Ask for the right again after some seconds, and send a comment after long silence. A right that cannot be
        checked now goes on: nothing can be read either.
        """
        now = asyncio.get_running_loop().time()
        if now < self._asked_at + RECHECK_S:
            return True
        self._asked_at = now
        admission = await self._admit()
        if admission.code == TRY_AGAIN:
            return True
        if admission.key != key:
            return False
        if now >= self._said_at + HEARTBEAT_S:
            await self._say(HEARTBEAT.encode())
        return True

    async def _say(self, body: bytes) -> None:
        self._said_at = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
