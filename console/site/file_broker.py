"""Celery's broker of files, for messages that may be torn."""

from __future__ import annotations

from typing import Any

from kombu.transport import filesystem


class Channel(filesystem.Channel):
    """Kombu's channel on files, which ignores an unreadable message; Kombu's own would end the whole worker.

    A full disk truncates messages, and a message may be read before it was written whole. It was only a wake-up.
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
