"""Signs in with the operator's own credentials of a cloud where no key is set. Several calls share one sign-in."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from fabric.adapters.tools.outbound import causes

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
    """The owner of the credentials that signed, for sentences."""
    headers: Callable[[str, bytes], Mapping[str, str]]
    """The headers of one request, by its URL and its body. It does no I/O."""
    secret: str = field(default="", repr=False)
    """The secret that must not be shown; empty: nothing goes out that stays valid."""


class SignIn(ABC):
    """Signs in with credentials that a cloud's own library finds. Used on one event loop at a time."""

    source: ClassVar[str]
    """The owner of the credentials that sign, for sentences."""

    def __init__(self) -> None:
        self._signing: asyncio.Task[SignedIn] | None = None

    async def signed_in(self, url: str) -> SignedIn:
        """A sign-in for requests to a URL. Raises NotSignedIn.

        The library reads files and asks servers, so a thread does it, once for all calls that wait. A cancelled call stops no other.
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
        """Signs in, in a thread. Raises anything."""
