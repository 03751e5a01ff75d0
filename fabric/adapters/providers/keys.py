"""Stored keys of endpoints as the adapters ask for them: read anew while they are used, so that a changed key holds without a restart."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

log = logging.getLogger(__name__)
FRESH_S = 1.0
"""How long what was read holds: so soon a process knows a key that was stored, replaced or deleted."""
HOLDS_S = 60.0
"""How long it holds while it cannot be read anew."""
USED_EVERY_S = 60.0
"""A key's last use is noted at most this often: a call must not cost a write."""

Where = tuple[str, str, str]
"""``(workspace id, provider, origin)``; an origin is scheme, host and port, as ``origin_text`` writes it."""


class KeysUnreadable(Exception):
    """The stored keys cannot be read now; the message is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key that a workspace stored for one origin."""

    id: str
    secret: str = field(repr=False)
    """Empty: it does not open with this process's key ring."""


def origin_text(origin: tuple[str, str]) -> str:
    """An origin as rows have it: ``https://api.example.org:443``."""
    return f"{origin[0]}://{origin[1]}"


class KeyRing:
    """The stored keys of all workspaces. Used on one event loop; what asks the database does it in a thread.

    ``load``: reads all of them; ``used``: notes a use by id. Both may raise anything. ``now``: seconds, monotonic.
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
        """The key stored for a workspace, a provider and an origin. KeysUnreadable when they could not be read lately."""
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
        """Waits until each use that is being noted is."""
        while self._noting:
            await asyncio.wait(set(self._noting))

    async def _read(self) -> None:
        """Once for all that ask meanwhile; one of them being cancelled does not stop it."""
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
