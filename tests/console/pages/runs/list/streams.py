"""Reads answers that are streamed to a server of many connections."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync


def read_stream(answer: Any) -> str:
    """Return the whole text of a streamed answer."""

    async def pieces() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(pieces)().decode()
