"""The socket of a run's page. It says what the hub found and hears nothing; who is at the other end is asked again every 5 s.

Close codes: 1000 the run ended and the page has all of it; 1012 come back (the socket is old, or the server restarts); 4401 signed out;
4403 may not see this run; 4408 too many sockets, or one that talks. A page comes back by itself after 1012 and after a loss, not after the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.access import SOCKETS, Policy, actor_of
from console.live.process import live_hub
from console.live.watch import RunKey
from fabric.selectors.errors import Refused
from fabric.selectors.runs import run_get

log = logging.getLogger(__name__)

RECHECK_S = 5.0
LIFE_S = 4 * 3600.0
"""Longer than a page is looked at, shorter than anything that forgets a socket."""
SOCKETS_PER_USER = 20
INBOUND_BYTES_MAX = 1024
INBOUND_MAX = 20
"""Messages a page may send before it is cut off: it has nothing to say."""

ENDED, COME_BACK, BROKEN, SIGNED_OUT, NOT_ALLOWED, TOO_MUCH = 1000, 1012, 1011, 4401, 4403, 4408

_open: Counter[str] = Counter()
"""Open sockets by user, in this process."""


def session_group(mark: str) -> str:
    """The group that every socket of one sign-in is in, so that signing out closes them everywhere."""
    return f"session.{mark}"


class RunConsumer(AsyncWebsocketConsumer):
    """Follows one run for one page: ``?after=SEQ&panels=VERSIONS``."""

    user_key = ""
    group = ""
    heard = 0
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        """Accept, then close with a reason where there is one: a page that is turned away before is told nothing and tries for ever."""
        await self.accept()
        assert SOCKETS["live-run"] is Policy.SIGNED_IN
        run_id = str(self.scope["url_route"]["kwargs"]["run_id"])
        key, code = await database_sync_to_async(self._allowed)(run_id)
        if key is None:
            await self.close(code)
            return
        if _open[self.user_key] >= SOCKETS_PER_USER:
            self.user_key = ""
            await self.close(TOO_MUCH)
            return
        _open[self.user_key] += 1
        if self.group:
            await self.channel_layer.group_add(self.group, self.channel_name)
        after, versions = _position(self.scope.get("query_string", b""))
        self.tasks = (
            asyncio.create_task(self._follow(key, after, versions)),
            asyncio.create_task(self._recheck(run_id)),
        )

    async def disconnect(self, code: int) -> None:
        """Give everything back."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            _open[self.user_key] -= 1
            if not _open[self.user_key]:
                del _open[self.user_key]
            if self.group:
                await self.channel_layer.group_discard(self.group, self.channel_name)
        self.tasks = ()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A page has nothing to say: a little is ignored, more is cut off."""
        self.heard += 1
        length = len(bytes_data) if bytes_data is not None else len((text_data or "").encode())
        if length > INBOUND_BYTES_MAX or self.heard > INBOUND_MAX:
            await self.close(TOO_MUCH)

    async def session_ended(self, message: Any) -> None:
        """Signed out, in this tab or another, on this server or another."""
        await self.close(SIGNED_OUT)

    # -- the work ------------------------------------------------------------------------------------------------------

    async def _follow(self, key: RunKey, after: int, versions: tuple[str, ...]) -> None:
        try:
            with live_hub().follow(key, after, versions) as place:
                while (found := await place.next()) is not None:
                    await self.send(text_data=found.text)
            await self.close(ENDED)
        except Exception:
            log.exception("a page lost run %s and will come back", key.run_id)
            await self.close(BROKEN)

    async def _recheck(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LIFE_S
        while loop.time() < until:
            await asyncio.sleep(RECHECK_S)
            key, code = await database_sync_to_async(self._allowed)(run_id)
            if key is None:
                await self.close(code)
                return
        await self.close(COME_BACK)

    def _allowed(self, run_id: str) -> tuple[RunKey | None, int]:
        """The run for this page's session as it is now; None, and the code to close with, when it may not follow it."""
        # Read anew from the cookie: what the handshake found may have been revoked since.
        request = HttpRequest()
        engine = import_module(settings.SESSION_ENGINE)
        request.session = engine.SessionStore(self.scope["cookies"].get(settings.SESSION_COOKIE_NAME))
        try:
            actor = actor_of(get_user(request))
            run = run_get(actor, run_id)
        except PermissionDenied:
            return None, SIGNED_OUT
        except Refused as refusal:
            return None, NOT_ALLOWED if refusal.code == "not_found" else COME_BACK
        mark = request.session.get("mark", "")
        self.user_key, self.group = actor.name, session_group(mark) if mark else ""
        return RunKey(actor.workspace_id, str(run.id)), 0


def _position(query: bytes) -> tuple[int, tuple[str, ...]]:
    """Cursor and panel versions from the address; what is no number is 0, which only means more to send."""
    given = parse_qs(query[:1024].decode("ascii", "replace"))
    after = given.get("after", ["0"])[-1]
    versions = given.get("panels", [""])[-1][:256]
    return int(after) if after.isdecimal() and len(after) < 12 else 0, tuple(versions.split(".")) if versions else ()
