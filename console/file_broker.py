"""Celery's broker of files, for messages that may be torn."""

from __future__ import annotations

from typing import Any

from kombu.transport import filesystem


class Channel(filesystem.Channel):
    """A message that cannot be read is passed over; Kombu's own channel ends the whole worker over it.

    A disk that was full when a message was sent leaves one without its end, and one may be taken before it was written whole. It was only a wake-up.
    """

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        while True:
            try:
                return super()._get(queue)
            except ValueError:  # It is gone from the folder by now.
                continue


class Transport(filesystem.Transport):
    """See ``Channel``."""

    Channel = Channel
