"""Finds the credentials of a request to a model: the endpoint's stored key, or the operator's sign-in to a cloud.

The operator's own credentials of a cloud serve where no key is set. Several calls share one sign-in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from fabric.http.transport import causes

log = logging.getLogger(__name__)
FRESH_S = 1.0
"""Seconds for which read keys count as fresh: so soon a process learns of a stored, replaced or deleted key."""
HOLDS_S = 60.0
"""Seconds for which they are used while they cannot be read anew."""
USED_EVERY_S = 60.0
"""Shortest time between two recordings of a key's use: a call must not cost a write."""

Where = tuple[str, str, str]
"""``(workspace id, provider, origin)``; an origin is scheme, host and port, as ``origin_text`` writes it."""


class KeysUnreadable(Exception):
    """The stored keys cannot be read now; the message is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key that a workspace stored for one origin."""

    id: str
    secret: str = field(repr=False)
    """The key; empty: it does not open with this process's key ring."""


def origin_text(origin: tuple[str, str]) -> str:
    """Return an origin as rows have it: ``https://api.example.org:443``."""
    return f"{origin[0]}://{origin[1]}"


class KeyRing:
    """The stored keys of all workspaces. Used on one event loop; threads do its database queries.

    ``load``: reads all of them; ``used``: records a use by id. Both may raise anything. ``now``: seconds, monotonic.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[Where, StoredKey]],
        used: Callable[[str], None] = lambda key_id: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._used, self._now = load, used, now
        self._known: Mapping[Where, StoredKey] = {}
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._noted: dict[str, float] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def find(self, where: Where) -> StoredKey | None:
        """Return the stored key for a workspace, a provider and an origin. Raises KeysUnreadable when there was no
        recent reading.
        """
        if self._read_at is None or self._now() - self._read_at >= FRESH_S:
            try:
                await self._read()
            except KeysUnreadable:
                if self._read_at is None or self._now() - self._read_at >= HOLDS_S:
                    raise
        found = self._known.get(where)
        if found is not None and self._now() - self._noted.get(found.id, -USED_EVERY_S) >= USED_EVERY_S:
            self._noted[found.id] = self._now()
            task = asyncio.create_task(asyncio.to_thread(self._note, found.id))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)
        return found

    async def settle(self) -> None:
        """Wait until all uses are recorded."""
        while self._noting:
            await asyncio.wait(set(self._noting))

    async def _read(self) -> None:
        """Read once for all simultaneous callers; the cancellation of one does not stop it."""
        task = self._reading
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._reading = asyncio.create_task(self._reads())
        await asyncio.shield(task)

    async def _reads(self) -> None:
        began = self._now()
        try:
            self._known = await asyncio.to_thread(self._load)
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise KeysUnreadable(f"the stored keys of model endpoints could not be read ({said})") from error
        self._read_at = began

    def _note(self, key_id: str) -> None:
        try:
            self._used(key_id)
        except Exception as error:  # noqa: BLE001 - A use that is not noted is no reason for a call to fail.
            log.warning("the last use of a stored key was not noted: %s", error)


SAID_CHARS = 300


class NotSignedIn(Exception):
    """The sign-in failed; the message is a sentence for a person. ``passes``: it may work a moment later."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A sign-in that holds now."""

    source: str
    """Owner of the signing credentials, for sentences."""
    headers: Callable[[str, bytes], Mapping[str, str]]
    """Returns the headers of one request, by its URL and its body. It does no I/O."""
    secret: str = field(default="", repr=False)
    """Secret to be masked; empty: no lasting secret goes out."""


class SignIn(ABC):
    """Signs in with credentials that a cloud's own library finds. Used on one event loop at a time."""

    source: ClassVar[str]
    """Owner of the signing credentials, for sentences."""

    def __init__(self) -> None:
        self._signing: asyncio.Task[SignedIn] | None = None

    async def signed_in(self, url: str) -> SignedIn:
        """Return a sign-in for requests to a URL. Raises NotSignedIn.

        The library reads files and calls servers, so a thread does it, once for all waiting calls. A cancelled call
        stops no other.
        """
        task = self._signing
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._signing = asyncio.create_task(asyncio.to_thread(self._try, url))
        return await asyncio.shield(task)

    def _try(self, url: str) -> SignedIn:
        try:
            return self._sign_in(url)
        except NotSignedIn:
            raise
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:SAID_CHARS]
            # A server that gives tokens and is away for a moment; requests' own errors are OSErrors.
            away = any(isinstance(link, OSError) and not isinstance(link, FileNotFoundError) for link in causes(error))
            passes = away or bool(getattr(error, "retryable", False))
            raise NotSignedIn(f"{self.source} could not sign in ({said})", passes=passes) from error

    @abstractmethod
    def _sign_in(self, url: str) -> SignedIn:
        """Sign in, in a thread. Raises anything."""
