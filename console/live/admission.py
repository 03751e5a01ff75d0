"""Decides which sockets may follow a run: at opening and every few seconds after.

All sockets that ask at one time share a look. A thousand pages that return at once are a few looks: each sign-in, and
each run for it, is looked up once a look, not once a socket. Ended sign-ins are read from the database: every server
finds them at its next look, even if a message was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.live.connections import keep_connection
from console.live.reader import RunKey
from console.site.access.actors import find_actor
from console.site.access.fabric_roles import actor_on
from console.site.access.sessions import find_session_user
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_get
from fabric.services.people.identities import identity_known
from fabric.services.people.sign_in.sessions import sign_in_end, sign_ins_going

log = logging.getLogger(__name__)

ENDED, COME_BACK, BROKEN, TRY_AGAIN = 1000, 1012, 1011, 1013
SIGNED_OUT, NOT_ALLOWED, TOO_MUCH = 4401, 4403, 4408
"""Close codes of a socket. A page reconnects after 1011, 1012 and 1013, not after the others."""

GROUP = "fabric.sign-outs"
"""The channel layer's group that every process listens to for sign-outs."""
REJOIN_S = 5.0
"""Seconds between renewals of the subscription, because a flushed or restarted channel layer forgets subscribers."""
RETRY_S = 1.0
MARKS_KEPT = 10_000
"""Number of remembered sign-outs. A cookie of one of them is refused."""

Let = Callable[[int], None]
"""Closes a socket with a code."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer for one socket. ``key`` None: refused, close with ``code``."""

    key: RunKey | None = None
    code: int = 0
    user: str = ""
    mark: str = ""
    """Mark of the sign-in, so that signing out closes its sockets."""


class Door:
    """The door of one process. Used on one event loop."""

    def __init__(self) -> None:
        self._asked: list[tuple[tuple[str, str], asyncio.Future[Admission]]] = []
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="live-door")
        self._inside: dict[str, set[Let]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def ask(self, cookie: str, run_id: str) -> Admission:
        """Return the admission of a session cookie to a run, by the present database."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="live sign-outs")
        answer: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()
        self._asked.append(((cookie, run_id), answer))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="live door")
        found = await answer
        return Admission(code=SIGNED_OUT) if found.mark in self._ended else found

    def enter(self, mark: str, let_go: Let) -> None:
        """Register a socket by its sign-in."""
        self._inside.setdefault(mark, set()).add(let_go)

    def leave(self, mark: str, let_go: Let) -> None:
        """Forget a socket."""
        inside = self._inside.get(mark, set())
        inside.discard(let_go)
        if not inside:
            self._inside.pop(mark, None)

    def signed_out(self, mark: str) -> None:
        """Closes the sockets of a sign-in."""
        self._ended[mark] = None
        while len(self._ended) > MARKS_KEPT:
            self._ended.popitem(last=False)
        for let_go in tuple(self._inside.get(mark, ())):
            let_go(SIGNED_OUT)

    async def close(self) -> None:
        """Ends the tasks and the thread."""
        for task in (self._looking, self._listening):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            asked, self._asked = self._asked, []
            wanted = {pair for pair, _ in asked}
            try:
                found: Mapping[tuple[str, str], Admission] = await loop.run_in_executor(self._pool, admissions, wanted)
            except Exception as error:  # noqa: BLE001 - no error lets a page in.
                log.warning("who may follow could not be looked up, pages will ask again: %s", error)
                found = {}
            for pair, answer in asked:
                if not answer.done():
                    answer.set_result(found.get(pair, Admission(code=TRY_AGAIN)))

    async def _listen(self) -> None:
        """Receive sign-outs of other servers. The channel layer may come and go; sockets do not depend on it."""
        layer = get_channel_layer()
        while layer is not None:
            try:
                channel = await layer.new_channel()
                while True:
                    await layer.group_add(GROUP, channel)
                    with suppress(TimeoutError):
                        message = await asyncio.wait_for(layer.receive(channel), REJOIN_S)
                        self.signed_out(str(message.get("mark", "")))
            except Exception as error:  # noqa: BLE001 - a layer of any kind, away in any way.
                log.warning("sign-outs on other servers are not heard for now: %s", error)
                await asyncio.sleep(RETRY_S)


def admissions(wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Admission]:
    """Return admissions for pairs of session cookie and run id. Each sign-in, and each run for it, is looked up
    once.
    """
    pairs = tuple(wanted)
    runs: dict[tuple[Actor, str], Admission] = {}
    answers = {}
    try:
        people = {cookie: _person(cookie) for cookie in {cookie for cookie, _ in pairs}}
        ended = find_ended({mark for _, mark in people.values()})
        for cookie, run_id in pairs:
            actor, mark = people[cookie]
            if isinstance(actor, int) or mark in ended:
                answers[cookie, run_id] = Admission(code=actor if isinstance(actor, int) else SIGNED_OUT)
                continue
            if (actor, run_id) not in runs:
                runs[actor, run_id] = _admission(actor, run_id)
            found = runs[actor, run_id]
            answers[cookie, run_id] = Admission(found.key, found.code, actor.name, mark)
    finally:
        keep_connection()
    return answers


def _person(cookie: str) -> tuple[Actor | int, str]:
    """Return the actor of a cookie, or the close code; and the mark of the sign-in."""
    # Read anew from the cookie: the handshake's session may have been revoked since.
    request: Any = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie or None)
    try:
        return find_actor(find_session_user(get_user(request), request.session)), request.session.get("mark", "")
    except PermissionDenied:
        return SIGNED_OUT, ""
    except Refused:
        return NOT_ALLOWED, ""


def _admission(actor: Actor, run_id: str) -> Admission:
    try:
        on_it = actor_on(actor, "live-run", run_id)
        run = run_get(on_it, run_id)
        return Admission(RunKey(on_it.workspace_id, run.id, run.reads))
    except Refused as refusal:
        return Admission(code=TRY_AGAIN if refusal.code == "unavailable" else NOT_ALLOWED)


def end_sign_in(mark: str) -> None:
    """End a sign-in, so that a copy of its cookie is refused."""
    sign_in_end(mark)


def find_ended(marks: Iterable[str]) -> set[str]:
    """Return the ended sign-ins among those asked for.

    A sign-in by the identity provider also counts as ended if the provider has not confirmed it for too long.
    """
    asked = set(marks)
    going = sign_ins_going(asked)
    known = {user_id: identity_known(user_id) for way, user_id in going.values() if "sso" in way}
    return {mark for mark in asked if mark not in going or not known.get(going[mark][1], True)}
