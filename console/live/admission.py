"""Decides which sockets and event streams may follow a run: at opening and every few seconds after.

All sockets that ask at one time share a look. A thousand pages that return at once are a few looks: each sign-in, and
each run for it, is looked up once a look, not once a socket. Ended sign-ins are read from the database: every server
finds them at its next look, even if a message was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.live.connections import keep_connection
from console.live.reader import RunKey
from console.site.access.actors import find_actor
from console.site.access.callers import read_holder
from console.site.access.fabric_roles import actor_on
from console.site.access.sessions import find_session_user
from console.site.errors.problems import Problem
from fabric.core.people.actor import Actor
from fabric.core.people.scopes import Scope
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


class Credentials(NamedTuple):
    """Credentials of a socket or a stream: an Authorization header, else a session cookie."""

    cookie: str = ""
    authorization: str = ""


class Places:
    """Open sockets and streams by user or token, in this process."""

    def __init__(self, most: int = 20) -> None:
        self.most = most
        self._taken: Counter[str] = Counter()

    def is_full(self, user: str) -> bool:
        """Return True if a user has as many as one may have."""
        return self._taken[user] >= self.most

    def take(self, user: str) -> None:
        """Count one more."""
        self._taken[user] += 1

    def leave(self, user: str) -> None:
        """Count one less."""
        self._taken[user] -= 1
        if self._taken[user] <= 0:
            del self._taken[user]

    def clear(self) -> None:
        """Forget all."""
        self._taken.clear()

    def __len__(self) -> int:
        return self._taken.total()


places = Places()
"""The places of this process."""


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
        self._asked: list[tuple[tuple[Credentials, str], asyncio.Future[Admission]]] = []
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="live-door")
        self._inside: dict[str, set[Let]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def ask(self, credentials: Credentials, run_id: str) -> Admission:
        """Return the admission to a run, by the present database."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="live sign-outs")
        answer: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()
        self._asked.append(((credentials, run_id), answer))
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
                found: Mapping[tuple[Credentials, str], Admission] = await loop.run_in_executor(
                    self._pool, admissions, wanted
                )
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


def admissions(wanted: Iterable[tuple[Credentials, str]]) -> Mapping[tuple[Credentials, str], Admission]:
    """Return admissions for pairs of credentials and run id. Each sign-in or token, and each run for it, is looked up
    once.
    """
    pairs = tuple(wanted)
    runs: dict[tuple[Actor, str], Admission] = {}
    answers = {}
    try:
        people = {one: _holder(one) for one in {one for one, _ in pairs}}
        ended = find_ended({holder.mark for holder in people.values() if holder.mark})
        for credentials, run_id in pairs:
            holder = people[credentials]
            actor = holder.actor
            if actor is None or holder.mark in ended:
                answers[credentials, run_id] = Admission(code=holder.code or SIGNED_OUT)
                continue
            if (actor, run_id) not in runs:
                runs[actor, run_id] = _admission(actor, run_id)
            found = runs[actor, run_id]
            answers[credentials, run_id] = Admission(found.key, found.code, holder.user, holder.mark)
    finally:
        keep_connection()
    return answers


@dataclass(frozen=True, slots=True)
class _Holder:
    """The holder of credentials. ``actor`` None: refused, close with ``code``."""

    actor: Actor | None = None
    code: int = 0
    user: str = ""
    mark: str = ""
    """Mark of the sign-in; empty for a token."""


def _holder(credentials: Credentials) -> _Holder:
    return _token_holder(credentials.authorization) if credentials.authorization else _person(credentials.cookie)


def _token_holder(authorization: str) -> _Holder:
    try:
        holder = read_holder(authorization)
    except Problem:
        return _Holder(code=SIGNED_OUT)
    except Refused as refusal:
        return _Holder(code=TRY_AGAIN if refusal.code == "unavailable" else NOT_ALLOWED)
    if Scope.READ not in holder.scopes:
        return _Holder(code=NOT_ALLOWED)
    return _Holder(holder.actor, user=token_place(holder.token))


def token_place(token: str) -> str:
    """Return the name under which the places of a token are counted."""
    return f"token {token}"


def _person(cookie: str) -> _Holder:
    """Return the holder of a session's cookie."""
    # Read anew from the cookie: the handshake's session may have been revoked since.
    request: Any = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie or None)
    try:
        actor = find_actor(find_session_user(get_user(request), request.session))
    except PermissionDenied:
        return _Holder(code=SIGNED_OUT)
    except Refused:
        return _Holder(code=NOT_ALLOWED)
    mark = request.session.get("mark", "")
    return _Holder(actor, user=actor.name, mark=mark) if mark else _Holder(code=SIGNED_OUT)


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
